"""The route of the next request, under terms that are or could be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from holdfast.core.dialects.registry import DIALECTS
from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.core.text.typed import decode_typed
from holdfast.core.window import window_argument
from holdfast.engine.simulation.policies import policy_from
from holdfast.providers.requests import render
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import (
    HttpAnswer,
    HttpQuery,
    Route,
)
from holdfast.surfaces.request_preview import (
    RequestReport,
    RequestTerms,
    read_request,
    report_request,
    terms_of_session,
    terms_of_turn,
)

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.engine.session.prepare import Prepared
    from holdfast.surfaces.http.route import HttpCall
    from holdfast.surfaces.request_preview import RequestFacts

Tokens = Annotated[int, msgspec.Meta(ge=1, le=100_000_000)]


class ContextQuery(HttpQuery, frozen=True):
    """The terms of the request; each stands for a what-if."""

    window: Tokens | None = None
    """The context window in tokens; by default the one that the session works in."""
    model: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The model to count for; by default the one that answers next."""
    dialect: Annotated[str, msgspec.Meta(max_length=50)] = ""
    """The API to render for; the model's by default."""
    output: Tokens | None = None
    """Tokens to reserve for the reply."""
    idle: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    """Seconds since the last call; after five minutes the prompt cache is cold."""
    prompt: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
    """The next message of the user."""
    policy: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
    """A JSON object with thresholds of the policy that are to be other than today's."""
    request: bool = False
    """Also give the request itself; only the operator sees system prompt and tools in it."""


def _context(call: HttpCall) -> HttpAnswer:
    """The fate of every record in the next request, and the sums. Nothing is stored, so that any
    window, model or policy can be tried."""
    found = read_context(call)
    request = request_for(call, found.prepared) if call.query.request else msgspec.UNSET
    return HttpAnswer(call.workspace.mask(report_request(found, request)))


def request_for(call: HttpCall, prepared: Prepared) -> Json:
    """The body of a request as the client may see it. System prompt and tools are the operator's:
    others get their sizes alone."""
    prompt = prepared.plan.prompt
    if call.client.is_operator or not (prompt.system or prompt.tools):
        return prepared.request
    bare = msgspec.structs.replace(prompt, system="", tools=())
    return render(bare, prepared.plan.target)


def read_context(call: HttpCall) -> RequestFacts:
    """The next request of the session in the address, under the terms in the query."""
    key = call.session()
    query: ContextQuery = call.query
    if query.dialect and query.dialect.partition(":")[0] not in DIALECTS:
        raise Problem(
            400, f"there is no dialect `{query.dialect}`", hint=f"one of {', '.join(DIALECTS)}"
        )
    now = terms_now(call, key)
    terms = msgspec.structs.replace(
        now,
        window=window_argument(query.window, "the parameter `window`"),
        model=query.model or now.model,
        own=None if query.model else now.own,
        dialect=query.dialect,
        prompt=query.prompt,
        output=query.output,
        idle=query.idle,
        policy=read_policy(query.policy, now.policy),
    )
    return read_request(call.store, key, terms)


def terms_now(call: HttpCall, key: SessionKey) -> RequestTerms:
    """The terms of the next request, as a turn here works with them: those of the settings, where
    they name the agent. A session that another program may run is shown as its log tells."""
    base = call.workspace.context.request(key)
    if base is not None:
        return terms_of_turn(base)
    return terms_of_session(call.store, key, call.workspace.context.turn_terms(key))


def read_policy(text: str, now: Policy) -> Policy:
    """The policy of today with some thresholds from a JSON object, or another one by its name."""
    if not text:
        return now
    if text in POLICIES:
        return POLICIES[text]
    try:
        given = decode_typed(text.encode("utf-8", "replace"), dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(
            400, f"the policy is no JSON object: {error}", hint='for example {"compact": 0.8}'
        ) from error
    return policy_from(given, now)


_SESSION: Final = "/v1/sessions/{agent}/{session}"
ROUTES: Final = (
    Route(
        "GET",
        f"{_SESSION}/context",
        "The next request: sums, and the fate of every record",
        _context,
        RequestReport,
        query=ContextQuery,
        action="context",
        problems=(422,),
    ),
)
