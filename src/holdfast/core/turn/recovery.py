"""What to do when a call comes to nothing: a decision on the failure and on what was sent.

Every step makes the next request smaller in the way that was wrong with it, or waits, or gives up
with one clear error. Rate limits, billing and authentication never touch the history; an unknown
failure is not an overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.failures.classify import WINDOW_TOKENS_LEARNED_MIN, learned_window
from holdfast.core.models.messages import Image, Thinking, ToolAnswer
from holdfast.core.turn.run import Bounds
from holdfast.errors import CannotFit, ContextOverflow, HoldfastError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.failures.classify import Failure
    from holdfast.core.flow.effects import FailedCall
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.run import Course, Terms

Step = Literal["wait", "lower-output", "shrink", "drop-media", "drop-thinking", "give-up"]

_SHRINK: Final = (0.7, 0.6, 0.5, 0.4)
"""Of what was refused, where the provider says no numbers."""
_SMALLER: Final = 0.9
"""A request after a refusal is at most this much of it."""
_MARGIN: Final = 0.95
_BELIEVED_SHARE: Final = 0.1
"""Of the window: a smaller request was not refused for its size."""
_COUNTS_APART: Final = 20
"""No two counts of one request are further apart than this."""
_OUTPUT_MIN: Final = 512
"""A reply that may take less is not worth asking for."""
_WAIT_SECONDS: Final = 2.0
_FULL: Final = 0.8
"""Of the window: from here on a refusal without a word is taken for an overflow."""

_OVERFLOWS: Final = frozenset({"context_overflow", "silent_overflow"})
_WAITS: Final = frozenset({"wait_and_retry", "retry_with_backoff"})


class Tries(msgspec.Struct, frozen=True):
    """What was tried for one answer so far."""

    recoveries: int = 0
    """Requests that were sent again in another shape."""
    waits: int = 0


class Remedy(msgspec.Struct, frozen=True):
    """What to do next."""

    step: Step
    bounds: Bounds
    detail: str
    seconds: float = 0.0
    learned: int | None = None
    """What the provider said its window is."""


def remedy(failure: Failure, plan: Plan, bounds: Bounds, tries: Tries, terms: Terms) -> Remedy:
    """The next step after a failed call for `plan`, which was made within `bounds`."""
    if failure.action in _WAITS:
        return _wait(failure, bounds, tries, terms)
    if tries.recoveries >= terms.recovery_calls:
        return Remedy("give-up", bounds, f"after {tries.recoveries} smaller requests")
    if failure.kind == "output_limit":
        return _lower_output(plan, bounds, failure.limit or plan.budget.output_reserve // 2)
    if failure.kind in _OVERFLOWS or _looks_full(failure, plan):
        return _overflow(failure, plan, bounds, tries)
    if failure.kind == "payload_too_large" or failure.action == "shrink_or_drop_images":
        return _fewer_bytes(plan, bounds, tries)
    if failure.action == "strip_or_restore_thinking_and_retry_once" and _has(plan, Thinking):
        target = bounds.target or plan.target
        dialect = msgspec.structs.replace(target.dialect, replays_thinking=False)
        plain = msgspec.structs.replace(target, dialect=dialect)
        return Remedy("drop-thinking", _with(bounds, target=plain), "without earlier thinking")
    return Remedy("give-up", bounds, "nothing in the request could be changed for it")


class Recovery:
    """The way of one answer through refusals. No request is sent that a refusal has not changed."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._tries = Tries()
        self._refused: tuple[Plan, FailedCall] | None = None
        self._refused_sizes: list[int] = []
        self.bounds = Bounds()

    @property
    def attempt(self) -> int:
        """The number of the next call."""
        return 1 + self._tries.recoveries + self._tries.waits

    @property
    def is_under_way(self) -> bool:
        """Whether something was refused for what it was."""
        return self._tries.recoveries > 0

    def admit(self, plan: Plan) -> None:
        """Refuse to send what would be refused again."""
        if self._refused is not None and not is_smaller(plan, self._refused[0]):
            before, failed = self._refused
            raise gave_up(failed, before, "it could not be made smaller") from failed.error
        self._refused = None

    def succeeded(self) -> None:
        """Remember what was too large where nobody said what would not be.

        What takes a small part of the window was refused for some other reason: to keep to that
        would leave no room for the next turn."""
        least = _BELIEVED_SHARE * self._course.window.tokens
        sizes = [size for size in self._refused_sizes if size >= least]
        if sizes:
            self._course.ceiling = int(_MARGIN * min(sizes))

    def exhausted(self, error: CannotFit) -> HoldfastError:
        """What to raise where nothing smaller exists: the refusal, if that is why."""
        if self._refused is None:
            return error
        plan, failed = self._refused
        return gave_up(failed, plan, f"nothing smaller can be made: {error}")

    def take(self, plan: Plan, failed: FailedCall) -> Remedy:
        """What to do after a failure. What was learned from it counts from now on."""
        found = remedy(failed.failure, plan, self.bounds, self._tries, self._course.terms)
        if found.step == "wait":
            self._tries = msgspec.structs.replace(self._tries, waits=self._tries.waits + 1)
        elif found.step != "give-up":
            if failed.failure.kind == "output_limit":
                self._course.output_cap = found.bounds.output
            if found.step == "shrink" and found.learned is None:
                self._refused_sizes.append(plan.tokens.total)
            self._refused = (plan, failed)
            self.bounds = found.bounds
            done = self._tries.recoveries + 1
            self._tries = msgspec.structs.replace(self._tries, recoveries=done)
        return found


