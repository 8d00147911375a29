"""The commands and what they are for, and the help of `holdfast` itself."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import textwrap
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NoReturn

import msgspec

from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import Command, ResultCommand, add_arguments, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holdfast.ports import SessionInfo
    from holdfast.surfaces.cli.app import App

_TABLE: Final = """
start here
  inspect    holdfast.surfaces.cli.inspect.inspect        Show where the tokens of a session or transcript file go, and their cost
  chat       holdfast.surfaces.cli.chat.chat              Talk to a model in a durable session
  demo       holdfast.surfaces.cli.demo.demo              Watch a recorded agent outgrow its window, be refused and killed, lose nothing
  sessions   holdfast.surfaces.cli.verbs.sessions         List sessions, the most recently active first
  doctor     holdfast.surfaces.cli.doctor                 Check the store, the model, the settings and what is installed
sessions
  log        holdfast.surfaces.cli.verbs.records          Show the records of a session
  rewind     holdfast.surfaces.cli.verbs.records          Move the head back; later records stay readable
  import     holdfast.surfaces.cli.verbs.import_export    Create sessions from other tools' transcripts; report what was left out
  adopt      holdfast.surfaces.cli.adopt                  Bring another tool's sessions, notes, outputs and checkpoints along
  export     holdfast.surfaces.cli.verbs.import_export    Write a session's log or a message list, with secrets masked
  erase      holdfast.surfaces.cli.verbs.sessions         Delete sessions, or everything of an owner, so that no file has their words
  verify     holdfast.surfaces.cli.verbs.maintenance      Read everything and report damage; with --repair write repaired copies
what a model sees
  context    holdfast.surfaces.cli.verbs.context          Show the exact request for a model, and the fate of every record
  simulate   holdfast.surfaces.cli.verbs.simulate         Replay transcripts under several policies, without a model
  memory     holdfast.surfaces.cli.verbs.memory           Add, list, show and search notes
servers
  serve      holdfast.surfaces.cli.serve.serve            Serve sessions over HTTP: messages that are answered once, and a console
  proxy      holdfast.surfaces.cli.proxy                  Pass an agent's requests on to its provider, with a durable log and a window
  wrap       holdfast.surfaces.cli.proxy                  Run a command whose model calls go through a proxy of its own
  mcp        holdfast.surfaces.cli.mcp                    Serve sessions, outputs and memory to an MCP client, over stdin and stdout
  telegram   holdfast.surfaces.cli.telegram               Run a Telegram bot whose chats are durable sessions
more commands
  new        holdfast.surfaces.cli.verbs.sessions         Create a session and print its id
  append     holdfast.surfaces.cli.verbs.append           Add records, read as JSON lines from stdin; print their ids once durable
  label      holdfast.surfaces.cli.verbs.sessions         Name a session, or a record in it
  show       holdfast.surfaces.cli.verbs.records          Show one record in full
  fork       holdfast.surfaces.cli.verbs.sessions         Copy a session up to a record into a new one
  rm         holdfast.surfaces.cli.verbs.sessions         Move sessions to the trash, restore them, or empty the trash
  retention  holdfast.surfaces.cli.verbs.maintenance        Move sessions that were not used for long, or take too much room, to the trash
  timer      holdfast.surfaces.cli.verbs.timer            Set, list, change and cancel timers: messages that a session gets at a time
  token      holdfast.surfaces.cli.serve.token            Make, list and revoke the access tokens of `serve`
  approvals  holdfast.surfaces.cli.verbs.approvals        List calls that wait for a person; approve or deny one
  copy       holdfast.surfaces.cli.copy                   Copy everything of a store into another, and verify it; run it again to go on
  output     holdfast.surfaces.cli.verbs.output           Read an offloaded output, whole or in part
  checkpoint holdfast.surfaces.cli.verbs.checkpoint       Show the state of a session: requests, open tasks, failures, files
  reseed     holdfast.surfaces.cli.verbs.checkpoint       Print a session as text for a backend that lost its own
  history    holdfast.surfaces.cli.verbs.history          Show what others may read of a session: bounded, with secrets masked
  audit      holdfast.surfaces.cli.verbs.history          List who has read which session
  evaluate   holdfast.surfaces.cli.evaluate               Replay sessions, find what later replies lacked, compare with a baseline
  models     holdfast.surfaces.cli.models                 Show the window, the price and the API of a model, and where each is from
  classify   holdfast.surfaces.cli.verbs.classify         Classify provider errors: JSON lines in, JSON lines out
  disk       holdfast.surfaces.cli.verbs.maintenance      Show how much room the store takes; with --clean delete leftovers
  completion holdfast.surfaces.cli.help                   Print a script that completes commands in bash, zsh or fish
