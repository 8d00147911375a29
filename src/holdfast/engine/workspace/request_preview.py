"""The next request of a session, as it would be sent under given terms. Nothing is stored.

`read_request` is the one reader of it: every surface shows the value that it returns.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.dialects.registry import target
from holdfast.core.history.answers import Result
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.records import Header, Json, User
from holdfast.core.log.refs import restore
from holdfast.core.models.window import likely_window, model_in
from holdfast.core.projection.ledger import LedgerLine, complete_ledger
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import Plan, Tokens, ViewLimits
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Correction
from holdfast.core.projection.steps import MEANING
from holdfast.core.window import Window  # noqa: TC001 - the schema of an answer needs it
from holdfast.engine.outputs import payload_of
from holdfast.engine.session.prepare import Prepared, cache_for, prepare_request
from holdfast.engine.session.session_log import words_before
from holdfast.engine.workspace.facts import NEAR_RECORDS, default_dialect, terms_of_proxy
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Tool
    from holdfast.engine.workspace.facts import TurnTerms
    from holdfast.ports import SessionStore


class RequestTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a request that are not in the log."""

    window: Window | None = None
    """The context window, as someone states it; None for the model's."""
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


class RequestFacts(msgspec.Struct, frozen=True):
    """The next request, and the fate of the records of its session."""

    prepared: Prepared
    ledger: tuple[LedgerLine, ...]
    """A line for each record of the path: all that the request looks at, and those before them
    among the newest `NEAR_RECORDS`."""
    unlisted: int = 0
    """Records of the log that have no line: older ones, or those of other branches."""

    @property
    def plan(self) -> Plan:
        return self.prepared.plan


class ViewReport(ViewLimits, frozen=True, kw_only=True):
    """The size of the messages in view, and those that it is measured by."""

    messages: int
    """Tokens of the messages before anything is shortened."""


class RepairReport(msgspec.Struct, frozen=True):
    """A repair of the view."""

    flaw: str
    """The name of the flaw."""
    record: str
    """The record that has it."""
    detail: str
    """The flaw, in a sentence."""
    what: str
    """The meaning of its name."""


class DecisionReport(msgspec.Struct, frozen=True):
    """A record that the request would add to the log."""

    type: str
    """The type of the record."""
    reason: str | None
    """The reason for it."""


class RequestReport(Result, frozen=True, kw_only=True, rename=None):
    """The next request of a session, for programs."""

    request: Json | UnsetType = UNSET
    """Its body, where it was asked for."""
    tokens: Tokens
    """The size of the request by its parts."""
    budget: dict[str, float]
    """The window by its parts, in tokens."""
    window: Window
    """The context window."""
    view: ViewReport
    """The sizes of the messages in view."""
    ledger: tuple[LedgerLine, ...]
    """The fate of every record."""
    unlisted: int
    """Records of the log that have no line: older ones, or those of other branches."""
    repairs: list[RepairReport]
    """The repairs of the view."""
    decisions: list[DecisionReport]
    """The records that the request would add."""
    warnings: tuple[str, ...]
    """Warnings, in a sentence each."""


def terms_of_session(
    store: SessionStore, key: SessionKey, turns: TurnTerms | None = None
) -> RequestTerms:
    """Return the terms of the next request, as the log of a session tells them.

    `turns` are the terms of its agent in this program, where no one chose them for that agent.
    """
    records = list(store.last(key, NEAR_RECORDS))
    provider, model = model_in(records)
    found = likely_window(records, model)
    own = found
    if own is None and turns is not None and model in ("", turns.target.model):
        provider, model, own = turns.target.provider, turns.target.model, turns.window
    system, tools = terms_of_proxy(store, key, records)
    return RequestTerms(model=model, provider=provider, own=own, system=system, tools=tools)


def read_request(
    store: SessionStore, key: SessionKey, terms: RequestTerms, *, is_whole: bool = False
) -> RequestFacts:
    """Return the next request of a session under given terms.

    The ledger lists the newest `NEAR_RECORDS`, or with `is_whole` every record of the path.
    """
    prepared, records = _prepare_session(store, key, terms)
    first = records[0].id if records else None
    earlier: Sequence[Record] = ()
    if first is not None:
        most = None if is_whole else max(0, NEAR_RECORDS - len(records))
        newest = islice(store.back(key, before=first), most)
        earlier = [record for record in newest if not isinstance(record, Header)][::-1]
    ledger = whole_ledger(prepared.plan, [*earlier, *records])
    listed = {line.record for line in ledger} & {record.id for record in (*earlier, *records)}
    return RequestFacts(prepared, ledger, max(0, store.info(key).records - 1 - len(listed)))


