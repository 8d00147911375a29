"""The pages of requests: the exact body, and what changed between two calls."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from holdfast.core.dialects.registry import DIALECTS
from holdfast.core.log.records import Assistant
from holdfast.core.log.refs import restore
from holdfast.core.log.replay import Boundaries
from holdfast.core.models.prompt_diff import compare_blocks, prompt_blocks, share_out
from holdfast.core.models.usage import read_usage
from holdfast.core.models.window import model_in
from holdfast.core.projection.sizes import Correction
from holdfast.core.text.cut import cut
from holdfast.core.window import ANY_WINDOW
from holdfast.engine.operations.context import ReadRequest, request_for, terms_now
from holdfast.engine.outputs import payload_of
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.workspace.facts import default_dialect
from holdfast.engine.workspace.request_preview import next_request, preview
from holdfast.errors import CannotFit
from holdfast.surfaces.console.charts import draw_window
from holdfast.surfaces.console.layout import page_route, session_path
from holdfast.surfaces.console.plans import show_session
from holdfast.surfaces.http.operations import query_of
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.prompt_diff import PromptBlock
    from holdfast.core.projection.project import Plan
    from holdfast.engine.workspace.request_preview import RequestTerms
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PART_BYTES: Final = 70_000
"""Of the removed blocks and of the added ones on the page; those before are counted."""
_FRAME_BYTES: Final = 300
"""Of a block beside its text."""
_BLOCK_CHARS: Final = 1_200
"""Characters of a block; its record has the rest."""
_RECORDS_MAX: Final = 20_000
"""Records before a call that are read for its request."""


class ChangesQuery(HttpQuery, frozen=True):
    """The call whose request is compared with the one before it."""

    record: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The reply of the call; empty for the next request."""


def show_request(call: HttpCall) -> HttpAnswer:
    """The body of the next request, in each provider's format."""
    key, query = call.session(), call.query
    asked = ReadRequest(session_key=str(key), dialect=query.dialect)
    terms = asked.terms(call.workspace, key)
    prepared = next_request(call.store, key, terms)
    masked: Any = call.workspace.mask(request_for(call.workspace, prepared))
    shown = msgspec.json.format(msgspec.json.encode(masked), indent=2).decode()
    dialect = query.dialect or default_dialect(prepared.plan.target.model)
    whole = (
        session_path(key, window=terms.window, dialect=dialect, request="true")
        .replace("/s/", "/v1/sessions/", 1)
        .replace("?", "/context?", 1)
    )
    return show_session(
        call,
        key,
        "/context/request",
        "request.html",
        plan=prepared.plan,
        dialect=dialect,
        dialects=tuple(DIALECTS),
        shown=shown,
        whole=whole,
    )


def show_changes(call: HttpCall) -> HttpAnswer:
    """The difference between the requests of two calls, and the place where a cache broke."""
    key, name = call.session(), call.query.record
    store = call.store
    reply = store.find(key, name) if name else None
    if reply is not None and not isinstance(reply, Assistant):
        raise Problem(
            404, f"the record `{name}` is not a reply", hint="the time line lists the calls"
        )
    previous = call_before(store, key, reply.id if reply is not None else None)
    values: dict[str, Any] = {"previous": previous, "reply": reply, "problem": ""}
    if previous is not None:
        try:
            terms = terms_now(call.workspace, key)
            after = plan_before(store, key, reply, terms) if reply else None
            plan = after or next_request(store, key, terms).plan
            before = plan_before(store, key, previous, terms)
            values |= _compare(call, key, before, plan)
        except CannotFit as error:
            values["problem"] = str(error)
    usage = read_usage(reply.usage, reply.provider or "") if reply is not None else None
    return show_session(call, key, "/context/changes", "changes.html", usage=usage, **values)


def _compare(call: HttpCall, key: SessionKey, before: Plan, after: Plan) -> dict[str, Any]:
    diff = compare_blocks(weigh_blocks(before), weigh_blocks(after))
    return {
        "diff": diff,
        "picture": draw_window(key, after, call.workspace.mask),
        "parts": [
            (caption, sign, len(blocks), _newest_blocks(call, blocks))
            for caption, sign, blocks in (
                ("Removed or reworded", "-", diff.removed),
                ("Added", "+", diff.added),
            )
        ],
    }


def call_before(store: SessionStore, key: SessionKey, record: str | None) -> Assistant | None:
    """Return the reply of the call before a record, or the newest."""
    for place, found in enumerate(store.back(key, before=record)):
        if isinstance(found, Assistant):
            return found
        if place >= _RECORDS_MAX:
            break
    return None


def plan_before(
    store: SessionStore, key: SessionKey, reply: Assistant, terms: RequestTerms
) -> Plan:
    """Return the plan of the request that a reply answered, under the terms of today. Costs what
    the model saw."""
    known = terms.base.window if terms.base else terms.own
    boundaries = Boundaries(known or ANY_WINDOW)
    newest: list[Record] = []
    boundary = None
    for record in store.back(key, before=reply.id):
        newest.append(record)
        if boundary is None and boundaries.is_one(record):
            boundary = record
        if boundary is not None and getattr(boundary, "first_kept", None) in (None, record.id):
            break
        if len(newest) >= _RECORDS_MAX:
            break
    payload = payload_of(store.blobs)
    records = [restore(record, payload) for record in reversed(newest) if record.kind != "session"]
    provider, model = model_in([*records, reply])
    terms = msgspec.structs.replace(terms, model=model, provider=provider)
    return preview(records, terms).plan


def weigh_blocks(plan: Plan) -> list[PromptBlock]:
    """Return the blocks of a request with their sizes, which add up to its size."""
    scale, prompt = cache_for(plan.target).scale, plan.prompt
    weights = [scale.tools((tool,)) for tool in prompt.tools]
    weights += [scale.text(prompt.system)] if prompt.system else []
    correction = Correction(plan.tokens.factor, plan.tokens.per_result)
    weights += [
        correction.tokens(scale.block(block))
        for message in prompt.messages
        for block in message.blocks
    ]
    shares = share_out(plan.tokens.total, [max(1, weight) for weight in weights])
    blocks = prompt_blocks(prompt)
    return [block._replace(tokens=size) for block, size in zip(blocks, shares, strict=True)]


def _newest_blocks(call: HttpCall, blocks: tuple[PromptBlock, ...]) -> list[tuple[str, str, str]]:
    """Return the newest blocks, which a reader looks for, as far as the page has room for them:
    kind, record and text."""
    shown: list[tuple[str, str, str]] = []
    size = 0
    for block in reversed(blocks):
        if size > _PART_BYTES:
            break
        text = _block_text(call, block)
        shown.append((block.kind, block.record, text))
        size += _FRAME_BYTES + len(escape(text).encode("utf-8", "replace"))
    return shown[::-1]


def _block_text(call: HttpCall, block: PromptBlock) -> str:
    masked = call.workspace.mask(msgspec.json.decode(block.data))
    words = masked.get("text") if isinstance(masked, dict) else masked
    if not isinstance(words, str):
        words = msgspec.json.encode(masked).decode()
    return cut(words, _BLOCK_CHARS).text


_CONTEXT: Final = "/s/{agent}/{session}/context"
ROUTES: Final = tuple(
    page_route("GET", f"{_CONTEXT}{rest}", name, run, query=query, action="context")
    for rest, name, run, query in (
        ("/request", "Request", show_request, query_of(ReadRequest, ("dialect",))),
        ("/changes", "Changes", show_changes, ChangesQuery),
    )
)
