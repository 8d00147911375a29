"""Parts of an importer: the source it reads, the session it drafts, what it left out.

Importers are pure: bytes in, records out. They never repair a conversation. Unanswered calls,
orphan results and blank ids are carried as they are found, because a projection repairs its own
copy and says so; an importer that did it here would hide it from everybody.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard

import msgspec

from holdfast.core.limits import ID_CHARS_MAX, LABEL_CHARS_MAX, LINE_BYTES_MAX
from holdfast.core.log.ids import check_record_id, is_name
from holdfast.core.log.records import (
    Assistant,
    Json,
    Label,
    Record,
    ToolResult,
    User,
    encode,
    text_of,
    to_json,
)
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadId, BadRecord, UsageError
from holdfast.importers.common.harness import refusal, user_extra
from holdfast.importers.common.parsing import (
    NOT_JSON,
    Line,
    as_utf8,
    describe_start,
    parse,
    parse_noting,
    plain,
    read_lines,
    seconds,
    split_lines,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.log.records import Content


_NAMES: Final = ("cwd", "workdir", "working_directory", "workingDirectory", "directory")
_INSIDE: Final = ("payload", "session_meta", "info", "meta", "metadata", "data", "context")


def folder_in(head: Iterable[Json]) -> str:
    """Return the first working directory that the first lines of a file name; empty if none."""
    for line in head:
        inner = (line.get(name) for name in _INSIDE)
        for value in (line, *inner):
            if isinstance(value, dict):
                found = (value.get(name) for name in _NAMES)
                folder = next((text for text in found if isinstance(text, str) and text), "")
                if folder:
                    return folder
    return ""


def keep_from(draft: Draft, place: int) -> str | None:
    """The id of the record at `place`, with which the kept part begins; None where it is empty."""
    if place >= len(draft.records):
        return None
    record = draft.records[place]
    if not record.id:
        record = msgspec.structs.replace(record, id=f"kept-{place}")
        draft.records[place] = record
    return record.id


def keep_users(draft: Draft, texts: Sequence[str]) -> list[Json] | None:
    """The user messages with these texts, oldest first, as the log has them; None for none.

    A text that no message has, because the tool had shortened it, stands for itself.
    """
    kept: list[Json] = []
    end = len(draft.records)
    for number, text in enumerate(reversed(texts)):
        places = range(end - 1, -1, -1)
        place = next((at for at in places if _says(draft, at, text)), None)
        if place is None:
            made = User(content=text, id=f"kept-{len(draft.records)}-{number}")
            kept.append(to_json(made))
        else:
            keep_from(draft, place)
            kept.append(to_json(draft.records[place]))
            end = place
    return kept[::-1] or None


def _says(draft: Draft, place: int, text: str) -> bool:
    record = draft.records[place]
    return isinstance(record, User) and text_of(record.content) == text


DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""A file that is one JSON document or one text is parsed as a whole, at several times its size in
memory; one that has a value a line is not."""

_ENDINGS: Final = lazy_pattern(r"(?i)(\.(gz|jsonl?|ndjson|traj|md|txt|log|shared)){1,8}$")

KNOWN_BLOCKS: Final = frozenset(
    (
        *("text", "input_text", "output_text", "summary_text", "refusal", "search_result"),
        *("image", "image_url", "input_image", "document", "file", "input_file", "video_url"),
        *("audio", "input_audio", "output_audio", "container_upload", "thinking", "reasoning"),
        *("redacted_thinking", "tool_use", "tool_result", "server_tool_use", "mcp_tool_use"),
        *("mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result", "compaction"),
        *("code_execution_tool_result", "bash_code_execution_tool_result", "tool_call"),
        *("text_editor_code_execution_tool_result", "tool_search_tool_result", "toolCall"),
        *("function_call", "tool-result", "tool-call", "tool_reference"),
    )
)
"""Kinds of blocks in the messages of the providers' APIs and of those who store them."""
HEAD_LINES: Final = 64
"""Lines that a detector may look at."""
_SOMETHING: Final = lazy_pattern(rb"\S")


