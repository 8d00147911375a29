"""How the logs in `v1/` were written: once, by the first code that wrote format version 1.

They are frozen. This script is kept to show what is in them and why; it refuses to write over
them. Clock and randomness are fixed, so the code of that day wrote the same bytes every time.

    python tests/corpus/make_v1.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    CallFailure,
    CallState,
    Checkpoint,
    Compaction,
    Epoch,
    Flush,
    InjectedContext,
    Label,
    Mode,
    ModelChange,
    OutputRef,
    Prune,
    PruneDecision,
    Rewind,
    ToolResult,
    ToolsAdded,
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.core.owners import NamedOwner
from holdfast.ports import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

AGENT = "main"


class Clock:
    """A quarter of a second passes between two looks."""

    def __init__(self) -> None:
        self.now = 1_763_000_000.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


class Maker:
    """Writes one log below a root."""

    def __init__(self, root: Path, session: str) -> None:
        self.key = SessionKey(AGENT, session)
        self.path = root / "agents" / AGENT / "sessions" / f"{session}.jsonl"
        self.store = JsonlStore(root, clock=Clock(), entropy=lambda _bits: 0x0ABCDEF)

    def append(self, *records: Record) -> tuple[str, ...]:
        return self.store.append(self.key, records, expect=ANY_HEAD).ids

    def append_raw(self, data: bytes) -> None:
        """What no Holdfast would write: another program, a crash, a bad disk."""
        with self.path.open("ab") as file:
            file.write(data)


def every_type(root: Path) -> None:
    """Each record type with every field it has, and text that is hard to carry."""
    made = Maker(root, "every-type")
    made.store.create(
        made.key,
        label="Every type: naïve 日本 🧪",
        parent_session="main/older",
        parent_record="18f3a2b4c5d6e7f801",
        reason="reset",
    )
    made.append(ModelChange(model="some-model-1", provider="some-provider", window=200_000))
    (first,) = made.append(User(content="What is in the file?\nTwo lines, a tab\tand more"))
    picture = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8="}}
    made.append(
        User(
            content=[{"type": "text", "text": 'and \u2028 \x1b[1m \\ " this?'}, picture], name="ada"
        )
    )
    sha256 = FileBlobs(root).put(b"the whole output, line by line\n" * 40)
    _asked, result, _other, answer = made.append(
        Assistant(
            content=[
                {"type": "thinking", "thinking": "Let me look.", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "I will read it. \ud83d\ude00 \ud800"},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a/b.txt"}},
                {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": None}},
            ],
            provider="some-provider",
            model="some-model-1",
            usage={"input_tokens": 1_204, "output_tokens": 88, "cache": {"read": 1_000}},
            stop_reason="tool_use",
        ),
        ToolResult(
            tool_use_id="toolu_1",
            content="the whole output, …",
            name="read",
            details={"exit": 0, "seconds": 0.125},
            output_ref=OutputRef(sha256=sha256, bytes=1_240, kind="text", lines=40),
        ),
        ToolResult(
            tool_use_id="toolu_2",
            content=[{"type": "text", "text": "no such file"}],
            is_error=True,
        ),
        Assistant(content="It holds forty lines.", stop_reason="end_turn"),
    )
    made.append(ToolUse(tool_use_id="toolu_3", name="write", input={"text": "x"}))
    made.append(ToolResult(tool_use_id="toolu_3"))
    made.append(Label(label="here it was", target=answer))
    made.append(Label(label="Every type"))
    made.append(User(content="No, not that."))
    made.append(Rewind(to=answer, reason="undo"))
    made.append(
        Prune(
            decisions=[
                PruneDecision(record=result, action="trim", tool_use_id="toolu_1"),
                PruneDecision(record=result, action="clear"),
            ],
            window=32_000,
            reason="pressure",
        )
    )
    made.append(Checkpoint(state={"objective": "read", "pending": ["b", 2, None]}, trigger="turn"))
    made.append(Flush(notes=["the file has 40 lines"], trigger="compaction", usage={"total": 7}))
    made.append(
        Compaction(
            summary="A file was read.",
            first_kept=answer,
            covers=(first, result),
            window=32_000,
            tokens_before=30_000,
            tokens_after=1_200,
            method="model",
            model="some-model-1",
            usage={"input_tokens": 30_000},
            cost=0.0125,
            reason="threshold",
        )
    )
    made.append(User(content="Thank you."))
    made.append(Assistant(content=None))
    made.store.close()


def unknown(root: Path) -> None:
    """Types and fields of a later version, or of somebody's own: kept as they are."""
    made = Maker(root, "unknown")
    made.store.create(made.key)
    made.append(
        User(content="hello", extra={"mood": "good", "tags": ["a", {"b": None}], "big": 2**53}),
        Unknown(type="vote", extra={"score": 0.5, "deep": {"er": [[], {}]}, "content": 7}),
        ToolResult(
            tool_use_id="t1",
            output_ref=OutputRef(sha256="ab" * 32, bytes=3, extra={"codec": "zstd", "level": 3}),
        ),
        Prune(decisions=[PruneDecision(record="r1", action="clear", extra={"why": "old"})]),
    )
    made.append_raw(b'{"type":"x-note","text":"no id, no time"}\n')
    made.append_raw(b'{"id":"their-own.id:1","type":"user","content":"x","ts":5,"v2_field":true}\n')
    made.append(User(content="after"))
    made.store.close()


