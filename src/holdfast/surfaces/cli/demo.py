"""`demo`: kill a writer in the middle of its work, again and again, and see what survives."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import msgspec

from holdfast.config import Settings
from holdfast.core.ids import SessionKey
from holdfast.core.records import MESSAGES, Record, User, encode, text_of
from holdfast.core.text import cut, ellipsis
from holdfast.surfaces.cli import demo_window
from holdfast.surfaces.cli.app import App, Command
from holdfast.surfaces.cli.care import show_findings
from holdfast.surfaces.cli.output import Cell, paint, size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_KEY: Final = SessionKey("main", "demo")
_AHEAD: Final = 40
"""How many records the writer is given before it has acknowledged them."""
_TURNS: Final = (
    ("Which tests fail?", "run_tests", "2 failed, 118 passed: test_reopen, test_seal"),
    ("Show me test_seal.", "read_file", "def test_seal(store): ...  # 41 lines"),
    ("What does the log look like at byte 4,096?", "read_bytes", '{"type":"user","con'),
    ("Write the fix.", "edit_file", "stores/log.py: 3 lines changed"),
    ("Run it again.", "run_tests", "120 passed"),
)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="how often (%(default)s)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the session there to look at")


def _demo(args: argparse.Namespace, app: App) -> int:
    with _folder(args.keep) as root:
        inner = App(Settings(root=root), app.out)
        with inner.store:
            crashes = _crash_course(inner, args.kills)
            torn = _tear(inner)
            head = _carry_on(inner)
            report = inner.store.verify(_KEY)
            if not app.out.is_json:
                _tell_ending(inner, torn, lost=sum(crash.lost for crash in crashes))
            window = demo_window.tell(inner)
            if app.out.is_json:
                app.out.json({**_result(crashes, torn, head, report.records), **window})
            else:
                _tell_where(inner, args.keep)
    return 0 if all(not crash.lost for crash in crashes) else 1


@contextmanager
def _folder(keep: str | None) -> Iterator[str]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        yield folder


# The crashes


@dataclass(frozen=True, slots=True)
class _Crash:
    """One killed writer."""

    pid: int
    sent: int
    acknowledged: int
    survived: int
    lost: int


def _crash_course(app: App, kills: int) -> list[_Crash]:
    _say(app, "A writer stores an agent's turns, one record after another. A record counts once")
    _say(app, "it is acknowledged. We kill the writer with SIGKILL at random moments and look.")
    _say(app, "")
    dice = random.Random()  # noqa: S311 - for the moment of the kill
    crashes: list[_Crash] = []
    for number in range(1, kills + 1):
        crash = _kill_a_writer(app, dice)
        crashes.append(crash)
        verdict = (
            paint(f"{crash.lost} LOST", "bad", sys.stdout)
            if crash.lost
            else paint("nothing lost", "good", sys.stdout)
        )
        _say(
            app,
            f"  {number}. writer {crash.pid} killed: {crash.sent:>5,} records sent, "
            f"{crash.acknowledged:>5,} acknowledged, {crash.survived:>5,} found again: "
            f"{verdict}",
        )
    return crashes


def _kill_a_writer(app: App, dice: random.Random) -> _Crash:
    writer = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "append", _KEY.session, "--create"),
            *(f"--root={app.settings.root}", f"--agent={_KEY.agent}"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    before = _messages(app)
    acknowledged: list[str] = []
    listener = threading.Thread(target=_listen, args=(writer.stdout, acknowledged))
    listener.start()
    sent, moment = 0, dice.randrange(100, 1_000)
    while len(acknowledged) < moment:
        if sent - len(acknowledged) > _AHEAD:
            time.sleep(0.0005)
            continue
        writer.stdin.write(b"".join(_turn_lines(sent)))
        writer.stdin.flush()
        sent += 4
    os.kill(writer.pid, signal.SIGKILL)
    listener.join()
    for stream in (writer.stdin, writer.stdout):
        with suppress(BrokenPipeError):
            stream.close()
    writer.wait()
    after = _messages(app)
    lost = len(set(acknowledged) - after)
    return _Crash(writer.pid, sent, len(acknowledged), len(after - before), lost)


def _listen(stream: IO[bytes], acknowledged: list[str]) -> None:
    acknowledged.extend(msgspec.json.decode(line)["id"] for line in stream if line[-1:] == b"\n")


def _turn_lines(number: int) -> Iterator[bytes]:
    question, tool, result = _TURNS[number // 4 % len(_TURNS)]
    call = {"type": "tool_use", "id": f"call_{number}", "name": tool, "input": {}}
    for record in (
        {"type": "user", "content": question},
        {"type": "assistant", "content": [call]},
        {"type": "tool_result", "tool_use_id": f"call_{number}", "content": result},
        {"type": "assistant", "content": [{"type": "text", "text": f"{tool}: {result}"}]},
    ):
        yield msgspec.json.encode(record) + b"\n"


def _records(app: App) -> list[Record]:
    if not any(info.key == _KEY for info in app.sessions()):
        return []
    return list(app.store.read(_KEY))


def _messages(app: App) -> set[str]:
    return {record.id for record in _records(app) if record.kind in MESSAGES}


# The torn write, and life after it


def _tear(app: App) -> int:
    """What a power cut leaves: half a line at the end of the file."""
    path = os.path.join(app.settings.root, "agents", "main", "sessions", "demo.jsonl")
    half = b'{"type":"user","id":"019a8f","ts":1763222400.5,"content":"Please rememb'
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, half)
    finally:
        os.close(fd)
    _say(app, "")
    _say(app, f"Now a power cut in the middle of a write: {len(half)} bytes of a line that never")
    _say(app, "ended are put at the end of the file. `holdfast verify` sees:")
    if not app.out.is_json:
        show_findings(app, app.store.verify(_KEY).findings)
    return len(half)


def _carry_on(app: App) -> str:
    before = [record.id for record in _records(app)]
    done = app.store.append(_KEY, [User(content="Where were we?")], expect=before[-1])
    after = _records(app)
    assert [record.id for record in after[:-1]] == before
    newest = after[-1]
    assert isinstance(newest, User)
    _say(app, "The next append seals it off, keeps the bytes for inspection, and goes on:")
    _say(app, f"  {newest.id}  user  {text_of(newest.content)}")
    assert done.sealed is not None
    return done.head


def _tell_ending(app: App, torn: int, *, lost: int) -> None:
    report = app.store.verify(_KEY)
    app.out.line()
    app.out.table(
        ("In the end", ">"),
        [
            ["records", f"{report.records:,}"],
            ["size of the log", size_text(report.bytes)],
            ["bytes of unfinished appends, kept aside", f"{torn:,}"],
            ["acknowledged records lost", Cell(f"{lost:,}", "bad" if lost else "good")],
        ],
    )
    app.out.line("The log is plain JSON lines:")
    for record in app.store.last(_KEY, 3):
        app.out.line("  " + cut(encode(record).decode(), 96, keep="head", marker=ellipsis).text)


def _tell_where(app: App, keep: str | None) -> None:
    app.out.line()
    if keep:
        app.out.line("Both sessions are yours to look at:")
        app.out.line(f"  holdfast log demo -n 20 --root {keep}")
        app.out.line(f"  holdfast context long --window 32000 --explain --root {keep}")
    else:
        app.out.line("Try it yourself: `holdfast demo --keep FOLDER`, then look around in it;")
        app.out.line("or `holdfast inspect FILE` with a transcript of any agent you use.")


def _result(crashes: list[_Crash], torn: int, head: str, records: int) -> dict[str, object]:
    return {
        "kills": len(crashes),
        "acknowledged": sum(crash.acknowledged for crash in crashes),
        "lost": sum(crash.lost for crash in crashes),
        "torn_bytes": torn,
        "records": records,
        "head": head,
    }


def _say(app: App, text: str) -> None:
    if not app.out.is_json:
        app.out.line(text)
        sys.stdout.flush()


COMMANDS = (
    Command(
        "demo",
        "Kill a writer and see what survives; outgrow a window and see what is sent",
        _add_demo,
        _demo,
    ),
)