class Skipped(msgspec.Struct, frozen=True):
    """Something in the source that did not become a record, why, and how often."""

    what: str
    """The part of the source that was not carried."""
    why: str
    """The reason."""
    count: int
    """The number of them."""


class Imported(msgspec.Struct, frozen=True):
    """One session found in a source."""

    name: str
    """A session id to propose; always valid."""
    format: str
    """The name of the format."""
    label: str
    """The session's title, where the source has one."""
    records: list[Record]
    """The conversation."""
    skipped: list[Skipped] = []
    """The parts that were not carried."""
    system: str = ""
    """The system prompt: no record, but part of every request that was made."""
    tools: list[Json] = []
    """The tools that were offered: `name`, `description`, `parameters` (a JSON schema)."""
    folder: str = ""
    """The working directory, where the source tells it."""
    abandoned: list[Record] = []
    """The replies of branches that were left: part of the bill, not of the conversation."""


class Importer(msgspec.Struct, frozen=True):
    """One format: how to recognise it and how to read it."""

    name: str
    """The name of the format."""
    help: str
    """One line about it."""
    detect: Callable[[Source], bool]
    """True for a source of this format."""
    read: Callable[[Source], list[Imported]]
    """The conversations of a source."""


class Source:
    """The bytes of one file, unpacked, and the ways to look at them. Lines are not kept parsed."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.flaws: Counter[tuple[str, str]] = Counter()
        self._has_told_lines = False
        self.data: Final = as_utf8(unpack(data, name, self.flaws))

    @property
    def stem(self) -> str:
        """The file's name without folders and the endings that say how it is stored."""
        name = re.split(r"[/\\]", self.name)[-1]
        return _ENDINGS.sub("", name).lstrip(".") or "imported"

    @property
    def folders(self) -> list[str]:
        return re.split(r"[/\\]", self.name)[:-1]

    @cached_property
    def value(self) -> Any:
        """The file as one JSON document; `NOT_JSON` where it is none."""
        data = self.data.lstrip()
        if data[:1] not in (b"{", b"["):
            return NOT_JSON
        end = data.find(b"\n")
        if end >= 0 and _SOMETHING.search(data, end) and parse(data[:end]) is not NOT_JSON:
            return NOT_JSON  # one value a line
        if len(data) > DOCUMENT_BYTES_MAX:
            if any(self._first_objects()):
                return NOT_JSON  # one value a line, the first of them damaged
            self._refuse_size("is one JSON document")
        return parse_noting(data, self.flaws)

    @property
    def lines(self) -> Iterator[Line]:
        """The file as one JSON object a line, each parsed as it is asked for.

        Lines that are none are counted as flaws, once however often the lines are read.
        """
        if isinstance(self.value, dict) and b"\n" not in self.data.strip():
            yield Line(1, self.value)
        elif self.value is NOT_JSON:
            flaws = Counter[tuple[str, str]]()
            yield from read_lines(self.data, flaws)
            if not self._has_told_lines:
                self._has_told_lines = True
                self.flaws.update(flaws)

    @cached_property
    def head(self) -> list[Json]:
        """The first lines, for detectors."""
        if isinstance(self.value, list):
            return []
        if isinstance(self.value, dict):
            return [self.value]
        return self._first_objects()

    @cached_property
    def text(self) -> str:
        if len(self.data) > DOCUMENT_BYTES_MAX:
            self._refuse_size("is one text")
        return self.data.decode(errors="replace")

    def describe(self) -> str:
        """Describe the bytes, for an error message."""
        if not self.data.strip():
            return "it is empty"
        if isinstance(self.value, dict):
            return f"a JSON object with {describe_fields(self.value)}"
        if isinstance(self.value, list):
            first = next(iter(mappings(self.value)), {})
            kind = f"of objects with {describe_fields(first)}" if first else "without objects"
            return f"a JSON list of {len(self.value):,} items, {kind}"
        if self.head:
            return f"JSON lines, the first with {describe_fields(self.head[0])}"
        return describe_start(self.data)

    def _first_objects(self) -> list[Json]:
        start = b"\n".join(islice(split_lines(self.data), HEAD_LINES))
        return [line.value for line in read_lines(start, Counter())]

    def _refuse_size(self, what: str) -> NoReturn:
        raise UsageError(
            f"`{self.name}` {what} of {len(self.data):,} bytes, more than {DOCUMENT_BYTES_MAX:,}",
            hint="split it, and import the conversations in it one by one",
        )


