"""The `holdfast` command."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

from holdfast import __version__, config
from holdfast.core.owners import ANY_OWNER, owner_argument
from holdfast.errors import CannotFit, HoldfastError, HoldfastWarning, StoreError, UsageError
from holdfast.surfaces.cli.app import App, add_common
from holdfast.surfaces.cli.help import REPLACED, CommandHelp, format_groups
from holdfast.surfaces.cli.terminal import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.surfaces.cli.app import Verb

COMMANDS: Final = {
    "holdfast.surfaces.cli.verbs.sessions": {
        "sessions": "List sessions, the most recently active first",
        "new": "Create a session and print its id",
        "label": "Name a session, or a record in it",
        "fork": "Copy a session up to a record into a new one",
        "rm": "Move sessions to the trash, restore them, or empty the trash",
    },
    "holdfast.surfaces.cli.verbs.erase": {
        "erase": "Delete sessions, or everything of an owner, so that no file has their words",
    },
    "holdfast.surfaces.cli.verbs.append": {
        "append": "Add records, read as JSON lines from stdin; print their ids once durable",
    },
    "holdfast.surfaces.cli.verbs.records": {
        "log": "Show the records of a session",
        "show": "Show one record in full",
        "rewind": "Move the head back; later records stay readable",
    },
    "holdfast.surfaces.cli.verbs.output": {
        "output": "Read an offloaded output, whole or in part",
    },
    "holdfast.surfaces.cli.verbs.history": {
        "history": "Show what others may read of a session: bounded, with secrets masked",
        "audit": "List who has read which session",
    },
    "holdfast.surfaces.cli.verbs.memory": {
        "memory": "Add, list, show and search notes",
    },
    "holdfast.surfaces.cli.verbs.import_export": {
        "import": "Create sessions from other tools' transcripts; report what was left out",
        "export": "Write a session's log or a message list, with secrets masked",
    },
    "holdfast.surfaces.cli.adopt.adopt": {
        "adopt": "Bring another tool's sessions, notes, outputs and checkpoints along",
    },
    "holdfast.surfaces.cli.copy.copy": {
        "copy": "Copy everything of a store into another, and verify it; run it again to go on",
    },
    "holdfast.surfaces.cli.verbs.reseed": {
        "reseed": "Print a session as text for a backend that lost its own",
    },
    "holdfast.surfaces.cli.verbs.checkpoint": {
        "checkpoint": "Show the state of a session: requests, open tasks, failures, files",
    },
    "holdfast.surfaces.cli.inspect.inspect": {
        "inspect": "Show where the tokens of a session or transcript file go, and their cost",
    },
    "holdfast.surfaces.cli.verbs.context": {
        "context": "Show the exact request for a model, and the fate of every record",
    },
    "holdfast.surfaces.cli.verbs.simulate": {
        "simulate": "Replay transcripts under several policies, without a model",
    },
    "holdfast.surfaces.cli.evaluate.evaluate": {
        "evaluate": "Replay sessions, find what later replies lacked, compare with a baseline",
    },
    "holdfast.surfaces.cli.models.models": {
        "models": "Show the window, the price and the API of a model, and where each is from",
    },
    "holdfast.surfaces.cli.verbs.maintenance": {
        "verify": "Read everything and report damage; with --repair write repaired copies",
        "disk": "Show how much room the store takes; with --clean delete leftovers",
    },
    "holdfast.surfaces.cli.completion.completion": {
        "completion": "Print a script that completes commands in bash, zsh or fish",
    },
    "holdfast.surfaces.cli.doctor.doctor": {
        "doctor": "Check the store, the model, the settings and what is installed",
    },
    "holdfast.surfaces.cli.verbs.classify": {
        "classify": "Classify provider errors: JSON lines in, JSON lines out",
    },
    "holdfast.surfaces.cli.serve.serve": {
        "serve": "Serve sessions over HTTP: messages that are answered once, and a console",
    },
    "holdfast.surfaces.cli.proxy.proxy": {
        "proxy": "Pass an agent's requests on to its provider, with a durable log and a window",
    },
    "holdfast.surfaces.cli.proxy.wrap": {
        "wrap": "Run a command whose model calls go through a proxy of its own",
    },
    "holdfast.surfaces.cli.mcp.mcp": {
        "mcp": "Serve sessions, outputs and memory to an MCP client, over stdin and stdout",
    },
    "holdfast.surfaces.cli.telegram.telegram": {
        "telegram": "Run a Telegram bot whose chats are durable sessions",
    },
    "holdfast.surfaces.cli.chat.chat": {
        "chat": "Talk to a model in a durable session",
    },
    "holdfast.surfaces.cli.demo.demo": {
        "demo": "Watch a recorded agent outgrow its window, be refused and killed, lose nothing",
    },
}
"""The commands of each module, with their help.