def is_smaller(plan: Plan, refused: Plan) -> bool:
    """Whether a request is measurably smaller than one that was refused, in any way that counts."""
    if plan.prompt == refused.prompt:
        return False
    return (
        plan.tokens.total <= _MARGIN * refused.tokens.total
        or plan.prompt.output_tokens < refused.prompt.output_tokens
        or len(_blocks(plan, Image)) < len(_blocks(refused, Image))
        or len(_blocks(plan, Thinking)) < len(_blocks(refused, Thinking))
    )


def gave_up(failed: FailedCall, plan: Plan, detail: str) -> ModelError:
    """The one clear error at the end."""
    failure = failed.failure
    where = plan.target.model or plan.target.provider or plan.target.dialect.full_name
    if failure.kind in _OVERFLOWS or _looks_full(failure, plan):
        total, window = plan.tokens.total, plan.window
        return ContextOverflow(
            f"`{where}` refused a request of {total:,} tokens by our count as too large "
            f"({detail}); the window was taken to be {window.tokens:,} ({window.source})",
            failure=failure,
            parts={"request": total, "window": window.tokens, **plan.budget.parts()},
            hint="state the real window, shorten the system prompt or the tools, or use a larger "
            "model; the session is intact, and `holdfast context --explain` shows what was sent",
        )
    said = " ".join(failure.message.split())[:300] or "nothing"
    return ModelError(
        f"`{where}` did not answer: {failure.kind.replace('_', ' ')} ({detail}); it said: {said}",
        failure=failure,
        hint=_HINTS.get(failure.kind, "the session is intact; say it again when this is mended"),
    )


_HINTS: Final = {
    "auth": "check the API key and what it may use; nothing of the session was changed",
    "quota_billing": "check the account's credit and limits; nothing of the session was changed",
    "rate_limit": "wait, or use another key or model; the session is intact",
    "tpm_limit": "wait, send less in a minute, or use another model; the session is intact",
    "timeout": "try again, or give the client more time; the session is intact",
}


def _wait(failure: Failure, bounds: Bounds, tries: Tries, terms: Terms) -> Remedy:
    asked = failure.retry_after
    if tries.waits >= terms.waits:
        return Remedy("give-up", bounds, f"after waiting {tries.waits} times")
    if asked is not None and asked > terms.wait_seconds:
        return Remedy("give-up", bounds, f"it wants to be left alone for {asked:,.0f} s")
    seconds = min(terms.wait_seconds, _WAIT_SECONDS * 2**tries.waits)
    if asked is not None and asked > 0:
        seconds = asked
    return Remedy("wait", bounds, f"waiting {seconds:g} s", seconds=seconds)


