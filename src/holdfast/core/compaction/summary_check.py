"""True if a model's summary may stand for what it replaces, decided by code.

A summary is used only if it is one: not empty, not refused, not cut off, in sections, about this
conversation, not a copy of it, and smaller than what it replaces. All of this is read from the stop
reason, the structure, the size and the words that the two have in common, in whatever language. A
model that apologises or only announces a summary writes no sections. Whatever is refused costs
nothing but the call, for the part that code makes of the same records is there in any case. What is
accepted comes back without our own wrapper and within its cap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

import msgspec

from holdfast.core.extract.fair_share import sections_within
from holdfast.core.log.records import Assistant, text_of
from holdfast.core.log.replay import user_text
from holdfast.core.models.messages import (
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
    read_blocks,
)
from holdfast.core.narrative.carryover import prose_of
from holdfast.core.narrative.story import MARKS
from holdfast.core.projection.steps import Thread
from holdfast.core.secrets.redaction import without_secrets
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.fences import unwrap
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Piece
    from holdfast.core.models.replies import Reply
    from holdfast.core.projection.units import ContextUnit
    from holdfast.core.tokens.counting import Counter

HEADINGS: Final = (*("Goal", "Constraints", "Progress", "Decisions", "Ruled out", "Open items"),)
"""The headings that a summary is asked for."""

Fault = Literal[
    "cancelled",
    "cut off",
    "refusal",
    "tool call",
    "thinking only",
    "empty",
    "echo",
    "unchanged",
    "too long",
    "no smaller",
    "shape",
    "unrelated",
    "language",
]
"""Why a summary is not used."""

LENGTH_FACTOR: Final = 2
"""A summary above so many times its cap did not do what was asked; below it is shortened."""
_REQUEST_WORDS: Final = 12
_KNOWN_SHARE: Final = 0.3
"""A summary of this conversation has more of its words than that."""
_HEADINGS_MIN: Final = 2
_OTHER_HEADINGS_MIN: Final = 3
"""Of headings in another language than the one asked for."""
_RUN_WORDS: Final = 40
_RUN_SHARE: Final = 0.5
"""A text is a copy where more than this share of it stands in runs of so many words as it did."""
_REPLY_SHARE: Final = 0.8
_REPLY_GRAM: Final = 4
_LAST_REPLIES: Final = 3
_RUN_STRIDE: Final = 8
_COMPARED_CHARS: Final = 1_000_000
_PAYLOAD_CHARS: Final = 2_000
"""Of a call's arguments and of a result, what a summary is compared with."""
_RECENT_RECORDS: Final = 600
"""Records at the end of a long history that are searched for copies."""

