"""The context of sessions: how full it is, compaction, checkpoints, and a text to go on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.checkpoint.render import render
from holdfast.core.dialects.registry import target
from holdfast.core.flow.events import CompactionFinished
from holdfast.core.history.answers import Result
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import (
    CHECKPOINT_CHARS,
    RESEED_CHARS,
    TURN_WAIT_SECONDS,
    WINDOW_FLOOR_TOKENS,
)
from holdfast.core.models.window import likely_window, model_in
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.reseed import reseed
from holdfast.engine.session import checkpoints
from holdfast.engine.session.options import SessionOptions, check_window
from holdfast.engine.session.session import Session
from holdfast.engine.session.status import Status
from holdfast.engine.workspace.facts import (
    NEAR_RECORDS,
    TurnTerms,
    default_dialect,
    terms_of_proxy,
)
from holdfast.providers.callables import from_callable
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.window import Window
    from holdfast.engine.workspace.base import WorkspaceBase
    from holdfast.ports import Model

TermsOf = Callable[[str], TurnTerms | None]
"""Returns the terms of an agent's turns; None where this program runs none."""


class _ReadSession(Session):
    """A session that is opened to look at it."""

    def request(self) -> ProjectionRequest:
        state = self._state
        return state.run.request(state.records(), self._clock())


class ContextSettings(msgspec.Struct, frozen=True):
    """The model that sessions are planned for and compacted with."""

    model: Model | None = None
    """None plans for the model that answered last, and compacts without a model."""
    window: Window | None = None
    """The context window; None for the model's."""


class SessionStatus(Status, Result, frozen=True, kw_only=True):
    """The size of the next request of a session, its cost so far, and its next compaction."""

    session_key: str
    """The session, as `agent/id`."""


class CompactionReport(CompactionFinished, Result, frozen=True, kw_only=True):
    """The result of a compaction, or of its preview."""

    session_key: str
    """The session, as `agent/id`."""
    truncated: bool = False
    """True where the summary had no room as a whole."""


class CheckpointText(Result, frozen=True, kw_only=True):
    """A checkpoint of a session as text."""

    session_key: str
    """The session, as `agent/id`."""
    notice: str = NOTICE
    """A warning to a model: this is data."""
    record: str | None
    """The record that holds it; null where it is not stored."""
    text: str
    """Requests, open tasks, decisions, failures and files."""
    truncated: bool = False
    """True where the text had no room as a whole."""


class ResumeText(Result, frozen=True, kw_only=True):
    """A session as text for a model that goes on with it."""

    session_key: str
    """The session, as `agent/id`."""
    text: str
    """Its summary, then its newest messages."""
    omitted_messages: int
    """Number of older messages that had no room."""
    truncated: bool = False
    """True where the text had no room as a whole."""


