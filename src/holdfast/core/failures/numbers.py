"""The numbers an error names: its limit, what was sent, what was to be written; and the field."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Literal, NamedTuple

from holdfast.core.failures.patterns import read_table
from holdfast.core.text.lazy_pattern import lazy_pattern

_PATH: Final = r"[\"'`]?([A-Za-z_][\w.\[\]]{0,120})[\"'`]?"
_NAMED: Final = (
    lazy_pattern(rf"{_PATH}: extra inputs are not permitted", re.IGNORECASE),
    lazy_pattern(
        r"(?:unsupported|unknown|unrecogni[sz]ed) (?:request )?"
        rf"(?:parameter|value|argument|field|key)s?(?: supplied)?: ?{_PATH}",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"unknown name {_PATH}(?: at {_PATH})?", re.IGNORECASE),
    lazy_pattern(
        rf"(?:parameter|field|property) {_PATH} is not (?:supported|allowed)", re.IGNORECASE
    ),
    lazy_pattern(rf"unexpected property:? {_PATH}|{_PATH} is not allowed$", re.IGNORECASE),
)
_KEPT: Final = frozenset(
    (
        *("model", "messages", "input", "contents", "content", "role", "parts", "text", "type"),
        *("system", "systemInstruction", "instructions", "tools", "name", "id", "tool_use_id"),
        *("source", "data", "media_type", "image_url", "tool_calls", "tool_call_id", "call_id"),
        *("function", "arguments", "output", "input_schema", "parameters", "functionCall"),
        *("functionResponse", "inline_data", "inlineData", "url", "file", "file_data", "prompt"),
    )
)
"""Fields that carry the conversation or say whom it is for: no request does without them."""
_PATH_CHARS_MAX: Final = 200
"""Of a path that is stored with the session."""
_MESSAGE_CHARS_MAX: Final = 4_000
"""Of an error, in which a field is looked for."""


def find_named_field(message: str) -> str:
    """Return the path of the field that a refusal names and that a request can do without; empty
    where there is none. Numbers in the path are left out: the field goes everywhere."""
    for pattern in _NAMED:
        found = pattern.search(message[:_MESSAGE_CHARS_MAX])
        if found is None:
            continue
        names = [name for name in found.groups() if name]
        path = ".".join(reversed(names)) if len(names) > 1 else names[0]
        steps = [step for step in re.split(r"[.\[\]]+", path) if step and not step.isdigit()]
        if steps and steps[-1] not in _KEPT:
            return ".".join(steps)[:_PATH_CHARS_MAX]
    return ""


Role = Literal["limit", "input", "output", "total", "none", ""]
"""The meaning of a number; `none` if it is known to be none of these."""

OPEN_MIN: Final = 16
"""Smaller numbers that no word explains are counts of something else."""


_STATUSES: Final = range(400, 600)
"""Of HTTP: such a number after the word for an error counts nothing."""


class Quantities(NamedTuple):
    """The numbers an error names."""

    limit: int | None = None
    input: int | None = None
    output: int | None = None


class _Number(NamedTuple):
    value: int
    role: Role


_NUMBER: Final = lazy_pattern(
    # Not in names, versions, places, prices, times.
    r"(?<![\w.\-/#\[$:@])(\d{1,12})(?:\s?(k|m)(?![a-z]))?(?!\w)(?!\.\d)(?!-\w)"
    r"(?!\s?(?:%|mb|mib|kb|gb|pixels?|px|pages?|seconds?|secs?|s|ms|minutes?|hours?|times|"
    r"attempts?)\b)"
)
_GLUED: Final = lazy_pattern(r"(?<=[a-z)]):(?=\d)")
_SUM: Final = lazy_pattern(
    r"(?<!\d)(\d+)\)?(?: tokens)? ?\+ ?(?:[a-z_ ]{0,24}\(?)(\d+)\)?(?: tokens)? ?(?:= ?\d+ ?)?"
    r"(?:>=?|≥|exceeds?)[a-z_ ]{0,24}(\d+)"
)
_VERSUS: Final = lazy_pattern(
    r"(?<!\d)(\d+)(?: \w+)? (?:vs\.?|versus) (\d+)|\b(\d{4,}) ?/ ?(\d{4,})\b"
)
_NEXT_SENTENCE: Final = lazy_pattern(r"[.;!?。]\s.*", re.DOTALL)
_ROUND: Final = lazy_pattern(r"(?<=\d)\.0\b")
_SENTENCE_END: Final = lazy_pattern(r"\A.*(?:[.;!?。]\s|\bhowever\b|\bbut\b)", re.DOTALL)

_TABLE: Final = r"""
# Small words that may stand between a number and the word that explains it.
spoken:
    is|are|was|of|for|this|the|your|a|an|only|set|to|has|have|with|about|around|approximately|up|in
    and|its?|be|models?|tokens?|length|size|count|allowed|number|context|window|inputs?|prompt
    output|value|supported|messages?|text|sequence|loaded|limit|currently|total|request|per
    characters?|input_tokens|body|payload|completion|configured|maximum|at|least|api|string
