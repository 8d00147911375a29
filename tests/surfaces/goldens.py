"""What every door offers, as text: the files in `tests/doors/` hold it, `test_goldens` compares.

A change of a door shows as a difference there. Where it is meant, write the files again with
`python -m tests.surfaces.goldens` and look at the difference before you commit it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.surfaces.cli import main
from holdfast.surfaces.cli.command import add_arguments
from holdfast.surfaces.cli.help import COMMANDS, command_class, describe
from holdfast.surfaces.slash_commands import COMMANDS as SLASH_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.surfaces.cli.command import Command

FOLDER: Final = Path(__file__).parents[1] / "doors"

NO_JSON: Final = frozenset(
    {"chat", "completion", "demo", "mcp", "proxy", "serve", "telegram", "wrap"}
)
"""Commands that run until they are stopped, or print something that is not JSON."""

_TURN: Final = (
    {"type": "user", "content": "Read config.py, then tell me the port."},
    {
        "type": "assistant",
        "provider": "anthropic",
        "model": "claude-sonnet-5-5",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "config.py"}},
        ],
        "usage": {"input_tokens": 120, "output_tokens": 20},
        "stop_reason": "tool_use",
    },
    {"type": "tool_result", "tool_use_id": "call_1", "content": "PORT = 8484\n" * 40},
    {
        "type": "assistant",
        "provider": "anthropic",
        "model": "claude-sonnet-5-5",
        "content": [{"type": "text", "text": "The port is 8484."}],
        "usage": {"input_tokens": 380, "output_tokens": 9},
        "stop_reason": "end_turn",
    },
)
_ERROR: Final = {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"}


# The command line


def command_text() -> str:
    """Return every command with its arguments, a line each."""
    lines = []
    for command, entry in COMMANDS.items():
        kind = command_class(command)
        lines += [f"{command}: {entry.help}", *_argument_lines(kind, command), kind.example, ""]
    return "\n".join(lines)


def _argument_lines(kind: type[Command], name: str) -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser, kind)
    for action in parser._actions:
        yield "    " + _argument_text(action)
    for verb, inner in kind.verbs.items():
        yield f"{name} {verb}: {describe(inner)}"
        yield from _argument_lines(inner, f"{name} {verb}")


def _argument_text(action: argparse.Action) -> str:
    shown = ", ".join(action.option_strings) or f"<{action.dest}>"
    parts: dict[str, Any] = {
        "nargs": action.nargs,
        "metavar": action.metavar,
        "choices": list(action.choices) if action.choices is not None else None,
        "default": action.default if action.default != argparse.SUPPRESS else None,
        "type": getattr(action.type, "__name__", None),
        "required": action.required and bool(action.option_strings),
    }
    told = " ".join(
        f"{name}={value!r}" for name, value in parts.items() if value not in (None, "", False)
    )
    return f"{shown} {told}: {action.help}"


def shapes() -> str:
    """Return the shape of what each command prints with `--json`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = {line: _shape_of_output(line, stdin) for line, stdin in _life()}
    left_out = {*COMMANDS} - NO_JSON
    left_out -= {name.split()[0] for name in found}
    assert not left_out, f"add a call of these commands to `_life`: {sorted(left_out)}"
    return _json_text(found)


def _life() -> Iterator[tuple[str, str]]:
    """Yield the calls of one session's life, and what each reads from stdin."""
    yield "new First --id one", ""
    yield "append one", "".join(json.dumps(record) + "\n" for record in _TURN)
    yield "log one", ""
    yield "show RECORD", ""
    yield "label one 'The port'", ""
    yield "sessions", ""
    yield "fork one --id two", ""
    yield "rewind two --turns 1", ""
    yield "log two --branches", ""
    yield "output RECORD --session one", ""
    yield "context one --window 64000", ""
    yield "checkpoint one", ""
    yield "checkpoint one --save", ""
    yield "checkpoint one --list", ""
    yield "reseed one", ""
    yield "memory add 'Releases go out on Tuesdays.'", ""
    yield "memory list", ""
    yield "memory search releases --words-only", ""
    yield "memory get CITATION", ""
    yield "memory index --words-only", ""
    yield "approvals list", ""
    yield "timer add one R/PT1H 'Look at the inbox.' --name look", ""
    yield "timer list", ""
    yield "timer change look --when R/PT2H", ""
    yield "timer cancel look", ""
    yield "token new laptop --owner ann", ""
    yield "token new phone --for-settings", ""
    yield "token list", ""
    yield "token revoke laptop", ""
    yield "history one", ""
    yield "audit", ""
    yield "verify", ""
    yield "verify one", ""
    with Path(".sessions/agents/main/sessions/two.jsonl").open("ab") as log:
        log.write(b'{"type":"user","content":"torn"\n')
    yield "verify two --repair", ""
    yield "disk", ""
    yield "disk --clean", ""
    yield "models anthropic:claude-sonnet-5-5", ""
    yield "models", ""
    yield "classify", json.dumps(_ERROR)
    yield "export one -o one.jsonl", ""
    yield "export one --format claude-code -o cc.jsonl", ""
    yield "import cc.jsonl", ""
    yield "inspect one", ""
    yield "simulate one --window 64000", ""
    yield "evaluate one", ""
    yield "adopt cc.jsonl --dry-run", ""
    yield "copy other", ""
    yield "doctor", ""
    yield "retention --days 400", ""
    yield "rm two", ""
    yield "rm --list", ""
    yield "erase one --yes", ""