_SPEAKERS: Final = (*("user", "below", "refusal", "text", "thought"),)
_THOUGHT: Final = lazy_pattern(
    r"<(think|thinking|reasoning|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
_HEADING: Final = lazy_pattern(
    r"^[ \t]*(?:#{1,6}[ \t]+(\S.*)|\*\*([^*\n]+)\*\*:?[ \t]*)$", re.MULTILINE
)
_LABELLED: Final = lazy_pattern(
    rf"^(?:{'|'.join(re.escape(MARKS[kind]) for kind in _SPEAKERS)})", re.MULTILINE
)
_PROTOCOL: Final = lazy_pattern(
    r"""
    </?(?:[a-z]{1,40}:)?(?:tool_(?:calls?|use|code)|function_calls?|invoke|parameter)\b[^>\n]{0,500}>
    | <\|(?:tool|python_tag|channel|start|im_start|plugin)[^>\n]*
    | \[/?TOOL_CALLS?\] | <function=\w+ | ^[^\S\n]*+Action(?:\ Input)?:\s
    | "(?:tool_calls|function_call)"\s*:
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_CALL_KEYS: Final = (
    frozenset({"name", "tool", "function", "tool_name"}),
    frozenset({"arguments", "parameters", "input", "args"}),
)
_PREAMBLE: Final = lazy_pattern(
    r"\A[^\n#*<`]{0,160}[:\uff1a][ \t]*\n\s*(?=#{1,6}[ \t]|\*\*[^*\n]+\*\*|<|```|~~~)"
)
"""One line that ends with a colon, and the first heading or our wrapper below it."""
_WORD: Final = lazy_pattern(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\W_]+"
)
_SCRIPTS: Final = {
    "Latin": lazy_pattern(r"[A-Za-z\u00c0-\u024f]"),
    "Greek": lazy_pattern(r"[\u0370-\u03ff]"),
    "Cyrillic": lazy_pattern(r"[\u0400-\u04ff]"),
    "Hebrew": lazy_pattern(r"[\u0590-\u05ff]"),
    "Arabic": lazy_pattern(r"[\u0600-\u06ff]"),
    "Devanagari": lazy_pattern(r"[\u0900-\u097f]"),
    "Thai": lazy_pattern(r"[\u0e00-\u0e7f]"),
    "Chinese or Japanese": lazy_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"),
    "Korean": lazy_pattern(r"[\uac00-\ud7af]"),
}
_ASCII_RUN: Final = lazy_pattern(r"[A-Za-z0-9./:@+_-]+")
_NAME_SIGN: Final = lazy_pattern(r"[./:@_\d]")
_SCRIPT_SHARE: Final = 0.6
"""Of the user's letters, from which on they write in that script."""
_SCRIPT_SHARE_MIN: Final = (0.1, 0.4)
"""Of a summary's letters; the second for Latin, in which names and paths are written anyway."""
_TELLING_CHARS: Final = 4
"""Shorter words in Latin letters are mostly joints of a sentence, in every language."""


class SummaryVerdict(msgspec.Struct, frozen=True):
    """A summary that may be used, or why there is none."""

    text: str | None
    fault: Fault | None = None
    reason: str = ""
    """In words; empty where the summary is used."""
    mended: tuple[str, ...] = ()
    """The changes made to it."""


class _Rejected(Exception):
    def __init__(self, fault: Fault, reason: str) -> None:
        self.verdict = SummaryVerdict(None, fault, reason)


def judge(
    reply: Reply,
    *,
    covered: Sequence[Record],
    previous: str = "",
    cap_tokens: int,
    counter: Counter,
    shown: str = "",
) -> SummaryVerdict:
    """Return whether a reply is a summary of the records it is to replace, and that summary,
    mended.

    `previous` is the summary that went into the request; it is replaced too. `shown` is the piece
    of the narrative in the request, where there was one.
    """
    recent = covered[-_RECENT_RECORDS:]
    try:
        _check_ending(reply)
        mended: list[str] = []
        text = _plain_text(reply, mended)
        _check_kind(text)
        _check_copies(text, recent, previous, shown)
        _check_shape(text)
        _check_language(text, recent)
        tokens = _check_size(text, covered, previous, cap_tokens, counter)
        _check_subject(text, recent, f"{shown}\n{previous}")
    except _Rejected as rejected:
        return rejected.verdict
    if tokens > cap_tokens:
        text = sections_within(text, cap_tokens, counter)
        mended.append(f"shortened from {tokens:,} to {counter.count(text):,} tokens")
        if not text:
            return SummaryVerdict(
                None, "too long", f"{tokens:,} tokens, and {cap_tokens:,} hold nothing"
            )
    return SummaryVerdict(text, mended=tuple(mended))


def _check_ending(reply: Reply) -> None:
    match reply.stop:
        case "length":
            raise _Rejected("cut off", "it was cut off at its output cap")
        case "window":
            raise _Rejected("cut off", "it was cut off at the end of the model's window")
        case "refusal":
            raise _Rejected("refusal", "the model or a filter declined")
        case "cancelled":
            raise _Rejected("cancelled", "it was cancelled")
        case _:
            pass  # the reply ended by itself; tool calls are judged below
    if reply.calls or reply.stop == "tools":
        names = ", ".join(dict.fromkeys(call.name for call in reply.calls if call.name))
        raise _Rejected("tool call", f"it calls tools instead: {names or 'unnamed'}")


def _plain_text(reply: Reply, mended: list[str]) -> str:
    """The summary itself: no thinking, no wrapper, no preamble, no sections that are ours."""
    text = _THOUGHT.sub("", reply.text)
    thought = text != reply.text or any(
        isinstance(block, Thinking) for block in read_blocks(reply.content)
    )
    if thought and not text.strip():
        raise _Rejected("thinking only", "it has thoughts and no text")
    for name, step in _STEPS:
        stripped = step(text).strip()
        if stripped != text.strip():
            mended.append(name)
        text = stripped
    text = text.strip()
    if not _WORD.search(text):
        raise _Rejected("empty", "it has no words")
    return text


def _without_preamble(text: str) -> str:
    return _PREAMBLE.sub("", text.strip())


def _unwrap(text: str) -> str:
    # Taking a preamble away can bring a fence to the outside, and the other way round.
    return unwrap(_without_preamble(unwrap(text)))


_STEPS: Final = (
    ("sections that code makes were taken out", prose_of),
    ("what looks like a secret was left out", without_secrets),
    ("our wrapper, or text around it, was removed", _unwrap),
)


def _body(text: str) -> str:
    return _HEADING.sub("", text).strip()


def _check_kind(text: str) -> None:
    body = _body(text)
    if not _WORD.search(body):
        raise _Rejected("empty", "there are headings and nothing under them")
    _check_protocol(text)


def _check_protocol(text: str) -> None:
    found = list(_PROTOCOL.finditer(re.sub(r"`[^`\n]*`", "", text)))
    starts_so = bool(found) and not _WORD.search(text[: min(found[0].start(), len(text))])
    if starts_so or len(found) > 2 or _is_json_call(text):
        raise _Rejected("tool call", f"it is the text of a tool call: {_quote(text)}")


def _is_json_call(text: str) -> bool:
    if not text.startswith(("{", "[")):
        return False
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    calls = value if isinstance(value, list) else [value]
    return any(
        isinstance(call, dict) and all(keys & call.keys() for keys in _CALL_KEYS) for call in calls
    )


def _check_copies(text: str, covered: Sequence[Record], previous: str, shown: str) -> None:
    if len(_LABELLED.findall(text)) > 2:
        raise _Rejected("echo", "it repeats the narrative, labels and all")
    words = _words(text)
    if previous and covered and words == _words(prose_of(unwrap(previous))):
        raise _Rejected("unchanged", "it is the previous summary again")
    for said in _last_replies(covered):
        share = _share_in(words, _words(said), _REPLY_GRAM)
        if share >= _REPLY_SHARE:
            raise _Rejected("echo", f"{share:.0%} of it is a reply of the agent again")
    share = max(_copied_share(words, source) for source in (_words(shown), _history(covered)))
    if share > _RUN_SHARE:
        raise _Rejected("echo", f"{share:.0%} of it is copied from the conversation")


def _check_shape(text: str) -> None:
    known = _find_headings(text)
    others = len(_HEADING.findall(text))
    if len(known) < _HEADINGS_MIN and others < _OTHER_HEADINGS_MIN:
        raise _Rejected(
            "shape",
            f"{len(known)} of the {len(HEADINGS)} headings that were asked for: {_quote(text)}",
        )


def _check_language(text: str, covered: Sequence[Record]) -> None:
    """Return whether it is in the script the user writes in; languages of one script look alike
    here."""
    said = "\n".join(map(user_text, covered))[-_COMPARED_CHARS:]
    theirs, its = _scripts(said), _scripts(_body(text))
    script = max(theirs, key=lambda name: theirs[name])
    if theirs[script] < _SCRIPT_SHARE or its[script] >= _SCRIPT_SHARE_MIN[script == "Latin"]:
        return
    other = max(its, key=lambda name: its[name])
    raise _Rejected("language", f"the user writes in {script} letters, and it is in {other} ones")


def _scripts(text: str) -> dict[str, float]:
    """The share of each script among a text's letters, without those of paths and other names."""
    rows = _ASCII_RUN.sub(lambda run: "" if _NAME_SIGN.search(run[0]) else run[0], text).split("\n")
    counts = {name: sum(len(sign.findall(row)) for row in rows) for name, sign in _SCRIPTS.items()}
    total = sum(counts.values()) or 1
    return {name: count / total for name, count in counts.items()}


def _check_size(
    text: str, covered: Sequence[Record], previous: str, cap_tokens: int, counter: Counter
) -> int:
    tokens = counter.count(text)
    if tokens > LENGTH_FACTOR * cap_tokens:
        raise _Rejected("too long", f"{tokens:,} tokens, {cap_tokens:,} were asked for")
    replaced = counter.count(previous)
    for text in map(_unit_text, read_units(covered)):
        replaced += counter.count(text)
        if replaced > tokens:
            return tokens
    raise _Rejected("no smaller", f"{tokens:,} tokens in the place of {replaced:,}")


def _check_subject(text: str, covered: Sequence[Record], seen: str) -> None:
    """A summary with no word of the newest request and few of the conversation is of something
    else."""
    asked, words = _request_words(covered), set(_words(text))
    if len(asked) <= 2 or not words.isdisjoint(asked):
        return
    telling = {word for word in _words(_body(text)) if _is_telling(word)}
    known = telling.intersection((*_history(covered), *_words(seen)))
    if len(known) < _KNOWN_SHARE * len(telling):
        raise _Rejected(
            "unrelated",
            f"of its {len(telling):,} words, {len(known):,} are in the conversation",
        )


def _request_words(covered: Sequence[Record]) -> list[str]:
    """The words that say what the newest message of the user with any telling ones is about: none
    is shorter than half the longest."""
    for record in reversed(covered):
        if said := user_text(record):
            telling = [word for word in dict.fromkeys(_words(said)) if _is_telling(word)]
            if telling:
                least = max(map(len, telling)) / 2
                return [word for word in telling if len(word) >= least][:_REQUEST_WORDS]
    return []


def _is_telling(word: str) -> bool:
    return len(word) >= _TELLING_CHARS or not word.isascii()


def _find_headings(text: str) -> set[str]:
    known = {heading.lower() for heading in HEADINGS}
    found = (first or second for first, second in _HEADING.findall(text))
    plain = {" ".join(_WORD.findall(title)).lower() for title in found}
    return {title for title in plain if title in known}


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line[:80]}…"' if len(line) > 80 else f'"{line}"'


# Copies


def _words(text: str) -> list[str]:
    return [found[0] for found in _WORD.finditer(text.casefold())]  # lets threads in between words


def _last_replies(covered: Sequence[Record]) -> Iterable[str]:
    texts = (
        text_of(record.content) for record in reversed(covered) if isinstance(record, Assistant)
    )
    spoken = (text for text in texts if text.strip())
    return [text for text, _place in zip(spoken, range(_LAST_REPLIES), strict=False)]


def _history(covered: Sequence[Record]) -> list[str]:
    texts: list[str] = []
    chars = 0
    for unit in reversed(read_units(covered)):
        text = _unit_text(unit)
        texts.append(text)
        chars += len(text)
        if chars > _COMPARED_CHARS:
            break
    return [word for text in reversed(texts) for word in _words(text)]


def _unit_text(unit: ContextUnit) -> str:
    """A unit's texts; of a long call or result, the ends."""
    return "\n".join(_entry_text(entry) for part in read_entries(unit) for entry in part)


def _entry_text(entry: MessageEntry) -> str:
    match entry.block:
        case ToolCall(arguments=arguments):
            return cut(arguments_json(arguments), _PAYLOAD_CHARS).text
        case ToolAnswer(content=content):
            return cut("\n".join(map(piece_text, content)).strip(), _PAYLOAD_CHARS).text
        case AddedTools():
            return ""  # no thread has one without a target that takes it
        case Text() | Image() | Other():
            return piece_text(entry.block).strip()
        case _:
            assert_never(entry.block)


def _share_in(words: Sequence[str], source: Sequence[str], gram: int) -> float:
    """The share of a text's n-grams that the source has."""
    size = min(gram, len(words))
    if size == 0 or len(source) < size:
        return 0.0
    have = {tuple(source[place : place + size]) for place in range(len(source) - size + 1)}
    grams = [tuple(words[place : place + size]) for place in range(len(words) - size + 1)]
    return sum(item in have for item in grams) / len(grams)


def _copied_share(words: Sequence[str], source: Sequence[str]) -> float:
    """The share of a text that stands in long runs of words as it stood in the source."""
    if len(words) < _RUN_WORDS or len(source) < _RUN_WORDS:
        return 0.0
    copied = [False] * len(words)
    joined = f" {' '.join(source)} "
    for start in range(0, len(words) - _RUN_WORDS + 1, _RUN_STRIDE):
        end = start + _RUN_WORDS
        if f" {' '.join(words[start:end])} " in joined:
            copied[start:end] = [True] * _RUN_WORDS
    return sum(copied) / len(words)


Speaker = Literal["user", "assistant", "note"]
Said: TypeAlias = Text | Image | Other | ToolCall | ToolAnswer

_NAME_CHARS: Final = 80
"""Longer than any real tool name or media type; a hostile one is cut."""


class MessageEntry(msgspec.Struct, frozen=True):
    """A block of a message, with the record it is from."""

    record: str
    speaker: Speaker
    block: Said
    tool: str = ""
    """The tool that was called, or whose result it is."""


def read_units(records: Iterable[Record]) -> Sequence[ContextUnit]:
    """The units of a session."""
    thread = Thread()
    for record in records:
        thread.feed(record)
    return thread.units()


def read_entries(unit: ContextUnit) -> Iterator[tuple[MessageEntry, ...]]:
    """The entries of each part of a unit; parts with nothing but thinking are left out."""
    for part in unit.parts:
        said: Speaker = "user" if part.source == "user" else "note"
        speaker = "assistant" if part.role == "assistant" else said
        entries = []
        for block in part.blocks:
            match block:
                case Thinking() | AddedTools():
                    continue
                case ToolCall() | ToolAnswer():
                    tool = block.name
                case Text() | Image() | Other():
                    tool = ""
                case _:
                    assert_never(block)
            entries.append(MessageEntry(part.record, speaker, block, tool))
        if entries:
            yield tuple(entries)


def piece_text(piece: Piece) -> str:
    """A piece as text; a note in place of one that is not text."""
    match piece:
        case Text(text):
            return text
        case Image():
            kind = " ".join((piece.media_type or "a picture").split())
            return f"[Image, not shown: {cut(kind, _NAME_CHARS, marker=ellipsis).text}]"
        case Other(kind=kind):
            return piece.words or f"[Not shown: a block of kind {plain_name(kind) or 'unknown'}]"
        case _:
            assert_never(piece)


def plain_name(name: str) -> str:
    """The name of a tool or a block as one bounded word, so that it cannot pass for a label."""
    return cut(re.sub(r"[^\w./-]+", "_", name), _NAME_CHARS, marker=ellipsis).text