def next_request(store: SessionStore, key: SessionKey, terms: RequestTerms) -> Prepared:
    """Return the same request alone, without the fate of the records."""
    return _prepare_session(store, key, terms)[0]


def _prepare_session(
    store: SessionStore, key: SessionKey, terms: RequestTerms
) -> tuple[Prepared, list[Record]]:
    if terms.base is None and not terms.model:
        told = terms_of_session(store, key)
        terms = msgspec.structs.replace(
            terms,
            model=told.model,
            provider=told.provider,
            own=terms.own or told.own,
            system=terms.system or told.system,
            tools=terms.tools or told.tools,
        )
    words, live = _live_records(store, key, terms.window or _own_window(terms))
    return preview([*words, *live], terms), live


def whole_ledger(plan: Plan, records: Sequence[Record]) -> tuple[LedgerLine, ...]:
    """Return the ledger of a plan, with all of these records in it."""
    scale = cache_for(plan.target).scale
    correction = Correction(plan.tokens.factor, plan.tokens.per_result)
    return complete_ledger(plan.ledger, records, lambda part: correction.tokens(scale.part(part)))


def _own_window(terms: RequestTerms) -> Window:
    """The window that records are read for, where none is stated: no smaller than its own."""
    base = terms.base
    if base is not None and terms.model in ("", base.target.model):
        return base.window
    return terms.own or window_of(terms.model)


def session_records(store: SessionStore, key: SessionKey, window: Window | None) -> list[Record]:
    """Return the records that a request is made from; all of them without a window."""
    if window is None:
        payload = payload_of(store.blobs)
        return [restore(rec, payload) for rec in store.read(key) if not isinstance(rec, Header)]
    words, live = _live_records(store, key, window)
    return [*words, *live]


def _live_records(
    store: SessionStore, key: SessionKey, window: Window
) -> tuple[list[Record], list[Record]]:
    """The user's words from before another tool's compaction, and the records from there on."""
    live, payload = store.live(key, window=window), payload_of(store.blobs)
    records = [restore(rec, payload) for rec in live.records if not isinstance(rec, Header)]
    return words_before(store, key, live), records


def preview(records: Sequence[Record], terms: RequestTerms) -> Prepared:
    """Return the request that would be sent, and its plan."""
    if terms.base is not None:
        return _preview_turn(records, terms, terms.base)
    model = terms.model
    aim = target(terms.dialect or default_dialect(model), provider=terms.provider, model=model)
    asked = [*records, User(id="prompt", content=terms.prompt)] if terms.prompt else [*records]
    window, floor = _window_and_floor(asked, terms)
    return prepare_request(
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
        window = terms.window
    prompt = [User(id="prompt", content=terms.prompt)] if terms.prompt else []
    return prepare_request(
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
        return terms.window, terms.floor
    found = likely_window(records, terms.model)
    window = found or terms.own or window_of(terms.model)
    is_learned = window.confidence == "learned"
    return window, min(terms.floor, window.tokens) if is_learned else terms.floor


def report_request(found: RequestFacts, request: Json | UnsetType = UNSET) -> RequestReport:
    """Return the next request for programs; its body only where it is given."""
    plan = found.plan
    return RequestReport(
        request=request,
        tokens=plan.tokens,
        budget=budget_json(plan),
        window=plan.window,
        view=ViewReport(**msgspec.structs.asdict(plan.limits), messages=plan.tokens_before),
        ledger=found.ledger,
        unlisted=found.unlisted,
        repairs=[
            RepairReport(each.flaw, each.record, each.detail, MEANING[each.flaw])
            for each in plan.repairs
        ],
        decisions=[
            DecisionReport(record.kind, getattr(record, "reason", None))
            for record in plan.decisions
        ],
        warnings=plan.warnings,
    )


def budget_json(plan: Plan) -> dict[str, Any]:
    budget = plan.budget
    return {
        "tokens": budget.tokens,
        "ratio": budget.ratio,
        "available": budget.available,
        "window": budget.window.tokens,
        **budget.parts(),
    }