`holdfast --help` imports none of the modules, a command only its own. A module defines a `Verb`
for each of its commands in `VERBS`.
"""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CANNOT_FIT = 3
EXIT_INTERRUPTED = 130
"""Exit codes that scripts rely on; docs/cli.md states them."""


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors, and names the nearest match."""

    command: argparse.ArgumentParser | None = None
    """The parser of the command that was named."""
    helps: Mapping[str, str] | None = None
    """The help of every command, where none was named."""
    is_whole = False
    """The help lists the seldom commands, too."""

    def format_help(self) -> str:
        """Return the commands in groups; of one command, its options."""
        if self.helps is None:
            return super().format_help()
        formatter = self._get_formatter()
        for group in self._action_groups:
            if group.title == "common options":
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        usage = "usage: holdfast [OPTIONS] COMMAND …\n"
        return format_groups(self.helps, usage, formatter.format_help(), is_whole=self.is_whole)

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


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    is_whole = [*argv[:2]] == ["help", "--all"]
    argv = _without_help(argv)
    try:
        parser = _build_parser(_command_name(argv))
        parser.is_whole = is_whole
        args = parser.parse_args(argv)
    except UsageError as error:
        Output(is_json=_wants_json(argv)).error(error)
        return EXIT_USAGE
    if args.verb is None:
        parser.print_help()
        return 0
    out = Output(is_json=args.json)
    try:
        settings = config.load(root=args.root, agent=args.agent, looks_upwards=True)
    except HoldfastError as error:
        out.error(error)
        return EXIT_USAGE
    is_raw = getattr(args, "raw", False)
    out = Output(is_json=args.json, secrets=settings.secrets, is_raw=is_raw)
    if args.verbose:
        _start_logging(args.verbose, out)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: out.warn(str(message))
        warnings.simplefilter("always", HoldfastWarning)
        return _run(args, settings, out)


def _without_help(argv: Sequence[str]) -> Sequence[str]:
    """Turn `help` and `help COMMAND` into the option that asks for the same."""
    if not argv or argv[0] != "help":
        return argv
    return [*(word for word in argv[1:] if word != "--all"), "--help"]


def _start_logging(verbosity: int, out: Output) -> None:
    """Write what the library logs to stderr, with secrets masked: `-vv` writes all of it."""
    import logging

    class Masked(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return out.mask(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Masked("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("holdfast")
    log.handlers = [handler]
    log.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)


def _log_start(app: App) -> None:
    import logging
    import platform

    log = logging.getLogger("holdfast.cli")
    log.info("holdfast %s, Python %s", __version__, platform.python_version())
    log.info("the store is %s", app.store.describe())


def _run(args: argparse.Namespace, settings: config.Settings, out: Output) -> int:
    try:
        app = App(settings, out, ANY_OWNER if args.owner is None else owner_argument(args.owner))
        with app.store:
            if args.verbose:
                _log_start(app)
            status: int = args.verb.run(args, app)
        sys.stdout.flush()
    except CannotFit as error:
        out.error(error, parts=error.parts)
        return EXIT_CANNOT_FIT
    except HoldfastError as error:
        out.error(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except BrokenPipeError:
        # The reader closed the pipe; the interpreter's final flush must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except OSError as error:
        place = f"`{error.filename}`: " if error.filename else ""
        reason = f"{place}{error.strerror or error}"
        out.error(StoreError(reason, hint="look at the file or folder that it names"))
        return EXIT_ERROR
    except KeyboardInterrupt:
        if out.is_json:
            out.error(HoldfastError("interrupted"))
        return EXIT_INTERRUPTED
    except Exception as error:
        if out.is_json:  # a mistake of ours: programs get an object, people the traceback
            out.error(HoldfastError(f"internal error: {type(error).__name__}: {error}"))
        raise
    return status


def _wants_json(argv: Sequence[str]) -> bool:
    """True where `--json` is among the arguments, also abbreviated, before they are parsed."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return any(word.startswith("--j") and "--json".startswith(word) for word in options)


def _command_name(argv: Sequence[str]) -> str | None:
    """Return the first argument that is not an option."""
    words = iter(argv)
    for word in words:
        if word in ("--root", "--agent", "--owner"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _build_parser(name: str | None) -> _Parser:
    """Build the parser of the command `name`, and load its module alone; without one, list all."""
    parser = _Parser(
        prog="holdfast", description="Durable sessions and a bounded context for LLM agents."
    )
    add_common(parser, is_default_set=True)
    common = _Parser(add_help=False)
    add_common(common, is_default_set=False)
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    parser.set_defaults(verb=None)
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    helps = {each: text for commands in COMMANDS.values() for each, text in commands.items()}
    is_known = any(name in commands for commands in COMMANDS.values())
    for module, commands in COMMANDS.items():
        for command, help_ in commands.items():
            if is_known and command != name:
                continue
            subparser = subparsers.add_parser(
                command,
                help=help_,
                description=help_ + ".",
                parents=[common] if is_known else [],
                formatter_class=CommandHelp,
            )
            if command == name:
                verb: Verb = import_module(module).VERBS[command]
                subparser.epilog = verb.epilog
                verb.add_arguments(subparser)
                parser.command = subparser
                subparser.set_defaults(verb=verb)
    if not is_known:
        parser.helps = {
            **helps,
            "help": "Show this, more of it with --all, or the options of a command",
        }
    return parser