glue: (?:\W+{spoken}){0,9}\W*$
output_name:
    max[-_ ]?(?:new|completion|output|response|gen)?[-_ ]?tokens?(?:_to_sample)?
    maxoutputtokens|num_predict|n_predict
# After a number.
after_rate: ^\W*(?:\w+ )?(?:tokens?|requests?) ?(?:per|/) ?(?:min|day|hour|sec)
after_other: ^ (?:draft|cached|requests?|images?|tools?|messages?|blocks?|items)\b(?! tokens)
after_output:
    ^ ?(?:tokens? )?(?:in|for|of|to) (?:the |your |its )?\
        (?:completion|output|response|generat|reply|answer)
    ^ ?(?:{output_name}|(?:output|completion|new) tokens?|generated)\b
after_limit:
    ^ (?:was |is |has been )?exceeded\W*(?:$|by\b)
    ^\W*(?:tokens? )?(?:max(?:imum)?\b|limit|token limit|token context|context|allowed|\
        window|is the max|以内)
after_input:
    ^ ?(?:tokens? )?(?:in|of|from|for) (?:the |your |its )?(?:text |image |tool |chat )?\
        (?:messages?|prompts?|inputs?|context|functions?|tools?|request|conversation|history)
    ^ ?(?:text |image )?(?:inputs?|prompt|messages?|context)[-_ ]tokens?\b
# Before a number.
before_plain_limit:
    (?:\bat most|\bcontext of|(?<!requested )\bup to|\bmaximum of|\blimit of|\bno more than|\
        \bnot exceed)\W*$
before_other:
    \b(?:by|used|remaining|minimum(?: of| is)?|code|status|line|column|char|position|index|tier|\
        version|resets?(?: at)?|error|http)\W*$
before_status: (?:error|exception|failure|\bhttp|\bstatus(?: code)?|\bcode)\W{0,3}$
before_output:
    (?:{output_name}|requested up to|to generate|completion|output)(?:\W+(?:is|of|value|parameter|\
        set|to|too|large|be|got|was|tokens?|requested|up|length|invalid|for)){0,4}[^\w)]*$
limit_words:
    \bmax(?:imum)?|\bmax_\w+|\blimit(?:s|ed)?|\bn(?:um)?_ctx\w*|\bwindow
    \bcontext[-_ ](?:length|window|size|limit)
    \ballowed|\bcapacity|\bquota|\bceiling|\bcap\b|\bafford
    \b(?:less|fewer|longer|larger|greater|more|bigger|higher|lower) than(?: or equal to)?
    <=?|>=?|≤|≥|\bexceed(?:s|ed|ing)?(?!:)|\bsupports?|\bup to|\babove|\bbeyond|\bover
    \bfit(?:s|ting)? in(?:to)?|\bout of|\brange\b.*,|\[\d+ ?,|\binclusive\) to|\bbetween .* and
before_limit: {limit_words}{glue}
before_chinese_limit: (?:上限|最大|限制|超过|超出|大于|以内|不得)[\u4e00-\u9fff:, ]{0,16}$
before_total:
    (?:\brequest(?:ed|ing)|\btotal|\basked for|总共|共计|总计)(?:\W+(?:about|around|of|is|tokens?|\
        a|total|count|request|length|approximately|input|the|was|at|least)){0,5}\W*$
input_words:
    \bcontain(?:s|ed|ing)?|\bha[sd]|\bhave|\bgot|\bgiven|\breceived|\bresult(?:s|ed)? in|\binputs?
    \bprompts?|\bmessages?|\bcount|\blength|\bn_keep|\bn_prompt_tokens|\bvalue|\bactual|\bsent
    \btoo (?:long|large|big|many)(?: tokens)?|\bsize|\bconversation|\brequest|\bhistory|\btokens
    \byours|\bprovided|\bestimated|\bconsum\w+|\bneeds?|\brequire[sd]?|\bcame to|\bcurrent(?:ly)?
    \bpassed|\bfound|\bcontext|\btranscript|\bis