"""  # noqa: E501 - a row is a line
_PLUMBING: Final = "more commands"
"""The heading of those that only `holdfast help --all` shows."""
REPLACED: Final = {
    "branches": "log SESSION --branches",
    "repair": "verify SESSION --repair",
    "gc": "disk --clean",
    "du": "disk",
}
"""Commands of version 0.1, and what does the same."""
_HELP: Final = "Show this, more of it with --all, or the options of a command"
_NAME_CHARS: Final = 12
"""The column of the names: the longest has ten letters."""
_WIDTH_MIN: Final = 40
"""A terminal narrower than this wraps by itself."""


class CommandEntry(NamedTuple):
    """A command as the table has it; its class is `NameCommand` in its module."""

    group: str
    module: str
    help: str


def _entries() -> Iterator[tuple[str, CommandEntry]]:
    group = ""
    for row in _TABLE.strip().splitlines():
        if row[0] != " ":
            group = row
            continue
        name, module, text = row.split(maxsplit=2)
        yield name, CommandEntry(group, module, text)


COMMANDS: Final = dict(_entries())
"""Every command, in the order of the help."""


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Help whose examples are left as they are, and whose prose is wrapped at whole words."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            indent + line if line.startswith(" ") else _wrap(line, width, indent, indent)
            for line in text.splitlines()
        )


def _wrap(text: str, width: int, first: str, others: str) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_groups(usage: str, options: str, *, is_whole: bool = False) -> str:
    """Return the help; no word is broken, however narrow the terminal is."""
    width = max(_WIDTH_MIN, min(100, shutil.get_terminal_size().columns))
    indent = " " * (_NAME_CHARS + 2)
    parts, group = [usage, "Durable sessions and a bounded context for LLM agents."], ""
    shown = {name: each for name, each in COMMANDS.items() if is_whole or each.group != _PLUMBING}
    for name, each in shown.items():
        parts += ["", f"{each.group}:"] if each.group != group else []
        parts.append(_wrap(each.help, width, f"  {name:{_NAME_CHARS}}", indent))
        group = each.group
    if is_whole:
        parts.append(_wrap(_HELP, width, f"  {'help':{_NAME_CHARS}}", indent))
    parts += ["", options.rstrip(), "", "`holdfast help COMMAND` shows the options of a command."]
    if not is_whole:
        parts.append(f"`holdfast help --all` shows {len(COMMANDS) - len(shown) + 1} more commands.")
    return "\n".join(parts) + "\n"


def _add_common(parser: argparse.ArgumentParser, *, is_default_set: bool) -> None:
    """Add the options that are accepted before and after the command."""
    none, no = (None, False) if is_default_set else (argparse.SUPPRESS, argparse.SUPPRESS)
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--root",
        default=none,
        help="the store: a folder or another address (default: HOLDFAST_ROOT, or .sessions in this "
        "folder or one above)",
    )
    group.add_argument(
        "--agent", default=none, help="the agent of new sessions (default: HOLDFAST_AGENT, or main)"
    )
    group.add_argument(
        "--owner",
        metavar="NAME",
        default=none,
        help="only sessions of this owner, and new ones for it (default: sessions of every owner)",
    )
    group.add_argument(
        "--verbose",
        "-v",
        action="count",
        default=0 if is_default_set else argparse.SUPPRESS,
        help="write what happens to stderr; -vv writes more",
    )
    group.add_argument("--json", action="store_true", default=no, help="print JSON for programs")


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_given: Any) -> NoReturn:
        from holdfast.surfaces.cli.terminal import Output
        from holdfast.surfaces.cli.version import version_line

        Output(is_json=False).line(version_line())
        parser.exit()


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises its errors, and names the nearest match."""

    command: CommandParser | None = None
    """The parser of the command that was named."""
    is_list = False
    """Its help is the list of all commands."""
    is_whole = False
    """The help lists the seldom commands, too."""

    def format_help(self) -> str:
        """Return the commands in groups; of one command, its options."""
        if not self.is_list:
            return super().format_help()
        formatter = self._get_formatter()
        for group in self._action_groups:
            if group.title == "common options":
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        usage = "usage: holdfast [OPTIONS] COMMAND …\n"
        return format_groups(usage, formatter.format_help(), is_whole=self.is_whole)

    def error(self, message: str) -> NoReturn:
        hint = f"see `{(self.command or self).prog} --help`"
        if message.startswith("unrecognized arguments: "):
            asked = message.partition(": ")[2].lstrip().partition(" ")[0].partition("=")[0]
            options = [*self._option_string_actions]
            options += [*self.command._option_string_actions] if self.command else []
            close = difflib.get_close_matches(asked, options, n=1) if asked[:1] == "-" else []
            hint = f"did you mean `{close[0]}`? {hint}" if close else hint
        if "invalid choice: " in message and message.startswith(
            ("argument COMMAND", "argument VERB")
        ):
            asked = message.split("'")[1]
            known = message.partition("(choose from ")[2].rstrip(")").replace("'", "").split(", ")
            close = difflib.get_close_matches(asked, known, n=2)
            hint = f"did you mean `{'` or `'.join(close)}`?" if close else hint
            if asked in REPLACED:
                hint = f"`holdfast {REPLACED[asked]}` does that now"
            message = f"unknown command `{asked}`"
        raise UsageError(message, hint=hint)


