"""The `holdfast` command."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn

from holdfast import __version__, config
from holdfast.errors import CannotFit, HoldfastError, HoldfastWarning, UsageError
from holdfast.surfaces.cli.app import App, add_common
from holdfast.surfaces.cli.terminal import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.surfaces.cli.app import Command

_NAMES = {
    "sessions": ("sessions", "new", "label", "fork", "rm"),
    "records": ("append", "log", "show", "rewind", "branches"),
    "output": ("output",),
    "history": ("history", "audit"),
    "memory": ("memory",),
    "import_export": ("import", "export"),
    "reseed": ("reseed",),
    "checkpoint": ("checkpoint",),
    "inspect": ("inspect",),
    "context": ("context",),
    "simulate": ("simulate",),
    "maintenance": ("verify", "repair", "gc"),
    "classify": ("classify",),
    "chat": ("chat",),
    "demo": ("demo",),
}
"""Each file of commands and what is in it: a command that is asked for loads no other."""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CANNOT_FIT = 3


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors name the nearest match."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice: " in message:
            asked = message.split("'")[1]
            known = message.partition("(choose from ")[2].rstrip(")").replace("'", "").split(", ")
            close = difflib.get_close_matches(asked, known, n=2)
            help_ = f"see `{self.prog} --help`"
            hint = f"did you mean `{'` or `'.join(close)}`?" if close else help_
            message = f"unknown command `{asked}`\nhint: {hint}"
        self.exit(EXIT_USAGE, f"error: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    parser = _build_parser(_asked(argv))
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    out = Output(is_json=args.json)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: out.warn(str(message))
        warnings.simplefilter("always", HoldfastWarning)
        return _run(args, out)


def _run(args: argparse.Namespace, out: Output) -> int:
    try:
        app = App(config.load(root=args.root, agent=args.agent), out)
        with app.store:
            status: int = args.command.run(args, app)
        sys.stdout.flush()
    except CannotFit as error:
        out.error(error, parts=error.parts)
        return EXIT_CANNOT_FIT
    except HoldfastError as error:
        out.error(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except BrokenPipeError:
        # The reader went away; give the interpreter something harmless to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except KeyboardInterrupt:
        return 130
    return status


def _asked(argv: Sequence[str]) -> str | None:
    """The command among arguments, if it is plain to see."""
    words = iter(argv)
    for word in words:
        if word in ("--root", "--agent"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def commands(asked: str | None = None) -> tuple[Command, ...]:
    """The commands, or only those in the file of the one that is asked for."""
    file = next((file for file, names in _NAMES.items() if asked in names), None)
    return tuple(one for name in ([file] if file else _NAMES) for one in _load(name))


def _load(file: str) -> tuple[Command, ...]:
    match file:
        case "sessions":
            from holdfast.surfaces.cli.verbs import sessions

            return sessions.COMMANDS
        case "records":
            from holdfast.surfaces.cli.verbs import records

            return records.COMMANDS
        case "output":
            from holdfast.surfaces.cli.verbs import output

            return output.COMMANDS
        case "history":
            from holdfast.surfaces.cli.verbs import history

            return history.COMMANDS
        case "memory":
            from holdfast.surfaces.cli.verbs import memory

            return memory.COMMANDS
        case "import_export":
            from holdfast.surfaces.cli.verbs import import_export

            return import_export.COMMANDS
        case "reseed":
            from holdfast.surfaces.cli.verbs import reseed

            return reseed.COMMANDS
        case "checkpoint":
            from holdfast.surfaces.cli.verbs import checkpoint

            return checkpoint.COMMANDS
        case "inspect":
            from holdfast.surfaces.cli.inspect import inspect

            return inspect.COMMANDS
        case "context":
            from holdfast.surfaces.cli.verbs import context

            return context.COMMANDS
        case "simulate":
            from holdfast.surfaces.cli.verbs import simulate

            return simulate.COMMANDS
        case "maintenance":
            from holdfast.surfaces.cli.verbs import maintenance

            return maintenance.COMMANDS
        case "chat":
            from holdfast.surfaces.cli.chat import chat

            return chat.COMMANDS
        case "classify":
            from holdfast.surfaces.cli.verbs import classify

            return classify.COMMANDS
        case _:
            from holdfast.surfaces.cli.demo import demo

            return demo.COMMANDS


def _build_parser(asked: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="holdfast", description="Durable sessions and a bounded context for LLM agents."
    )
    add_common(parser, is_default_set=True)
    common = _Parser(add_help=False)
    add_common(common, is_default_set=False)
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    parser.set_defaults(command=None)
    verbs = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in commands(asked):
        verb = verbs.add_parser(
            command.name,
            help=command.help,
            description=command.help + ".",
            epilog=command.epilog,
            parents=[common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(verb)
        verb.set_defaults(command=command)
    return parser
