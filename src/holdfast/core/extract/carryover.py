"""What a cut leaves behind, made by code: it costs no model call and cannot fail.

What the user laid down and said, open items, errors, the files that were changed and read, and the
names (paths, symbols, ids, numbers) that later steps are likely to need again. Where a model wrote
a summary, its prose stands before them. The text can be read back: a later cut carries an earlier
one forward without the records behind it, and however many follow, the size stays the same.

Whoever shows it fences it and labels it as data.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.extract.condense import is_left_of, shorten, unsigned
from holdfast.core.extract.fair_share import cuttings, fair_share, first_and_newest, sections_within
from holdfast.core.extract.statements import laid_down, same_words
from holdfast.core.extract.touched_files import PATH_CHARS, Touch, touched
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.core.models.messages import Text, ToolCall, read_blocks
from holdfast.core.text.cut import cut, scrub

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.tokens.counting import Counter

NAMES_TOKENS: Final = 3_000
"""A longer list of names is seldom used."""

_PROSE_SHARE: Final = 0.25
_SAID_SHARE: Final = 0.6
_LAID_SHARE: Final = 0.2
_OPEN_SHARE: Final = 0.1
_ERRORS_SHARE: Final = 0.1
_CHANGED_SHARE: Final = 0.08
_READ_SHARE: Final = 0.04
_OUTPUTS_SHARE: Final = 0.04
_LATELY_SHARE: Final = 0.06
"""Of the cap, at most. Prose is what a summary has beside our sections, if a model wrote it; where
there is some, words get that much less, and so they do for what is laid down in messages that are
not shown whole. Names get what is left."""
_LAID_OLD_SHARE: Final = 1 / 3
"""Where not all of it can be listed, that much of the room goes to the oldest."""
_SAID_TOKENS_MIN: Final = 24
"""Less of a message says nothing."""
_ERROR_CHARS: Final = 200
_ERRORS_MAX: Final = 6
_ITEM_CHARS: Final = 200
_ITEMS_MAX: Final = 20
_HALF_LIFE_STEPS: Final = 20
"""After so many steps a mention counts half."""

_LAID: Final = "## What the user laid down"
_SAID: Final = "## What the user said"
_OPEN: Final = "## Open items"
_ERRORS: Final = "## Errors"
_NAMES: Final = "## Names that came up"
_CHANGED: Final = "## Files changed"
_READ: Final = "## Files read"
_OUTPUTS: Final = "## Outputs kept by reference"
_LATELY: Final = "## What the assistant said lately"
_SECTIONS: Final = (_LAID, _SAID, _LATELY, _OPEN, _ERRORS, _CHANGED, _READ, _OUTPUTS, _NAMES)
_HEADING: Final = re.compile(r"#{1,6} \S")
_OTHERS: Final = re.compile(r"\(([\d,]+) others? not listed\)")
_EARLIER: Final = re.compile(r"\(([\d,]+) earlier ones? not listed\)")

_NAME: Final = re.compile(
    r"""
    https?://[^\s"'<>`()\[\]{}]+[\w/]
    | (?<![<\w/])(?:~|\.{1,2})?/[\w.@+~-]+(?:/[\w.@+~-]+)*  # /from/the/root, ./here, ~/home
    | [\w.@+-]+(?:/[\w.@+-]+)+                       # some/where/else.py
    | --[a-z][\w-]{2,}                               # --a-flag
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    | \b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+       # a.dotted.name, file.ext
    | \b[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d[A-Z0-9-]*\b  # a ticket, an order: JIRA-1234, QK-007-B
    | \b\w*[a-z0-9]_\w+ | \b_*[A-Z][A-Z0-9]*_\w+     # snake_case, SCREAMING_CASE
    | \b[A-Za-z]*[a-z0-9]+[A-Z]\w*                   # camelCase, PascalCase
    | \b[0-9a-f]{7,40}\b                             # a commit or another hash
    | \bv?\d+(?:\.\d+){2,}\b | \b\d{4,}\b            # 1.2.3, 8080
    """,
    re.VERBOSE,
)
_QUOTED: Final = re.compile(r"`([^`\s]{3,60})`|\"([\w.:/@+-]{4,60})\"|'([\w.:/@+-]{4,60})'")
_WORD: Final = re.compile(r"[^\w.:-]")
_OUTPUT: Final = re.compile(r"[0-9a-f]{16}: [\w .:-]{1,80}, [\d,]+ characters")
_NAME_CHARS: Final = range(4, 161)
_NUMBER: Final = re.compile(r"[\d.]+")
_EVERYWHERE: Final = re.compile(
    r"__(?:future|name|main|file|doc|all|slots|init|str|repr|call)__|TYPE_CHECKING|NotImplemented"
)
"""Names that nearly every program has in it."""
_CHECKBOX: Final = re.compile(r"^\s*(?:[-*]|\d+\.)\s*\[ \]\s*(.+)$", re.MULTILINE)
_DONE: Final = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted"})


class Said(msgspec.Struct, frozen=True):
    """A message of the user, and how much of it is carried."""

    record: str
    kept: int
    total: int


class Laid(msgspec.Struct, frozen=True):
    """What the user laid down, as it was said, the newest last, and how much more there was."""

    sentences: tuple[str, ...] = ()
    omitted: int = 0


class Files(msgspec.Struct, frozen=True):
    """A list of files, the newest last, and how many older ones are not on it."""

    paths: tuple[str, ...] = ()
    omitted: int = 0


class Carry(msgspec.Struct, frozen=True):
    """A text within its cap, and what is in it."""

    text: str
    tokens: int
    laid: Laid = Laid()
    """What is not in a message that is carried whole."""
    said: tuple[Said, ...] = ()
    names: tuple[str, ...] = ()
    changed: Files = Files()
    read: Files = Files()


class Digest(msgspec.Struct, frozen=True):
    """What a record could add to a carry. It depends on the record alone."""

    record: str
    prose: str = ""
    said: str = ""
    rules: tuple[str, ...] = ()
    """The sentences of it that lay something down."""
    laid: Laid = Laid()
    """What an earlier carry lists."""
    is_step: bool = False
    names: Mapping[str, float] = {}
    """Each name with its weight."""
    error: str = ""
    open_items: tuple[str, ...] | None = None
    """A list of things to do replaces an older one; None is no list."""
    calls: tuple[tuple[str, tuple[Touch, ...]], ...] = ()
    """The ids of its calls that name files, with those files."""
    answers: str | None = None
    """The id of the call it is the result of."""
    is_failed: bool = False
    changed: Files = Files()
    """What an earlier carry lists, like `read`."""
    read: Files = Files()
    outputs: tuple[str, ...] = ()
    """The output it holds by reference, or those that an earlier carry lists."""
    lately: tuple[str, ...] = ()
    """What an earlier carry has of a running summary."""


def carry(
    records: Iterable[Record],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str | None = None,
    prose: str = "",
    names_tokens: int = NAMES_TOKENS,
) -> Carry:
    """What is left of `records` within `cap_tokens`; `previous` is the carry of an earlier cut."""
    digests = [found for record in records if (found := digest(record)) is not None]
    return carry_digests(
        digests,
        cap_tokens=cap_tokens,
        counter=counter,
        previous=previous,
        prose=prose,
        names_tokens=names_tokens,
    )


def carry_digests(
    digests: Sequence[Digest],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str | None = None,
    prose: str = "",
    names_tokens: int = NAMES_TOKENS,
    lately: Sequence[str] = (),
    pending: Sequence[str] = (),
) -> Carry:
    """The same for records that were looked at before.

    `prose` is a model's summary of everything so far; that of an earlier carry gives way to it.
    `lately` are the lines of a running summary, the newest last; `pending` is what is still to be
    done, where somebody keeps such a list over more than these records.
    """
    assert cap_tokens >= 0, f"a cap cannot be negative: {cap_tokens}"
    if previous:
        digests = [*read_back(previous), *digests]
    prose = _prose(digests, prose, prose_cap(cap_tokens), counter)
    room = int(cap_tokens * _SAID_SHARE) - counter.count(prose)
    laid, words = _words(digests, room, int(cap_tokens * _LAID_SHARE), counter)
    changed, read = _files(digests)
    changed = _newest(changed, int(cap_tokens * _CHANGED_SHARE), counter)
    read = _newest(read, int(cap_tokens * _READ_SHARE), counter)
    fixed = [
        prose,
        _section(_LAID, _laid_lines(laid)),
        _section(_SAID, [quoted for _said, quoted in words]),
        _section(_LATELY, _lately(digests, lately, int(cap_tokens * _LATELY_SHARE), counter)),
        _section(_OPEN, _open_items(digests, pending, int(cap_tokens * _OPEN_SHARE), counter)),
        _section(_ERRORS, _errors(digests, int(cap_tokens * _ERRORS_SHARE), counter)),
        _section(_CHANGED, _listed(changed)),
        _section(_READ, _listed(read)),
        _section(_OUTPUTS, _outputs(digests, int(cap_tokens * _OUTPUTS_SHARE), counter)),
    ]
    start = "\n\n".join(filter(None, fixed))
    room = cap_tokens - counter.count(f"{start}\n\n{_NAMES}\n")
    listed = {*changed.paths, *read.paths}
    names = _names(digests, min(room, names_tokens), counter, listed)
    text = _joined(start, names)
    while names and counter.count(text) > cap_tokens:
        # Counts of pieces do not quite add up to the count of the whole.
        names = names[: len(names) * 9 // 10]
        text = _joined(start, names)
    if counter.count(text) > cap_tokens:
        # A vocabulary has a token for every byte, so this is certain to fit.
        text = cut(text, cap_tokens, keep="head", unit="bytes").text
    tokens = counter.count(text)
    assert tokens <= cap_tokens, f"{tokens} tokens, the cap is {cap_tokens}"
    said = tuple(about for about, _quoted in words)
    return Carry(text, tokens, laid, said, tuple(names), changed, read)


def leading_names(digests: Sequence[Digest], count: int) -> list[str]:
    """The names that later steps are most likely to need, best first."""
    return _ranked(digests)[:count]


def prose_of(text: str) -> str:
    """What a model wrote in a carry: everything that is under none of our headings.

    Where one of our sections comes before what it wrote, that ends at the next heading of another
    kind.
    """
    kept: list[str] = []
    is_ours = False
    for line in text.splitlines():
        if line in _SECTIONS:
            is_ours = True
        elif is_ours and _HEADING.match(line):
            is_ours = False
        if not is_ours:
            kept.append(line)
    return "\n".join(kept).strip()


def prose_cap(cap_tokens: int) -> int:
    """How much of a carry's cap a model's summary may take."""
    return int(cap_tokens * _PROSE_SHARE)


def digest(record: Record) -> Digest | None:
    """What a record could add; None for records that no model sees."""
    match record:
        case User():
            text = scrub(text_of(record.content)).strip()
            is_meta = record.extra.get("meta") is True
            # As it will be read back, whatever ends its lines.
            said = "" if is_meta else "\n".join(text.splitlines())
            return Digest(
                record.id,
                said=said,
                rules=tuple(laid_down(said)),
                names=_weighted(identifiers(text), 1.0),
            )
        case Assistant():
            return _digest_of_reply(record)
        case ToolUse():
            arguments = record.input if isinstance(record.input, dict) else {}
            names = _weighted(identifiers(scrub(arguments_text(arguments))), _CALL_WEIGHT)
            return Digest(
                record.id,
                is_step=True,
                names=names,
                open_items=_todo(arguments),
                calls=_calls([(record.tool_use_id, record.name, arguments)]),
            )
        case ToolResult():
            text = scrub(text_of(record.content))
            error = _last_line(text) if record.is_error else ""
            names = _weighted(identifiers(text), 1.0)
            return Digest(
                record.id,
                names=names,
                error=error,
                answers=record.tool_use_id,
                is_failed=record.is_error,
                outputs=_output_of(record),
            )
        case _:
            return None


def glance(record: Record) -> Digest | None:
    """What of a record counts however long ago it was: the user's words, and files touched."""
    match record:
        case User():
            return digest(record)
        case Assistant():
            blocks = (block for block in read_blocks(record.content) if type(block) is ToolCall)
            calls = _calls((block.id, block.name, block.arguments) for block in blocks)
            return Digest(record.id, is_step=True, calls=calls)
        case ToolUse():
            arguments = record.input if isinstance(record.input, dict) else {}
            calls = _calls([(record.tool_use_id, record.name, arguments)])
            return Digest(record.id, is_step=True, calls=calls)
        case ToolResult():
            return Digest(
                record.id,
                answers=record.tool_use_id,
                is_failed=record.is_error,
                outputs=_output_of(record),
            )
        case _:
            return None


def _calls(
    calls: Iterable[tuple[str, str, Json]],
) -> tuple[tuple[str, tuple[Touch, ...]], ...]:
    found = ((call_id, touched(name, arguments)) for call_id, name, arguments in calls)
    return tuple((call_id, touches) for call_id, touches in found if touches)


_CALL_WEIGHT: Final = 3.0
"""What a call named is named again far more often than what a result mentioned."""
_REPLY_WEIGHT: Final = 2.0
_OLD_WEIGHTS: Final = (3.0, 0.5)
"""Of the first and the last name in an earlier carry; those between lie between."""


_SCANNED_CHARS: Final = 400_000
"""In a longer text names are looked for at its beginning and its end: no cut has room for more."""


def identifiers(text: str) -> list[str]:
    """The names in a text, each once, in order: paths, symbols, ids, versions, numbers."""
    if len(text) > _SCANNED_CHARS:
        text = text[: _SCANNED_CHARS // 2] + "\n" + text[-_SCANNED_CHARS // 2 :]
    found = dict.fromkeys(match.group().rstrip(".") for match in _NAME.finditer(text))
    for match in _QUOTED.finditer(text):
        found[match[match.lastindex or 0]] = None
    return [name for name in found if len(name) in _NAME_CHARS]


def mentions(text: str, cap_tokens: int, counter: Counter) -> str:
    """The most frequent names in a text, as one line: what a cleared result still tells."""
    counts: dict[str, int] = {}
    for match in _NAME.finditer(text):
        name = match.group().rstrip(".")
        if len(name) in _NAME_CHARS and not _NUMBER.fullmatch(name):
            counts[name] = counts.get(name, 0) + 1
    kept: list[str] = []
    room = cap_tokens
    for name in sorted(counts, key=lambda name: -counts[name]):
        room -= counter.count(f" {name}")
        if room < 0:
            break
        kept.append(name)
    return " ".join(kept)


def read_back(text: str) -> list[Digest]:
    """An earlier carry as digests again; what is in none of its sections is prose."""
    sections = _sections(text)
    found = [Digest("", prose="\n".join(sections[""]).strip())]
    found.append(Digest("", laid=_laid_in(sections[_LAID])))
    for said in _unquoted(sections[_SAID]):
        # What was left of a longer one has nothing in it that was not looked at before.
        is_whole = len(cuttings(said).pieces) == 1
        found.append(Digest("", said=said, rules=tuple(laid_down(said)) if is_whole else ()))
    found += [Digest("", error=line) for line in sections[_ERRORS]]
    items = tuple(line.removeprefix("- ") for line in sections[_OPEN])
    names = " ".join(sections[_NAMES]).split()
    high, low = _OLD_WEIGHTS
    ranked = {name: high * (low / high) ** (rank / len(names)) for rank, name in enumerate(names)}
    files = [_files_in(sections[title]) for title in (_CHANGED, _READ)]
    outputs = tuple(line for line in sections[_OUTPUTS] if _OUTPUT.fullmatch(line))
    said_lately = tuple(line.removeprefix("- ") for line in sections[_LATELY])
    rest = Digest(
        "",
        lately=said_lately,
        names=ranked,
        open_items=items or None,
        changed=files[0],
        read=files[1],
        outputs=outputs,
    )
    return [*found, rest]


def _digest_of_reply(record: Assistant) -> Digest:
    names: dict[str, float] = {}
    texts: list[str] = []
    items: tuple[str, ...] | None = None
    for block in read_blocks(record.content):
        if isinstance(block, Text):
            texts.append(block.text)
            names |= _weighted(identifiers(block.text), _REPLY_WEIGHT)
    calls = [block for block in read_blocks(record.content) if isinstance(block, ToolCall)]
    for call in calls:
        for name in identifiers(arguments_text(call.arguments)):
            names[name] = max(names.get(name, 0.0), _CALL_WEIGHT * _kind_weight(name))
        items = _todo(call.arguments) or items
    boxes = tuple(box.strip() for box in _CHECKBOX.findall("\n".join(texts)))
    return Digest(
        record.id,
        is_step=True,
        names=names,
        open_items=items or boxes or None,
        calls=_calls((call.id, call.name, call.arguments) for call in calls),
    )


def arguments_text(value: Any) -> str:
    """Every text in a call's arguments, without the escapes that JSON would put into it."""
    match value:
        case str():
            return value
        case dict():
            return "\n".join(filter(None, map(arguments_text, value.values())))
        case list():
            return "\n".join(filter(None, map(arguments_text, value)))
        case bool() | None:
            return ""
        case _:
            return str(value)


def _weighted(names: Iterable[str], weight: float) -> dict[str, float]:
    return {name: weight * _kind_weight(name) for name in names}


def _kind_weight(name: str) -> float:
    """Bare numbers are mostly line numbers and sizes; what is in every program tells nothing."""
    return 0.2 if _NUMBER.fullmatch(name) or _EVERYWHERE.fullmatch(name) else 1.0


def _todo(arguments: Json) -> tuple[str, ...] | None:
    """The unfinished items of a call that writes a list of things to do."""
    for value in arguments.values():
        if isinstance(value, list) and value and all(_is_item(item) for item in value):
            return tuple(
                _item_text(item) for item in value if str(item["status"]).lower() not in _DONE
            )
    return None


def _is_item(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("status"), str)


def _item_text(item: Json) -> str:
    texts = (item.get(key) for key in ("content", "title", "subject", "text", "step", "task"))
    return next((text for text in texts if isinstance(text, str)), "")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _one_line(text: str, chars: int) -> str:
    return cut(" ".join(text.split()), chars).text


def _prose(digests: Sequence[Digest], new: str, room: int, counter: Counter) -> str:
    """What a model summarised, its head and tail where it is too long."""
    text = new.strip() or "\n\n".join(one.prose for one in digests if one.prose)
    # A heading of ours in it would be read back as a section.
    text = "\n".join(f" {line}" if line in _SECTIONS else line for line in text.splitlines())
    if counter.count(text) <= room:
        return text
    return sections_within(text, room, counter)


# The user's words


def _words(
    digests: Sequence[Digest], room: int, laid_room: int, counter: Counter
) -> tuple[Laid, list[tuple[Said, str]]]:
    """What the user said, whole where it fits, else the longest messages shortened, then the oldest
    left out; and what is laid down in those that are not whole."""
    said = _messages(digests)
    sizes = [counter.count(_quoted(one.said)) + 1 for one in said]
    room -= counter.count(f"{_SAID}\n")
    everything = _everything_laid(digests)
    is_all = sum(sizes) <= room and _missing(everything, said) == Laid()
    listed = _listed_laid(everything, min(room, laid_room) if not is_all else 0, counter)
    count = _how_many(sizes, room - _size(listed, counter))
    said, sizes = first_and_newest(said, count), first_and_newest(sizes, count)
    share = fair_share(sizes, room - _size(listed, counter))
    whole = [one for one, size in zip(said, sizes, strict=True) if size <= share]
    laid = _listed_laid(_missing(everything, whole), min(room, laid_room), counter)
    # With as many messages, what is not needed for the list can only make more of them whole.
    share = max(share, fair_share(sizes, room - _size(laid, counter)))
    whole = [one for one, size in zip(said, sizes, strict=True) if size <= share]
    laid = _listed_laid(_missing(everything, whole), min(room, laid_room), counter)
    told = {same_words(sentence) for sentence in laid.sentences}
    words = []
    for one, size in zip(said, sizes, strict=True):
        text = one.said
        if size > share:
            text = shorten(text, share, counter, _quoted, told=told)
        found = cuttings(text)
        total = cuttings(one.said).total
        words.append((Said(one.record, min(found.kept, total), total), _quoted(text)))
    return laid, words


def _messages(digests: Sequence[Digest]) -> list[Digest]:
    """What was said twice is said once, where it was said last: an earlier carry may quote, whole
    or in part, what is here as well."""
    said = list({one.said: one for one in reversed(digests) if one.said}.values())[::-1]
    by_length: dict[int, list[str]] = {}
    for one in said:
        by_length.setdefault(len(one.said), []).append(unsigned(one.said))

    def is_here(text: str) -> bool:
        found = cuttings(text)
        return len(found.pieces) > 1 and any(
            is_left_of(found, whole) for whole in by_length.get(found.total, ())
        )

    return [one for one in said if not is_here(one.said)]


def _how_many(sizes: list[int], room: int) -> int:
    """With how many messages each still gets enough to say something: fewer, more for each."""

    def are_too_many(count: int) -> bool:
        kept = first_and_newest(sizes, count)
        return sum(kept) > room and fair_share(kept, room) < _SAID_TOKENS_MIN

    return bisect.bisect_left(range(1, len(sizes) + 1), True, key=are_too_many)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _unquoted(lines: Sequence[str]) -> list[str]:
    """Quoted messages; an empty line is between any two."""
    found: list[list[str]] = [[]]
    for line in lines:
        if not line.startswith(">"):
            found.append([])
        else:
            found[-1].append(line[2:])
    return ["\n".join(message) for message in found if message]


# What the user laid down


def _everything_laid(digests: Sequence[Digest]) -> Laid:
    """All of it, each sentence where it was said last."""
    found: dict[str, str] = {}
    here: set[str] = set()
    for one in digests:
        for sentence in (*one.laid.sentences, *one.rules):
            key = same_words(sentence)
            found.pop(key, None)
            found[key] = sentence
        here.update(map(same_words, one.rules))
    omitted = sum(
        one.laid.omitted
        for one in digests
        # Where the records that an earlier list came from are here, nothing of it is missing.
        if not here.issuperset(map(same_words, one.laid.sentences))
    )
    return Laid(tuple(found.values()), omitted)


def _missing(laid: Laid, whole: Iterable[Digest]) -> Laid:
    """What is in none of the messages that are whole."""
    shown = {same_words(sentence) for one in whole for sentence in one.rules}
    kept = (sentence for sentence in laid.sentences if same_words(sentence) not in shown)
    return msgspec.structs.replace(laid, sentences=tuple(kept))


def _listed_laid(laid: Laid, room: int, counter: Counter) -> Laid:
    """As much of it as there is room for: the oldest and, of more room, the newest."""
    if _size(laid, counter) <= room:
        return laid
    room -= _size(Laid(("",), laid.omitted + len(laid.sentences)), counter)
    sizes = [counter.count(f"- {sentence}\n") for sentence in laid.sentences]
    kept: set[int] = set()
    old_room = int(room * _LAID_OLD_SHARE)
    for at, size in enumerate(sizes):
        old_room -= size
        if old_room < 0:
            break
        kept.add(at)
        room -= size
    for at in reversed(range(len(sizes))):
        if at not in kept and sizes[at] <= room:
            kept.add(at)
            room -= sizes[at]
    sentences = tuple(laid.sentences[at] for at in sorted(kept))
    return Laid(sentences, laid.omitted + len(laid.sentences) - len(sentences))


def _size(laid: Laid, counter: Counter) -> int:
    lines = _laid_lines(laid)
    return counter.count(f"{_section(_LAID, lines)}\n\n") if lines else 0


def _laid_lines(laid: Laid) -> list[str]:
    if not laid.sentences:
        return []
    others = f"({laid.omitted:,} {'other' if laid.omitted == 1 else 'others'} not listed)"
    return [*([others] if laid.omitted else []), *(f"- {one}" for one in laid.sentences)]


def _laid_in(lines: Sequence[str]) -> Laid:
    """A list as it was written; lines that somebody else wrote there are no part of it."""
    notes = [match for line in lines if (match := _OTHERS.fullmatch(line))]
    omitted = sum(int(match[1].replace(",", "") or 0) for match in notes)
    return Laid(tuple(line[2:] for line in lines if line.startswith("- ")), omitted)


# The rest


def _open_items(
    digests: Sequence[Digest], pending: Sequence[str], room: int, counter: Counter
) -> list[str]:
    lists = (one.open_items for one in reversed(digests) if one.open_items is not None)
    newest = pending or next(lists, ())
    lines = [f"- {_one_line(item, _ITEM_CHARS)}" for item in newest[:_ITEMS_MAX] if item.strip()]
    return _within(lines, room, counter)


def _errors(digests: Sequence[Digest], room: int, counter: Counter) -> list[str]:
    """The newest errors, each once, the newest last."""
    newest = dict.fromkeys(one.error for one in reversed(digests) if one.error)
    lines = [_one_line(error, _ERROR_CHARS) for error in list(newest)[:_ERRORS_MAX]]
    return _within(lines, room, counter)[::-1]


def _within(lines: Sequence[str], room: int, counter: Counter) -> list[str]:
    kept = []
    for line in lines:
        room -= counter.count(f"{line}\n")
        if room < 0:
            break
        kept.append(line)
    return kept


def _files(digests: Sequence[Digest]) -> tuple[Files, Files]:
    """The files that were changed and those that were only read, each list with the newest last."""
    seen: dict[str, None] = {}
    changed: set[str] = set()
    here: set[str] = set()
    open_calls: dict[str, tuple[Touch, ...]] = {}
    for one in digests:
        open_calls.update(one.calls)
        for path in (*one.read.paths, *one.changed.paths):
            seen.pop(path, None)
            seen[path] = None
        changed.update(one.changed.paths)
        touches = open_calls.pop(one.answers, ()) if one.answers is not None else ()
        for touch in touches if not one.is_failed else ():
            here.add(touch.path)
            seen.pop(touch.path, None)
            seen[touch.path] = None
            if touch.is_change:
                changed.add(touch.path)
    return (
        Files(
            tuple(path for path in seen if path in changed),
            _earlier([one.changed for one in digests], here),
        ),
        Files(
            tuple(path for path in seen if path not in changed),
            _earlier([one.read for one in digests], here),
        ),
    )


def _earlier(lists: Sequence[Files], here: set[str]) -> int:
    """How many files earlier carries left out; none where the records they came from are here."""
    return sum(
        one.omitted
        for one in lists
        if one.omitted and not (one.paths and here.issuperset(one.paths))
    )


def _newest(files: Files, room: int, counter: Counter) -> Files:
    """As many of the newest as there is room for."""
    room -= counter.count(f"{_CHANGED}\n{_note_of_earlier(len(files.paths) + files.omitted)}\n")
    kept = _within(files.paths[::-1], room, counter)[::-1]
    return Files(tuple(kept), files.omitted + len(files.paths) - len(kept))


def _listed(files: Files) -> list[str]:
    if not files.paths:
        return []
    return [*([_note_of_earlier(files.omitted)] if files.omitted else []), *files.paths]


def _note_of_earlier(count: int) -> str:
    return f"({count:,} earlier {'one' if count == 1 else 'ones'} not listed)"


def _output_of(record: ToolResult) -> tuple[str, ...]:
    ref = record.output_ref
    if ref is None:
        return ()
    name = _WORD.sub("", record.name or "") or "a tool"
    return (f"{ref.sha256[:REF_CHARS]}: {name}, {ref.chars or ref.bytes:,} characters",)


def _lately(
    digests: Sequence[Digest], new: Sequence[str], room: int, counter: Counter
) -> list[str]:
    """The newest lines of a running summary; those of an earlier carry where there is none."""
    lines = new or [line for one in digests for line in one.lately]
    plain = (" ".join(line.split()) for line in lines)
    listed = [f"- {line}" for line in plain if line]
    return _within(listed[::-1], room - counter.count(_LATELY), counter)[::-1]


def _outputs(digests: Sequence[Digest], room: int, counter: Counter) -> list[str]:
    """The newest outputs that can be read back."""
    lines = list(dict.fromkeys(line for one in digests[::-1] for line in one.outputs[::-1]))
    return _within(lines, room - counter.count(_OUTPUTS), counter)[::-1]


def _files_in(lines: Sequence[str]) -> Files:
    """A list as it was written; lines that somebody else wrote there are no paths."""
    notes = [match for line in lines if (match := _EARLIER.fullmatch(line))]
    omitted = sum(int(match[1].replace(",", "") or 0) for match in notes)
    paths = (line for line in lines if not _EARLIER.fullmatch(line) and line.isprintable())
    return Files(tuple(path for path in paths if len(path) <= PATH_CHARS), omitted)


def _names(digests: Sequence[Digest], room: int, counter: Counter, listed: set[str]) -> list[str]:
    """The names worth their tokens, best first: recent, repeated, used in calls, and short.

    Those that are `listed` elsewhere in the carry need not be said again.
    """
    kept: list[str] = []
    for name in _ranked(digests):
        if name in listed:
            continue
        tokens = counter.count(f" {name}")
        if tokens <= room:
            kept.append(name)
            room -= tokens
        elif room < 3:
            break
    return kept


def _ranked(digests: Sequence[Digest]) -> list[str]:
    scores: dict[str, float] = {}
    get, age = scores.get, 0
    for one in reversed(digests):
        weight = 0.5 ** (age / _HALF_LIFE_STEPS)
        for name, factor in one.names.items():
            scores[name] = get(name, 0.0) + weight * factor
        age += one.is_step
    ranked = sorted((-score / (4 + len(name) // 4), name) for name, score in scores.items())
    return [name for _rank, name in ranked]


def _section(title: str, lines: Sequence[str]) -> str:
    separator = "\n\n" if title == _SAID else "\n"
    return f"{title}\n{separator.join(lines)}" if lines else ""


def _joined(start: str, names: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (start, _section(_NAMES, [" ".join(names)] if names else []))))


def _sections(text: str) -> dict[str, list[str]]:
    """The lines under each of our headings, and under none, those before the first."""
    found: dict[str, list[str]] = {title: [] for title in ("", *_SECTIONS)}
    current = found[""]
    for line in text.splitlines():
        if line in _SECTIONS:
            current = found[line]
        else:
            current.append(line)
    return {
        title: lines if title in ("", _SAID) else [line for line in lines if line.strip()]
        for title, lines in found.items()
    }
