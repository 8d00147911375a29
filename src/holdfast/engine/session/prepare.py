"""From records to a request body: project, render, and validate it before the provider does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.models.dialects import CallIds
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.images import image_rule
from holdfast.errors import BadSetting, InvalidRequest
from holdfast.providers.requests import render, validate
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.request import ProjectionRequest


class Prepared(msgspec.Struct, frozen=True):
    """A request that is ready to be sent."""

    request: Json
    """The body for the provider."""
    plan: Plan
    """The reasons for its shape."""
    call_ids: CallIds
    """Tool call ids as the log and as the provider know them."""


def cache_for(target: Target) -> ProjectionCache:
    """An empty cache that counts as the target's model does, as exactly as is possible here."""
    rule = image_rule(target.model, target.provider or target.dialect.name)
    return ProjectionCache(Scale(counter_for(target.model or None), rule))


def prepare_request(request: ProjectionRequest) -> Prepared:
    """Project records and render the request body for their target.

    Raises `CannotFit` where nothing fits, and `InvalidRequest` if the body breaks a rule of its
    provider: that would be our fault, and sending it would not help.
    """
    from holdfast.core.projection.project import project

    return render_plan(project(request, cache_for(request.target)))


def render_plan(plan: Plan) -> Prepared:
    """Render and validate the request body of a plan."""
    request = render_valid(plan.prompt, plan.target)
    return Prepared(request, plan, CallIds.of_prompt(plan.prompt, plan.target.dialect))


def render_valid(prompt: Prompt, target: Target) -> Json:
    """Render a request body that its provider will accept; raises where it would not."""
    request = render(prompt, target)
    broken = validate(request, target)
    about_tools = [
        found for found in broken if found.rule.startswith("tool-name") or found.rule == "tools-max"
    ]
    if about_tools:
        raise BadSetting(
            f"the provider would refuse these tools; at {about_tools[0].where}: "
            f"{about_tools[0].quote}",
            hint="rename them, or pass fewer",
        )
    if broken:
        raise InvalidRequest(
            f"the request breaks {len(broken)} of the provider's rules; "
            f"at {broken[0].where}: {broken[0].quote}",
            hint="this is a bug in Holdfast; the log is unchanged, and `holdfast export` has it",
        )
    return request
