"""`checkpoint`: shows and stores the state of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import to_json
from holdfast.core.limits import CHECKPOINT_CHARS
from holdfast.engine.session import checkpoints
from holdfast.errors import UsageError
from holdfast.surfaces.cli.app import App, Verb, add_session

if TYPE_CHECKING:
    import argparse

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.surfaces.answers import Row


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--max-chars",
        type=int,
        default=CHECKPOINT_CHARS,
        metavar="N",
        help=f"at most N characters ({CHECKPOINT_CHARS})",
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")
    parser.add_argument("--model", metavar="NAME", help="let a model complete the checkpoint")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--save", action="store_true", help="write it to the session's log")
    action.add_argument(
        "--summary",
        action="store_true",
        help="show the running summary of the conversation instead",
    )
    action.add_argument("--list", action="store_true", help="list the stored checkpoints")
    action.add_argument(
        "--import",
        dest="place",
        metavar="PATH",
        help="give the session another tool's checkpoint (file or folder): its next request has it",
    )


def _checkpoint(args: argparse.Namespace, app: App) -> int:
    if args.max_chars < 0:
        raise UsageError(f"cannot show {args.max_chars} characters", hint="pass 0 or more")
    key = app.session(args.session)
    if args.list:
        return _list(app, key)
    if args.summary:
        return _summary(args, app, key)
    if args.place is not None:
        return _show(args, app, key, *_import(app, key, args.place))
    taken = checkpoints.take_checkpoint(app.store, key, trigger="asked")
    for bad in taken.passed_over:
        app.out.warn(f"checkpoint record `{bad.record}` was skipped: {bad.reason}")
    state = taken.state
    if args.model is not None:
        from holdfast.providers.models import model

        with app.out.busy(f"asking {args.model}"):
            state = checkpoints.enrich(model(args.model), state, list(app.store.read(key)))
    record = checkpoints.save_checkpoint(app.store, key, state) if args.save else ""
    return _show(args, app, key, state, record)


def _show(args: argparse.Namespace, app: App, key: SessionKey, state: State, record: str) -> int:
    redactor = _redactor(args, app)
    text = render_checkpoint(state, args.max_chars, redactor=redactor)
    if app.out.is_json:
        plain = to_json(state)
        app.out.json(
            {
                "session": key.session,
                "agent": key.agent,
                "record": record or None,
                "text": text,
                "chars": len(text),
                "state": plain if redactor is None else redactor.value(plain),
            }
        )
        return 0
    app.out.text(text)  # no newline: its limit counts every character
    if record:
        app.out.note(f"stored as record {record}")
    return 0


def _summary(args: argparse.Namespace, app: App, key: SessionKey) -> int:
    from holdfast.core.memory.running_summary import render as shown
    from holdfast.engine.memory.notes import refresh

    found = refresh(app.store, key)
    redactor = _redactor(args, app)
    text = shown(found, args.max_chars, redactor=redactor)
    if app.out.is_json:
        plain = msgspec.to_builtins(found)
        app.out.json(
            {
                "session": key.session,
                "agent": key.agent,
                "text": text,
                "chars": len(text),
                "summary": plain if redactor is None else redactor.value(plain),
            }
        )
        return 0
    app.out.text(text)  # no newline: its limit counts every character
    return 0


def _redactor(args: argparse.Namespace, app: App) -> Redactor | None:
    if args.raw:
        return None
    from holdfast.engine.redactor import redactor

    return redactor(app.settings.secrets)


def _list(app: App, key: SessionKey) -> int:
    found = list(checkpoints.each(app.store, key))
    if app.out.is_json:
        app.out.json(
            [
                {
                    "record": record,
                    "checkpoint": state.checkpoint_id,
                    "timestamp": state.timestamp,
                    "trigger": state.trigger,
                    "requests": state.request_count,
                    "pending": len(state.pending_tasks),
                }
                for record, state in found
            ]
        )
        return 0
    rows: list[Row] = [
        [record, state.timestamp, state.trigger, f"{len(state.pending_tasks):,}", _about(state)]
        for record, state in found
    ]
    app.out.table(("Record", "Taken", "Trigger", ">Open", "Objective"), rows)
    return 0


def _about(state: State) -> str:
    return " ".join((state.current_objective or state.original_request).split())[:60]


def _import(app: App, key: SessionKey, place: str) -> tuple[State, str]:
    from holdfast.importers.checkpoints import read_checkpoint

    state = read_checkpoint(place)
    return state, checkpoints.bring_in(app.store, key, state)


VERBS = {
    "checkpoint": Verb(_add_checkpoint, _checkpoint),
}