class Draft:
    """A session as it is put together: ids stay unique, and what cannot be carried is counted."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.label = ""
        self.system = ""
        self.tools: list[Json] = []
        self._ids: set[str] = set()
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._invented: set[str] = set()
        self._abandoned: list[Record] = []

    def skip(self, what: str, why: str, count: int = 1) -> None:
        if count > 0:
            self._skipped[what, why] += count

    def leave(self, branches: Draft, lines: int) -> None:
        """Leave out branches that a newer one took the place of. Their replies were paid for."""
        self.skip("abandoned branch", "a newer branch took its place", lines)
        self._abandoned += [record for record in branches.records if isinstance(record, Assistant)]

    def add(self, record: Record) -> None:
        """Take a record; an id that is no good, or taken, is left to the store."""
        if record.id and not self._takes(record.id):
            record = msgspec.structs.replace(record, id="")
        stored = self._storable(record)
        if stored is not None:
            if isinstance(stored, User | Assistant | ToolResult):
                _note_unknown(self, stored.content)
            self._ids |= {record.id} - {""}
            self.records.append(stored)

    def user(self, content: Content, *, record_id: str = "", ts: float = 0.0, **more: Any) -> None:
        more["extra"] = user_extra(content, more.get("extra", {}))
        self.add(User(content=content, id=record_id, ts=ts, **more))

    def assistant(
        self, content: Content, *, record_id: str = "", ts: float = 0.0, **more: Any
    ) -> None:
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                self._names[block["id"]] = text_at(block, "name")
                self._open[block["id"]] = self._names[block["id"]]
        self.add(Assistant(content=content, id=record_id, ts=ts, **more))

    def result(
        self, call_id: str, content: Content, *, record_id: str = "", ts: float = 0.0, **more: Any
    ) -> None:
        """A tool's result; its tool is looked up where the source does not name it."""
        name = more.pop("name", None) or self._names.get(call_id) or None
        self._open.pop(call_id, None)
        more.setdefault("refused", refusal(content))
        self.add(
            ToolResult(tool_use_id=call_id, content=content, name=name, id=record_id, ts=ts, **more)
        )

    def call_id(self, given: object = "") -> str:
        """A call's id; a call without one is told apart by its place."""
        if isinstance(given, str) and given:
            return given
        number = len(self._invented) + 1
        while (made := f"call-{number}") in self._names:
            number += 1
        self._invented.add(made)
        return made

    def answer_id(self, given: object = "", name: str = "") -> str:
        """Which call a result answers: the one it names, else the oldest that has no id."""
        named = text_or_empty(given)
        if named in self._names:
            return named
        waiting = [item for item in self._open if item in self._invented or not named]
        return next((item for item in waiting if name in ("", self._open[item])), "") or named

    def carry(self, record: Record) -> None:
        """A record that is one already: only its place in the tree is new."""
        self.add(msgspec.structs.replace(record, parent=None, more=None))

    def give_usage(self, usage: Json) -> bool:
        """Put a usage that came late to the newest message of the model, if that has none."""
        for place in range(len(self.records) - 1, -1, -1):
            record = self.records[place]
            if isinstance(record, Assistant):
                if record.usage is None:
                    self.records[place] = msgspec.structs.replace(record, usage=usage)
                    return True
                return False
        return False

    def title(self, target: str, label: str, *, record_id: str = "", ts: float = 0.0) -> None:
        """A name for one record; for the session itself set `label`."""
        if target in self._ids:
            self.add(Label(label=label, target=target, id=record_id, ts=ts))
        else:
            self.skip("label", "the record it names was not carried")

    def has(self, record_id: str) -> bool:
        return record_id in self._ids

    def finish(
        self, source: Source, kind: str, name: str = "", *, tells_flaws: bool = True
    ) -> Imported:
        """The finished session; of several in one file, the first tells the file's flaws."""
        found = Counter(self._skipped)
        if tells_flaws:
            found.update(source.flaws)
        return Imported(
            name=session_name(name or source.stem),
            format=kind,
            label=cut(
                " ".join(self.label.split()), LABEL_CHARS_MAX, keep="head", marker=ellipsis
            ).text,
            records=self.records,
            skipped=[Skipped(what, why, count) for (what, why), count in found.items()],
            system=scrub(self.system),
            tools=self.tools,
            abandoned=self._abandoned,
        )

    def add_system(self, content: Content) -> None:
        """Add a message to the system prompt; what is not text is counted."""
        if isinstance(content, list):
            lost = [block for block in content if block.get("type") != "text"]
            for block in lost:
                kind = text_at(block, "type")[:40]
                what = f"block of the kind {kind!r}" if kind else "block without a kind"
                self.skip(what, "not in the system prompt, which is a text")
            texts = (block.get("text") for block in content if block not in lost)
            content = "\n".join(filter(is_text, texts))
        self.system = "\n\n".join(filter(None, [self.system, content]))

    def _takes(self, record_id: str) -> bool:
        try:
            check_record_id(record_id)
        except BadId:
            return False
        return record_id not in self._ids

    def _storable(self, record: Record) -> Record | None:
        try:
            size = len(encode(record))
        except BadRecord:
            record = plain(record)
            try:
                size = len(encode(record))
            except BadRecord as error:
                self.skip(f"{record.kind} message", f"it cannot be stored: {error}")
                return None
        if size > LINE_BYTES_MAX:
            self.skip(
                f"{record.kind} message",
                f"larger than a line of a log may be ({LINE_BYTES_MAX:,} bytes)",
            )
            return None
        return record