def branches(root: Path) -> None:
    """Rewinds, parents further back, and a compaction on a branch that was left."""
    made = Maker(root, "branches")
    made.store.create(made.key, label="branches")
    (one,) = made.append(User(content="one"))
    (two,) = made.append(Assistant(content="two"))
    made.append(User(content="three, left behind"))
    made.append(Compaction(summary="left behind too", first_kept=two))
    made.append(Rewind(to=two, reason="another way"))
    made.append(User(content="four"), Assistant(content="five"))
    made.append(User(content="six, beside four", parent=one))
    made.append(Assistant(content="seven, the head"))
    made.store.close()


def torn(root: Path) -> None:
    """Appends that broke off, each sealed by the one after it."""
    made = Maker(root, "torn")
    made.store.create(made.key)
    made.append(User(content="before"))
    made.append_raw(b'{"type":"assistant","content":"half of a li')
    made.append(User(content="after a torn line"))
    made.append_raw(b'{"type":"user","id":"open-1","content":"first of three","more":2}\n')
    made.append_raw(b'{"type":"user","id":"open-2","content":"second of three","more":1}\n')
    made.append(User(content="after an open batch"), Assistant(content="and a whole one"))
    made.append_raw(b'{"type":"user","id":"no-newline","content":"whole but for its newline"}')
    made.append(User(content="after a missing newline"))
    made.append_raw(b'{"type":"user","content":"torn at the very end')
    made.store.close()


def damaged(root: Path) -> None:
    """Lines that are no records, ids that are used twice, parents that are not there."""
    made = Maker(root, "damaged")
    made.store.create(made.key)
    made.append(User(content="intact 1"))
    made.append_raw(b"this is not JSON\n")
    made.append_raw(bytes(64) + b"\n")
    made.append_raw(b'{"type":"user","content":"\xff\xfe"}\n')
    made.append_raw(b'{"type":"user","content":7}\n')
    made.append_raw(b'["type","user"]\n\n   \n')
    made.append(User(content="intact 2"))
    made.append_raw(b'{"type":"user","id":"twice","ts":1,"content":"the first"}\n')
    made.append_raw(b'{"type":"user","id":"twice","ts":1,"content":"the first"}\n')
    made.append_raw(b'{"type":"user","id":"twice","ts":2,"content":"another"}\n')
    made.append_raw(b'{"type":"user","id":"orphan","parent":"nobody","content":"bridged"}\n')
    made.append_raw(b'{"type":"user","id":"lone","ts":3,"content":"a lone \\ud800 here"}\n')
    made.append_raw(b'{"type":"tool_result","tool_use_id":"t","details":[NaN,-Infinity]}\n')
    made.append(Assistant(content="intact 3"))
    made.store.close()


def undone(root: Path) -> None:
    """Added with the record type `undo`: one compaction was taken back, the one before it holds."""
    made = Maker(root, "undone")
    made.store.create(made.key, label="undone")
    made.append(User(content="one"), Assistant(content="two"))
    (first,) = made.append(Compaction(summary="one and two"))
    (three,) = made.append(User(content="three"))
    made.append(Assistant(content="four"))
    (second,) = made.append(
        Compaction(summary="three and four", covers=(three, three), reason="asked for")
    )
    made.append(Undo(target=second, reason="it was needed"))
    made.append(User(content=f"five, after the boundary {first}"))
    made.store.close()


def owned(root: Path) -> None:
    """Added with the field `owner`: a session that another one spawned for a certain person."""
    made = Maker(root, "owned")
    made.store.create(
        made.key,
        label="for Ann",
        parent_session=f"{AGENT}/employer",
        parent_record="19a7ad5b9fa0abcdef",
        reason="spawn",
        owner=NamedOwner("ann@example.org"),
    )
    made.append(User(content="look it up"), Assistant(content="done"))
    made.store.close()