def _shape_of_output(line: str, stdin: str) -> Any:
    words = [_place(word) for word in shlex.split(line)]
    lines = [json.loads(line) for line in _run([*words, "--json"], stdin).splitlines()]
    return shape(lines[0]) if len(lines) == 1 else _joined([shape(line) for line in lines])


def _place(word: str) -> str:
    """Return what a word stands for that only a run can know."""
    match word:
        case "RECORD":
            log = _run(["log", "one", "--json"], "").splitlines()
            return str(json.loads(log[3])["id"])
        case "CITATION":
            hits = _run(["memory", "search", "releases", "--words-only", "--json"], "")
            return str(json.loads(hits)[0]["citation"])
    return word


def _run(words: list[str], stdin: str) -> str:
    out, kept = io.TextIOWrapper(io.BytesIO(), "utf-8"), sys.stdin
    reading, writing = os.pipe()
    os.write(writing, stdin.encode())
    os.close(writing)
    with os.fdopen(reading) as sys.stdin, contextlib.redirect_stdout(out):
        status = main(words)
    sys.stdin = kept
    out.seek(0)
    text = out.read()
    assert status == 0, (words, text)
    return text


def shape(value: Any) -> Any:
    """Return the names and types of a JSON value, without what is in it."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [_joined([shape(each) for each in value])] if value else []
    names = {str: "text", bool: "yes or no", int: "number", float: "number", type(None): "null"}
    return names[type(value)]


def _joined(shapes_: list[Any]) -> Any:
    """Return one shape that all of these have: fields that some lack end with `?`."""
    if all(isinstance(each, dict) for each in shapes_):
        names = sorted({name for each in shapes_ for name in each})
        return {
            name + ("" if all(name in each for each in shapes_) else "?"): _joined(
                [each[name] for each in shapes_ if name in each]
            )
            for name in names
        }
    kinds: list[Any] = []
    for each in shapes_:
        if each not in kinds:
            kinds.append(each)
    return kinds[0] if len(kinds) == 1 else {"one of": sorted(kinds, key=json.dumps)}


# Other doors


def slash_text() -> str:
    """Return every slash command: who may run it where, and what help says."""
    rows = []
    for each in SLASH_COMMANDS:
        names = ", ".join([each.usage, *(f"/{alias}" for alias in each.aliases)])
        where = ", ".join(each.surfaces)
        rows.append(f"{names}\n    {each.help}\n    {each.audience}; {each.during_turn}; {where}")
    return "\n".join(rows) + "\n"


def http_text() -> str:
    """Return the OpenAPI document of the gateway."""
    from holdfast.surfaces.http.openapi import document
    from holdfast.surfaces.http.server import ROUTES

    return _json_text(document(ROUTES) | {"info": None})


def mcp_text() -> str:
    """Return the tools of the MCP server."""
    from holdfast.engine.operations.operation import describe
    from holdfast.engine.operations.tools import TOOLS

    rows = [
        {"name": name, "title": each.operation.title, "description": describe(each.operation)}
        | {"schema": each.schema, "reading": each.is_reading}
        | {"idempotent": each.operation.is_idempotent}
        for name, each in TOOLS.items()
    ]
    return _json_text(rows)


def model_text() -> str:
    """Return the tools that a session declares to its model by itself."""
    from holdfast.engine.context_tool import context_declaration

    tool = context_declaration()
    row = {"name": tool.name, "description": tool.description, "schema": tool.parameters}
    return _json_text([row])


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


FILES: Final[dict[str, Callable[[], str]]] = {
    "commands.txt": command_text,
    "json_shapes.json": shapes,
    "slash_commands.txt": slash_text,
    "http.json": http_text,
    "mcp_tools.json": mcp_text,
    "model_tools.json": model_text,
}

if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    FOLDER.mkdir(exist_ok=True)
    for name, make in FILES.items():
        (FOLDER / name).write_text(make())