def session_name(text: str) -> str:
    """The nearest valid session id."""
    if is_name(text):
        return text
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:ID_CHARS_MAX].rstrip("-_")
    return name or "imported"


def names_for(base: str, count: int) -> list[str]:
    """Names for the sessions of one file; the first keeps the plain name as the file grows."""
    if count <= 1:
        return [base] * count
    width = ID_CHARS_MAX - len(f"-{count}")
    return [base if number == 1 else f"{base[:width]}-{number}" for number in range(1, count + 1)]


def unique_names(names: list[str]) -> list[str]:
    """The names as they are, and a number behind each that was there before."""
    taken, numbers, unique = set[str](), dict[str, int](), list[str]()
    for name in map(session_name, names):
        number, made = numbers.get(name.casefold(), 1), name
        while made.casefold() in taken:  # a store tells no names apart that differ in case only
            number += 1
            made = f"{name[: ID_CHARS_MAX - len(f'-{number}')]}-{number}"
        taken.add(made.casefold())
        numbers[name.casefold()] = number
        unique.append(made)
    return unique


def path_to(head: int | None, parents: Sequence[int | None]) -> set[int]:
    """The places on the way from the root of a tree to `head`. Parents come first, so it ends."""
    path: set[int] = set()
    while head is not None:
        path.add(head)
        head = parents[head]
    return path


def finish(source: Source, kind: str, sessions: list[tuple[str, Draft]]) -> list[Imported]:
    """The sessions of a file that holds many, under names of their own."""
    names = unique_names([name for name, _draft in sessions])
    return [
        draft.finish(source, kind, name, tells_flaws=number == 0)
        for number, (name, (_name, draft)) in enumerate(zip(names, sessions, strict=True))
    ]


def read_each(
    source: Source, kind: str, found: Sequence[Json], carry: Callable[[Draft, Json], str]
) -> list[Imported]:
    """Read each conversation of a file; `carry` returns its name, or nothing for one by number."""
    sessions: list[tuple[str, Draft]] = []
    for value, name in zip(found, names_for(source.stem, len(found)), strict=True):
        draft = Draft()
        sessions.append((carry(draft, value) or name, draft))
    return finish(source, kind, sessions)


