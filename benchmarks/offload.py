"""What moving large outputs out of the log saves on real sessions, and what stays within reach.

    .venv/bin/python benchmarks/offload.py [--data FOLDER] [--json] [--out PAGE]

No model is called: the sessions happened. Each tool result goes through the policy as it would on
arrival; then everything that was said and done later is searched for text that stands in a result
that was moved out, and each such text is looked for in the preview, and with one read.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast import Assistant, Outputs, SessionKey, ToolResult, User, Window, importers
from holdfast.core.evaluation.needs import facts_in
from holdfast.core.flow.effects import PutBlob
from holdfast.core.limits import EXCERPT_CHARS, OFFLOAD_TEXT_CHARS, PREVIEW_CHARS
from holdfast.core.models.window import budget_for
from holdfast.core.outputs.offload import Room, offload_result, room_for
from holdfast.errors import UsageError
from holdfast.records import text_of, tool_calls
from holdfast.stores import MemoryStore
from holdfast.stores.in_memory import MemoryBlobs
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast import Record
    from holdfast.core.flow.effects import Flow

HERE = Path(__file__).resolve().parent
STATIC = {200_000: 18_000, 64_000: 18_000, 32_000: 6_000}
"""System prompt and tools, as in the comparison of policies."""
LINE_CHARS = 20
"""A shorter line is repeated by chance."""
PASSAGE_LINES = 3
LINES_LOOKED_AT = 8
"""A line that stands in an output many times: how many of its places may begin a passage."""
COUNTER = counter_for("claude")
KEY = SessionKey("main", "bench")

Kind = Literal["name", "line", "passage"]
How = Literal["preview", "pattern", "lines", "no"]


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    records: list[Record]


@dataclass(frozen=True, slots=True)
class Moved:
    """A result that was moved out."""

    place: int
    text: str
    preview: str
    ref: str
    lines: list[str]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Need:
    """Text of an output that came up again later."""

    kind: Kind
    text: str
    line: int
    """Where it stands, from 1."""
    is_only_there: bool
    """Whether it stood nowhere else before it came up again."""


@dataclass(slots=True)
class Found:
    """One setting over all sessions."""

    name: str
    results: int = 0
    moved: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    moved_before: int = 0
    moved_after: int = 0
    ways: Counter[tuple[Kind, How, bool]] = field(default_factory=Counter)
    proposed: Counter[bool] = field(default_factory=Counter)
    """Whether the one read that the preview proposes would have shown it, for what it does not."""
    reads: int = 0
    read_tokens: int = 0
    missed: list[tuple[str, Need]] = field(default_factory=list)

    def needs(self, kind: Kind | None = None, *, only_there: bool = False) -> int:
        return sum(self._chosen(kind, None, only_there=only_there))

    def share(self, *hows: How, kind: Kind | None = None, only_there: bool = False) -> float:
        total = self.needs(kind, only_there=only_there)
        found = sum(sum(self._chosen(kind, how, only_there=only_there)) for how in hows)
        return found / total if total else 1.0

    def _chosen(self, kind: Kind | None, how: How | None, *, only_there: bool) -> Iterator[int]:
        for (one, way, is_only), count in self.ways.items():
            if kind in (None, one) and how in (None, way) and (is_only or not only_there):
                yield count


# The sessions


def data_folder(given: str | None) -> Path:
    root = Path(given or os.environ.get("HOLDFAST_DATA") or HERE / "../../shared/data")
    return root.resolve() / "agents"


def read_sessions(folder: Path) -> list[Session]:
    """Every session with tool results; of growing snapshots of one session, the longest."""
    found: dict[tuple[str, str], Session] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        try:
            sessions = importers.read_transcript(path.read_bytes(), path.name)
        except UsageError:
            continue  # notes and annotations beside the transcripts
        for session in sessions:
            records = [one for one in session.records if _is_bare(one)]
            if not any(isinstance(one, ToolResult) for one in records):
                continue
            first = text_of(getattr(records[0], "content", ""))[:2_000]
            key = (path.parent.name, f"{records[0].id}{first}")
            if key not in found or len(found[key].records) < len(records):
                found[key] = Session(f"{path.parent.name}/{session.name}", records)
    return list(found.values())


def _is_bare(record: Record) -> bool:
    if isinstance(record, Assistant):
        return record.extra.get("synthetic") is not True
    return isinstance(record, User | ToolResult)


def glued(session: Session) -> Session | None:
    """The session as if its first half had printed everything at once: one very large output."""
    half = len(session.records) // 2
    texts = [text_of(one.content) for one in session.records[:half] if isinstance(one, ToolResult)]
    text = "\n".join(texts)
    if len(text) <= OFFLOAD_TEXT_CHARS:
        return None
    return Session(session.name, [ToolResult(tool_use_id="all", content=text),
                                  *session.records[half:]])  # fmt: skip


# What comes up again


def later_texts(record: Record) -> Iterator[str]:
    """What was said or done, as texts: replies, a user's words, and each text among arguments."""
    if isinstance(record, User | Assistant) and (said := text_of(record.content)):
        yield said
    if isinstance(record, Assistant):
        for call in tool_calls(record.content):
            yield from _leaves(call.get("input"))