def build_parser(name: str | None) -> CommandParser:
    """Build the parser of the command `name`, and load its module alone; without one, list all."""
    parser = CommandParser(
        prog="holdfast", description="Durable sessions and a bounded context for LLM agents."
    )
    _add_common(parser, is_default_set=True)
    common = CommandParser(add_help=False)
    _add_common(common, is_default_set=False)
    parser.add_argument("--version", action=_ShowVersion, nargs=0)
    parser.set_defaults(kind=None)
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    parser.is_list = name not in COMMANDS
    for command, entry in COMMANDS.items():
        if command == name and not parser.is_list:
            kind = command_class(command)
            parser.command = _add_command(subparsers, command, entry.help, kind, common)
            if kind.verbs:
                verbs = parser.command.add_subparsers(metavar="VERB", required=True)
                for verb, inner in kind.verbs.items():
                    _add_command(verbs, verb, describe(inner), inner, common)
        elif parser.is_list:
            subparsers.add_parser(command)
    return parser


def _add_command(
    subparsers: Any, name: str, help_: str, kind: type[Command], common: CommandParser
) -> CommandParser:
    made: CommandParser = subparsers.add_parser(
        name,
        help=help_,
        description=help_ + ".",
        parents=[common],
        formatter_class=CommandHelp,
        epilog=kind.example,
    )
    add_arguments(made, kind)
    made.set_defaults(kind=kind)
    return made


def command_class(name: str) -> type[Command]:
    """Import the module of a command, and no other."""
    found: type[Command] = getattr(import_module(COMMANDS[name].module), f"{name.title()}Command")
    return found


def describe(kind: type[Command]) -> str:
    """Return the help of a command inside another: the first line of its docstring."""
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".")


# Completion

_OFFERED_MAX: Final = 200
"""Sessions that are offered: the most recently active, so that a key press reads one page."""
_ACTIVE: Final = frozenset("$`\\!")
"""Characters that bash does not quote when it inserts a name; `$(…)` in a label would be run."""
_SCRIPTS: Final = os.path.join(os.path.dirname(__file__), "completion")
_PLACES: Final = ("--root", "--owner", "--agent")
"""Options that decide which sessions there are; the scripts pass them on."""


Kind = Literal["files", "sessions", "both"]
"""The names that a shell offers for a word that is no option."""


class CommandWords(msgspec.Struct, frozen=True):
    """The words that a shell completes after a command."""

    options: tuple[str, ...]
    """Long options, those that all commands have included."""
    word: Kind
    """The kind of a word that is no option."""
    values: dict[str, Kind]
    """The kind of the value of each option that has one, also of short options."""


def words_by_command() -> dict[str, CommandWords]:
    """Return the words of each command, as its parser has them."""
    parsers = {name: build_parser(name).command for name in COMMANDS}
    return {name: _words(parser) for name, parser in parsers.items() if parser is not None}


def _words(parser: argparse.ArgumentParser) -> CommandWords:
    actions = list(_actions(parser))
    optional = [action for action in actions if action.option_strings]
    places = [str(action.metavar) for action in actions if not action.option_strings]
    return CommandWords(
        options=_long(optional),
        word=_kind(" ".join(places)),
        values={
            name: _kind(str(action.metavar))
            for action in optional
            if action.nargs != 0
            for name in action.option_strings
        },
    )


def _kind(metavar: str) -> Kind:
    if "SESSION" not in metavar:
        return "files"
    return "both" if "FILE" in metavar else "sessions"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of the commands inside it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action


def _long(actions: list[argparse.Action]) -> tuple[str, ...]:
    names = {name for action in actions for name in action.option_strings}
    return tuple(sorted(name for name in names if name.startswith("--")))


def session_names(infos: list[SessionInfo]) -> dict[str, str]:
    """Return what a session is called on the command line, and what a person knows it by.

    Ids come first, then labels. An id has its agent where sessions of several are listed.
    """
    from holdfast.core.log.listing import title_of

    has_agents = len({info.key.agent for info in infos}) > 1
    ids = [str(info.key) if has_agents else info.key.session for info in infos]
    names = {
        name: title_of(info.label) or info.title for name, info in zip(ids, infos, strict=True)
    }
    for name, info in zip(ids, infos, strict=True):
        if info.label and info.label not in names:
            names[info.label] = name
    return names


