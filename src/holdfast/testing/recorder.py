"""Recordings of an agent at work, for demos, tests and benchmarks.

    python -m holdfast.testing.recorder --project . --out recording.jsonl.gz

A script (TOML) says what the user says, which tools the agent calls and what it answers. What the
tools return is what they really returned: files of the project are read, commands are run, files
are written in a scratch folder. The result is a session log without ids and times, gzipped, that
begins with a `checkpoint` record for the system prompt and the facts someone may check later.

Nothing of the machine gets into it: the project is `/project`, the scratch folder `/scratch`, and a
recording that still names the home folder, the host or another folder of the machine is refused.
"""

from __future__ import annotations

import argparse
import gzip
import os
import pwd
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Checkpoint, Json, ToolResult, User, encode
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed, decode_typed
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn.options import Limits
from holdfast.engine.session.session import Session
from holdfast.engine.tool_values import ToolOutput
from holdfast.errors import UsageError
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import Reply

SCRIPT: Final = Path(__file__).parent / "recorder_script.toml"
"""Work on this repository."""
TRIGGER: Final = "recording"
"""The text of the checkpoint at the beginning of a recording."""
_WINDOW: Final = 10_000_000
"""Nothing is to be cut while it is recorded."""
_OUTPUT_CHARS: Final = 40_000
"""The most characters that a tool returns."""
_COMMAND_SECONDS: Final = 120  # no test of the demo takes longer
_LINES: Final = 400  # as much as the tool returns at once


class ScriptedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply of the agent that asks for tools."""

    calls: list[Json]
    """Each has the name of its `tool`; the rest are its arguments."""
    say: str = ""
    interrupt: bool = False
    """True if a replay may kill the agent while this runs."""

    def read(self) -> list[tuple[str, Json]]:
        """The name and the arguments of each call."""
        return [(call["tool"], _without(call, "tool")) for call in self.calls]


class ScriptedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    answer: str
    steps: list[ScriptedStep] = []
    after_minutes: int = 0
    """Minutes that the user was away before."""


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that must not be forgotten."""

    what: str
    """A description for people."""
    text: str
    """Its text, word for word."""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    system: str
    turns: list[ScriptedTurn]
    facts: list[Fact] = []


def load_script(path: Path) -> Script:
    """A script from its file. Raises `UsageError` with what is wrong with it."""
    try:
        return convert_typed(tomllib.loads(path.read_text("utf-8")), Script)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"`{path}` cannot be read as a script: {error}",
            hint=f"`{SCRIPT.name}` beside the recorder shows what one looks like",
        ) from error


# The tools


