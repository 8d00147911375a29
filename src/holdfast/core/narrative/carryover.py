"""Carry-overs: the text that replaces the records a compaction cuts, made without a model call.

A carry-over is a narrative: what was said and done, in order of time (`story`), then the state at
the cut (open tasks, the last check, files changed), then a few exact names that calls were given
and that stand nowhere else. A model's summary, if there is one, comes first. The text can be read
back: the next cut continues an earlier carry-over without the records behind it, and the size stays
the same however many cuts follow.

The caller fences the text and labels it as data.
"""

from __future__ import annotations

from collections import Counter as Counted
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.fair_share import sections_within
from holdfast.core.extract.names import identifiers
from holdfast.core.extract.touched_files import PATH_CHARS
from holdfast.core.narrative.digest import digest_record, summary_size
from holdfast.core.narrative.pieces import ReadTexts
from holdfast.core.narrative.state import WorkState, read_state
from holdfast.core.narrative.story import find_kept_thoughts, lines_of, read_lines, tell
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.narrative.story import StoryLine
    from holdfast.core.tokens.counting import Counter


_EARLIER: Final = lazy_pattern(r"\(([\d,]+) earlier ones? not listed\)")
_FILES_RELATIVE: Final = lazy_pattern(r"\(relative to (/[^\n]{1,400})\)")
_NEWEST: Final = 200
"""Paths that are looked at for the folder they share."""
_DEPTH_MAX: Final = 40
"""Folders above a path that are looked at. A path of nothing but slashes has as many as letters."""
_FILES_HEADING: Final = "## Files changed"
"""The longer of the two headings."""


class FileList(msgspec.Struct, frozen=True):
    """Paths, newest last, and the number of older ones left out."""

    paths: tuple[str, ...] = ()
    omitted: int = 0


def lines_within(lines: Sequence[str], room: int, counter: Counter) -> list[str]:
    kept = []
    for line in lines:
        room -= counter.count(f"{line}\n")
        if room < 0:
            break
        kept.append(line)
    return kept


def newest_files(files: FileList, room: int, counter: Counter) -> FileList:
    """As many of the newest as there is room for."""
    folder = common_folder(files.paths)
    head = [
        _FILES_HEADING,
        _note_of_earlier(len(files.paths) + files.omitted),
        _note_of_folder(folder),
    ]
    room -= counter.count("\n".join(head))
    kept = lines_within(_below(folder, files.paths)[::-1], room, counter)
    first = len(files.paths) - len(kept)
    return FileList(files.paths[first:], files.omitted + first)


def file_lines(files: FileList) -> list[str]:
    """One line for each path. The folder that they share is written once."""
    if not files.paths:
        return []
    folder = common_folder(files.paths)
    notes = [_note_of_earlier(files.omitted)] if files.omitted else []
    return [*notes, *filter(None, [_note_of_folder(folder)]), *_below(folder, files.paths)]


def common_folder(paths: Sequence[str]) -> str:
    """The folder that saves most where it is written once; empty if none does.

    Where a path is relative already, no one knows to which folder.
    """
    newest = paths[-_NEWEST:]
    if not all(path.startswith("/") and path.isprintable() for path in paths):
        return ""
    saved: Counted[str] = Counted()
    for path in newest:
        end = 0
        for _ in range(_DEPTH_MAX):
            end = path.find("/", end + 1)
            if end < 0:
                break
            saved[path[:end]] += end + 1
    gains = {folder: (saved[folder] - len(folder), len(folder)) for folder in saved}
    best = max(gains, key=lambda folder: gains[folder], default="")
    return best if saved[best] > len(best) + len(_note_of_folder("/")) else ""


def _below(folder: str, paths: Sequence[str]) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    return [path.removeprefix(prefix) for path in paths]


def _note_of_folder(folder: str) -> str:
    return f"(relative to {folder})" if folder else ""


def _note_of_earlier(count: int) -> str:
    return f"({count:,} earlier {'one' if count == 1 else 'ones'} not listed)"


def read_files(lines: Sequence[str]) -> FileList:
    """The list that `file_lines` made; lines that cannot be paths are ignored."""
    omitted, folder, paths = 0, "", []
    for line in lines:
        if match := _EARLIER.fullmatch(line):
            omitted += int(match[1].replace(",", "") or 0)
        elif match := _FILES_RELATIVE.fullmatch(line):
            folder = f"{match[1]}/"
        elif line.isprintable():
            paths.append(line if line.startswith("/") else f"{folder}{line}")
    return FileList(tuple(path for path in paths if len(path) <= PATH_CHARS), omitted)


