"""What Anthropic's Messages API refuses, and Bedrock with it.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.wire.rule import (
    Picture,
    PictureRules,
    Rule,
    Violation,
    as_dict,
    as_list,
    as_number,
    as_text,
    dicts,
    is_blank,
    judge_body,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.dialects import Target

THINKING_TOKENS_MIN: Final = 1_024
_VERSION: Final = lazy_pattern(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2})(?!\d))?(?!\d)")
_ADAPTIVE_SINCE: Final = (4, 6)

_SHAPE: Final = Rule("request-shape", "{where}: Input should be {what}")
_FIRST: Final = Rule(
    "first-is-user",
    'messages: first message must use the "user" role',
    "lobehub/lobehub#1601",
)
_ALTERNATE: Final = Rule(
    "bedrock-roles-alternate",
    "A conversation must alternate between user and assistant roles. Make sure the conversation "
    "alternates between user and assistant roles and try again.",
    "microsoft/semantic-kernel#10277",
)
_ENDS: Final = Rule(
    "ends-with-user",
    "This model does not support assistant message prefill. The conversation must end with a "
    "user message.",
    "smallmain/vscode-unify-chat-provider#249",
)
_TRAILING: Final = Rule(
    "prefill-trailing-space", "final assistant content cannot end with trailing whitespace"
)
_ANSWERED: Final = Rule(
    "tool-use-answered",
    "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "{ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
    "message.",
    "anthropics/claude-code#2796",
)
_EXPECTED: Final = Rule(
    "tool-result-expected",
    "{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` "
    "block must have a corresponding `tool_use` block in the previous message.",
    "anthropics/claude-code#8484",
)
_RESULTS_FIRST: Final = Rule(
    "results-first",
    "Did not find {count} tool_result block(s) at the beginning of this message. Messages "
    "following tool_use blocks must begin with a matching number of tool_result blocks.",
    "aaif-goose/goose#1624",
)
_UNIQUE: Final = Rule(
    "tool-use-ids-unique",
    "{where}: `tool_use` ids must be unique",
    "BerriAI/litellm#23510",
)
_SINGLE: Final = Rule(
    "one-result-per-id",
    "{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
    "id: {id}",
    "vectorize-io/hindsight#4250",
)
_ID: Final = Rule(
    "tool-use-id-pattern",
    "{where}: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "experientiallabs/experiential#801",
)
_ID_LENGTH: Final = Rule(
    "tool-use-id-length", "{where}: String should have at most {limit} characters"
)
_SERVED: Final = Rule(
    "server-result-follows-use",
    "{where}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must "
    "have a corresponding `server_tool_use` block before it.",
    "anthropics/claude-code#64026",
)
_UNSERVED: Final = Rule(
    "server-use-has-result",
    "{where}: `{name}` tool use with id `{id}` was found without a corresponding result block",
)
_BLOCK_ROLE: Final = Rule("block-role", "{where}: `{kind}` blocks can only be in `{role}` messages")
_EMPTY: Final = Rule(
    "content-not-empty",
    "messages.{index}: all messages must have non-empty content except for the optional final "
    "assistant message",
    "anthropics/claude-code#3196",
)
_EMPTY_TEXT: Final = Rule(
    "text-not-empty", "messages: text content blocks must be non-empty", "block/buzz#559"
)
_THINKING_FIRST: Final = Rule(
    "thinking-first",
    "{where}.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
    "`thinking` is enabled, a final `assistant` message must start with a thinking block "
    "(preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    "anomalyco/opencode#3077",
)
_THINKING_OFF: Final = Rule(
    "thinking-off",
    "{where}: When thinking is disabled, an `assistant` message in the final position cannot "
    "contain `thinking`.",
    "tailcallhq/forgecode#1853",
)
_MODIFIED: Final = Rule(
    "thinking-unmodified",
    "{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response.",
    "anthropics/claude-code#63277",
)
_SIGNATURE: Final = Rule(
    "thinking-signature",
    "{where}: Invalid `signature` in `thinking` block",
    "openclaw/openclaw#107221",
)
_MAX_TOKENS: Final = Rule("max-tokens-required", "max_tokens: Field required")
_BUDGET: Final = Rule(
    "thinking-budget-below-max",
    "`max_tokens` must be greater than `thinking.budget_tokens`.",
    "sigoden/aichat#1304",
)
_BUDGET_MIN: Final = Rule(
    "thinking-budget-min",
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    "themaximalist/llm.js#30",
)
_MARKS: Final = Rule(
    "cache-marks-max",
    "A maximum of {limit} blocks with cache_control may be provided. Found {count}.",
    "tghamm/Anthropic.SDK#50",
)
_PICTURES: Final = PictureRules(
    count=Rule(
        "images-max",
        "Too many images in the request: {count} > {limit} (limit known, its text not seen)",
        "earendil-works/pi#401",
    ),
    kind=Rule(
        "image-type",
        "{where}.source.base64.media_type: Input should be 'image/jpeg', 'image/png', "
        "'image/gif' or 'image/webp'",
    ),
    data=Rule("image-data", "{where}.source.base64.data: Could not process image"),
    size=Rule(
        "image-bytes",
        "{where}.source.base64: image exceeds 5 MB maximum: {size} bytes > {limit} bytes",
        "boldsoftware/shelley#213",
    ),
    pixels=Rule(
        "image-pixels",
        "{where}.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size: {limit} pixels",
        "damianvtran/local-operator#153",
    ),
    many_pixels=Rule(
        "many-image-pixels",
        "{where}.source.base64.data: At least one of the image dimensions exceed max allowed "
        "size for many-image requests: {limit} pixels",
        "damianvtran/local-operator#153",
    ),
)
_BODY: Final = Rule(
    "body-bytes",
    "413 request_too_large: Request exceeds the maximum size ({size} > {limit} bytes)",
    "earendil-works/pi#401",
)
_UNICODE: Final = Rule(
    "valid-unicode",
    "The request body is not valid JSON: no low surrogate in string: line 1 column … "
    "(char {position})",
    "anthropics/claude-code#56064",
)
_TOOL_NAME: Final = Rule(
    "tool-name", "{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,{limit}}}$'"
)
_TOOL_NAMES: Final = Rule("tool-names-unique", "tools: Tool names must be unique.")
_DECLARED: Final = Rule(
    "bedrock-tools-declared",
    "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    "patriceckhart/zot#18",
)
_BEDROCK_MISSING: Final = Rule(
    "bedrock-results-missing",
    "Expected toolResult blocks at messages.{index}.content for the following Ids: {ids}",
    "outshift-open/mas-lab#55",
)
_BEDROCK_EXCESS: Final = Rule(
    "bedrock-results-excess",
    "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse "
    "blocks of previous turn.",
    "Just-Curieous/Curie#16",
)
_BEDROCK_UNIQUE: Final = Rule(
    "bedrock-ids-unique",
    "The toolUse blocks at messages.{index}.content contain duplicate Ids: {ids}",
    "bvcyber/Cyber-AutoAgent-ng#72",
)

RULES: Final = (
    *(_SHAPE, _UNICODE, _BODY, _MAX_TOKENS, _FIRST, _ENDS, _TRAILING),
    *(_EMPTY, _EMPTY_TEXT, _BLOCK_ROLE, _ANSWERED, _EXPECTED, _RESULTS_FIRST, _UNIQUE, _SINGLE),
    *(_ID, _ID_LENGTH, _SERVED, _UNSERVED),
    *(_THINKING_FIRST, _THINKING_OFF, _MODIFIED, _SIGNATURE, _BUDGET, _BUDGET_MIN, _MARKS),
    *_PICTURES.rules,
    *(_TOOL_NAME, _TOOL_NAMES),
    *(_ALTERNATE, _DECLARED, _BEDROCK_MISSING, _BEDROCK_EXCESS, _BEDROCK_UNIQUE),
)

_ID_PATTERN: Final = lazy_pattern("[a-zA-Z0-9_-]+")
_SIGNATURE_PATTERN: Final = lazy_pattern("[a-zA-Z0-9+/=_-]+")
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_ROLES: Final = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "server_tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}


def is_adaptive(model: str) -> bool:
    """Whether a model decides by itself how much it thinks; the same ones refuse a prefill."""
    found = _VERSION.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE_SINCE


class _Part(msgspec.Struct, frozen=True):
    """Messages of one role in a row; the API reads them as one."""

    index: int
    """Of the first of them."""
    role: str
    blocks: list[tuple[str, Json]]

    def of_kind(self, kind: str) -> list[tuple[str, Json]]:
        return [(where, block) for where, block in self.blocks if block.get("type") == kind]


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request, whoever made it."""
    body = as_dict(request)
    parts = _parts(body)
    merged = _merged(parts)
    return [
        *judge_body(request, target.dialect, unicode=_UNICODE, too_large=_BODY, shape=_SHAPE),
        *_judge_shape(request),
        *_judge_roles(parts, body, target),
        *_judge_empties(body),
        *_judge_blocks(parts, target),
        *_judge_pairs(merged, body, target),
        *_judge_server_tools(merged),
        *_judge_thinking(merged, body, target),
        *_judge_marks(body, target),
        *_PICTURES.judge(list(_pictures(parts)), target.dialect),
        *_judge_tools(body, target),
    ]


