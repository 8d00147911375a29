"""`reseed`: prints a session as text for a backend that lost its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.history.access import OPERATOR
from holdfast.surfaces.cli.app import App, Verb, add_session
from holdfast.surfaces.cli.sizes import size

if TYPE_CHECKING:
    import argparse


def _add_reseed(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument("--max-chars", type=size, metavar="N", help="at most N characters (12,288)")
    bound.add_argument("--max-tokens", type=size, metavar="N", help="at most N tokens")
    bound.add_argument(
        "--window", type=size, metavar="N", help="scale to a backend with a window of N tokens"
    )
    parser.add_argument(
        "--for",
        dest="identity",
        metavar="OWNER",
        help="fail unless the session belongs to this owner",
    )


def _reseed(args: argparse.Namespace, app: App) -> int:
    from holdfast.engine.history.reseed import reseed
    from holdfast.engine.redactor import redactor

    key = app.session(args.session)
    text = reseed(
        app.store,
        key,
        identity=OPERATOR if args.identity is None else args.identity,
        cap=args.max_chars,
        tokens=args.max_tokens,
        window=args.window,
        redactor=redactor(app.settings.secrets),
        audit=app.store.audit,
    )
    if app.out.is_json:
        fields = msgspec.structs.asdict(text)
        app.out.json(
            {"session": key.session, "agent": key.agent, **fields, "chars": len(text.text)}
        )
    elif text.text:
        app.out.text(text.text)
    else:
        app.out.note(f"{key.session} has no messages to tell of")
    return 0


VERBS = {
    "reseed": Verb(_add_reseed, _reseed),
}