_PROSE_SHARE: Final = 0.25
_STATE_SHARE: Final = 0.15
_NAMES_SHARE: Final = 0.02
"""The largest share of the cap that each part may take; the story gets the rest."""
_ITEM_CHARS: Final = 200
"""Of an open item: enough for a sentence."""
_ITEMS_MAX: Final = 20
"""Open items that are listed; longer lists are plans, and stand in the story."""

STORY: Final = "## What happened so far, in order"
OPEN: Final = "## Open items"
CHECK: Final = "## Last check"
CHANGED: Final = "## Files changed"
UNCOMMITTED: Final = "## Files changed, no commit seen since"
OUTPUTS: Final = "## Outputs kept by reference"
NAMES: Final = "## Exact names"
OLDER: Final = "(an older summary; what it calls open may be done in what follows)"
"""Stands before a model's summary that later steps follow."""
_SECTIONS: Final = (STORY, OPEN, CHECK, CHANGED, UNCOMMITTED, OUTPUTS, NAMES)
_HALF_LIFE_CALLS: Final = 20
"""After this many calls, what a call was given counts half: the next calls use what is recent."""
_NAME_TOKENS_MIN: Final = 3
"""In less room, there is none."""
_NAMED_CALLS: Final = 120
"""The newest calls, which are searched for names."""
_NAMED_CHARS: Final = 4_000
"""Of what a call was given."""
_HEADING: Final = lazy_pattern(r"#{1,6} \S")
_OUTPUT: Final = lazy_pattern(r"[0-9a-f]{16}: [\w .:-]{1,80}, [\d,]+ characters")
_RELATIVE: Final = lazy_pattern(r"\(paths are relative to (/[^\n]{1,400})\)")
_LEFT_OUT: Final = lazy_pattern(r"\(([\d,]{1,15}) others? not told: search [\w ']+\)")


class CarryOver(msgspec.Struct, frozen=True):
    """A text within its cap, and its size."""

    text: str
    tokens: int


class _Earlier(msgspec.Struct, frozen=True):
    """An earlier carry-over, read back."""

    prose: str = ""
    root: str = ""
    omitted: int = 0
    lines: tuple[StoryLine, ...] = ()
    state: WorkState = WorkState()
    outputs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def carry_over(
    records: Iterable[Record],
    *,
    cap_tokens: int,
    counter: Counter,
    previous: str | None = None,
    prose: str = "",
) -> CarryOver:
    """Return a carry-over of `records` within `cap_tokens`; `previous` is an earlier one."""
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
    pending: Sequence[str] = (),
    rest_tokens: int | None = None,
    kept: Sequence[Digest] = (),
    thoughts: Sequence[Digest] = (),
    texts: ReadTexts | None = None,
) -> CarryOver:
    """Return a carry-over of records that were digested before.

    `prose` is a model's summary of everything so far; it replaces that of an earlier carry-over.
    `pending` are the open tasks, where the caller tracks them over more than these records.
    `rest_tokens` caps everything beside the user's words and the prose, for a cut that has to stay
    small. `kept` are the records that stay behind the carry-over: the state is the one after them.
    `thoughts` are those of them whose thinking ends with the cut.
    `texts` are those that were read for another cut of the same records.
    """
    texts = ReadTexts() if texts is None else texts
    assert cap_tokens >= 0, f"a cap cannot be negative: {cap_tokens}"
    earlier = read_back(previous) if previous else _Earlier()
    state = read_state([*digests, *kept], earlier.state)
    rest = cap_tokens if rest_tokens is None else min(cap_tokens, rest_tokens)
    before = _client_summary(digests) or earlier.prose
    start = _prose(before, prose, prose_cap(cap_tokens), counter)
    if start and not prose.strip() and digests:
        start = f"{OLDER}\n{start}"
    behind = _state_sections(state, earlier, digests, pending, int(rest * _STATE_SHARE), counter)
    fixed = counter.count("\n\n".join(filter(None, (start, *behind)))) + 12
    above = "" if prose.strip() else summary_size(before)
    lines = [
        line
        for line in (*lines_of(digests, earlier.lines), *find_kept_thoughts(thoughts))
        if line.kind != "above" or line.text == above
    ]
    root = earlier.root or common_folder([path for path in state.paths if path[:1] == "/"])
    names_room = int(rest * _NAMES_SHARE)
    beside = "\n".join(
        f"{passage.text} {passage.key}" for digest in kept for passage in digest.passages
    )
    ranked = _rank_names(digests, earlier.names)
    if root:  # as the story tells them
        ranked = [name.removeprefix(f"{root}/") for name in ranked]
    room = cap_tokens - fixed - names_room
    for again in range(6):
        if room <= 0:
            break
        told, omitted = tell(lines, room, min(rest, room), counter, root, texts)
        notes = _notes(root, omitted + earlier.omitted)
        story = _section(STORY, [*notes, *told]) if told else ""
        text = "\n\n".join(filter(None, (start, story, *behind)))
        names = _names_within(ranked, names_room, counter, f"{text}\n{beside}")
        text = "\n\n".join(filter(None, (text, _section(NAMES, names))))
        size = counter.count(text)
        if size <= cap_tokens:
            return CarryOver(text, size)
        room -= (size - cap_tokens) << again
    text = _whole_lines("\n\n".join(filter(None, (start, *behind))), cap_tokens, counter)
    return CarryOver(text, counter.count(text))