def _parts(body: Json) -> list[_Part]:
    return [
        _Part(index, as_text(message.get("role")), list(_blocks(message, f"messages.{index}")))
        for index, message in enumerate(as_list(body.get("messages")))
        if isinstance(message, dict)
    ]


def _blocks(message: Json, where: str) -> Iterator[tuple[str, Json]]:
    content = message.get("content")
    if isinstance(content, str):
        yield f"{where}.content", {"type": "text", "text": content}
    yield from dicts(content, f"{where}.content")


def _merged(parts: list[_Part]) -> list[_Part]:
    """The direct API joins neighbours of one role before it looks at pairs."""
    merged: list[_Part] = []
    for part in parts:
        if merged and merged[-1].role == part.role:
            before = merged.pop()
            part = _Part(before.index, before.role, [*before.blocks, *part.blocks])
        merged.append(part)
    return merged


def _judge_shape(request: object) -> Iterator[Violation]:
    if not isinstance(request, dict):
        yield _SHAPE.broken("", where="request", what="an object")
        return
    if as_number(request.get("max_tokens")) is None:
        yield _MAX_TOKENS.broken("max_tokens")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield _SHAPE.broken("messages", what="a list of at least one message")
        return
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            yield _SHAPE.broken(where, what="an object")
            continue
        if message.get("role") not in ("user", "assistant"):
            yield _SHAPE.broken(f"{where}.role", what="'user' or 'assistant'")
        content = message.get("content")
        if not isinstance(content, str | list):
            yield _SHAPE.broken(f"{where}.content", what="a valid list")
        for at, block in enumerate(as_list(content)):
            if not isinstance(as_dict(block).get("type"), str):
                place = f"{where}.content.{at}"
                yield _SHAPE.broken(place, what="an object with a `type`")


