"""A failure by the facts: the request, its window, what was answered before.

A text can be silent or mean two things. The size that was sent, the reply that was asked for and
the sizes that the model has answered decide then, and the cheaper of two remedies is tried first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.models.messages import Image, ToolAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.failures.classify import Action, Failure, Kind
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan

_FULL: Final = 0.8
"""Share of the window from which an unexplained refusal counts as an overflow."""
_SIZE_STATUS: Final = (None, 400, 413, 422)
"""Statuses with which a request can be refused for its size."""


def judge(failure: Failure, plan: Plan, answered: int = 0) -> Failure:
    """Return the failure as the facts explain it. `answered` is the largest request that was."""
    total, reply, limit = plan.tokens.total, plan.prompt.output_tokens, failure.limit
    if _is_silent(failure):
        is_size = total > _FULL * plan.window.tokens and total > answered
        return _rename(failure, "context_overflow", "shrink_input") if is_size else failure
    if failure.kind == "output_limit" and limit is not None and reply <= limit < total + reply:
        # The reply was within its cap: it is not the reply alone.
        return _rename(failure, "context_overflow", "lower_output_then_shrink_input")
    if failure.kind != "context_overflow":
        return failure
    if failure.subclass == "no_body" and blocks_of(plan, Image):
        return _rename(failure, "payload_too_large", "drop_or_shrink_media_then_shrink_input")
    if limit is not None and failure.input is None and total < limit < reply:
        return _rename(failure, "output_limit", "clamp_max_tokens")  # the input was within it
    return failure


def _is_silent(failure: Failure) -> bool:
    """The text does not say what is wrong with the request."""
    is_unspecific = failure.subclass == "unspecific" and failure.status in _SIZE_STATUS
    return is_unspecific or failure.action == "decide_by_own_estimate"


def _rename(failure: Failure, kind: Kind, action: Action) -> Failure:
    rule = f"{failure.rule}, by the facts".lstrip(", ")
    return msgspec.structs.replace(failure, kind=kind, action=action, rule=rule)


def blocks_of(plan: Plan, kind: type[Block]) -> list[Block]:
    """Return the blocks of a request that are of this kind."""
    return [block for block in _all_blocks(plan) if isinstance(block, kind)]


def _all_blocks(plan: Plan) -> Iterator[Block]:
    for message in plan.prompt.messages:
        for block in message.blocks:
            yield block
            if isinstance(block, ToolAnswer):
                yield from block.content