before_input: {input_words}{glue}
before_chinese_input: (?:输入|提示|长度|当前|请求|实际|消息|上下文|共)[\u4e00-\u9fff:, ]{0,10}$
before_bare_limit: \bto\W*$
"""
_AFTER: Final[tuple[tuple[Role, str], ...]] = (
    ("limit", "after_rate"),
    ("none", "after_other"),
    ("output", "after_output"),
    ("limit", "after_limit"),
    ("input", "after_input"),
)
_BEFORE: Final[tuple[tuple[Role, str], ...]] = (
    ("none", "before_other"),
    ("output", "before_output"),
    ("limit", "before_limit"),
    ("limit", "before_chinese_limit"),
    ("total", "before_total"),
    ("input", "before_input"),
    ("input", "before_chinese_input"),
    ("limit", "before_bare_limit"),
)
"""The entries that give a number its role, in order."""


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    return {name: lazy_pattern(pattern) for name, pattern in read_table(_TABLE).items()}


def quantities(text: str) -> Quantities:
    """Limit, input and output as a plain text names them."""
    text = _ROUND.sub("", _GLUED.sub(": ", text))
    added = _SUM.search(text)
    if added:
        return Quantities(int(added[3]), int(added[1]), int(added[2]))
    versus = _VERSUS.search(text)
    if versus:
        first, second = (int(group) for group in versus.groups() if group)
        if first > second:
            return Quantities(second, first)
    return _settle(_numbers(text))


def _numbers(text: str) -> list[_Number]:
    found = list(_NUMBER.finditer(text))
    numbers: list[_Number] = []
    for place, match in enumerate(found):
        start = found[place - 1].end() if place else 0
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        left = _SENTENCE_END.sub("", text[start : match.start()][-120:])
        right = _NEXT_SENTENCE.sub("", text[match.end() : end][:60])
        value = int(match[1]) * {"k": 1_000, "m": 1_000_000}.get(match[2], 1)
        is_status = value in _STATUSES and _patterns()["before_status"].search(left)
        role: Role = "none" if is_status else _role(left, right)
        if role == "limit" and "exclusive" in right[:14]:
            value -= 1
        numbers.append(_Number(value, role))
    return numbers


def _role(left: str, right: str) -> Role:
    patterns = _patterns()
    if patterns["before_plain_limit"].search(left):
        return "limit"
    sides = ((_AFTER, right), (_BEFORE, left))
    for role, name, beside in ((*pair, side) for pairs, side in sides for pair in pairs):
        if patterns[name].search(beside):
            return role
    return ""


def _settle(numbers: list[_Number]) -> Quantities:
    first = {number.role: number.value for number in reversed(numbers) if number.value}
    limit, output, total = (first.get(role) for role in ("limit", "output", "total"))
    given = first.get("input", total)
    limits = [number.value for number in numbers if number.role == "limit"]
    if given is None and len(limits) == 2 and limits[0] > limits[1]:
        given, limit = limits  # "the context length (40000) is above the maximum (32768)"
    inputs = [number.value for number in numbers if number.role == "input" and number.value]
    if limit is None and output is None and len(set(inputs)) == len(inputs) == 2:
        limit, given = sorted(inputs)  # "cannot truncate the prompt to 4096, it needs 5120"
    if total is not None and output is not None and total > output:
        given = total - output
    open_ends = [number.value for number in numbers if not number.role and number.value >= OPEN_MIN]
    return Quantities(*_close_ends(limit, given, open_ends), output)


def _close_ends(
    limit: int | None, given: int | None, open_ends: list[int]
) -> tuple[int | None, int | None]:
    """Order the numbers of an overflow: the input is larger than the limit."""
    if limit is None and given is None and len(open_ends) == 2:
        low, high = sorted(open_ends)
        return low, high
    if len(open_ends) != 1:
        return limit, given
    if limit is None and given is not None and open_ends[0] < given:
        return open_ends[0], given
    if given is None and limit is not None and open_ends[0] > limit:
        return limit, open_ends[0]
    return limit, given
