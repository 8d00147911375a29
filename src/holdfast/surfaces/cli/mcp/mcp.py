"""`mcp`: serves sessions, outputs and memory to a client of the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from holdfast.core.history.access import EVERY, Caller, Visibility
from holdfast.core.log.ids import check_name
from holdfast.core.window import window_argument
from holdfast.errors import UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.sizes import size

if TYPE_CHECKING:
    import argparse

    from holdfast.engine.workspace.workspace import CallerWorkspace

_EXAMPLE = """examples:
  claude mcp add holdfast -- holdfast mcp --root ~/.sessions
  holdfast mcp --root ~/.sessions --owner alice --read-only"""


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--read-only", action="store_true", help="offer no tool that changes something"
    )
    parser.add_argument(
        "--session", metavar="ID", help="the client's own session, which it may name `current`"
    )
    parser.add_argument(
        "--visibility",
        choices=get_args(Visibility),
        default="agent",
        help="the sessions that it may read: its own, those that descend from it, those of its "
        "agent (default), or those of every agent; always of one owner",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="the model that sessions are planned for and compacted with (default: plan for the "
        "model that answered last, and compact without a model)",
    )
    parser.add_argument("--window", type=size, metavar="N", help="its context window in tokens")
    parser.add_argument(
        "--words-only", action="store_true", help="search by words alone, without vectors"
    )
    parser.add_argument(
        "--embedder",
        metavar="NAME",
        help="the model for vectors (default: HOLDFAST_EMBEDDER, or minilm where it is installed)",
    )


def _mcp(args: argparse.Namespace, app: App) -> int:
    caller = _caller(args, app)
    try:
        from holdfast.surfaces.mcp.server import McpClient, build_server
        from holdfast.surfaces.mcp.transports import serve_stdio
    except ImportError as error:
        raise UsageError(
            f"`holdfast mcp` needs a package that is not installed: {error.name or error}",
            hint="pip install 'holdfast[mcp]'",
        ) from error
    from holdfast.engine.memory.vectors import VectorWorker, mask_embedder
    from holdfast.engine.redactor import redactor
    from holdfast.engine.workspace.context import ContextSettings
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.providers.models import model

    client = McpClient(caller, args.read_only)
    masks = redactor(app.settings.secrets)
    name = args.embedder or app.settings.embedder
    embedder = None if args.words_only else mask_embedder(name, masks)
    worker = VectorWorker(app.store.search_index, embedder) if embedder else None
    context = ContextSettings(
        model(args.model) if args.model else None, window_argument(args.window, "--window")
    )

    def workspace_of(caller: Caller) -> CallerWorkspace:
        return CallerWorkspace(
            app.store, caller, redactor=masks, embedder=embedder, worker=worker, context=context
        )

    try:
        serve_stdio(build_server(lambda _request: client, workspace_of), masks.value)
    finally:
        if worker is not None:
            worker.close()
    return 0


def _caller(args: argparse.Namespace, app: App) -> Caller:
    """The identity of the client: an agent, and the owner that it works for."""
    if args.session is not None:
        check_name("session", args.session)
    elif args.visibility in ("self", "tree"):
        raise UsageError(
            f"--visibility {args.visibility} needs the client's own session",
            hint="add --session ID, or choose --visibility agent",
        )
    if args.window is not None and args.window < 1:
        raise UsageError(f"a window cannot have {args.window} tokens", hint="pass 1 or more")
    agents = (EVERY,) if args.visibility == "all" else ()
    return Caller(
        app.settings.agent,
        args.session,
        owner=app.owner_of_new,
        visibility=args.visibility,
        agents=agents,
    )


VERBS = {
    "mcp": Verb(_add_mcp, _mcp, _EXAMPLE),
}