def story_lines(
    digests: Sequence[Digest],
    room_tokens: int,
    counter: Counter,
    texts: ReadTexts | None = None,
) -> list[str]:
    """Return the story alone, line by line within `room_tokens`, for a model that reads it, after
    the summary of its own that a client went on from. `texts` are those that a cut has read."""
    texts = ReadTexts() if texts is None else texts
    known, told_before = set(texts), texts.told
    before = _prose(_client_summary(digests), "", prose_cap(room_tokens), counter).splitlines()
    room_tokens -= counter.count("\n".join(before)) + 1 if before else 0
    lines = lines_of(digests)
    root = common_folder(
        [path for path in read_state(digests, WorkState()).paths if path[:1] == "/"]
    )
    room = room_tokens - counter.count("\n".join(_notes(root, 10**6)))
    told, omitted = tell(lines, room, room, counter, root, texts) if room > 0 else ([], 0)
    texts.told = told_before  # no carry-over has these
    for text in texts.keys() - known:
        del texts[text]
    return [*before, *_notes(root, omitted), *told] if told else before


def _client_summary(digests: Sequence[Digest]) -> str:
    """The newest summary of its own that a client went on from."""
    return next((item.summary for item in reversed(digests) if item.summary), "")


def prose_cap(cap_tokens: int) -> int:
    """Return the tokens of a carry-over's cap that a model's summary may take."""
    return int(cap_tokens * _PROSE_SHARE)


# Reading back


def prose_of(text: str) -> str:
    """Return a model's part of a carry-over: everything that is under none of our headings.

    Where one of our sections comes first, the model's part starts at the next other heading.
    """
    kept: list[str] = []
    is_ours = False
    for line in text.splitlines():
        if line == OLDER:
            continue
        if line in _SECTIONS:
            is_ours = True
        elif is_ours and _HEADING.match(line):
            is_ours = False
        if not is_ours:
            kept.append(line)
    return "\n".join(kept).strip()


def read_back(text: str) -> _Earlier:
    """Return an earlier carry-over in its parts; text in none of its sections is prose."""
    sections: dict[str, list[str]] = {title: [] for title in ("", *_SECTIONS)}
    current = sections[""]
    for line in text.splitlines():
        if line in _SECTIONS:
            current = sections[line]
        else:
            current.append(line)
    root, omitted, told = _read_notes(sections[STORY])
    changed, uncommitted = (
        read_files([line for line in sections[title] if line.strip()]).paths
        for title in (CHANGED, UNCOMMITTED)
    )
    check = [line for line in sections[CHECK] if line.strip()]
    return _Earlier(
        prose="\n".join(line for line in sections[""] if line != OLDER).strip(),
        root=root,
        omitted=omitted,
        lines=tuple(read_lines(told)),
        state=WorkState(
            open_tasks=tuple(
                line.removeprefix("- ") for line in sections[OPEN] if line.startswith("- ")
            ),
            changed=tuple(changed),
            uncommitted=tuple(uncommitted),
            check="\n".join(check),
        ),
        outputs=tuple(line for line in sections[OUTPUTS] if _OUTPUT.fullmatch(line)),
        names=tuple(" ".join(sections[NAMES]).split()),
    )


