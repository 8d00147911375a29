"""From records to a request body: project, render, and judge it before anybody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.models.dialects import CallIds
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import Remembered
from holdfast.core.tokens.images import image_rule
from holdfast.errors import BadSetting, InvalidRequest
from holdfast.providers.requests import render, validate
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt
    from holdfast.core.models.window import Window


class Prepared(msgspec.Struct, frozen=True):
    """A request that is ready to be sent."""

    request: Json
    plan: Plan
    call_ids: CallIds
    """Tool call ids as the log and as the provider know them."""


def memory_for(target: Target) -> Remembered:
    """An empty memory that counts as the target's model does, as well as we can."""
    rule = image_rule(target.model, target.provider or target.dialect.name)
    return Remembered(Scale(counter_for(target.model or None), rule))


def prepare(records: Sequence[Record], window: Window, target: Target, **options: Any) -> Prepared:
    """The next request after `records`. `options` are those of `project`.

    Raises `CannotFit` where nothing fits, and `InvalidRequest` should the request break a rule of
    its provider: that would be our fault, and sending it would not help.
    """
    options["memory"] = options.get("memory") or memory_for(target)
    plan = project(records, window, target, **options)
    return prepared(plan)


def prepared(plan: Plan) -> Prepared:
    """A plan as a request, judged."""
    request = checked(plan.prompt, plan.target)
    return Prepared(request, plan, CallIds.of_prompt(plan.prompt, plan.target.dialect))


def checked(prompt: Prompt, target: Target) -> Json:
    """The body of a request that its provider will take."""
    request = render(prompt, target)
    broken = validate(request, target)
    tools = [one for one in broken if one.rule.startswith("tool-name") or one.rule == "tools-max"]
    if tools:
        raise BadSetting(
            f"the provider would refuse these tools; at {tools[0].where}: {tools[0].quote}",
            hint="rename them, or offer fewer",
        )
    if broken:
        raise InvalidRequest(
            f"the request breaks {len(broken)} of the provider's rules; "
            f"at {broken[0].where}: {broken[0].quote}",
            hint="this is a bug in Holdfast; the log is untouched, and `holdfast export` has it",
        )
    return request
