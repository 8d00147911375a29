"""`chat`: talk to a model in a durable session."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.sizes import size

if TYPE_CHECKING:
    import argparse

    from holdfast.engine.session.options import SessionOptions
    from holdfast.surfaces.chat_context import ChatContext
    from holdfast.surfaces.cli.chat.view import ChatView

_EXAMPLE: Final = """examples:
  holdfast chat                       the newest session, or a new one; needs no key
  holdfast chat --model anthropic:claude-sonnet-4-6
  holdfast chat my-project            by id, label, or the beginning of either
  holdfast chat --new "release notes"
  echo "What is in README.md?" | holdfast chat --json"""


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="id, label or prefix (default: the newest session); with --new, the label",
    )
    parser.add_argument("--new", action="store_true", help="start another session")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="the model (default: HOLDFAST_MODEL, or `offline`, which needs no key)",
    )
    system = parser.add_mutually_exclusive_group()
    system.add_argument("--system", default="", metavar="TEXT", help="the system prompt")
    system.add_argument("--system-file", metavar="FILE", help="the system prompt, from a file")
    parser.add_argument(
        "--window",
        type=size,
        metavar="N",
        help="the context window in tokens, for a model that is not in the catalog",
    )
    parser.add_argument(
        "--found-secrets",
        choices=("warn", "handle", "keep"),
        help="what looks like a credential and is not in HOLDFAST_SECRETS: store it and warn "
        "(default), store a handle that tools resolve until the chat ends, or do not look",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME|FILE",
        help="when to shorten and cut: thrifty, balanced (default), faithful, or a TOML or JSON "
        "file with thresholds",
    )
    parser.add_argument(
        "--background-summary",
        action="store_true",
        help="have the model write the summary for the next compaction ahead, while you read",
    )
    parser.add_argument("--no-tools", action="store_true", help="give the model no tools")
    parser.add_argument("--allow-write", action="store_true", help="add a tool that writes files")


def _chat(args: argparse.Namespace, app: App) -> int:
    # These imports are slow, and no other command needs them.
    from holdfast.surfaces.cli.chat.input import source_for
    from holdfast.surfaces.cli.chat.loop import Chat, quiet
    from holdfast.surfaces.cli.chat.view import JsonLines, Screen

    is_live = sys.stdin.isatty() and not app.out.is_json
    view: ChatView = (
        JsonLines(app.out)
        if app.out.is_json
        else Screen(app.out, is_live=is_live and sys.stdout.isatty())
    )
    with quiet(is_live=is_live):
        view.busy(f"loading {_model(args, app)}")
        try:
            chat = _context(args, app, view)
            _open_session(args, app, chat, view)
        finally:
            view.idle()
    source = source_for(chat, app.store.local_folder, is_json=app.out.is_json)
    try:
        return Chat(chat, view, source).run()
    finally:
        view.idle()
        chat.close()


def _model(args: argparse.Namespace, app: App) -> str:
    name: str = args.model or app.settings.model
    return name


def _context(args: argparse.Namespace, app: App, view: ChatView) -> ChatContext:
    from holdfast.providers.models import model
    from holdfast.surfaces.chat_context import ChatContext

    return ChatContext(
        app.store,
        app.settings.agent,
        model(_model(args, app)),
        _options(args, app),
        owner=app.owner,
        audience="operator",
        listen=view.event,
    )


def _options(args: argparse.Namespace, app: App) -> SessionOptions:
    from holdfast.core.secrets.found import Secrets
    from holdfast.core.turn.options import Summary
    from holdfast.engine.session.options import SessionOptions
    from holdfast.engine.simulation.policies import read_policy
    from holdfast.surfaces.cli.chat.tools import FolderTools

    tools = [] if args.no_tools else FolderTools(".").tools(can_write=args.allow_write)
    return SessionOptions(
        system=_system(args),
        tools=tools,
        window=args.window,
        policy=read_policy(args.policy or "balanced"),
        summary=Summary(ahead=args.background_summary),
        secrets=Secrets(dict(app.settings.secrets), found=args.found_secrets or "warn"),
    )


def _system(args: argparse.Namespace) -> str:
    if not args.system_file:
        text: str = args.system
        return text
    try:
        with open(args.system_file, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the system prompt from `{args.system_file}`: {error}",
            hint="pass a UTF-8 text file",
        ) from error


def _open_session(args: argparse.Namespace, app: App, chat: ChatContext, view: ChatView) -> None:
    """Open the session that the arguments name, and show the banner."""
    from holdfast.surfaces.answers import Cell, line
    from holdfast.surfaces.cli.chat.loop import greeting, interruption

    first = False
    if args.new:
        chat.start(args.session or "")
    elif args.session:
        chat.open(app.session(args.session))
    else:
        first = chat.open_newest()
    is_new = args.new or first
    if sys.stdin.isatty() and not app.out.is_json:
        words = greeting(chat, is_new=is_new, first=first)
    else:
        words = interruption(chat)
    if not args.no_tools and not chat.tools:
        model = chat.session.target.model
        words.append(
            line(Cell(f"  {model} works with tools of its own; this chat gives it none", "dim"))
        )
    view.welcome(words, _facts(chat, is_new=is_new))


def _facts(chat: ChatContext, *, is_new: bool) -> dict[str, Any]:
    session = chat.session
    return {
        "session": session.key.session,
        "agent": chat.agent,
        "is_new": is_new,
        "model": session.target.model,
        "window": session.window,
        "tools": chat.tools,
        "folder": os.getcwd(),
    }


VERBS = {"chat": Verb(_add_chat, _chat, _EXAMPLE)}