def _judge_roles(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    if not parts:
        return
    if parts[0].role != "user":
        yield _FIRST.broken(f"messages.{parts[0].index}")
    if target.flavour == "bedrock":
        for before, part in pairwise(parts):
            if before.role == part.role:
                yield _ALTERNATE.broken(f"messages.{part.index}")
    last = parts[-1]
    if last.role == "assistant":
        where = f"messages.{last.index}"
        model = as_text(body.get("model")) or target.model
        if is_adaptive(model) or _thinking_type(body) in ("enabled", "adaptive"):
            yield _ENDS.broken(where)
        elif last.blocks:
            text = as_text(last.blocks[-1][1].get("text"))
            if text and text != text.rstrip():
                yield _TRAILING.broken(last.blocks[-1][0])


def _judge_empties(body: Json) -> Iterator[Violation]:
    messages = as_list(body.get("messages"))
    for index, message in enumerate(messages):
        content = as_dict(message).get("content")
        is_final = index == len(messages) - 1 and as_dict(message).get("role") == "assistant"
        if content in ("", []) and not is_final:
            yield _EMPTY.broken(f"messages.{index}", index=index)
        elif isinstance(content, str) and not content.strip() and not is_final:
            yield _EMPTY_TEXT.broken(f"messages.{index}.content")
        yield from _empty_texts(content, f"messages.{index}.content")
    yield from _empty_texts(body.get("system"), "system")


def _empty_texts(content: object, where: str) -> Iterator[Violation]:
    for place, block in dicts(content, where):
        if block.get("type") == "text" and is_blank(block.get("text")):
            yield _EMPTY_TEXT.broken(place)
        elif block.get("type") == "tool_result":
            yield from _empty_texts(block.get("content"), f"{place}.content")


def _judge_blocks(parts: list[_Part], target: Target) -> Iterator[Violation]:
    limit = target.dialect.call_id_chars
    for part in parts:
        for where, block in part.blocks:
            kind = as_text(block.get("type"))
            role = _ROLES.get(kind, part.role)
            if role != part.role:
                yield _BLOCK_ROLE.broken(where, kind=kind, role=role)
            field = {"tool_use": "id", "tool_result": "tool_use_id"}.get(kind)
            if field is None:
                continue
            found, place = block.get(field), f"{where}.{kind}.{field}"
            if not isinstance(found, str) or not _ID_PATTERN.fullmatch(found):
                yield _ID.broken(place)
            elif len(found) > limit:
                yield _ID_LENGTH.broken(place, limit=limit)


def _judge_pairs(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    is_bedrock = target.flavour == "bedrock"
    seen: set[str] = set()
    nobody = _Part(-1, "user", [])
    uses_tools = False
    for before, part in pairwise([nobody, *parts, nobody]):
        called = [(w, as_text(b.get("id"))) for w, b in before.of_kind("tool_use")]
        answers = [(w, as_text(b.get("tool_use_id"))) for w, b in part.of_kind("tool_result")]
        uses_tools = uses_tools or bool(called or answers)
        yield from _judge_answers(before, part, called, answers, is_bedrock=is_bedrock)
        for where, call_id in called:
            if call_id in seen and is_bedrock:
                yield _BEDROCK_UNIQUE.broken(where, index=before.index, ids=call_id)
            elif call_id in seen:
                yield _UNIQUE.broken(where)
            seen.add(call_id)
    if is_bedrock and uses_tools and not as_list(body.get("tools")):
        yield _DECLARED.broken("tools")


def _judge_answers(
    before: _Part,
    part: _Part,
    called: list[tuple[str, str]],
    answers: list[tuple[str, str]],
    *,
    is_bedrock: bool,
) -> Iterator[Violation]:
    """The results of one message against the calls of the one before it."""
    wanted = dict.fromkeys(call_id for _where, call_id in called)
    given = [call_id for _where, call_id in answers]
    missing = [call_id for call_id in wanted if call_id not in given]
    where = f"messages.{before.index}"
    if missing and is_bedrock:
        at = part.index if part.index >= 0 else before.index + 1
        yield _BEDROCK_MISSING.broken(where, index=at, ids=", ".join(missing))
    elif missing:
        yield _ANSWERED.broken(where, index=before.index, ids=", ".join(missing))
    elif called:
        leading = 0
        for _place, block in part.blocks:
            if block.get("type") != "tool_result":
                break
            leading += 1
        if leading < len(wanted):
            count = len(wanted) - leading
            yield _RESULTS_FIRST.broken(f"messages.{part.index}", count=count)
    done: set[str] = set()
    for place, call_id in answers:
        if call_id not in wanted:
            if is_bedrock:
                yield _BEDROCK_EXCESS.broken(place, index=part.index)
            else:
                yield _EXPECTED.broken(place, id=call_id)
        elif call_id in done:
            yield _SINGLE.broken(place, id=call_id)
        done.add(call_id)


def _judge_server_tools(parts: list[_Part]) -> Iterator[Violation]:
    for part in parts:
        called: dict[str, tuple[str, str]] = {}
        for where, block in part.blocks:
            kind = as_text(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                called[as_text(block.get("id"))] = where, as_text(block.get("name"))
            elif kind.endswith("_tool_result"):
                call_id = as_text(block.get("tool_use_id"))
                if call_id not in called:
                    yield _SERVED.broken(where, kind=kind, id=call_id)
        answered = {as_text(block.get("tool_use_id")) for _where, block in part.blocks}
        if part is parts[-1]:
            continue  # a pause: the server goes on from here
        for call_id, (where, name) in called.items():
            if call_id not in answered:
                yield _UNSERVED.broken(where, name=name, id=call_id)


def _judge_thinking(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    mode = _thinking_type(body)
    yield from _judge_budget(body)
    for part in parts:
        for where, block in part.of_kind("thinking"):
            signature = block.get("signature")
            if not isinstance(signature, str) or not _SIGNATURE_PATTERN.fullmatch(signature):
                yield _SIGNATURE.broken(where)
    last = next((part for part in reversed(parts) if part.role == "assistant"), None)
    if last is None or not last.blocks:
        return
    where, first = last.blocks[0]
    thoughts = [(at, block) for at, block in last.blocks if as_text(block.get("type")) in _THINKING]
    if (
        mode == "enabled"
        and last.of_kind("tool_use")
        and as_text(first.get("type")) not in _THINKING
    ):
        yield _THINKING_FIRST.broken(where, kind=first.get("type"))
    model = as_text(body.get("model")) or target.model
    if thoughts and (mode == "disabled" or (mode == "" and not is_adaptive(model))):
        yield _THINKING_OFF.broken(thoughts[0][0])
    yield from _judge_thoughts(thoughts, body)


def _judge_thoughts(thoughts: list[tuple[str, Json]], body: Json) -> Iterator[Violation]:
    """Signs that thinking was changed: emptied, or repeated."""
    may_be_empty = as_dict(body.get("thinking")).get("display") == "omitted"
    seen: set[str] = set()
    for where, block in thoughts:
        sealed = as_text(block.get("signature")) or as_text(block.get("data"))
        is_emptied = block.get("type") == "thinking" and not as_text(block.get("thinking"))
        is_hollow = block.get("type") == "redacted_thinking" and not sealed
        if (is_emptied and not may_be_empty) or is_hollow or (sealed and sealed in seen):
            yield _MODIFIED.broken(where)
        seen.add(sealed)


def _judge_budget(body: Json) -> Iterator[Violation]:
    budget = as_number(as_dict(body.get("thinking")).get("budget_tokens"))
    limit = as_number(body.get("max_tokens"))
    if _thinking_type(body) != "enabled":
        return
    if budget is None or budget < THINKING_TOKENS_MIN:
        yield _BUDGET_MIN.broken("thinking.budget_tokens")
    if budget is not None and limit is not None and limit <= budget:
        yield _BUDGET.broken("max_tokens")


def _thinking_type(body: Json) -> str:
    return as_text(as_dict(body.get("thinking")).get("type"))


def _judge_marks(body: Json, target: Target) -> Iterator[Violation]:
    marked = [where for where, block in _markable(body) if block.get("cache_control")]
    limit = target.dialect.cache_marks
    if len(marked) > limit:
        yield _MARKS.broken(marked[limit], limit=limit, count=len(marked))


def _markable(body: Json) -> Iterator[tuple[str, Json]]:
    """Every place that can be marked; a schema or an argument of that name is none."""
    yield "", {"cache_control": body.get("cache_control")}
    yield from dicts(body.get("tools"), "tools")
    yield from dicts(body.get("system"), "system")
    for where, message in dicts(body.get("messages"), "messages"):
        for place, block in dicts(message.get("content"), f"{where}.content"):
            yield place, block
            yield from dicts(block.get("content"), f"{place}.content")
            source = as_dict(block.get("source"))
            yield from dicts(source.get("content"), f"{place}.source.content")


def _pictures(parts: list[_Part]) -> Iterator[Picture]:
    for part in parts:
        for where, block in part.blocks:
            inner = dicts(block.get("content"), f"{where}.content")
            for place, one in ((where, block), *inner):
                if one.get("type") == "image":
                    source = as_dict(one.get("source"))
                    kind = as_text(source.get("media_type"))
                    yield Picture(place, as_text(source.get("data")), kind)


def _judge_tools(body: Json, target: Target) -> Iterator[Violation]:
    limit = target.dialect.tool_name_chars
    seen: set[str] = set()
    for where, tool in dicts(body.get("tools"), "tools"):
        name = as_text(tool.get("name"))
        if not _ID_PATTERN.fullmatch(name) or len(name) > limit:
            yield _TOOL_NAME.broken(where, limit=limit)
        if name in seen:
            yield _TOOL_NAMES.broken(where)
        seen.add(name)
