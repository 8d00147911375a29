"""Reading a command line, running its command, and telling how it ended."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

from holdfast import __version__, config
from holdfast.core.owners import ANY_OWNER, owner_argument
from holdfast.errors import CannotFit, HoldfastError, HoldfastWarning, StoreError, UsageError
from holdfast.surfaces.cli.command import read_command
from holdfast.surfaces.cli.help import build_parser
from holdfast.surfaces.cli.terminal import Output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.command import Command

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CANNOT_FIT = 3
EXIT_INTERRUPTED = 130
"""Exit codes that scripts rely on; docs/cli.md states them."""


def run_command_line(argv: Sequence[str]) -> int:
    """Run the command that the arguments name; returns the exit code."""
    is_whole = [*argv[:2]] == ["help", "--all"]
    argv = _without_help(argv)
    try:
        parser = build_parser(_command_name(argv))
        parser.is_whole = is_whole
        args = parser.parse_args(argv)
    except UsageError as error:
        Output(is_json=_wants_json(argv)).error(error)
        return EXIT_USAGE
    if args.kind is None:
        parser.print_help()
        return 0
    command = read_command(args.kind, args)
    try:
        root = command.root or args.root
        settings = config.load(root=root, agent=args.agent, looks_upwards=True)
    except HoldfastError as error:
        Output(is_json=args.json).error(error)
        return EXIT_USAGE
    is_raw = getattr(command, "is_raw", False)
    out = Output(is_json=args.json, secrets=settings.secrets, is_raw=is_raw)
    if args.verbose:
        _start_logging(args.verbose, out)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: out.warn(str(message))
        warnings.simplefilter("always", HoldfastWarning)
        return _run(command, args, settings, out)


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


def _run(command: Command, args: argparse.Namespace, settings: config.Settings, out: Output) -> int:
    from holdfast.surfaces.cli.app import App  # the list of commands needs no store

    try:
        owner = ANY_OWNER if args.owner is None else owner_argument(args.owner)
        app = App(settings, out, owner, args.agent, args.root)
        with app.store:
            if args.verbose:
                _log_start(app)
            status = command.perform(app)
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
