"""A parameter is declared once, by its operation; no door declares it again.

Every argument of the command line, every parameter of a route and every parameter of a tool is
found by reading what the door offers. Its help, bounds and default are those of an operation, or
it is named here with its reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

import holdfast
from holdfast.core import parameters
from holdfast.core.window import WINDOW
from holdfast.engine.context_tool import context_declaration
from holdfast.engine.memory.tools import memory_tools
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.engine.operations.context import (
    CompactContext,
    ReadCheckpoint,
    ReadContext,
    ReadOutput,
    ReadRequest,
    ResumeSession,
)
from holdfast.engine.operations.history import ReadMessages
from holdfast.engine.operations.links import LinkCall, RevokeLinks, RotateLinkKey
from holdfast.engine.operations.memory import FindPassages, ReadNoteFile, ReadPassage, SaveNote
from holdfast.engine.operations.server import CreateToken, ListTokens, RevokeToken
from holdfast.engine.operations.sessions import (
    CreateSession,
    EraseSession,
    FindSessions,
    ForkSession,
    LabelSession,
    ReadRecord,
    RewindSession,
)
from holdfast.engine.operations.timers import CancelTimer, ChangeTimer, ListTimers, SetTimer
from holdfast.engine.operations.tools import OPERATIONS
from holdfast.engine.operations.upkeep import (
    AppendRecords,
    RemoveSession,
    RetireSessions,
    VerifySession,
)
from holdfast.surfaces.cli.command import SESSION, Command, ResultCommand, _fields_of, _unwrap
from holdfast.surfaces.cli.help import COMMANDS, command_class
from holdfast.surfaces.http.server import ROUTES
from holdfast.surfaces.slash_commands import COMMANDS as SLASH_COMMANDS
from holdfast.surfaces.slash_commands import find
from holdfast.surfaces.slash_commands.command import WrongArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.slash_commands.command import SlashCommand

PACKAGE: Final = Path(holdfast.__file__).parent

OPERATION_OF: Final[dict[str, type[Operation[Any]]]] = {
    "sessions": FindSessions,
    "new": CreateSession,
    "label": LabelSession,
    "fork": ForkSession,
    "rewind": RewindSession,
    "rm": RemoveSession,
    "append": AppendRecords,
    "verify": VerifySession,
    "memory add": SaveNote,
    "memory show": ReadNoteFile,
    "retention": RetireSessions,
    "erase": EraseSession,
    "show": ReadRecord,
    "context": ReadRequest,
    "output": ReadOutput,
    "checkpoint": ReadCheckpoint,
    "reseed": ResumeSession,
    "history": ReadMessages,
    "memory search": FindPassages,
    "memory get": ReadPassage,
    "approvals list": ListWaitingCalls,
    "approvals link": LinkCall,
    "approvals revoke": RevokeLinks,
    "approvals rotate-key": RotateLinkKey,
    "approvals approve": ApproveCall,
    "approvals deny": DenyCall,
    "timer add": SetTimer,
    "timer list": ListTimers,
    "timer change": ChangeTimer,
    "timer cancel": CancelTimer,
    "token new": CreateToken,
    "token list": ListTokens,
    "token revoke": RevokeToken,
}
"""Commands that other doors offer too, and the operation that is theirs."""

_HERE: Final = "it reads or writes files of this machine"
_RUNS: Final = "it runs until it is stopped"
_HOLDS: Final = "it holds other commands"
_PAGES: Final = "the console shows the same as pages, one session at a time"
COMMAND_ALONE: Final = {
    **dict.fromkeys(("import", "adopt", "export", "copy", "classify"), _HERE),
    **dict.fromkeys(("chat", "demo", "serve", "proxy", "wrap", "mcp", "telegram"), _RUNS),
    **dict.fromkeys(("timer", "token", "approvals", "memory"), _HOLDS),
    **dict.fromkeys(("inspect", "simulate", "evaluate"), f"{_HERE}; {_PAGES}"),
    **dict.fromkeys(("doctor", "disk", "completion"), "it is about this machine"),
    "models": "it shows the catalog, which has no session",
    "log": "HTTP sends the records of a session as events, without end",
    "audit": "only the operator of this machine reads the audit log",
    "memory list": "it lists notes one by one; other doors list their files",
    "memory index": "a server makes its vectors by itself",
}
"""Commands that no other door offers as an operation, each with the reason: the class of each is
their one declaration."""

OWN: Final = {
    "context --model": "also counts a transcript, as inspect, simulate and evaluate do",
    "output --session": "narrows the search; a ref is found in every session",
    "show --session": "narrows the search, also to a transcript",
    "reseed --max-chars": "any bound from 0, and one of three ways to state it",
}
"""Arguments that their command declares although its operation has one of that name."""

CHAT_ALONE: Final = frozenset(
    (
        *("start", "menu", "help", "quit", "switch", "mode", "reset", "model", "window"),
        *("continue", "list", "context", "memory"),
        "cancel",  # its operation takes a gateway, which a chat does not load
    )
)
"""Slash commands that only a chat has, or that show the state of the chat in their own words."""

EITHER: Final = {
    "rewind": "[turns or record]",
    "output": "<ref> [lines or search]",
    "label": "[label]",  # without one, the label is shown
}
"""Slash commands whose one word is either of two parameters, or may be left out."""

SCREENS: Final = {("history", "limit"), ("output", "max_chars")}
"""Parameters of slash commands whose default is what fills a screen."""

MAKE_TOOLS: Final = {
    "engine/operations/tools.py": "makes tools of operations",
    "engine/tools.py": "makes tools of functions that a caller passes",
    "engine/memory/tools.py": "takes the parameters of operations",
    "engine/context_tool.py": "`context` is part of every request: parameters in few words",
    "engine/memory/anthropic_tool.py": "`memory` has the shape that Anthropic defines",
    "surfaces/cli/demo/home.py": "has the tools of the demo",
    "surfaces/cli/demo/recording.py": "names the tools of a recording",
}
"""Modules that declare tools of a model, each with its reason."""

STREAMS: Final = {
    "GET /v1/sessions/{agent}/{session}/events": "only HTTP follows a session",
}
"""Routes whose parameters are their own."""


def commands() -> Iterator[tuple[str, type[Command]]]:
    """Yield every command, those inside others too."""
    for name in COMMANDS:
        kind = command_class(name)
        yield name, kind
        for verb, inner in kind.verbs.items():
            yield f"{name} {verb}", inner


def help_of(kind: Any) -> str | None:
    """Return the help that a type carries."""
    said = [each for each in _unwrap(kind)[1] if isinstance(each, msgspec.Meta)]
    return next((each.description for each in said if each.description), None)


def helps_of(operation: type[Operation[Any]]) -> dict[str, str | None]:
    return {field.name: help_of(field.type) for field in msgspec.structs.fields(operation)}


def shared_helps() -> set[str]:
    """Return the help of every parameter that is declared for several operations."""
    found = {help_of(value) for value in vars(parameters).values()}
    return {text for text in (*found, WINDOW.description) if text}


def own_arguments(name: str, kind: type[Command], operation: type[Operation[Any]]) -> list[str]:
    """Return the arguments of a command that repeat a parameter of its operation."""
    helps, found = helps_of(operation), []
    for part, field in _fields_of(kind):
        parameter = "session_key" if field.name == "session" else field.name
        if parameter not in helps or (field.argument.is_place and "session" in parameter):
            continue  # a session is named by SESSION, the same in every command
        if field.argument.help or (not part and field.bounds.description != helps[parameter]):
            found.append(f"{name} --{field.name.replace('_', '-')}")
    return found


def test_every_command_is_a_door_or_stands_alone() -> None:
    """A new command is in one of the two tables, and no table has one that is gone."""
    known = {name for name, _kind in commands()}
    assert known == OPERATION_OF.keys() | COMMAND_ALONE.keys()
    assert not OPERATION_OF.keys() & COMMAND_ALONE.keys()


def test_every_command_does_something_and_shows_its_result() -> None:
    """The two parts that a command has to bring are its own, unless it only holds others."""
    for name, kind in commands():
        assert kind.verbs or kind.run not in (Command.run, ResultCommand.run), name
        assert not issubclass(kind, ResultCommand) or kind.show is not ResultCommand.show, name


def test_no_command_repeats_a_parameter_of_its_operation() -> None:
    found = [
        each
        for name, kind in commands()
        if name in OPERATION_OF
        for each in own_arguments(name, kind, OPERATION_OF[name])
    ]
    assert sorted(found) == sorted(OWN)


def test_an_argument_without_words_has_those_of_an_operation() -> None:
    """What a command does not describe is a parameter of an operation, word for word."""
    known = shared_helps() | {text for each in OPERATIONS for text in helps_of(each).values()}
    bare = [
        field.bounds.description
        for _name, kind in commands()
        for _part, field in _fields_of(kind)
        if not field.argument.help
    ]
    assert set(bare) <= known
    assert len(bare) > 30


def test_a_session_is_named_alike_by_every_command() -> None:
    """An argument that is one session of the store has the help of `SESSION`."""
    places = [
        field.argument
        for name, kind in commands()
        for _part, field in _fields_of(kind)
        if field.argument.is_place and field.argument.metavar == "SESSION" and not field.is_many
    ]
    assert {each for each in places if each.help != SESSION.help} == {
        argument for argument in places if argument.help.startswith("id, label or prefix")
    }
    assert len(places) > 8


def test_every_slash_command_is_a_door_or_stands_alone() -> None:
    assert {each.name for each in SLASH_COMMANDS if each.operation is None} == CHAT_ALONE


@pytest.mark.parametrize(
    "command",
    [each for each in SLASH_COMMANDS if each.operation is not None],
    ids=lambda command: command.name,
)
def test_a_slash_command_says_what_its_operation_says(command: SlashCommand) -> None:
    """Its help is the title; its argument names parameters; a default of its own is named here."""
    operation = command.operation
    assert operation is not None
    assert command.help.casefold() == operation.title.casefold()
    known = operation.__struct_fields__
    assert set(command.takes) <= set(known)
    shown = re.findall("[a-z_]+", command.argument)
    assert command.argument == EITHER.get(command.name) or shown == list(command.takes)
    assert {(command.name, name) for name in command.screen} <= SCREENS


def test_the_argument_of_a_slash_command_is_read_by_its_operation() -> None:
    """Bounds are those of the operation, and so is the sentence of a refusal."""
    history, output = (find(name) for name in ("history", "output"))
    assert history is not None
    assert output is not None
    assert history.read("7", "main/a") == ReadMessages(session_key="main/a", limit=7)
    with pytest.raises(WrongArgument, match="user and assistant messages"):
        history.read("0", "main/a")
    read = output.read("0123 port =", "main/a")
    assert (read.ref, read.search, read.session_key) == ("0123", "port =", "main/a")
    with pytest.raises(WrongArgument, match="The ref of the output"):
        output.read("", "main/a")


def test_every_tool_of_a_model_is_made_in_a_known_place() -> None:
    """A module that declares a tool is named above; adapters translate the tools of a framework."""
    found = set()
    for folder in ("engine", "surfaces"):
        for path in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if name in ("Tool", "ToolFunction", "tool_function"):
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert found == MAKE_TOOLS.keys()


def test_memory_tools_have_the_parameters_of_operations() -> None:
    """Help and bounds, word for word."""
    nowhere: Any = None  # nothing is read: only the shape is used
    for tool, operation in zip(memory_tools(nowhere), (FindPassages, ReadPassage), strict=True):
        shown = tool.tool.parameters["properties"]
        known = msgspec.json.schema(operation)["$defs"][operation.__name__]["properties"]
        assert shown == {name: known[name] for name in shown}


def test_the_context_tool_has_parameters_of_operations() -> None:
    """Its words are its own, to be few; its parameters are those of two operations."""
    shown = context_declaration().parameters["properties"]
    assert set(shown) <= {*ReadContext.__struct_fields__, *CompactContext.__struct_fields__}
    assert all(shape.keys() <= {"type", "enum", "description"} for shape in shown.values())


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_takes_what_its_operation_takes(route: Any) -> None:
    """A route without an operation takes nothing; `test_registry` compares the others."""
    if route.operation is None and f"{route.method} {route.path}" not in STREAMS:
        assert route.query.__struct_fields__ == ()
        assert route.body is None


def test_a_repeated_argument_is_seen() -> None:
    """The check finds help of its own, and bounds that only look alike."""
    assert own_arguments("fork", command_class("inspect"), ReadRequest) == ["fork --model"]
    assert own_arguments("export", command_class("export"), ReadRequest) == ["export --output"]
