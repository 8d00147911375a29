"""Carry-overs: the text that replaces the records a compaction cuts, made without a model call.

A carry-over holds the user's instructions and messages, recent replies, open tasks, errors, the
files changed and read, and the names (paths, symbols, ids, numbers) that later steps are likely to
need. A model's summary, if there is one, comes first. The text can be read back: the next cut
continues an earlier carry-over without the records behind it, and the size stays the same however
many cuts follow.

The caller fences the text and labels it as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.digest import Digest, FileList, Instructions, digest_record
from holdfast.core.extract.fair_share import cuttings, sections_within
from holdfast.core.extract.file_lists import (
    common_folder,
    file_lines,
    find_files,
    lines_within,
    newest_files,
    read_files,
)
from holdfast.core.extract.names import identifiers, rank_names
from holdfast.core.extract.outcomes import action_lines
from holdfast.core.extract.statements import find_statements, same_words
from holdfast.core.extract.user_words import (
    INSTRUCTIONS,
    MESSAGES,
    CarriedMessage,
    InstructionRoom,
    instruction_lines,
    read_instructions,
    read_quotes,
    select_words,
    tokens_of_instructions,
)
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.tokens.counting import Counter

_NAMES_TOKENS: Final = 2_400
_NAMES_SHARE: Final = 0.5
"""A list of names that is longer than both, in tokens and as a share of the cap, is seldom used."""

_PROSE_SHARE: Final = 0.25
_MESSAGES_SHARE: Final = 0.6
_WORDS_SHARE: Final = 0.75
_INSTRUCTIONS_SHARE: Final = 0.4
_OPEN_SHARE: Final = 0.1
_ACTIONS_SHARE: Final = 0.1
_REASONS_SHARE: Final = 0.04
_ERRORS_SHARE: Final = 0.1
_CHANGED_SHARE: Final = 0.08
_READ_SHARE: Final = 0.04
_OUTPUTS_SHARE: Final = 0.04
_REPLIES_SHARE: Final = 0.06
"""The largest share of the cap that each section may take. The user's messages come first, with the
list of instructions in their share; then a model's summary, which together with them takes at most
the share of words. Names get the rest."""
_ERROR_CHARS: Final = 200
_TOLD_CHARS: Final = 60
"""Two errors that begin with the same characters, as many as this, are one."""
_ERRORS_MAX: Final = 6
_ITEM_CHARS: Final = 200
_ITEMS_MAX: Final = 20
_OLD_WEIGHTS: Final = (3.0, 0.5)
"""Weights of the first and the last name of an earlier carry-over; the others lie between."""

_OPEN: Final = "## Open items"
_ACTIONS: Final = "## What was done"
_REASONS: Final = "## Reasons given"
_ERRORS: Final = "## Errors"
_NAMES: Final = "## Names that came up"
_CHANGED: Final = "## Files changed"
_READ: Final = "## Files read"
_OUTPUTS: Final = "## Outputs kept by reference"
_REPLIES: Final = "## What the assistant said lately"
_SECTIONS: Final = (
    *(INSTRUCTIONS, MESSAGES, _REPLIES, _OPEN, _ACTIONS, _REASONS, _ERRORS),
    *(_CHANGED, _READ, _OUTPUTS, _NAMES),
)
_HEADING: Final = lazy_pattern(r"#{1,6} \S")
_OUTPUT: Final = lazy_pattern(r"[0-9a-f]{16}: [\w .:-]{1,80}, [\d,]+ characters")


class CarryOver(msgspec.Struct, frozen=True):
    """A text within its cap, and its parts."""

    text: str
    tokens: int
    instructions: Instructions = Instructions()
    """Those that are in no message quoted whole."""
    messages: tuple[CarriedMessage, ...] = ()
    names: tuple[str, ...] = ()
    changed: FileList = FileList()
    read: FileList = FileList()


def carry_over(
    records: Iterable[Record],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str | None = None,
    prose: str = "",
) -> CarryOver:
    """A carry-over of `records` within `cap_tokens`; `previous` is that of an earlier cut."""
    digests = [found for record in records if (found := digest_record(record)) is not None]
    return carry_digests(
        digests, cap_tokens=cap_tokens, counter=counter, previous=previous, prose=prose
    )


def carry_digests(
    digests: Sequence[Digest],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str | None = None,
    prose: str = "",
    lately: Sequence[str] = (),
    pending: Sequence[str] = (),
    rest_tokens: int | None = None,
    lists: InstructionRoom | None = None,
) -> CarryOver:
    """A carry-over of records that were digested before.

    `prose` is a model's summary of everything so far; it replaces that of an earlier carry-over.
    `lately` are the lines of a running summary, newest last. `pending` are the open tasks, where
    the caller tracks them over more than these records. `rest_tokens` caps everything beside the
    user's words and the prose, for a cut that has to stay small. `lists` is the room of the
    list of instructions, if not their share of the cap; what is not shared comes on top of the cap.
    """
    assert cap_tokens >= 0, f"a cap cannot be negative: {cap_tokens}"
    earlier = read_back(previous) if previous else []
    digests = [*earlier, *digests]
    share = instruction_share(cap_tokens)
    lists = lists or InstructionRoom(share, share)
    room = max(int(cap_tokens * _MESSAGES_SHARE), min(lists.shared, cap_tokens))
    instructions, words = select_words(digests, room, lists, counter)
    more = max(0, tokens_of_instructions(instructions, counter) - lists.shared)
    spoken = [
        _section(INSTRUCTIONS, instruction_lines(instructions)),
        _section(MESSAGES, [quotation for _message, quotation in words]),
    ]
    room = int(cap_tokens * _WORDS_SHARE) + more - sum(map(counter.count, spoken))
    prose = _prose(earlier, prose, min(room, prose_cap(cap_tokens)), counter)
    start = "\n\n".join(filter(None, (prose, *spoken)))
    rest = cap_tokens if rest_tokens is None else min(cap_tokens, rest_tokens)
    changed, read = find_files(digests)
    changed = newest_files(changed, int(rest * _CHANGED_SHARE), counter)
    read = newest_files(read, int(rest * _READ_SHARE), counter)
    folders = (common_folder(changed.paths), common_folder(read.paths))
    actions = [_relative(line, *folders) for line in action_lines(digests)]
    actions = _newest(actions, _ACTIONS, int(rest * _ACTIONS_SHARE), counter)
    reasons = dict.fromkeys(f"- {reason}" for item in digests for reason in item.reasons)
    cap_tokens += more
    for section in (
        _section(_REPLIES, _replies(earlier, lately, int(rest * _REPLIES_SHARE), counter)),
        _section(_OPEN, _open_items(digests, pending, int(rest * _OPEN_SHARE), counter)),
        _section(_ACTIONS, actions),
        _section(_REASONS, _newest([*reasons], _REASONS, int(rest * _REASONS_SHARE), counter)),
        _section(_ERRORS, _errors(digests, int(rest * _ERRORS_SHARE), counter, actions)),
        _section(_CHANGED, file_lines(changed)),
        _section(_READ, file_lines(read)),
        _section(_OUTPUTS, _outputs(digests, int(rest * _OUTPUTS_SHARE), counter)),
    ):
        longer = "\n\n".join(filter(None, (start, section)))
        if counter.count(longer) <= cap_tokens:
            start = longer
    longest = max(_NAMES_TOKENS, int(cap_tokens * _NAMES_SHARE))
    room = min(cap_tokens - counter.count(f"{start}\n\n{_NAMES}\n"), rest, longest)
    listed = {*start.split(), *identifiers(start), *changed.paths, *read.paths}
    names = _names(digests, room, counter, listed, folders)
    text = _with_names(start, names)
    while names and counter.count(text) > cap_tokens:
        # Counts of pieces do not quite add up to the count of the whole.
        names = names[: len(names) * 9 // 10]
        text = _with_names(start, names)
    text = _whole_lines(text, cap_tokens, counter)
    tokens = counter.count(text)
    assert tokens <= cap_tokens, f"{tokens} tokens, the cap is {cap_tokens}"
    messages = tuple(message for message, _quotation in words)
    return CarryOver(text, tokens, instructions, messages, tuple(names), changed, read)


def _whole_lines(text: str, cap_tokens: int, counter: Counter) -> str:
    """The first lines of a text that fit, and nothing torn; empty where none does."""
    lines = text.splitlines()
    while lines and counter.count(text) > cap_tokens:
        lines = lines[: min(len(lines) - 1, len(lines) * 19 // 20)]
        text = "\n".join(lines)
    return text.rstrip() if lines else ""


def instruction_share(cap_tokens: int) -> int:
    """The tokens of a carry-over's cap that the list of instructions may take."""
    return int(cap_tokens * _INSTRUCTIONS_SHARE)