class Workbench:
    """The agent's workbench: a project it may read and run, a scratch folder it may write."""

    def __init__(self, project: Path, scratch: Path) -> None:
        self.project = project.resolve()
        self.scratch = scratch.resolve()

    def tools(self) -> list[Callable[..., Any]]:
        return [
            *(self.list_directory, self.read_file, self.search),
            *(self.run_command, self.write_file, self.append_line),
        ]

    def list_directory(self, path: str = ".") -> str:
        """List a folder of the project: a line for each entry, folders end with a slash."""
        found = sorted(self._inside(path).iterdir())
        shown = [item for item in found if not item.name.startswith((".", "__pycache__"))]
        return "\n".join(item.name + "/" * item.is_dir() for item in shown)

    def read_file(self, path: str, start: int = 1, lines: int = _LINES) -> str:
        """Read a text file, with line numbers.

        Args:
            path: relative to the project, or below /scratch
            start: the first line
            lines: how many
        """
        text = self._inside(path).read_text("utf-8").splitlines()
        shown = text[start - 1 : start - 1 + lines]
        left = len(text) - (start - 1 + len(shown))
        numbered = "\n".join(f"{number:5}  {line}" for number, line in enumerate(shown, start))
        return numbered + (f"\n[{left} more lines]" if left > 0 else "")

    def search(self, pattern: str, path: str = "src") -> str:
        """Search the project's Python and Markdown files for a regular expression."""
        expression, found = re.compile(pattern), []
        base = self._inside(path)
        files = [base] if base.is_file() else sorted(base.rglob("*"))
        for file in files:
            if file.suffix in (".py", ".md", ".toml") and "/." not in str(file):
                for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                    if expression.search(line):
                        found.append(f"{self._file_name(file)}:{number}: {line.strip()}")
        return cut("\n".join(found) or "no match", _OUTPUT_CHARS).text

    def run_command(self, command: str) -> ToolOutput:
        """Run a command in the project, without a shell; its output and exit status."""
        words = [self._real(word) for word in shlex.split(command)]
        if words[0] == "python":
            words[0] = sys.executable
        done = subprocess.run(
            words,
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_SECONDS,
        )
        said = cut(done.stdout.decode(errors="replace").rstrip(), _OUTPUT_CHARS).text
        is_error = done.returncode != 0
        ending = f"[exit status {done.returncode}]" if is_error or not said else ""
        return ToolOutput("\n".join(filter(None, (said, ending))), is_error=is_error)

    def write_file(self, path: str, text: str) -> str:
        """Write a file below /scratch."""
        file = self._writable(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return f"{path}: {len(text.splitlines())} lines written"

    def append_line(self, path: str, line: str) -> str:
        """Add a line at the end of a file below /scratch."""
        with self._writable(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return f"{path}: 1 line added"

    def _real(self, word: str) -> str:
        return word.replace("/scratch", str(self.scratch)) if "/scratch" in word else word

    def _inside(self, path: str) -> Path:
        if path.startswith("/scratch"):
            return self._writable(path)
        found = (self.project / path).resolve()
        if not found.is_relative_to(self.project):
            raise PermissionError(f"{path} is outside the project")
        return found

    def _writable(self, path: str) -> Path:
        found = (self.scratch / path.removeprefix("/scratch").lstrip("/")).resolve()
        if not path.startswith("/scratch") or not found.is_relative_to(self.scratch):
            raise PermissionError(f"{path} is not below /scratch: nothing else may be written")
        return found

    def _file_name(self, file: Path) -> str:
        return (
            str(file.relative_to(self.project)) if file.is_relative_to(self.project) else file.name
        )

    def _environment(self) -> dict[str, str]:
        """The same everywhere, so that two recordings of one state are alike."""
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(self.project / "src"),
            "GIT_PAGER": "cat",
        }


# Recording


def record(script: Script, project: Path, scratch: Path) -> list[Record]:
    """Let the scripted agent work, in a session like any other, and return what it left behind."""
    bench = Workbench(project, scratch)
    model = ScriptedModel(_answers(script), window=_WINDOW)
    key = SessionKey("main", "recording")
    store = MemoryStore()
    store.create(key)
    with Session.open(
        key.session,
        store=store,
        model=model,
        system=script.system,
        tools=bench.tools(),
        limits=Limits(steps=1_000),
    ) as session:
        for turn in script.turns:
            session.say(turn.user)
        tools = session.plan().prompt.tools
    state: Json = {
        "title": script.title,
        "system": script.system,
        "tools": [msgspec.to_builtins(_untag(tool)) for tool in tools],
        "facts": msgspec.to_builtins(script.facts),
        "interrupt": _interrupted_call(script),
        "away_seconds": [60 * turn.after_minutes for turn in script.turns],
    }
    clean = Normaliser(bench)
    said = [
        _bare(item) for item in store.read(key) if isinstance(item, User | Assistant | ToolResult)
    ]
    opening = Checkpoint(state=state, trigger=TRIGGER)
    return [clean.record(item) for item in (opening, *_in_order(said))]


def write(records: Sequence[Record], path: Path) -> None:
    """Store a recording; the same records make the same bytes."""
    lines = b"".join(encode(record) + b"\n" for record in records)
    path.write_bytes(gzip.compress(lines, 9, mtime=0))


def _answers(script: Script) -> Iterator[Reply | str]:
    number = 0
    for turn in script.turns:
        for step in turn.steps:
            wanted = []
            for tool, arguments in step.read():
                number += 1
                wanted.append((_call_id(number), tool, arguments))
            yield calls(*wanted, text=step.say)
        yield turn.answer


def _interrupted_call(script: Script) -> str:
    """The first call of the step at which a replay may kill the agent."""
    number = 0
    for turn in script.turns:
        for step in turn.steps:
            if step.interrupt:
                return _call_id(number + 1)
            number += len(step.calls)
    return ""


def _call_id(number: int) -> str:
    return f"call_{number:03}"


def _in_order(said: Sequence[Record]) -> Iterator[Record]:
    """Results of tools that ran side by side in the order of their calls, no matter who was
    first."""
    waiting: list[ToolResult] = []
    for record in said:
        if isinstance(record, ToolResult):
            waiting.append(record)
        else:
            yield from sorted(waiting, key=lambda one: one.tool_use_id)
            waiting = []
            yield record
    yield from sorted(waiting, key=lambda one: one.tool_use_id)


def _bare(record: User | Assistant | ToolResult) -> Record:
    """A record without what only this run gave it."""
    bare = msgspec.structs.replace(record, id="", ts=0.0, parent=None, more=None)
    if isinstance(bare, Assistant):
        bare = msgspec.structs.replace(
            bare, usage=None, provider=None, model=None, stop_reason=None
        )
    return bare


def _untag(tool: Any) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _without(value: Json, name: str) -> Json:
    return {key: item for key, item in value.items() if key != name}


# Nothing of the machine


class Normaliser:
    """Takes what only this machine and this minute have out of a recording."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._names = (
            (str(bench.scratch), "/scratch"),
            (str(bench.project), "/project"),
            (str(Path(sys.executable).parent), "/usr/bin"),
            (sys.prefix, "/usr"),
            (sys.base_prefix, "/usr"),
        )

    def record(self, record: Record) -> Record:
        """The same record, without the machine. Raises `UsageError` where something is left."""
        text = encode(record).decode()
        for name, other in self._names:
            text = text.replace(name, other)
        for expression, other in _PASSING:
            text = expression.sub(other, text)
        if left := machine_names(text):
            raise UsageError(
                f"the recording would give away `{left[0]}`, a name of this machine",
                hint="change the script so that no tool prints it",
            )
        return decode_typed(text.encode(), type(record))


_PASSING: Final = (
    (lazy_pattern(r"\bin \d+\.\d+ ?s\b"), "in 0.10s"),
    (lazy_pattern(r"\b0x[0-9a-f]{8,16}\b"), "0x7f0000000000"),
)
"""Values that change from run to run: durations, and addresses in memory."""


def machine_names(text: str) -> list[str]:
    """Names of this machine, its user and its folders that a text holds."""
    user = pwd.getpwuid(os.getuid())
    names = {socket.gethostname(), user.pw_dir.rstrip("/") + "/"}
    if user.pw_name not in _COMMON_USERS:
        names.add(user.pw_name)
    words = "|".join(re.escape(name) for name in sorted(names) if len(name) > 1)
    found = re.finditer(rf"(?<![\w-])(?:{words})(?:(?<=/)|(?![\w-]))", text)
    return sorted({item[0] for item in found})


_COMMON_USERS: Final = frozenset({"root", "user", "runner", "ubuntu", "app"})
"""Names that are ordinary words give no one away, and stand in every text."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.recorder")
    parser.description = "Record a scripted agent at work with real tools."
    parser.add_argument("--script", type=Path, default=SCRIPT, help="what it does (TOML)")
    parser.add_argument("--project", type=Path, default=Path(), help="what it works on")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl.gz")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="holdfast-recorder-") as scratch:
        records = record(load_script(args.script), args.project, Path(scratch))
    write(records, args.out)
    sys.stdout.write(_describe_records(records, args.out))
    return 0


def _describe_records(records: Sequence[Record], path: Path) -> str:
    results = [item for item in records if isinstance(item, ToolResult)]
    counter = Estimator()
    tokens = sum(counter.count(encode(record).decode()) for record in records)
    return (
        f"{path}: {path.stat().st_size:,} bytes, {len(records)} records, {len(results)} tool "
        f"results ({sum(result.is_error for result in results)} errors), about {tokens:,} tokens\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