def _leaves(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _leaves(item)
        case list():
            for item in value:
                yield from _leaves(item)


def needs_of(moved: Moved, records: Sequence[Record]) -> Iterator[Need]:
    """Each text of an output that came up again, once."""
    seen: set[tuple[Kind, str]] = set()
    elsewhere = _Elsewhere(records, moved.place)
    for record in records[moved.place + 1 :]:
        for text in later_texts(record):
            for kind, needed, line in _needed(moved, text):
                if (kind, needed) not in seen:
                    seen.add((kind, needed))
                    yield Need(kind, needed, line, not elsewhere.has(needed))
        elsewhere.add(record)


class _Elsewhere:
    """Everything that was there to be seen, but for one output."""

    def __init__(self, records: Sequence[Record], place: int) -> None:
        self._texts = [_shown(record) for record in records[:place]]

    def add(self, record: Record) -> None:
        self._texts.append(_shown(record))

    def has(self, needed: str) -> bool:
        first = needed.split("\n", 1)[0].strip()
        return any(first in text for text in self._texts)


def _shown(record: Record) -> str:
    if isinstance(record, ToolResult):
        return text_of(record.content)
    return "\n".join(later_texts(record))


def _needed(moved: Moved, text: str) -> Iterator[tuple[Kind, str, int]]:
    for name in facts_in(text) & moved.names:
        yield "name", name, _line_of(moved, name)
    lines = [line.strip() for line in text.split("\n")]
    place = 0
    while place < len(lines):
        length = 1
        if len(lines[place]) >= LINE_CHARS and lines[place] in moved.text:
            at, length = _run(moved.lines, lines, place)
            if length >= PASSAGE_LINES:
                yield "passage", "\n".join(lines[place : place + length]), at + 1
            else:
                length = 1
                yield "line", lines[place], _line_of(moved, lines[place])
        place += length


def _run(output: Sequence[str], lines: Sequence[str], place: int) -> tuple[int, int]:
    """Where the longest run of lines stands in an output that begins with this one; its length.

    An output may number its lines, so a line of it only has to end with the line that is sought.
    """
    best = (0, 1)
    starts = [at for at, line in enumerate(output) if line.endswith(lines[place])]
    for at in starts[:LINES_LOOKED_AT]:
        length = 1
        while (
            place + length < len(lines)
            and at + length < len(output)
            and output[at + length].endswith(lines[place + length])
        ):
            length += 1
        while length > 1 and not lines[place + length - 1]:
            length -= 1
        best = max(best, (at, length), key=lambda one: one[1])
    return best


def _line_of(moved: Moved, needed: str) -> int:
    return 1 + moved.text.count("\n", 0, max(0, moved.text.find(needed)))


# How it is reached


def reached(outputs: Outputs, moved: Moved, need: Need, chars: int) -> tuple[How, str]:
    """The preview shows it, or one read does that could have been made; and what was read."""
    if _holds(moved.preview, need):
        return "preview", ""
    first = need.text.split("\n", 1)[0]
    by_pattern = outputs.answer(KEY, moved.ref, pattern=re.escape(first)[:1_000], max_chars=chars)
    if _holds(by_pattern, need):
        return "pattern", by_pattern
    by_lines = outputs.answer(KEY, moved.ref, lines=f"{need.line}:", max_chars=chars)
    if _holds(by_lines, need):
        return "lines", by_lines
    return "no", by_lines


def _holds(text: str, need: Need) -> bool:
    return all(line in text for line in need.text.split("\n"))


def proposed_read(outputs: Outputs, moved: Moved, chars: int) -> str:
    """The read that the preview itself proposes: by somebody who does not know what is there."""
    by_lines = re.search(r'lines="([\d:-]+)"', moved.preview)
    by_offset = re.search(r"offset=(\d+)", moved.preview)
    if by_lines:
        return outputs.answer(KEY, moved.ref, lines=by_lines[1], max_chars=chars)
    offset = int(by_offset[1]) if by_offset else PREVIEW_CHARS // 2
    return outputs.answer(KEY, moved.ref, offset=offset, max_chars=chars)


# Running


def play(name: str, sessions: Sequence[Session], room: Room) -> Found:
    found = Found(name)
    for session in sessions:
        store, blobs = MemoryStore(), MemoryBlobs()
        store.create(KEY)
        outputs = Outputs(store, blobs)
        moved = []
        for place, record in enumerate(session.records):
            if isinstance(record, ToolResult):
                one = arrive(record, place, room, store, blobs, found)
                moved += [one] if one is not None else []
        for one in moved:
            _look_for(found, outputs, one, session, min(EXCERPT_CHARS, room.read_chars))
    print(f"{name}: {found.moved} of {found.results} moved, {found.needs()} needs", file=sys.stderr)
    return found


def arrive(
    record: ToolResult, place: int, room: Room, store: MemoryStore, blobs: MemoryBlobs, found: Found
) -> Moved | None:
    """What becomes of a result as it arrives."""
    named = ToolResult(
        id=f"r{place:06d}", tool_use_id=record.tool_use_id, content=record.content,
        name=record.name, is_error=record.is_error,
    )  # fmt: skip
    kept = driven(offload_result(named, room), blobs)
    text, preview = text_of(record.content), text_of(kept.content)
    before, after = COUNTER.count(text), COUNTER.count(preview)
    found.results += 1
    found.tokens_before += before
    found.tokens_after += after
    if kept.output_ref is None:
        return None
    found.moved += 1
    found.moved_before += before
    found.moved_after += after
    store.append(KEY, [kept], expect=None)
    names = frozenset(facts_in(text))
    return Moved(place, text, preview, kept.output_ref.sha256, text.split("\n"), names)


def driven(flow: Flow[ToolResult], blobs: MemoryBlobs) -> ToolResult:
    """The flow, carried out."""
    answer: object = None
    try:
        while True:
            effect = flow.send(answer)
            answer = blobs.put(effect.data) if isinstance(effect, PutBlob) else None
    except StopIteration as stop:
        result: ToolResult = stop.value
        return result


def _look_for(found: Found, outputs: Outputs, moved: Moved, session: Session, chars: int) -> None:
    proposed = None
    for need in needs_of(moved, session.records):
        how, answer = reached(outputs, moved, need, chars)
        found.ways[need.kind, how, need.is_only_there] += 1
        if how == "no":
            found.missed.append((session.name, need))
        if how != "preview":
            found.reads += 1
            found.read_tokens += COUNTER.count(answer)
            if proposed is None:
                proposed = proposed_read(outputs, moved, chars)
            found.proposed[_holds(proposed, need)] += 1


def settings() -> list[tuple[str, Room]]:
    fixed = Room(counter=COUNTER)
    return [
        (f"{OFFLOAD_TEXT_CHARS:,} characters, no share", fixed),
        *(
            (f"window of {window:,}", room_for(budget_for(
                Window(window), system=static).tokens, COUNTER))
            for window, static in STATIC.items()
        ),
        ("all over 8,000 characters", Room(chars=8_000, counter=COUNTER)),
    ]  # fmt: skip


# Showing

INTRO = """# Outputs by reference, measured

{sessions} real sessions of {agents} agents with {results:,} tool results ({chars:,} characters), each result taken through the offloading policy as it would be on arrival.
No model is called: the sessions happened. What came up again later is looked for in what was left in view, and with one read.

**Read this first.**
The agents had limits of their own: the longest result is {longest:,} characters, so the rule of {limit:,} characters alone finds nothing to do here. It is shown on *glued* sessions, in which all that the first half printed is one output.
The setting *all over 8,000 characters* is stricter than any default. It is there to have more cases.
A session that happened cannot show what an agent would have done with a preview instead of the whole: it may ask once more, or never find out that something is there. So the figures say what is **in reach**, not what is found.
The two ways to read are ones that a model has: to search for a word that it is about to use, or to read on from a place. The place must be known: from the preview, which counts lines, or from an earlier search. So a passage that only *lines* reaches is one read for whoever knows where it is, and two for whoever knows only a word of it. *Proposed* is the other end: whoever knows nothing and makes the one read that the preview proposes.

## How it is counted

- **Need**: text of an output that was moved out and that comes up again in a later reply, in the arguments of a later call or in the user's words; each once per output. *Names*: paths, symbols, ids, numbers and quoted strings (the same rule as in [policies.md](policies.md)). *Lines*: of {line_chars} characters or more, without indentation. *Passages*: {passage_lines} or more lines in a row.
- **Preview**: the need stands in what was left in view, word for word (a passage: each of its lines).
- **One read**: `context` as its session has it ({read:,} characters, less in a small window): `search` with the name, or with the first line; else `lines` from the place on.
- **Only there**: the need stood nowhere else in the session before it came up again. What stands elsewhere too may be known from there.
- **Tokens**: o200k, of the text of the results, each once. A session sends them again with each request, so what is saved is saved many times. *Reads*: what it would cost to make one read for each need that the preview does not show; a real reader needs far fewer, because what is needed at once stands together.
"""  # noqa: E501


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def page(sessions: Sequence[Session], found: Sequence[Found], options: argparse.Namespace) -> str:
    results = [one for s in sessions for one in s.records if isinstance(one, ToolResult)]
    sizes = [len(text_of(one.content)) for one in results]
    intro = INTRO.format(
        sessions=len(sessions),
        agents=len({session.name.split("/")[0] for session in sessions}),
        results=len(results),
        chars=sum(sizes),
        longest=max(sizes),
        limit=OFFLOAD_TEXT_CHARS,
        line_chars=LINE_CHARS,
        passage_lines=PASSAGE_LINES,
        read=EXCERPT_CHARS,
    )
    lines = [intro, *(f"- {name}: {value}" for name, value in machine(options).items()), ""]
    lines += ["## Goal", "", "Every need in reach, by preview or by one read: 100 %.", ""]
    lines += table(
        ("setting", "needs", "in reach", "met"),
        [
            (
                one.name,
                f"{one.needs():,}",
                f"{one.share('preview', 'pattern', 'lines'):.2%}",
                "yes" if not one.missed else f"**no**: {len(one.missed)} missed",
            )
            for one in found
            if one.needs()
        ],
    )
    lines += ["## Tokens", ""]
    lines += table(
        ("setting", "results", "moved out", "tokens before", "after", "saved",
         "of those moved: before", "after", "a read"),
        [
            (
                one.name,
                f"{one.results:,}",
                f"{one.moved:,}",
                f"{one.tokens_before:,}",
                f"{one.tokens_after:,}",
                f"{1 - one.tokens_after / one.tokens_before:.1%}",
                f"{one.moved_before:,}",
                f"{one.moved_after:,}",
                f"{one.read_tokens / one.reads:,.0f}" if one.reads else "–",
            )
            for one in found
        ],
    )  # fmt: skip
    lines += ["## What comes up again, and where it is found", ""]
    lines += _ways(found, only_there=False)
    lines += ["Of these, what stood nowhere else:", ""]
    lines += _ways(found, only_there=True)
    lines += [
        "## Without knowing what to look for",
        "",
        "Of what the preview does not show, the share that the one read shows which the preview "
        "itself proposes.",
        "",
    ]
    lines += table(
        ("setting", "not in the preview", "proposed read shows"),
        [
            (
                one.name,
                f"{one.proposed.total():,}",
                f"{one.proposed[True] / one.proposed.total():.1%}",
            )
            for one in found
            if one.proposed
        ],
    )
    lines += _misses(found)
    return "\n".join(lines).rstrip() + "\n"


def _ways(found: Sequence[Found], *, only_there: bool) -> list[str]:
    rows = []
    for one in found:
        for kind in ("name", "line", "passage"):
            total = one.needs(kind, only_there=only_there)
            if total:
                shares = [
                    one.share(how, kind=kind, only_there=only_there)
                    for how in ("preview", "pattern", "lines", "no")
                ]
                rows.append(
                    (one.name, f"{kind}s", f"{total:,}", *(f"{share:.2%}" for share in shares))
                )
    return table(("setting", "what", "needs", "preview", "pattern", "lines", "not in one"), rows)


def _misses(found: Sequence[Found]) -> list[str]:
    lines = ["## What one read could not reach", ""]
    missed = [(one.name, session, need) for one in found for session, need in one.missed]
    if not missed:
        return [*lines, "Nothing in these sessions.", ""]
    for setting, _session, need in missed[:20]:
        rows = need.text.count("\n") + 1
        lines.append(f"- {setting}: a {need.kind} of {len(need.text):,} characters, {rows:,} lines")
    return [*lines, ""]


def machine(options: argparse.Namespace) -> dict[str, str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "../src") else ""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}",
        "python": platform.python_version(),
        "counter": COUNTER.name,
        "command": f"`python benchmarks/offload.py {' '.join(options.given)}`".replace(" `", "`"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with `agents` (or HOLDFAST_DATA)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--out", "--write", dest="out", type=Path, help="write the page here")
    options = parser.parse_args()
    options.given = [one for one in sys.argv[1:] if one != "--json"]
    folder = data_folder(options.data)
    if not folder.is_dir():
        print(f"no transcripts at {folder}: give --data or set HOLDFAST_DATA", file=sys.stderr)
        return 2
    sessions = read_sessions(folder)
    large = [one for session in sessions if (one := glued(session)) is not None]
    found = [play(name, sessions, room) for name, room in settings()]
    found.append(play(f"{len(large)} glued sessions, {OFFLOAD_TEXT_CHARS:,} characters", large,
                      Room(counter=COUNTER)))  # fmt: skip
    if options.json:
        print(json.dumps([
            {"setting": one.name, "results": one.results, "moved": one.moved,
             "tokens_before": one.tokens_before, "tokens_after": one.tokens_after,
             "needs": one.needs(), "preview": one.share("preview"),
             "in_reach": one.share("preview", "pattern", "lines")}
            for one in found
        ], indent=1))  # fmt: skip
    elif options.out is None:
        print(page(sessions, found, options))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page(sessions, found, options))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