def _bash(words: Mapping[str, CommandWords]) -> str:
    tables = "\n".join(
        f"    {name}) words='{' '.join(found.options)}' valued=' {' '.join(found.values)} ' ;;"
        for name, found in words.items()
    )
    return _fill(
        "holdfast.bash",
        places="|".join(_PLACES),
        given_places="|".join(f"{name}=*" for name in _PLACES),
        first=" ".join([*sorted([*words, "help"]), *_long(build_parser(None)._actions)]),
        commands=" ".join(sorted(words)),
        tables=tables,
        session_options=_either(_options_of(words, "sessions")),
        both_options=_either(_options_of(words, "both")),
        session_commands=_either([name for name in words if words[name].word == "sessions"]),
        both_commands=_either([name for name in words if words[name].word == "both"]),
    )


def _fill(script: str, **values: str) -> str:
    """Return a script for a shell, with the words of the commands in it."""
    with open(os.path.join(_SCRIPTS, script), encoding="utf-8") as file:
        return re.sub(r"@\{(\w+)\}", lambda place: values[place[1]], file.read())


def _either(patterns: list[str]) -> str:
    """Return one pattern of a shell that fits where one of these does."""
    return "|".join(pattern.replace(" ", "\\ ") for pattern in patterns)


def _options_of(words: Mapping[str, CommandWords], kind: Kind) -> list[str]:
    """Return each command with each of its options whose value is of a kind."""
    return [
        f"{name} {option}"
        for name, found in words.items()
        for option, each in found.values.items()
        if each == kind
    ]


def _zsh(words: Mapping[str, CommandWords]) -> str:
    """zsh runs completions of bash; what someone's .zshrc has loaded is not loaded again."""
    return (
        "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit }\n"
        "(( $+functions[complete] )) || { autoload -U +X bashcompinit && bashcompinit }\n"
        + _bash(words)
    )


def _fish(words: Mapping[str, CommandWords]) -> str:
    helps = {name: entry.help for name, entry in COMMANDS.items()}
    helps["help"] = "Show the help of a command"
    given = " ".join(f"'{name}=*'" for name in _PLACES)
    lines = [
        _fill("holdfast.fish", places=" ".join(_PLACES), given_places=given).rstrip("\n"),
        *(
            f"complete -c holdfast -n __fish_use_subcommand -f -a {name} -d '{_quote(helps[name])}'"
            for name in sorted(helps)
        ),
    ]
    names = " ".join(sorted(words))
    lines.append(f"complete -c holdfast -n '__fish_seen_subcommand_from help' -f -a '{names}'")
    for name, found in words.items():
        start = f"complete -c holdfast -n '__fish_seen_subcommand_from {name}'"
        if found.word != "files":
            lines.append(f"{start} {_FISH_OFFERS[found.word]}")
        lines += [f"{start} {_fish_option(option, found)}" for option in _spellings(found)]
    return "\n".join(lines) + "\n"


def _spellings(words: CommandWords) -> list[str]:
    """Return the long options, and those short ones whose values are offered."""
    return [*words.options, *(name for name in words.values if not name.startswith("--"))]


def _fish_option(option: str, words: CommandWords) -> str:
    name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
    return f"{name} -r {_FISH_OFFERS[words.values[option]]}" if option in words.values else name


_FISH_OFFERS: Final[dict[Kind, str]] = {
    "files": "-F",
    "sessions": "-f -k -a '(__holdfast_sessions)'",
    "both": "-F -k -a '(__holdfast_sessions)'",
}


def _quote(text: str) -> str:
    """Return a text as it stands between the single quotes of fish."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


_SHELLS: Final[dict[str, Callable[[Mapping[str, CommandWords]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


class CompletionCommand(ResultCommand, frozen=True, kw_only=True):
    """Prints a script."""

    example = """examples:
  holdfast completion bash >> ~/.bashrc
  holdfast completion zsh >> ~/.zshrc
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish"""
    what: Annotated[
        Literal["bash", "zsh", "fish", "sessions"],
        place("the shell to print a script for; `sessions` prints the names that scripts offer"),
    ]

    def run(self, app: App) -> dict[str, str]:
        if self.what != "sessions":
            return {"shell": self.what, "script": _SHELLS[self.what](words_by_command())}
        # A name is left out where it has to be masked, or a terminal or shell would not take it.
        infos = app.store.sessions(owner=app.owner, limit=_OFFERED_MAX)
        return {
            name: app.out.mask(about)
            for name, about in session_names(infos).items()
            if name.isprintable() and _ACTIVE.isdisjoint(name) and app.out.mask(name) == name
        }

    def show(self, found: dict[str, str], app: App) -> None:
        if self.what != "sessions":
            app.out.text(found["script"])
            return
        for name, about in found.items():
            app.out.line(f"{name}\t{about}")
