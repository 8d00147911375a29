"""The fate of an imported session's view in its first turn here, before anybody takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Compaction, Prune, User, encode
from holdfast.core.log.replay import with_ids
from holdfast.core.models.window import model_in
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.images import image_rule
from holdfast.engine.workspace.facts import default_dialect
from holdfast.errors import HoldfastError
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record

_BYTES_PER_TOKEN_MIN: Final = 2
"""A token of a log has more bytes than this, so that a short session is not looked at closer."""


def first_turn_notice(records: Sequence[Record], *, now: float) -> str:
    """Tell what the first turn will take out of the view, and why; empty where it takes nothing.

    The model is the one that answered last, and its tokens are estimated.
    """
    provider, model = model_in(records)
    window = window_of(model)
    size = sum(len(encode(record)) for record in records) / _BYTES_PER_TOKEN_MIN
    if size < Policy().cold_prune * window.tokens / 2:
        return ""
    aim = target(default_dialect(model), provider=provider, model=model)
    last = next((each for each in reversed(records) if isinstance(each, Assistant)), None)
    idle = max(0.0, now - last.ts) if last is not None and last.ts > 0 else None
    rule = image_rule(aim.model, aim.provider or aim.dialect.name)
    request = ProjectionRequest(
        [*with_ids(records), User(id="next", content="Go on.")],
        window,
        aim,
        prompt_cache=PromptCache(idle_seconds=idle),
    )
    about = f"with {model or 'an unknown model'} ({window.tokens:,} tokens)"
    try:
        plan = project(request, ProjectionCache(Scale(None, rule)))
    except HoldfastError as error:
        return f"the first turn {about} will be refused: {error}"
    for decision in plan.decisions:
        if isinstance(decision, Compaction):
            return f"the first turn {about} will cut the view: {decision.reason}"
    for decision in plan.decisions:
        if isinstance(decision, Prune):
            count = len(decision.decisions)
            return f"the first turn {about} will shorten {count:,} old results: {decision.reason}"
    return ""
