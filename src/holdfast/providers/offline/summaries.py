"""A summary made of sentences that were said: chosen by rules, under the headings asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.compaction.summary_request import HEADINGS
from holdfast.core.extract.fair_share import within_tokens
from holdfast.core.extract.statements import own_sentences, same_words
from holdfast.core.narrative.digest import words_of
from holdfast.core.narrative.story import ARROW, FAILED, read_lines
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.fences import unescape, unwrap
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.offline.quoting import Sentence, find_quotes, sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.narrative.digest import Kind as StoryKind
    from holdfast.core.tokens.counting import Counter

Kind = Literal["user", "assistant", "call", "result", "note"]

_WORDS_MIN: Final = 3
"""Shorter lines answer or thank."""
ITEM_CHARS: Final = 220
"""A long sentence, cut in its middle."""
_ITEMS_MAX: Final = 40
"""Under one heading, before the cap of the summary takes more of them away."""
_FOCUS_MAX: Final = 5
"""Sentences about what the caller asked the summary to keep in view."""
_SHARE_MAX: Final = 0.5
"""Of what is summarised: a longer summary is not worth having."""

_SPEAKERS: Final[dict[StoryKind, Kind]] = {
    "user": "user",
    "below": "user",
    "above": "note",
    "refusal": "user",
    "text": "assistant",
    "thought": "assistant",
    "written": "assistant",
    "report": "result",
    "program": "note",
}
_RULE: Final = lazy_pattern(
    r"\b(must|never|always|only|do not|don['’]t|avoid|prefer|should not|shouldn['’]t|no more than|"
    r"at (?:most|least)|keep|without)\b",
    re.IGNORECASE,
)
_DECIDED: Final = lazy_pattern(
    r"\b(decided?|decision|chose|chosen|agreed|instead of|rather than|going with|settled on|"
    r"we(?:'ll| will) use|because)\b",
    re.IGNORECASE,
)
_RULED_OUT: Final = lazy_pattern(
    r"\b(ruled out|turned out|(?:is|was|were) wrong|mistaken|not the (?:cause|reason|problem)|"
    r"(?:did not|didn['’]t|does not|doesn['’]t) (?:help|work)|no longer|reverted|gave up|dead end|"
    r"rejected|abandoned)\b",
    re.IGNORECASE,
)
_OPEN: Final = lazy_pattern(
    r"\[ \]|\b(todo|fixme|next|remaining|still (?:to|needs?|open)|not yet|open (?:item|question)|"
    r"left to do|follow[- ]up|later|pending)\b",
    re.IGNORECASE,
)
_DONE: Final = lazy_pattern(
    r"\b(done|finished|fixed|added|created|wrote|written|changed|removed|renamed|updated|works|"
    r"passe[sd]|found|implemented|merged|released|deployed|built|installed|moved|read)\b",
    re.IGNORECASE,
)
_FAILED: Final = lazy_pattern(
    r"traceback|error\b|exception|fatal|\bfailed\b|denied|not found|exit (?:code|status) [1-9]",
    re.IGNORECASE,
)
_LEFT_OUT: Final = lazy_pattern(r"\[…[^\]\n]*\]")
"""The marker of a shortened summary; the next one is not made from it."""


class TranscriptEntry(msgspec.Struct, frozen=True):
    """Something that was said or done."""

    kind: Kind
    text: str
    label: str = ""


def read_narrative(text: str) -> list[TranscriptEntry]:
    """The entries of a narrative as `core.compaction.summary_input` gives it to a summariser."""
    found: list[TranscriptEntry] = []
    for line in read_lines(unescape(text).splitlines()):
        said = line.text.strip()
        if line.kind != "call":
            found.append(TranscriptEntry(_SPEAKERS[line.kind], said))
            continue
        call, _arrow, outcome = said.partition(ARROW)
        tool = call.partition(" ")[0]
        found.append(TranscriptEntry("call", call, f"called {tool}"))
        failure = outcome.removeprefix(FAILED)
        label = f"of {tool}, failed" if failure != outcome else f"of {tool}"
        found.append(TranscriptEntry("result", failure, label))
    return found


def notes_from(
    entries: Iterable[TranscriptEntry], known: Iterable[str], notes_max: int
) -> list[str]:
    """Return the newest sentences of the user that are new."""
    found = {same_words(text): "" for text in known}
    for entry in entries:
        for sentence in own_sentences(entry.text) if entry.kind == "user" else ():
            found.setdefault(same_words(sentence), sentence)
    return list(filter(None, found.values()))[-notes_max:]


def summarise(
    entries: Sequence[TranscriptEntry],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str = "",
    focus: str = "",
) -> str:
    """The summary, within its cap; `previous` goes on under its own headings."""
    whole = sum(counter.count(entry.text) for entry in entries) + counter.count(previous)
    room = min(cap_tokens, max(60, int(_SHARE_MAX * whole)))
    earlier = _read_previous(previous)
    news = _sections(entries, focus)
    sections = [
        _distinct([*earlier.get(heading.lower(), ()), *found])
        for heading, found in zip(HEADINGS, news, strict=True)
    ]
    for items in range(_ITEMS_MAX, 0, -1):
        text = _write_sections([_first_and_newest(section, items) for section in sections])
        if counter.count(text) <= room:
            return text
    text = _write_sections([_first_and_newest(section, 1) for section in sections])
    return within_tokens(text, max(cap_tokens, 1), counter, keep="head")


def _write_sections(sections: Iterable[Sequence[str]]) -> str:
    return "\n".join(
        line
        for heading, items in zip(HEADINGS, sections, strict=True)
        if items
        for line in (f"### {heading}", *(f"- {item}" for item in items))
    )


def _first_and_newest(items: Sequence[str], count: int) -> list[str]:
    """The first, which often says what all is about, and the newest."""
    if count >= len(items):
        return list(items)
    return [items[0], *items[len(items) - count + 1 :]] if count > 1 else [items[-1]]


def _sections(entries: Sequence[TranscriptEntry], focus: str) -> list[list[str]]:
    users = [entry.text for entry in entries if entry.kind == "user"]
    spoken = [
        line
        for entry in entries
        if entry.kind == "assistant"
        for line in _statements_in(entry.text)
    ]
    asked = [line for text in users for line in _statements_in(text)]
    goals = [next(_statements_in(text), "") for text in dict.fromkeys([*users[:1], *users[-2:]])]
    progress = [f"Done: {line}" for line in spoken if _DONE.search(line)]
    progress = progress or [f"In progress: {line}" for line in spoken[-3:]]
    return [
        [*filter(None, goals)],
        [line for line in asked if _RULE.search(line)],
        [*_focus_lines(entries, focus), *progress, *_failure_lines(entries)],
        [line for line in (*asked, *spoken) if _DECIDED.search(line)],
        [line for line in (*asked, *spoken) if _RULED_OUT.search(line)],
        [line for line in (*asked, *spoken) if _OPEN.search(line)],
    ]


def _statements_in(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        line = " ".join(sentence.lstrip("#>*- ").split())
        if len(words_of(line)) >= _WORDS_MIN:
            yield cut(line, ITEM_CHARS, marker=ellipsis).text


def _failure_lines(entries: Sequence[TranscriptEntry]) -> list[str]:
    """The line that says what went wrong, of each result that went wrong."""
    found = []
    for entry in entries:
        is_failure = "failed" in entry.label or "never arrived" in entry.label
        if entry.kind != "result" or not (is_failure or _FAILED.search(entry.text[-400:])):
            continue
        lines = [line.strip() for line in entry.text.splitlines() if line.strip()]
        telling = [line for line in lines if _FAILED.search(line)] or lines[-1:]
        if telling:
            said = cut(telling[-1], ITEM_CHARS, marker=ellipsis).text
            found.append(f"Blocked: {entry.label.removeprefix('of ')}: {said}")
    return found


def _focus_lines(entries: Sequence[TranscriptEntry], focus: str) -> list[str]:
    passages = [
        Sentence(sentence, entry.kind, place)
        for place, entry in enumerate(entries)
        for sentence in _statements_in(entry.text)
    ]
    return [quote.text for quote in find_quotes(focus, passages, _FOCUS_MAX)] if focus else []


def _read_previous(previous: str) -> dict[str, list[str]]:
    """An earlier summary's items by heading; what stands under no heading is progress."""
    sections: dict[str, list[str]] = {}
    heading = "progress"
    for line in unwrap(previous).splitlines():
        title = re.match(r"\s*+#{1,6}\s++(.+)", line)
        if title:
            heading = (title[1].rstrip("#").rstrip() or "#").lower()
            continue
        said = line.strip(" -*\t")
        if len(words_of(said)) > 1 and not _LEFT_OUT.fullmatch(said):
            item = cut(said, ITEM_CHARS, marker=ellipsis).text
            sections.setdefault(heading, []).append(item)
    return sections


def _distinct(items: Iterable[str]) -> list[str]:
    """Each once, where it was said last."""
    found: dict[str, str] = {}
    for item in items:
        key = " ".join(item.lower().split())
        found.pop(key, None)
        found[key] = item
    return list(found.values())
