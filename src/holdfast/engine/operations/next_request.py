"""The operation that shows the next request of a session, under terms that are or could be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.core.dialects.registry import DIALECTS
from holdfast.core.history.access import OPERATOR
from holdfast.core.parameters import SessionName, TokenCount, WindowTokens
from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.core.text.typed import decode_typed
from holdfast.core.window import window_argument
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation
from holdfast.engine.simulation.policies import policy_from
from holdfast.engine.workspace.request_preview import (
    RequestReport,
    RequestTerms,
    read_request,
    report_request,
    terms_of_session,
    terms_of_turn,
)
from holdfast.providers.requests import render

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.engine.session.prepare import Prepared
    from holdfast.engine.workspace.workspace import CallerWorkspace

_TEXT_CHARS_MAX: Final = 4_000
"""A prompt or a policy as a parameter; both are part of an address."""
_IDLE_MAX: Final = 1e9
"""Seconds; thirty years."""


class ReadRequest(Operation[RequestReport], frozen=True):
    """The fate of every record in the next request, and the sums. Nothing is stored, so that any
    window, model or policy can be tried."""

    title = "Show the next request: sums, and the fate of every record"
    audit = "context"
    session_key: SessionName
    window: WindowTokens = None
    model: Annotated[
        str,
        Meta(
            description="The model to count for; by default the one that answers next.",
            max_length=200,
        ),
    ] = ""
    dialect: Annotated[
        str,
        Meta(
            description=f"The API to render for, one of {', '.join(DIALECTS)}, or "
            "openai-chat:mistral and the like; by default the model's.",
            max_length=50,
        ),
    ] = ""
    output: Annotated[TokenCount | None, Meta(description="Tokens to reserve for the reply.")] = (
        None
    )
    idle: Annotated[
        Annotated[float, Meta(ge=0, le=_IDLE_MAX)] | None,
        Meta(
            description="Seconds since the last call; after five minutes the prompt cache is cold."
        ),
    ] = None
    prompt: Annotated[
        str, Meta(description="The next message of the user.", max_length=_TEXT_CHARS_MAX)
    ] = ""
    policy: Annotated[
        str,
        Meta(
            description="The name of a policy, or a JSON object with thresholds that differ from "
            "today's.",
            max_length=_TEXT_CHARS_MAX,
        ),
    ] = ""
    request: Annotated[
        bool,
        Meta(
            description="Also give the request itself; only the operator sees system prompt and "
            "tools in it."
        ),
    ] = False

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RequestReport]:
        key, reason = workspace.resolve(self.session_key)
        found = read_request(workspace.store, key, self.terms(workspace, key))
        request = request_for(workspace, found.prepared) if self.request else msgspec.UNSET
        return GivenReply(report_request(found, request), reason)

    def terms(self, workspace: CallerWorkspace, key: SessionKey) -> RequestTerms:
        """Return the terms of today with those that are asked for. Raises `RequestRefused`."""
        if self.dialect and self.dialect.partition(":")[0] not in DIALECTS:
            hint = f"one of {', '.join(DIALECTS)}"
            raise RequestRefused("invalid", f"there is no dialect `{self.dialect}`", hint=hint)
        now = terms_now(workspace, key)
        return replace(
            now,
            window=window_argument(self.window, "the parameter `window`"),
            model=self.model or now.model,
            own=None if self.model else now.own,
            dialect=self.dialect,
            prompt=self.prompt,
            output=self.output,
            idle=self.idle,
            policy=_read_policy(self.policy, now.policy),
        )


def terms_now(workspace: CallerWorkspace, key: SessionKey) -> RequestTerms:
    """Return the terms of the next request as a turn here works with them: those of the settings,
    where they name the agent. A session that another program may run is shown as its log tells."""
    base = workspace.context.request(key)
    if base is not None:
        return terms_of_turn(base)
    return terms_of_session(workspace.store, key, workspace.context.turn_terms(key))


def request_for(workspace: CallerWorkspace, prepared: Prepared) -> Json:
    """Return the body of a request as the caller may see it. System prompt and tools are the
    operator's: others get their sizes alone."""
    prompt = prepared.plan.prompt
    if workspace.caller == OPERATOR or not (prompt.system or prompt.tools):
        return prepared.request
    return render(replace(prompt, system="", tools=()), prepared.plan.target)


def _read_policy(text: str, now: Policy) -> Policy:
    """Return the policy of today with some thresholds from a JSON object, or another by its
    name."""
    if not text:
        return now
    if text in POLICIES:
        return POLICIES[text]
    try:
        given = decode_typed(text.encode("utf-8", "replace"), dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestRefused(
            "invalid",
            f"the policy is not a JSON object: {error}",
            hint='pass one such as {"compact": 0.8}',
        ) from error
    return policy_from(given, now)