def _notes(root: str, omitted: int) -> list[str]:
    """The lines that say what all of a story leaves out."""
    others = "1 other" if omitted == 1 else f"{omitted:,} others"
    notes = [f"(paths are relative to {root})"] if root else []
    note = f"({others} not told: search this session's history for them)"
    return [*notes, note] if omitted else notes


def _read_notes(lines: Sequence[str]) -> tuple[str, int, list[str]]:
    """The folder that `_notes` names, the number of lines left out, and the other lines."""
    told: list[str] = []
    root, omitted = "", 0
    for line in filter(str.strip, lines):
        if not told and (match := _RELATIVE.fullmatch(line)):
            root = match[1]
        elif not told and (match := _LEFT_OUT.fullmatch(line)):
            omitted = int(match[1].replace(",", "") or 0)
        else:
            told.append(line)
    return root, omitted, told


# Sections


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join((title, *lines)) if lines else ""


def _prose(earlier: str, new: str, room: int, counter: Counter) -> str:
    """A model's summary, by its sections where it is too long."""
    text = new.strip() or earlier
    # A heading of ours in it would be read back as a section.
    text = "\n".join(f" {line}" if line in _SECTIONS else line for line in text.splitlines())
    if counter.count(text) <= room:
        return text
    return sections_within(text, room, counter)


def _state_sections(
    state: WorkState,
    earlier: _Earlier,
    digests: Sequence[Digest],
    pending: Sequence[str],
    room: int,
    counter: Counter,
) -> list[str]:
    """The state at the cut: each section that fits, the most needed first."""
    items = [f"- {_one_line(item)}" for item in pending or state.open_tasks if item.strip()]
    outputs = _outputs(digests, earlier.outputs)
    changed = [path for path in state.changed if path not in state.uncommitted]
    found = []
    for title, lines in (
        (OPEN, lines_within(items[:_ITEMS_MAX], room // 2, counter)),
        (CHECK, [state.check] if state.check else []),
        (UNCOMMITTED, _files(state.uncommitted, room // 2, counter)),
        (CHANGED, _files(changed, room // 3, counter)),
        (OUTPUTS, lines_within(outputs[::-1], room // 3, counter)[::-1]),
    ):
        section = _section(title, lines)
        size = counter.count(section) + 2 if section else 0
        if section and size <= room:
            room -= size
            found.append(section)
    return found


def _files(paths: Sequence[str], room: int, counter: Counter) -> list[str]:
    return file_lines(newest_files(FileList(tuple(paths)), room, counter))


def _rank_names(digests: Sequence[Digest], earlier: Sequence[str]) -> list[str]:
    """Names that the newest calls were given, those of many, recent calls and the short first."""
    keys = (
        passage.key
        for digest in reversed(digests)
        for passage in reversed(digest.passages)
        if passage.kind == "call"
    )
    scores: dict[str, float] = {}
    for age, key in enumerate(islice(keys, _NAMED_CALLS)):
        weight = 0.5 ** (age / _HALF_LIFE_CALLS)
        for name in identifiers(key[:_NAMED_CHARS]):
            scores[name] = scores.get(name, 0.0) + weight / (4 + len(name) // 4)
    return [*sorted(scores, key=lambda name: -scores[name]), *earlier]


def _names_within(names: Sequence[str], room: int, counter: Counter, text: str) -> list[str]:
    """As many names as fit, on one line, without those that stand in the text."""
    room -= counter.count(f"\n\n{NAMES}\n")
    kept: list[str] = []
    for name in dict.fromkeys(names):
        if room < _NAME_TOKENS_MIN:
            break
        if name not in text and (tokens := counter.count(f" {name}")) <= room:
            kept.append(name)
            room -= tokens
    return [" ".join(kept)] if kept else []


def _outputs(digests: Sequence[Digest], earlier: Sequence[str]) -> list[str]:
    """The outputs that can be read back, the newest last."""
    listed = [*earlier, *(line for digest in digests for line in digest.outputs)]
    return list(dict.fromkeys(reversed(listed)))[::-1]


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), _ITEM_CHARS).text


def _whole_lines(text: str, cap_tokens: int, counter: Counter) -> str:
    """The first lines of a text that fit, and nothing torn; empty where none does."""
    lines = text.splitlines()
    while lines and counter.count(text) > cap_tokens:
        lines = lines[: min(len(lines) - 1, len(lines) * 19 // 20)]
        text = "\n".join(lines)
    return text.rstrip() if lines else ""