def about_line(value: Json, *stamps: str, name: str = "id") -> dict[str, Any]:
    """Return the fields that a record takes from its line: the id, and the first time there is."""
    found = next(filter(None, map(value.get, stamps or ("timestamp",))), None)
    return {"record_id": text_at(value, name), "ts": seconds(found)}


def text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def text_at(value: Json, *names: str) -> str:
    """Return the first of these fields that is not empty, if it is a text."""
    found = next(filter(None, map(value.get, names)), "")
    return found if isinstance(found, str) else ""


def mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[Json]:
    """The objects in a list; other items are not there."""
    return [item for item in listing(value) if isinstance(item, dict)]


def integer(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 2**63 else None


def is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def describe_fields(value: Json) -> str:
    shown = ", ".join(f"`{cut(str(name), 40, marker=ellipsis).text}`" for name in list(value)[:8])
    more = f" and {len(value) - 8} more" if len(value) > 8 else ""
    return f"the fields {shown}{more}" if value else "no fields"


def _note_unknown(draft: Draft, content: Content | None) -> None:
    """Count the blocks that no one knows how to read."""
    why = "kept as it is, but not understood"
    for block in content if isinstance(content, list) else ():
        kind = block.get("type")
        if is_text(kind) and kind not in KNOWN_BLOCKS:
            draft.skip(f"block of the kind {kind[:40]!r}", why)
        elif not is_text(kind) and not is_text(block.get("text")):
            draft.skip("block without a kind", why)


_SPEAKERS: Final = ("role", "from", "sender", "speaker", "author", "type")
_SAYINGS: Final = ("content", "text", "parts", "message", "value")
_ITEMS: Final = 8
"""Of a list, from both ends: they tell whether it was read."""
_CHARS: Final = 60
_CHARS_MIN: Final = 8
"""A shorter text is found in any session."""


def list_siblings(document: Any, sessions: Sequence[Imported]) -> list[Skipped]:
    """Return the lists of messages in a document of which no word came into a session, where the
    object that has them has another list of messages, too."""
    beside = list(_lists_of_messages(document))
    if not beside:
        return []
    known = "".join(
        _bare(text)
        for session in sessions
        for record in session.records
        for text in _sibling_texts(msgspec.to_builtins(record))
    )
    known += "".join(
        _bare(text)
        for session in sessions
        for text in (session.system, *_sibling_texts(session.tools))
    )
    lost: Counter[str] = Counter()
    for name, messages in beside:
        asked = [
            text
            for message in (*messages[:_ITEMS], *messages[-_ITEMS:])
            for text in _telling(message)
        ]
        if asked and not any(text in known for text in asked):
            lost[name] += len(messages)
    why = "messages beside the messages; they are not read"
    return [Skipped(f"field `{name[:60]}`", why, count) for name, count in lost.items()]


def _lists_of_messages(document: Any) -> Iterator[tuple[str, list[Json]]]:
    """Yield every list of messages that stands beside another one, with its name."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += [item for item in value if isinstance(item, dict | list)]
        elif isinstance(value, dict):
            found = {name: item for name, item in value.items() if holds_messages(item)}
            if len(found) > 1:
                yield from found.items()
            waiting += [item for item in value.values() if isinstance(item, dict | list)]


def holds_messages(value: object) -> bool:
    """Return whether a value is a list of messages, or of the blocks of one."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and any(isinstance(value.get(name), str) for name in _SPEAKERS)
        and any(value.get(name) for name in _SAYINGS)
    )


def _telling(message: Json) -> list[str]:
    """The beginning of the longest text that a message says."""
    said = [_bare(text) for name in _SAYINGS for text in _sibling_texts(message.get(name))]
    longest = max(said, key=len, default="")[:_CHARS]
    return [longest] if len(longest) >= _CHARS_MIN else []


def _sibling_texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _bare(text: str) -> str:
    return "".join(char for char in text if char.isalnum())
