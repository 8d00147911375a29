"""The next request of a session, as it would be sent under given terms. Nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.records import Assistant, Header, ModelChange, User
from holdfast.core.log.refs import restore
from holdfast.core.models.catalog import family_of
from holdfast.core.models.window import Window, likely_window
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.steps import MEANING
from holdfast.engine.outputs import payload_of
from holdfast.engine.session.prepare import Prepared, prepare
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.project import Plan
    from holdfast.ports import SessionStore


class RequestTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a request that are not in the log."""

    window: int | None = None
    """The context window in tokens; None for the model's."""
    window_from: str = "--window"
    """Who states the window, in the words of the surface."""
    model: str = ""
    provider: str = ""
    dialect: str = ""
    """The provider's request format; empty for the model's own."""
    system: str = ""
    tools: tuple[Tool, ...] = ()
    prompt: str = ""
    """The next message of the user."""
    output: int | None = None
    floor: int = WINDOW_FLOOR_TOKENS
    idle: float | None = None
    """Seconds since the last call."""
    policy: Policy = Policy()
    base: ProjectionRequest | None = None
    """The next request as a turn of this program makes it. All else here but `policy` and `floor`
    is said where it is to be other than in it."""
    own: Window | None = None
    """The window that the session works in, where that is known beforehand."""


def terms_of_turn(base: ProjectionRequest) -> RequestTerms:
    """Return the terms of a request that is sent as a turn makes it."""
    return RequestTerms(base=base, policy=base.policy, floor=base.floor)


def session_records(store: SessionStore, key: SessionKey, window: int | None) -> list[Record]:
    """Return the records that a request is made from; all of them without a window."""
    found = store.read(key) if window is None else store.live(key, window=window).records
    payload = payload_of(store.blobs)
    return [restore(record, payload) for record in found if not isinstance(record, Header)]


def model_in(records: Sequence[Record]) -> tuple[str, str]:
    """Return the provider and model that answered last, or were chosen since."""
    for record in reversed(records):
        if isinstance(record, Assistant | ModelChange) and record.model and record.model[0] != "<":
            return record.provider or "", record.model
    return "", ""


def default_dialect(model: str) -> str:
    family = family_of(model)
    return family.dialect if family is not None else "anthropic"


def preview(records: Sequence[Record], terms: RequestTerms) -> Prepared:
    """Return the request that would be sent, and its plan."""
    if terms.base is not None:
        return _preview_turn(records, terms, terms.base)
    model = terms.model
    aim = target(terms.dialect or default_dialect(model), provider=terms.provider, model=model)
    asked = [*records, User(id="prompt", content=terms.prompt)] if terms.prompt else [*records]
    window, floor = _window_and_floor(asked, terms)
    return prepare(
        ProjectionRequest(
            asked,
            window,
            aim,
            system=terms.system,
            tools=terms.tools,
            output_tokens=terms.output,
            floor=floor,
            policy=terms.policy,
            prompt_cache=PromptCache(idle_seconds=terms.idle),
        )
    )


def _preview_turn(
    records: Sequence[Record], terms: RequestTerms, base: ProjectionRequest
) -> Prepared:
    """The request of a turn, with what is to be other than in it."""
    aim, window = base.target, base.window
    if terms.model and terms.model != aim.model:
        aim = target(default_dialect(terms.model), model=terms.model)
        window = window_of(terms.model)
    if terms.dialect and terms.dialect != aim.dialect.name:
        aim = target(terms.dialect, provider=aim.provider, model=aim.model)
    if terms.window is not None:
        window = Window(terms.window, terms.window_from, "stated")
    prompt = [User(id="prompt", content=terms.prompt)] if terms.prompt else []
    return prepare(
        msgspec.structs.replace(
            base,
            records=[*records, *prompt],
            target=aim,
            window=window,
            output_tokens=base.output_tokens if terms.output is None else terms.output,
            floor=terms.floor,
            policy=terms.policy,
            prompt_cache=msgspec.structs.replace(base.prompt_cache, idle_seconds=terms.idle),
        )
    )


def _window_and_floor(records: Sequence[Record], terms: RequestTerms) -> tuple[Window, int]:
    """The window as stated, as the log tells, or the model's. The floor is for one that a person
    states: a session that works in a smaller one has its next request, too."""
    if terms.window is not None:
        return Window(terms.window, terms.window_from, "stated"), terms.floor
    found = likely_window(records, terms.model)
    window = Window(*found, "learned") if found else terms.own or window_of(terms.model)
    is_learned = window.confidence == "learned"
    return window, min(terms.floor, window.tokens) if is_learned else terms.floor


def as_json(prepared: Prepared) -> Json:
    """Return the request and the plan for programs."""
    return {"request": prepared.request, **plan_json(prepared.plan)}


def plan_json(plan: Plan) -> Json:
    """Return a plan for programs, without the request itself."""
    return {
        "tokens": plan.tokens,
        "budget": budget_json(plan),
        "window": plan.window,
        "ledger": plan.ledger,
        "repairs": [
            {
                "flaw": repair.flaw,
                "record": repair.record,
                "detail": repair.detail,
                "what": MEANING[repair.flaw],
            }
            for repair in plan.repairs
        ],
        "decisions": [
            {"type": record.kind, "reason": getattr(record, "reason", None)}
            for record in plan.decisions
        ],
        "warnings": plan.warnings,
    }


def budget_json(plan: Plan) -> dict[str, Any]:
    budget = plan.budget
    return {
        "tokens": budget.tokens,
        "ratio": budget.ratio,
        "available": budget.available,
        "window": budget.window,
        **budget.parts(),
    }
