"""The pages of requests: the exact body, and what changed between two calls."""

from __future__ import annotations

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
from holdfast.engine.operations.next_request import ReadRequest, request_for, terms_now
from holdfast.engine.outputs import payload_of
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.workspace.facts import default_dialect
from holdfast.engine.workspace.request_preview import next_request, preview
from holdfast.errors import CannotFit
from holdfast.surfaces.console import layout
from holdfast.surfaces.console.charts import pattern_sheet
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import number, page_route, session_path, tokens
from holdfast.surfaces.console.plans import heading
from holdfast.surfaces.console.session_pages.context import window_picture
from holdfast.surfaces.http.operations import query_of
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.prompt_diff import PromptBlock, PromptDiff
    from holdfast.core.projection.project import Plan
    from holdfast.engine.workspace.request_preview import RequestTerms
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PART_BYTES: Final = 70_000
"""Of the removed blocks and of the added ones on the page; those before are counted."""
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
    title, top = heading(call, key, "/context/request")
    dialect = query.dialect or default_dialect(prepared.plan.target.model)
    whole = (
        session_path(key, window=terms.window, dialect=dialect, request="true")
        .replace("/s/", "/v1/sessions/", 1)
        .replace("?", "/context?", 1)
    )
    links = [
        tag(
            "a",
            name,
            href=session_path(key, "/context/request", dialect=name),
            aria_current="page" if name == dialect else None,
        )
        for name in DIALECTS
    ]
    return layout.page(
        title,
        top,
        tag("h2", "The exact request"),
        tag("nav", *links, class_="tabs", aria_label="Request format"),
        layout.facts(
            ("tokens", number(prepared.plan.tokens.total)),
            ("messages", number(len(prepared.plan.prompt.messages))),
            (
                "since the last call",
                tag("a", "what changed", href=session_path(key, "/context/changes")),
            ),
            ("as JSON, whole", tag("a", "open", href=whole)),
        ),
        layout.long_text(shown),
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
    title, top = heading(call, key, "/context/request")
    previous = call_before(store, key, reply.id if reply is not None else None)
    which = f"the call of {reply.id}" if reply is not None else "the next request"
    body: list[object] = [top, tag("h2", f"What changed: {which}")]
    if previous is None:
        body.append(tag("p", "There is no call before it."))
        return layout.page(title, *body)
    try:
        terms = terms_now(call.workspace, key)
        after = plan_before(store, key, reply, terms) if reply else None
        plan = after or next_request(store, key, terms).plan
        before = plan_before(store, key, previous, terms)
        diff = compare_blocks(weigh_blocks(before), weigh_blocks(plan))
    except CannotFit as error:
        body.append(tag("p", call.workspace.mask(str(error)), class_="problem"))
        return layout.page(title, *body)
    body += [
        _moves(key, previous, reply),
        _sums(diff, reply),
        tag("h3", "Contents of this request"),
        pattern_sheet(),
        window_picture(plan),
        _part(call, key, "Removed or reworded", "-", diff.removed),
        _part(call, key, "Added", "+", diff.added),
        tag(
            "p",
            "Requests are made again from the log: its messages are those that were sent. System "
            "prompt and tools belong to the program, and are not in it: they are today's.",
            class_="dim",
        ),
    ]
    return layout.page(title, *body)


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


def _moves(key: SessionKey, previous: Assistant, reply: Assistant | None) -> Html:
    """The way to the calls beside this one."""
    links = [
        tag(
            "a",
            "The call before",
            href=session_path(key, "/context/changes", record=previous.id),
            rel="prev",
        )
    ]
    if reply is not None:
        links.append(tag("a", "The next request", href=session_path(key, "/context/changes")))
        links.append(tag("a", "Its reply", href=session_path(key, f"/records/{reply.id}")))
    return tag("p", *(join(link, " ") for link in links))


def _sums(diff: PromptDiff, reply: Assistant | None) -> Html:
    same, removed = _size(diff.same), _size(diff.removed)
    added, end = _size(diff.added), _size(diff.same_end)
    usage = read_usage(reply.usage, reply.provider or "") if reply is not None else None
    verdict = "It only grew: a prompt cache can read all of the request before."
    if not diff.is_growth:
        place = f"after {tokens(same)}" if same else "from its beginning on"
        again = f", also {tokens(end)} at the end that did not change" if end else ""
        verdict = f"It changed {place}: a prompt cache cannot read what follows{again}."
    return join(
        tag("p", tag("b", verdict, id="verdict")),
        layout.facts(
            ("the same beginning", f"{tokens(same)} in {number(len(diff.same))} blocks"),
            ("removed", f"{tokens(removed)} in {number(len(diff.removed))}"),
            ("added", f"{tokens(added)} in {number(len(diff.added))}"),
            ("the same end", f"{tokens(end)} in {number(len(diff.same_end))}"),
            (
                "read from the cache",
                f"{tokens(usage.cached_read)} of {tokens(usage.prompt)}" if usage else "not known",
            ),
        ),
    )


def _size(blocks: tuple[PromptBlock, ...]) -> int:
    return sum(block.tokens for block in blocks)


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


def _part(
    call: HttpCall, key: SessionKey, caption: str, sign: str, blocks: tuple[PromptBlock, ...]
) -> Html | None:
    if not blocks:
        return None
    shown: list[Html] = []
    size = 0
    for block in reversed(blocks):  # the newest are what a reader looks for
        if size > _PART_BYTES:
            break
        shown.append(_show_block(call, key, sign, block))
        size += len(shown[-1].encode())
    shown.reverse()
    left = len(blocks) - len(shown)
    return tag(
        "section",
        tag("h3", f"{caption}: {number(len(blocks))}"),
        tag("p", f"{number(left)} before these are not shown.") if left else None,
        tag("ol", *shown, class_="changes"),
    )


def _show_block(call: HttpCall, key: SessionKey, sign: str, block: PromptBlock) -> Html:
    kind = layout.gist(call.workspace.mask(block.kind), 60)
    record = block.record
    return tag(
        "li",
        tag("span", f"{sign} {kind} ", class_="kind"),
        tag("a", record, href=session_path(key, f"/records/{record}")) if record else None,
        tag("pre", _block_text(call, block), tabindex="0"),
        class_=f"change {'out' if sign == '-' else 'in'}",
    )


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
