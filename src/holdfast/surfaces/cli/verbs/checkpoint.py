"""`checkpoint` and `reseed`: the state of a session, and its text for another backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import to_json
from holdfast.core.history.access import OPERATOR
from holdfast.core.memory.running_summary import render as render_summary
from holdfast.core.window import Window
from holdfast.engine.operations.context import ReadCheckpoint
from holdfast.engine.redactor import redactor
from holdfast.engine.session import checkpoints
from holdfast.surfaces.cli.command import (
    RawOption,
    ResultCommand,
    SessionPlace,
    option,
    pick,
    takes,
)

if TYPE_CHECKING:
    from holdfast.core.checkpoint.state import State
    from holdfast.core.history.reseed import Reseed
    from holdfast.core.log.ids import SessionKey
    from holdfast.surfaces.cli.app import App


class _Shown(msgspec.Struct, frozen=True):
    """A state as text, as its fields, and the record that it was stored as."""

    key: SessionKey
    text: str
    fields: dict[str, Any]
    record: str = ""


class CheckpointCommand(ResultCommand, frozen=True, kw_only=True):
    """Shows and stores checkpoints."""

    asked: Annotated[ReadCheckpoint, takes("session_key", "max_chars")]
    is_raw: RawOption = False
    model: Annotated[str | None, option("let a model complete the checkpoint", "NAME")] = None
    save: Annotated[bool, option("write it to the session's log", group="action")] = False
    summary: Annotated[
        bool,
        option("show the running summary of the conversation instead", group="action"),
    ] = False
    is_list: Annotated[bool, option("list the stored checkpoints", group="action")] = False
    import_: Annotated[
        str | None,
        option(
            "give the session another tool's checkpoint (file or folder): its next request has it",
            "PATH",
            group="action",
        ),
    ] = None

    def run(self, app: App) -> list[tuple[str, State]] | _Shown:
        key = app.session(self.asked.session_key)
        if self.is_list:
            return list(checkpoints.each(app.store, key))
        masks, most = None if self.is_raw else redactor(app.settings.secrets), self.asked.max_chars
        if self.summary:
            from holdfast.engine.memory.notes import refresh

            found = refresh(app.store, key)
            fields, record = {"summary": msgspec.to_builtins(found)}, ""
            text = render_summary(found, most, redactor=masks)
        else:
            state, record = self._state(app, key)
            fields = {"state": to_json(state)}
            text = render_checkpoint(state, most, redactor=masks)
        return _Shown(key, text, fields if masks is None else masks.value(fields), record)

    def _state(self, app: App, key: SessionKey) -> tuple[State, str]:
        if self.import_ is not None:
            from holdfast.importers.checkpoints import read_checkpoint

            state = read_checkpoint(self.import_)
            return state, checkpoints.bring_in(app.store, key, state)
        taken = checkpoints.take_checkpoint(app.store, key, trigger="asked")
        for bad in taken.passed_over:
            app.out.warn(f"checkpoint record `{bad.record}` was skipped: {bad.reason}")
        state = taken.state
        if self.model is not None:
            from holdfast.providers.models import model

            with app.out.busy(f"asking {self.model}"):
                state = checkpoints.enrich(model(self.model), state, list(app.store.read(key)))
        return state, checkpoints.save_checkpoint(app.store, key, state) if self.save else ""

    def plain(self, found: list[tuple[str, State]] | _Shown) -> Any:
        if isinstance(found, _Shown):
            names = {} if self.summary else {"record": found.record or None}
            shown = {"text": found.text, "chars": len(found.text), **found.fields}
            return {**msgspec.to_builtins(found.key), **names, **shown}
        renamed = {"checkpoint": "checkpoint_id", "requests": "request_count"}
        return [
            {"record": record, "pending": len(state.pending_tasks)}
            | pick(state, "timestamp", "trigger", **renamed)
            for record, state in found
        ]

    def show(self, found: list[tuple[str, State]] | _Shown, app: App) -> None:
        if isinstance(found, _Shown):
            app.out.text(found.text)  # no newline: its limit counts every character
            if found.record:
                app.out.note(f"stored as record {found.record}")
            return
        app.out.table(
            ("Record", "Taken", "Trigger", ">Open", "Objective"),
            (
                (
                    *(record, state.timestamp, state.trigger, f"{len(state.pending_tasks):,}"),
                    " ".join((state.current_objective or state.original_request).split())[:60],
                )
                for record, state in found
            ),
        )


class ReseedCommand(ResultCommand, frozen=True, kw_only=True):
    """Prints a session as text."""

    session: SessionPlace
    max_chars: Annotated[
        int | None, option("at most N characters (12,288)", "N", group="bound")
    ] = None
    max_tokens: Annotated[int | None, option("at most N tokens", "N", group="bound")] = None
    window: Annotated[
        Window | None,
        option("scale to a backend with a window of N tokens", "N", group="bound"),
    ] = None
    for_: Annotated[
        str | None, option("fail unless the session belongs to this owner", "OWNER")
    ] = None

    def run(self, app: App) -> tuple[SessionKey, Reseed]:
        from holdfast.engine.history.reseed import reseed

        key = app.session(self.session)
        text = reseed(
            app.store,
            key,
            identity=OPERATOR if self.for_ is None else self.for_,
            cap=self.max_chars,
            tokens=self.max_tokens,
            window=self.window,
            redactor=redactor(app.settings.secrets),
            audit=app.store.audit,
        )
        return key, text

    def plain(self, found: tuple[SessionKey, Reseed]) -> Any:
        key, text = found
        return {**msgspec.to_builtins(key), **msgspec.to_builtins(text), "chars": len(text.text)}

    def show(self, found: tuple[SessionKey, Reseed], app: App) -> None:
        if found[1].text:
            app.out.text(found[1].text)
        else:
            app.out.note(f"{found[0].session} has no messages")