def prose_cap(cap_tokens: int) -> int:
    """The tokens of a carry-over's cap that a model's summary may take."""
    return int(cap_tokens * _PROSE_SHARE)


# Reading back


def prose_of(text: str) -> str:
    """A model's part of a carry-over: everything that is under none of our headings.

    Where one of our sections comes first, the model's part starts at the next other heading.
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


def read_back(text: str) -> list[Digest]:
    """An earlier carry-over as digests again; text in none of its sections is prose."""
    sections = _read_sections(text)
    found = [Digest("", prose="\n".join(sections[""]).strip())]
    found.append(Digest("", instructions=read_instructions(sections[INSTRUCTIONS])))
    for said in read_quotes(sections[MESSAGES]):
        # The instructions of a shortened message were read when it was whole.
        is_whole = len(cuttings(said).pieces) == 1
        found.append(Digest("", said=said, rules=tuple(find_statements(said)) if is_whole else ()))
    found += [Digest("", error=line) for line in sections[_ERRORS]]
    found.append(
        Digest(
            "",
            actions=tuple(sections[_ACTIONS]),
            reasons=tuple(line.removeprefix("- ") for line in sections[_REASONS]),
        )
    )
    names = " ".join(sections[_NAMES]).split()
    high, low = _OLD_WEIGHTS
    rest = Digest(
        "",
        names={name: high * (low / high) ** (rank / len(names)) for rank, name in enumerate(names)},
        open_items=tuple(line.removeprefix("- ") for line in sections[_OPEN]) or None,
        changed=read_files(sections[_CHANGED]),
        read=read_files(sections[_READ]),
        outputs=tuple(line for line in sections[_OUTPUTS] if _OUTPUT.fullmatch(line)),
        recent_replies=tuple(line.removeprefix("- ") for line in sections[_REPLIES]),
    )
    return [*found, rest]


def _read_sections(text: str) -> dict[str, list[str]]:
    """The lines under each of our headings, and under "" those before the first."""
    found: dict[str, list[str]] = {title: [] for title in ("", *_SECTIONS)}
    current = found[""]
    for line in text.splitlines():
        if line in _SECTIONS:
            current = found[line]
        else:
            current.append(line)
    return {
        title: lines if title in ("", MESSAGES) else [line for line in lines if line.strip()]
        for title, lines in found.items()
    }


# Sections


def _section(title: str, lines: Sequence[str]) -> str:
    separator = "\n\n" if title == MESSAGES else "\n"
    # A line that is a heading of ours would be read back as a section.
    plain = [f" {line}" if line in _SECTIONS else line for line in lines]
    return f"{title}\n{separator.join(plain)}" if lines else ""


def _prose(earlier: Sequence[Digest], new: str, room: int, counter: Counter) -> str:
    """A model's summary, its head and tail where it is too long."""
    text = new.strip() or "\n\n".join(digest.prose for digest in earlier if digest.prose)
    # A heading of ours in it would be read back as a section.
    text = "\n".join(f" {line}" if line in _SECTIONS else line for line in text.splitlines())
    if counter.count(text) <= room:
        return text
    return sections_within(text, room, counter)


