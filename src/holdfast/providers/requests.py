"""Write a prompt as a provider's request, and find what the provider would refuse in a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.dialects.registry import find_dialect, render_body

if TYPE_CHECKING:
    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt


def render(prompt: Prompt, target: Target) -> Json:
    """The body of a request. The same prompt and target give the same bytes."""
    return render_body(prompt, target)


def validate(request: object, target: Target) -> list[Violation]:
    """Return what the provider would refuse in a request of any origin. Never raises."""
    return find_dialect(target.dialect.name).validate(request, target)