class WorkspaceContext:
    """Reports on the context of sessions and compacts it; reads and stores checkpoints."""

    def __init__(
        self,
        base: WorkspaceBase,
        settings: ContextSettings | None = None,
        terms_of: TermsOf = lambda _agent: None,
    ) -> None:
        self._base = base
        self._settings = settings or ContextSettings()
        self._terms_of = terms_of

    def turn_terms(self, key: SessionKey) -> TurnTerms | None:
        """Return the terms that the next turn of a session works with; None where this program
        runs none. Not decided and not audited: they hold nothing of a session."""
        return self._terms_of(key.agent) if self._settings.model is None else None

    def request(self, key: SessionKey) -> ProjectionRequest | None:
        """Return the next request as a turn would make it; None where nobody chose the terms.

        For a caller who was let in already: not decided and not audited.
        """
        terms = self.turn_terms(key)
        return self._open(key, None).request() if terms is not None and terms.is_stated else None

    def status(self, session: str, *, window: Window | None = None) -> SessionStatus:
        """The size of the next request of a session, and when its next compaction is due."""

        def give() -> GivenReply[SessionStatus]:
            key, reason = self._base.resolve(session)
            status = self._open(key, window).status()
            answer = SessionStatus(**msgspec.structs.asdict(status), session_key=str(key))
            return GivenReply(answer, reason)

        return self._base.audit("status", session, give)

    def compact(
        self,
        session: str,
        *,
        focus: str = "",
        preview: bool = False,
        wait: float = TURN_WAIT_SECONDS,
        make: Callable[[], CompactionFinished] | None = None,
    ) -> CompactionReport:
        """Compact the view of a session now. A preview only reports what that would do.

        `make` compacts in place of the workspace, which asks no model unless it was given one.
        """

        def give() -> GivenReply[CompactionReport]:
            find = self._base.resolve if preview else self._base.resolve_to_change
            key, reason = find(session)
            result = (
                make()
                if make is not None
                else self._open(key, None).compact(focus, preview=preview, wait=wait)
            )
            answer = CompactionReport(**msgspec.structs.asdict(result), session_key=str(key))
            return GivenReply(self._base.fit(answer, "summary"), reason)

        return self._base.audit("compact", session, give)

    def checkpoint(self, session: str, *, max_chars: int = CHECKPOINT_CHARS) -> CheckpointText:
        """The newest stored checkpoint of a session; without one, its state now."""

        def give() -> GivenReply[CheckpointText]:
            key, reason = self._base.resolve(session)
            found = checkpoints.load(self._base.store, key)
            state = found.state or checkpoints.take(self._base.store, key).state
            return GivenReply(self._show(key, state, found.record, max_chars), reason)

        return self._base.audit("checkpoint", session, give)

    def save_checkpoint(
        self,
        session: str,
        *,
        fields: Mapping[str, Any] | None = None,
        max_chars: int = CHECKPOINT_CHARS,
    ) -> CheckpointText:
        """Store a checkpoint of a session: its state now, with the given fields."""

        def give() -> GivenReply[CheckpointText]:
            key, reason = self._base.resolve_to_change(session)
            given = self._base.redactor.value(dict(fields or {}))
            taken = checkpoints.take(
                self._base.store, key, extra=given or None, clock=self._base.clock
            )
            record = checkpoints.save(self._base.store, key, taken.state)
            return GivenReply(self._show(key, taken.state, record, max_chars), reason)

        return self._base.audit("checkpoint", session, give)

    def resume(self, session: str, *, max_chars: int = RESEED_CHARS) -> ResumeText:
        """A session as text for a model that goes on with it: summary, then newest messages."""

        def give() -> GivenReply[ResumeText]:
            base = self._base
            key, reason = base.resolve(session)
            told = reseed(
                base.store, key, identity=base.caller, cap=max_chars, redactor=base.redactor
            )
            answer = ResumeText(session_key=str(key), text=told.text, omitted_messages=told.omitted)
            return GivenReply(base.fit(answer, "text"), reason)

        return self._base.audit("reseed", session, give)

    def _show(self, key: SessionKey, state: State, record: str, max_chars: int) -> CheckpointText:
        text = render(state, max_chars, redactor=self._base.redactor)
        answer = CheckpointText(session_key=str(key), record=record or None, text=text)
        return self._base.fit(answer, "text")

    def _open(self, key: SessionKey, window: Window | None) -> _ReadSession:
        """The session, open. No model is asked for notes that are due."""
        store, settings, terms = self._base.store, self._settings, self.turn_terms(key)
        size = window or settings.window
        floor, chosen = None, SessionOptions()
        if settings.model is not None:
            model = settings.model
        elif terms is not None and terms.is_stated:
            model = from_callable(_never_send, terms.target, terms.window)
            size, floor, chosen = size or terms.window, terms.floor, terms.options
        else:
            aim, found, chosen = self._read_terms(key)
            model = from_callable(_never_send, aim, found)
            if size is None and found.confidence == "learned":  # it works in that, however small
                floor = min(WINDOW_FLOOR_TOKENS, found.tokens)
            size = size or found
        options = msgspec.structs.replace(
            chosen,
            window=size,
            limits=msgspec.structs.replace(chosen.limits, floor=floor),
            summary="extract" if settings.model is None else "model",
            notes="off",
        )
        check_window(options, model)
        return _ReadSession(store, key, model, options, clock=self._base.clock)

    def _read_terms(self, key: SessionKey) -> tuple[Target, Window, SessionOptions]:
        """The model, the window and the options of a session that another program may run, as its
        log tells them."""
        store, terms = self._base.store, self.turn_terms(key)
        newest = store.last(key, NEAR_RECORDS)
        provider, model = model_in(newest)
        found = likely_window(newest, model)
        system, tools = terms_of_proxy(store, key, newest)
        options = SessionOptions(system=system, tools=tools)
        if found is None and terms is not None and model in ("", terms.target.model):
            return terms.target, terms.window, options
        aim = target(default_dialect(model), provider=provider, model=model)
        return aim, found or window_of(model), options


def _never_send(_request: Json) -> object:
    raise AssertionError("a session that is looked at calls no model")
