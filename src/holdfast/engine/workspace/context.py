"""Sessions opened to look at them, and the terms that they are planned with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.limits import (
    WINDOW_FLOOR_TOKENS,
)
from holdfast.core.models.window import likely_window, model_in
from holdfast.engine.session.options import SessionOptions, check_window
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.facts import (
    NEAR_RECORDS,
    TurnTerms,
    default_dialect,
    terms_of_proxy,
)
from holdfast.providers.callables import from_callable
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.window import Window
    from holdfast.ports import Clock, Model, SessionStore

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


class WorkspaceContext:
    """Opens sessions with the terms that their turns work with."""

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        settings: ContextSettings | None,
        terms_of: TermsOf,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings or ContextSettings()
        self._terms_of = terms_of

    def turn_terms(self, key: SessionKey) -> TurnTerms | None:
        """Return the terms that the next turn of a session works with; None where this program
        runs none. Not decided and not audited: they hold nothing of a session."""
        return self._terms_of(key.agent) if self._settings.model is None else None

    def request(self, key: SessionKey) -> ProjectionRequest | None:
        """Return the next request as a turn would make it; None where no one chose the terms.

        For a caller who was let in already: not decided and not audited.
        """
        terms = self.turn_terms(key)
        return self.open(key).request() if terms is not None and terms.is_stated else None

    def open(self, key: SessionKey, window: Window | None = None) -> _ReadSession:
        """The session, open. No model is asked for notes that are due."""
        store, settings, terms = self._store, self._settings, self.turn_terms(key)
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
        return _ReadSession(store, key, model, options, clock=self._clock)

    def _read_terms(self, key: SessionKey) -> tuple[Target, Window, SessionOptions]:
        """The model, the window and the options of a session that another program may run, as its
        log tells them."""
        store, terms = self._store, self.turn_terms(key)
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
