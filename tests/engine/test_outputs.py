"""Reading back: by ref, from the session that holds it, in part, and never more than is held."""

from __future__ import annotations

import hashlib
import re
import tracemalloc
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.runs import is_whole

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Label,
    OutputRef,
    Rewind,
    ToolResult,
    User,
)
from holdfast.core.secrets.redaction import Redactor
from holdfast.engine.outputs import Outputs
from holdfast.engine.safe_regex import matcher
from holdfast.errors import AmbiguousName, BlobDamaged, BlobMissing, NoSuchOutput, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryBlobs, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = SessionKey("main", "work")
LOG = "".join(f"{number:05} something happened\n" for number in range(1, 5_001))


class Desk:
    """A session, its payloads, and who reads them."""

    def __init__(self, **options: Any) -> None:
        self.store = MemoryStore()
        self.blobs = MemoryBlobs()
        self.outputs = Outputs(self.store, self.blobs, **options)
        self.store.create(KEY)

    def offload(self, data: str | bytes, *, kind: str = "text", key: SessionKey = KEY) -> str:
        """Keep a payload, name it in the log, and return its hash."""
        raw = data.encode() if isinstance(data, str) else data
        sha256 = self.blobs.put(raw)
        ref = OutputRef(sha256=sha256, bytes=len(raw), kind=kind)
        self.append(ToolResult(tool_use_id="t", content="[preview]", output_ref=ref), key=key)
        return sha256

    def append(self, *records: Any, key: SessionKey = KEY) -> str:
        return self.store.append(key, records, expect=ANY_HEAD).ids[-1]


# What a ref stands for


@pytest.mark.parametrize("digits", [12, 16, 40, 64])
def test_outputs_are_found_by_the_beginning_of_their_hash(digits: int) -> None:
    """12 to 64 digits name a payload that the session holds."""
    desk = Desk()
    sha256 = desk.offload(LOG, kind="log")
    part = desk.outputs.read(KEY, sha256[:digits], lines="3:4")
    assert part.text == "00003 something happened\n00004 something happened\n"
    assert (part.kind, part.bytes, part.total_lines) == ("log", len(LOG), 5_000)
    assert part.ref == sha256[:16]


def test_outputs_are_found_by_their_record() -> None:
    """The id of a record stands for what was moved out of it."""
    desk = Desk()
    desk.offload(LOG)
    record = desk.store.head(KEY)
    assert desk.outputs.read(KEY, record, lines="1").text == "00001 something happened\n"


def test_outputs_are_found_however_long_ago_they_were() -> None:
    """Thousands of records later, and after a compaction, the ref still works."""
    desk = Desk()
    old = desk.offload("old")
    for start in range(0, 5_000, 1_000):
        desk.append(*(User(content=f"said {start + number}") for number in range(1_000)))
    desk.append(Compaction(summary="much was said", first_kept=desk.store.head(KEY)))
    assert desk.outputs.read(KEY, old[:16]).text == "old"


def test_outputs_of_an_abandoned_branch_are_found() -> None:
    """A rewind takes nothing out of the log."""
    desk = Desk()
    start = desk.append(User(content="begin"))
    gone = desk.offload("on a branch")
    desk.append(Rewind(to=start))
    assert desk.outputs.read(KEY, gone[:16]).text == "on a branch"


def test_outputs_of_details_and_blocks_are_found() -> None:
    """Every place in a record that can hold a ref counts."""
    desk = Desk()
    details, text = desk.blobs.put(b'{"all": 1}'), desk.blobs.put(b"a,b\n1,2\n")
    held = {"sha256": details, "bytes": 10, "kind": "details"}
    block = {
        "type": "document",
        "source": {"data": ""},
        "output_refs": {"source.data": {"sha256": text, "bytes": 8, "kind": "text/csv"}},
    }
    desk.append(ToolResult(tool_use_id="t", content="ok", details={"output_ref": held}))
    desk.append(User(content=[block]))
    assert desk.outputs.read(KEY, details[:16]).text == '{"all": 1}'
    assert desk.outputs.read(KEY, text[:16], pattern="^a").text.startswith("1:a,b\n")


def test_short_refs_must_name_one_output() -> None:
    """Two payloads whose hashes begin alike are both named; neither is read."""
    desk = Desk()
    for last in "12":
        sha256 = "abcdef012345" + last * 52
        ref = OutputRef(sha256=sha256, bytes=1, kind="text")
        desk.append(ToolResult(tool_use_id="t", output_ref=ref))
    with pytest.raises(AmbiguousName) as refused:
        desk.outputs.read(KEY, "abcdef012345")
    assert len(refused.value.candidates) == 2


