"""`chat`: talk to a model in a session that lasts."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import UsageError
from holdfast.surfaces.cli.app import App, Command

if TYPE_CHECKING:
    import argparse

    from holdfast.engine.session.base import Options
    from holdfast.surfaces.chat_context import Desk
    from holdfast.surfaces.cli.chat.view import View

_EXAMPLE: Final = """examples:
  holdfast chat                       the newest session, or a first one; no key is needed
  holdfast chat --model anthropic:claude-sonnet-4-5
  holdfast chat my-project            by id, label, or the beginning of one
  holdfast chat --new "release notes"
  echo "What is in README.md?" | holdfast chat --json"""


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="which one (the newest); a label with --new"
    )
    parser.add_argument("--new", action="store_true", help="start another session")
    parser.add_argument(
        "--model", metavar="NAME", help="the model (HOLDFAST_MODEL, offline: needs no key)"
    )
    system = parser.add_mutually_exclusive_group()
    system.add_argument("--system", default="", metavar="TEXT", help="the system prompt")
    system.add_argument("--system-file", metavar="FILE", help="the system prompt, from a file")
    parser.add_argument(
        "--window", type=int, metavar="N", help="the model's window, where it is not known"
    )
    parser.add_argument("--no-tools", action="store_true", help="give the model no tools")
    parser.add_argument(
        "--allow-write", action="store_true", help="give it a tool that writes files, too"
    )


def _chat(args: argparse.Namespace, app: App) -> int:
    # Only now: they take a while, and no other command needs them.
    from holdfast.surfaces.cli.chat.input import source_for
    from holdfast.surfaces.cli.chat.loop import Chat, quiet
    from holdfast.surfaces.cli.chat.view import JsonLines, Screen

    is_live = sys.stdin.isatty() and not app.out.is_json
    view: View = (
        JsonLines(app.out)
        if app.out.is_json
        else Screen(app.out, is_live=is_live and sys.stdout.isatty())
    )
    with quiet(is_live=is_live):
        view.busy(f"loading {_model(args, app)}")
        try:
            desk = _desk(args, app, view)
            _sit_down(args, app, desk, view)
        finally:
            view.idle()
    source = source_for(desk, app.settings.root, is_json=app.out.is_json)
    try:
        return Chat(desk, view, source).run()
    finally:
        view.idle()
        desk.close()


def _model(args: argparse.Namespace, app: App) -> str:
    name: str = args.model or app.settings.model
    return name


def _desk(args: argparse.Namespace, app: App, view: View) -> Desk:
    from holdfast.providers.models import model
    from holdfast.surfaces.chat_context import Desk

    return Desk(
        app.store, app.settings.agent, model(_model(args, app)), _options(args), listen=view.event
    )


def _options(args: argparse.Namespace) -> Options:
    from holdfast.surfaces.cli.chat.tools import Workshop

    tools = [] if args.no_tools else Workshop(".").tools(can_write=args.allow_write)
    options: Options = {"system": _system(args), "tools": tools}
    if args.window is not None:
        options["window"] = args.window
    return options


def _system(args: argparse.Namespace) -> str:
    if not args.system_file:
        text: str = args.system
        return text
    try:
        with open(args.system_file, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the system prompt cannot be read from `{args.system_file}`: {error}",
            hint="give a text file",
        ) from error


def _sit_down(args: argparse.Namespace, app: App, desk: Desk, view: View) -> None:
    """Open the session that is meant, and say which."""
    from holdfast.surfaces.cli.chat.loop import greeting, interruption

    first = False
    if args.new:
        desk.start(args.session or "")
    elif args.session:
        desk.open(app.session(args.session))
    else:
        first = desk.open_newest()
    is_new = args.new or first
    if sys.stdin.isatty() and not app.out.is_json:
        words = greeting(desk, is_new=is_new, first=first)
    else:
        words = interruption(desk)
    view.opened(words, _facts(desk, is_new=is_new))


def _facts(desk: Desk, *, is_new: bool) -> dict[str, Any]:
    session = desk.session
    return {
        "session": session.id,
        "agent": desk.agent,
        "is_new": is_new,
        "model": session.target.model,
        "window": session.window,
        "tools": desk.tools,
        "folder": os.getcwd(),
    }


COMMANDS = (
    Command("chat", "Talk to a model in a session that lasts", _add_chat, _chat, epilog=_EXAMPLE),
)