def _overflow(failure: Failure, plan: Plan, bounds: Bounds, tries: Tries) -> Remedy:
    learned = learned_window(failure)
    limit, taken = _believed(failure, plan)
    if limit and taken and failure.action == "lower_output_then_shrink_input":
        free = limit - taken - _OUTPUT_MIN // 8
        if learned is not None and learned < plan.window.tokens:
            free = min(free, learned // 4)  # the whole window is smaller than it was taken to be
        if _OUTPUT_MIN <= free < plan.prompt.output_tokens:
            found = _lower_output(plan, bounds, free)
            return msgspec.structs.replace(found, learned=learned)
    sent = plan.tokens.total
    most = _SMALLER * sent
    if limit and taken and taken > 0:
        # The provider counts otherwise than we do: take its size for what we sent.
        # What is kept for the reply was a part of a window that turned out to be another.
        room = limit - min(plan.budget.output_reserve, limit // 4)
        most = min(most, _MARGIN * sent * room / taken)
    elif limit:
        most = min(most, _MARGIN * limit)
    else:
        most = _SHRINK[min(tries.recoveries, len(_SHRINK) - 1)] * sent
    detail = f"from {sent:,} to at most {int(most):,} tokens"
    return Remedy("shrink", _with(bounds, at_most=int(most)), detail, learned=learned)


def _believed(failure: Failure, plan: Plan) -> tuple[int | None, int | None]:
    """The numbers of a refusal, where they can be true: servers have printed a limit of 3, and a
    number of characters for one of tokens."""
    limit, taken = failure.limit, failure.input
    if limit is not None and limit < WINDOW_TOKENS_LEARNED_MIN:
        limit = None
    if taken is not None and not 0 < taken <= _COUNTS_APART * plan.tokens.total:
        taken = None
    return limit, taken


def _lower_output(plan: Plan, bounds: Bounds, tokens: int) -> Remedy:
    if not 0 < tokens < plan.prompt.output_tokens:
        return Remedy("give-up", bounds, "the reply cannot be asked to be shorter")
    return Remedy("lower-output", _with(bounds, output=tokens), f"a reply of {tokens:,} tokens")


def _fewer_bytes(plan: Plan, bounds: Bounds, tries: Tries) -> Remedy:
    """Bytes are not tokens: pictures go first, the oldest of them."""
    pictures = len(_blocks(plan, Image))
    target = bounds.target or plan.target
    if pictures:
        kept = pictures // 2
        dialect = msgspec.structs.replace(target.dialect, images_max=kept)
        fewer = msgspec.structs.replace(target, dialect=dialect)
        return Remedy("drop-media", _with(bounds, target=fewer), f"{kept} of {pictures} pictures")
    most = int(_SHRINK[min(tries.recoveries, len(_SHRINK) - 1)] * plan.tokens.total)
    return Remedy("shrink", _with(bounds, at_most=most), f"to at most {most:,} tokens")


def _looks_full(failure: Failure, plan: Plan) -> bool:
    """A refusal without a word: our own estimate decides."""
    is_mute = failure.action == "decide_by_own_estimate"
    return is_mute and plan.tokens.total > _FULL * plan.window.tokens


def _with(bounds: Bounds, **changes: object) -> Bounds:
    return msgspec.structs.replace(bounds, **changes)


def _has(plan: Plan, kind: type[Block]) -> bool:
    return bool(_blocks(plan, kind))


def _blocks(plan: Plan, kind: type[Block]) -> list[Block]:
    return [block for block in _all_blocks(plan) if isinstance(block, kind)]


def _all_blocks(plan: Plan) -> Iterator[Block]:
    for message in plan.prompt.messages:
        for block in message.blocks:
            yield block
            if isinstance(block, ToolAnswer):
                yield from block.content