@pytest.mark.parametrize(
    ("record", "text", "kind"),
    [
        (User(content="as it was said"), "as it was said", "text"),
        (
            User(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "a\nb",
            "text",
        ),
        (ToolResult(tool_use_id="t", content="short"), "short", "text"),
        (ToolResult(tool_use_id="t"), "", "text"),
        (Compaction(summary="what was"), "what was", "text"),
    ],
)
def test_records_that_were_never_moved_out_are_read_by_id(
    record: Any, text: str, kind: str
) -> None:
    """What a view has cut or cleared is in the record, and its id is the ref."""
    desk = Desk()
    part = desk.outputs.read(KEY, desk.append(record))
    assert (part.text, part.kind, part.bytes) == (text, kind, len(text.encode()))


def test_records_with_blocks_are_read_as_json() -> None:
    """Calls and other blocks have no text of their own: their JSON is shown, indented."""
    desk = Desk()
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls"}}
    part = desk.outputs.read(KEY, desk.append(Assistant(content=[call])))
    assert msgspec.json.decode(part.text) == [call]
    assert part.total_lines > 5
    label = desk.outputs.read(KEY, desk.append(Label(label="mine")))
    assert msgspec.json.decode(label.text)["label"] == "mine"


# Refusals


@pytest.mark.parametrize("ref", ["abcdef01234", "0" * 65, "A" * 64, "no-such-record", "@99", ""])
def test_refs_that_name_nothing_are_refused(ref: str) -> None:
    """Said with the ref, the session, and what to do."""
    desk = Desk()
    desk.offload(LOG)
    with pytest.raises(NoSuchOutput, match="work") as refused:
        desk.outputs.read(KEY, ref)
    assert refused.value.hint


def test_outputs_that_are_gone_or_damaged_are_refused() -> None:
    """A ref whose payload is not there, or is larger than it was, is an error and no text."""
    desk = Desk()
    missing = OutputRef(sha256="ab" * 32, bytes=3, kind="text")
    larger = OutputRef(sha256=desk.blobs.put(b"four"), bytes=3, kind="text")
    for ref, error in ((missing, BlobMissing), (larger, BlobDamaged)):
        desk.append(ToolResult(tool_use_id="t", output_ref=ref))
        with pytest.raises(error):
            desk.outputs.read(KEY, ref.sha256[:16])


def test_patterns_that_are_none_are_refused() -> None:
    """With what is wrong about it."""
    desk = Desk()
    ref = desk.offload(LOG)[:16]
    with pytest.raises(UsageError, match=r"not a regular expression: missing \)"):
        desk.outputs.read(KEY, ref, pattern="(open")


def test_patterns_that_take_too_long_are_given_up() -> None:
    """The time all searches of one read may take is one deadline."""
    ticks = iter(range(1_000))
    match = matcher("[a]", seconds=10, clock=lambda: float(next(ticks)))
    found = [match("xxa", 0) for _ in range(9)]
    assert found == [(2, 3)] * 9
    with pytest.raises(UsageError, match="10 s and was given up") as refused:
        match("xxa", 0)
    assert refused.value.hint


@pytest.mark.parametrize(
    "pattern", ["(?R)", "(a(?1)?b)", "(?P<x>a)(?&x)", "(?P<x>a)(?P>x)", "(?+1)"]
)
def test_patterns_that_call_themselves_are_refused(pattern: str) -> None:
    """They would take all the memory there is before any deadline."""
    with pytest.raises(UsageError, match="calls itself"):
        matcher(pattern)


@pytest.mark.parametrize("pattern", [r"\(\?R\)", "(?i)a", "(?-i:a)", "(?:a)?", "(?P<x>a)(?P=x)"])
def test_patterns_that_only_look_like_it_are_taken(pattern: str) -> None:
    """Groups, flags and what is meant literally."""
    assert matcher(pattern)("(?R) aa", 0) is not None


def test_patterns_without_special_characters_are_plain_words() -> None:
    """They need no deadline: whoever searches 200 MB for a word gets it."""
    match = matcher("a b", seconds=0.0)
    assert [match("xa b", 0), match("xa b", 2), match("", 0)] == [(1, 4), None, None]


def test_patterns_that_explode_are_given_up() -> None:
    """Nested repetition without end is stopped from inside the search."""
    match = matcher(r"(\w+\s?)+(?=x)(\w*)*$", seconds=0.05)
    with pytest.raises(UsageError, match="given up"):
        match("a" * 4_000 + "!", 0)


class SlowSearch:
    """Stands for `regex` on a busy machine: time passes faster than it is given CPU."""

    def __init__(self, load: float, needed: float) -> None:
        self._load, self._needed = load, needed
        self.now = 0.0

    def search(self, text: str, start: int, timeout: float) -> re.Match[str] | None:
        self.now += self._load * min(timeout, self._needed)
        if timeout < self._needed:
            raise TimeoutError
        return re.search("$", text)


@pytest.mark.parametrize("load", [1.0, 4.0, 40.0])
def test_deadline_holds_on_a_busy_machine(load: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """`regex` counts CPU time; several times as much time passes as this process gets."""
    search = SlowSearch(load, needed=inf)
    monkeypatch.setattr("regex.compile", lambda _: search)
    match = matcher("a*", seconds=10.0, clock=lambda: search.now)
    with pytest.raises(UsageError, match="given up"):
        match("a", 0)
    assert search.now <= 10.0 + 1e-9


def test_slow_search_gets_all_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that its first share of the time is too short for begins again with more."""
    search = SlowSearch(load=4.0, needed=0.7)
    monkeypatch.setattr("regex.compile", lambda _: search)
    match = matcher("a*", seconds=10.0, clock=lambda: search.now)
    assert match("abc", 0) == (3, 3)


# What is masked stays masked


def test_outputs_are_masked_before_they_are_selected() -> None:
    """A secret is found neither by place nor by searching for it, nor by its two halves."""
    secret = "zebra-9f8e7d6c5b4a"
    desk = Desk(redactor=Redactor({"API_KEY": secret}))
    ref = desk.offload(f"one\ntoken={secret}\nthree\n" * 50)[:16]
    whole = desk.outputs.read(KEY, ref)
    assert secret not in whole.text
    assert whole.total_lines == 150
    for start in range(len("one\ntoken=") - 3, len("one\ntoken=") + 12):
        part = desk.outputs.read(KEY, ref, offset=start, max_chars=256)
        assert secret[:9] not in part.text
    assert desk.outputs.read(KEY, ref, pattern=secret[:8]).matches == 0
    assert desk.outputs.read(KEY, ref, lines="-1").text == "three\n"
    assert secret not in "".join(desk.outputs.text(KEY, ref))
    assert secret.encode() in b"".join(desk.outputs.payload(KEY, ref))


# Binary


def test_pictures_are_described_and_not_shown() -> None:
    """Media type, bytes, dimensions, and how to have the file."""
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    desk = Desk()
    ref = desk.offload(png + b"\0" * 3_000_000, kind="image/png")[:16]
    part = desk.outputs.read(KEY, ref)
    assert (part.text, part.kind, part.bytes) == ("", "image/png", 3_000_024)
    assert "640 × 480" in part.note
    assert f"holdfast output {ref} -o FILE" in part.note


# Bounded


class Giant:
    """A blob store with one payload of 40 MB (nightly: 200 MB) that nobody ever holds."""

    block = b"".join(b"%07d %s\n" % (n, b"nothing to see here " * 100) for n in range(500))
    sha256 = hashlib.sha256(b"giant").hexdigest()
    blocks = 210 if is_whole() else 40
    size_bytes = len(block) * blocks

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        assert sha256 == self.sha256
        for _ in range(self.blocks):
            yield self.block
        yield b"the needle\n"


@pytest.mark.parametrize(
    "asked",
    [
        {"offset": Giant.size_bytes * 9 // 10},
        {"lines": f"{Giant.blocks * 480}:"},
        {"lines": "-3:"},
        {"pattern": "needle"},
    ],
)
def test_giant_outputs_are_read_in_bounded_memory(asked: dict[str, Any]) -> None:
    """Only what is shown and one piece are held, wherever in the output it is."""
    assert Giant.size_bytes > 3 * 12 * len(Giant.block)
    store = MemoryStore()
    store.create(KEY)
    ref = OutputRef(sha256=Giant.sha256, bytes=Giant.size_bytes, kind="log")
    store.append(KEY, [ToolResult(tool_use_id="t", output_ref=ref)], expect=ANY_HEAD)
    outputs = Outputs(store, Giant())  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        part = outputs.read(KEY, Giant.sha256[:16], **asked)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert part.total_chars == Giant.size_bytes + 11
    assert part.text
    assert peak < 12 * len(Giant.block)