def continued(root: Path) -> None:
    """Added with the record type `mode` and the refs in blocks, details and compactions."""
    made = Maker(root, "continued")
    made.store.create(made.key, label="fresh each time")
    ref = {"sha256": "5" * 64, "bytes": 30_000, "kind": "image/png"}
    picture = {"type": "image", "data": "", "mimeType": "image/png", "output_refs": {"data": ref}}
    made.append(
        Mode(mode="fresh"),
        User(content=[{"type": "text", "text": "look"}, picture]),
        Assistant(content=[{"type": "tool_use", "id": "c1", "name": "log", "input": {}}]),
        ToolResult(
            tool_use_id="c1",
            content="[Preview …]",
            details={"exitCode": 0, "output_ref": {**ref, "kind": "details"}},
            output_ref=OutputRef(
                sha256="6" * 64, bytes=150_000, kind="log", lines=2_000, chars=150_000
            ),
        ),
        Assistant(content="seen"),
        Compaction(
            summary="They looked.",
            outputs=[{"ref": "6" * 16, "record": "r", "tool": "log", "chars": 150_000}],
        ),
        Mode(mode="fresh", continued_in="0123456789ab"),
    )
    made.store.close()


def informed(root: Path) -> None:
    """Added with the record type `context`."""
    made = Maker(root, "informed")
    made.store.create(made.key)
    made.append(
        InjectedContext(text="The build of main is red.", source="ci"),
        User(content="What is wrong?"),
        Assistant(content="The build."),
    )
    made.store.close()


def failed(root: Path) -> None:
    """Added with the record type `failure`, and with records that name a parent."""
    made = Maker(root, "failed")
    made.store.create(made.key)
    (asked,) = made.append(User(content="What is wrong?", extra={"chain": ["c0ffee"]}))
    made.append(
        CallFailure(cause="prompt is too long", failure="context_overflow", status=400),
        Assistant(content="The bu", extra={"cause": "the client hung up"}),
    )
    made.append(Assistant(content="The build.", parent=asked, extra={"chain": ["decade"]}))
    made.store.close()


def renewed(root: Path) -> None:
    """Added with the record type `epoch`, and the field `reasoning` of a prune."""
    made = Maker(root, "renewed")
    made.store.create(made.key)
    made.append(Epoch(cause="upgrade"))
    made.append(User(content="Which is it?"))
    (answer,) = made.append(
        Assistant(
            content=[
                {"type": "thinking", "thinking": "Let me look.", "signature": "c2lnbmF0dXJl"},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
            ]
        )
    )
    (result,) = made.append(ToolResult(tool_use_id="toolu_1", content="the first"))
    made.append(Epoch(cause="tools", detail="a tool was added", reasoning=1))
    made.append(
        Prune(
            decisions=[PruneDecision(record=result, action="clear", tool_use_id="toolu_1")],
            window=32_000,
            reasoning=1,
        )
    )
    made.append(
        Epoch(cause="refused", detail=f"of {answer}", reasoning=1, drops_reasoning=True),
        Assistant(content="The first."),
    )
    made.store.close()


def added(root: Path) -> None:
    """Added with the record type `tools`."""
    made = Maker(root, "added")
    made.store.create(made.key)
    made.append(User(content="Which is it?"))
    made.append(Assistant(content="The first."))
    made.append(User(content="Count its lines."))
    made.append(
        ToolsAdded(
            tools=[
                {
                    "name": "count_lines",
                    "description": "Count lines.",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                }
            ]
        )
    )
    made.append(Assistant(content="Twelve."))
    made.store.close()


def parked(root: Path) -> None:
    """Added with the record type `call` and the fields `pending` and `key` of results."""
    made = Maker(root, "parked")
    made.store.create(made.key)
    made.append(User(content="Refund 80 to Ada."))
    call = {"type": "tool_use", "id": "toolu_1", "name": "refund", "input": {"amount": 80}}
    (reply,) = made.append(Assistant(content=[call], stop_reason="tool_use"))
    key = f"0123456789abcdef-0-{reply}"
    about: Any = {"key": key, "call": "toolu_1", "reply": reply, "name": "refund"}
    made.append(
        CallState(
            **about,
            state="parked",
            arguments={"amount": 80},
            reason="above 50",
            until=1_763_086_400.0,
        )
    )
    made.append(
        ToolResult(tool_use_id="toolu_1", content="[It waits.]", name="refund", pending=True),
        User(content="And meanwhile?"),
    )
    made.append(Assistant(content="It waits for a person."))
    made.append(CallState(**about, state="parked", arguments={"amount": 80}, is_told=True))
    made.append(
        CallState(
            **about,
            state="approved",
            by="ops",
            reason="half of it",
            arguments={"amount": 40},
        ),
        CallState(**about, state="allowed", by="ops", reason="above 50"),
    )
    made.append(CallState(**about, state="started"))
    made.append(ToolResult(tool_use_id="toolu_1", content="refunded 40", name="refund", key=key))
    made.append(Assistant(content="Ada got 40."))
    made.store.close()


def main() -> None:
    root = Path(sys.argv[1])
    if root.exists():
        sys.exit(f"{root} is there already; frozen files are not written again")
    made = (every_type, unknown, branches, torn, damaged, undone, owned, continued, informed)
    for make in (*made, failed, renewed, added, parked):
        make(root)
    for note in root.glob("agents/*/sessions/*.writer"):
        note.unlink()


if __name__ == "__main__":
    main()