def _replies(
    earlier: Sequence[Digest], new: Sequence[str], room: int, counter: Counter
) -> list[str]:
    """The newest lines of a running summary, else those of an earlier carry-over."""
    lines = new or [line for digest in earlier for line in digest.recent_replies]
    plain = (" ".join(line.split()) for line in lines)
    listed = [f"- {line}" for line in plain if line]
    return lines_within(listed[::-1], room - counter.count(_REPLIES), counter)[::-1]


def _open_items(
    digests: Sequence[Digest], pending: Sequence[str], room: int, counter: Counter
) -> list[str]:
    items = pending or _newest_open(digests)
    lines = [f"- {_one_line(item, _ITEM_CHARS)}" for item in items[:_ITEMS_MAX] if item.strip()]
    return lines_within(lines, room, counter)


def _newest_open(digests: Sequence[Digest]) -> list[str]:
    """The open items of the newest list, without those that were reported done since."""
    done: set[str] = set()
    for digest in reversed(digests):
        if digest.open_items is not None:
            return [item for item in digest.open_items if same_words(item) not in done]
        if digest.done_items:
            done.update(map(same_words, digest.done_items))
    return []


def _newest(lines: Sequence[str], title: str, room: int, counter: Counter) -> list[str]:
    return lines_within(lines[::-1], room - counter.count(title), counter)[::-1]


def _errors(
    digests: Sequence[Digest], room: int, counter: Counter, actions: Sequence[str]
) -> list[str]:
    """The newest errors, each once, the newest last, but for those that an action tells."""
    newest = dict.fromkeys(digest.error for digest in reversed(digests) if digest.error)
    told = "\n".join(actions)
    lines = [_one_line(error, _ERROR_CHARS) for error in newest]
    untold = [line for line in lines if line[:_TOLD_CHARS] not in told]
    return lines_within(untold[:_ERRORS_MAX], room, counter)[::-1]


def _outputs(digests: Sequence[Digest], room: int, counter: Counter) -> list[str]:
    """The newest outputs that can be read back."""
    newest = [digest.outputs[::-1] for digest in reversed(digests) if digest.outputs]
    lines = list(dict.fromkeys(line for outputs in newest for line in outputs))
    return lines_within(lines, room - counter.count(_OUTPUTS), counter)[::-1]


def _one_line(text: str, chars: int) -> str:
    return cut(" ".join(text.split()), chars).text


# Names


def _names(
    digests: Sequence[Digest],
    room: int,
    counter: Counter,
    listed: set[str],
    folders: tuple[str, str],
) -> list[str]:
    """The names worth their tokens, best first, without those `listed` in other sections."""
    kept: dict[str, None] = {}
    for ranked in rank_names(digests):
        name = _relative(ranked, *folders) if ranked[0] == "/" else ranked
        if ranked in listed or name in listed or name in kept:
            continue
        tokens = counter.count(f" {name}")
        if tokens <= room:
            kept[name] = None
            room -= tokens
        elif room < 3:
            break
    return list(kept)


def _relative(text: str, changed: str, read: str) -> str:
    """A text without the folders of the two lists of files, which are written there."""
    text = text.replace(f"{changed}/", "") if changed else text
    return text.replace(f"{read}/", "") if read else text


def _with_names(start: str, names: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (start, _section(_NAMES, [" ".join(names)] if names else []))))
