"""Recovery from a failed model call: a decision on the failure and on the request.

Every step makes the next request smaller in the dimension that was refused, or waits, or gives up
with one clear error. Rate limits, billing and authentication never touch the history; an unknown
failure is not an overflow, unless the facts say so (`facts.judge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.failures.classify import WINDOW_TOKENS_LEARNED_MIN, learned_window
from holdfast.core.models.messages import Image, Thinking, ToolAnswer
from holdfast.core.turn.refusals import REPAIRS_MAX, find_repair
from holdfast.core.turn.run import Bounds
from holdfast.errors import CannotFit, ContextOverflow, HoldfastError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.failures.classify import Action, Failure, Kind
    from holdfast.core.flow.effects import FailedCall
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.options import Limits
    from holdfast.core.turn.refusals import Repair
    from holdfast.core.turn.run import RunState


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


Step = Literal[
    "wait",
    "lower-output",
    "shrink",
    "drop-media",
    "drop-thinking",
    "drop-field",
    "leave-out",
    "end-turn",
    "give-up",
]

_SHRINK: Final = (0.7, 0.6, 0.5, 0.4)
"""Shares of the refused size to try in turn, where the provider states no numbers."""
_SMALLER: Final = 0.9
"""A request after a refusal is at most this share of the refused one."""
_MARGIN: Final = 0.95
"""Distance to a limit: our count and the provider's differ by a few per cent."""
_NEAR: Final = 1.1
"""A refused request of at most this many times the limit is made smaller as gently as can be."""
_NEXT: Final = 0.94
"""The share of the limit that the next request then takes."""
_BELIEVED_SHARE: Final = 0.1
"""Share of the window below which a request was not refused for its size."""
_COUNTS_APART: Final = 20
"""A stated input size that differs from ours by more than this factor is not in tokens."""
_OUTPUT_MIN: Final = 512
"""The shortest output limit that is worth a request, in tokens."""
_WAIT_SECONDS: Final = 2.0
"""The first wait where the provider states none; each further one is twice as long."""

_MESSAGE_CHARS: Final = 300
"""Of a provider's error message, for ours."""

_OVERFLOWS: Final = frozenset({"context_overflow", "silent_overflow"})
_WAITS: Final = frozenset({"wait_and_retry", "retry_with_backoff"})


class Tries(msgspec.Struct, frozen=True):
    """The attempts for one reply so far."""

    recoveries: int = 0
    """Requests that were sent again, smaller."""
    waits: int = 0


class Remedy(msgspec.Struct, frozen=True):
    """The next step after a failed call."""

    step: Step
    bounds: Bounds
    detail: str
    seconds: float = 0.0
    learned: int | None = None
    """The window that the provider stated."""
    repair: Repair | None = None
    """The parts that are left out from now on."""


def remedy(
    failure: Failure,
    plan: Plan,
    bounds: Bounds,
    tries: Tries,
    limits: Limits,
    repairs: Sequence[Repair] = (),
) -> Remedy:
    """Decide the next step after a failed call for `plan`, which was made within `bounds` and
    after `repairs`."""
    if failure.kind == "policy":
        return Remedy("end-turn", bounds, "the refusal is the reply")
    if failure.action in _WAITS:
        return _wait(failure, bounds, tries, limits)
    if tries.recoveries >= _calls_left(limits, repairs):
        return Remedy("give-up", bounds, f"after {tries.recoveries} smaller requests")
    if failure.kind == "output_limit":
        return _lower_output(plan, bounds, failure.limit or plan.budget.output_reserve // 2)
    if failure.kind in _OVERFLOWS:
        return _overflow(failure, plan, bounds, tries)
    if failure.kind == "payload_too_large":
        return _fewer_bytes(plan, bounds, tries)
    repair = find_repair(failure, plan, repairs)
    if repair is not None and tries.recoveries < REPAIRS_MAX:
        return Remedy(repair.step, bounds, repair.detail, repair=repair)
    return Remedy("give-up", bounds, "no change to the request would help")


class RefusedSize(msgspec.Struct, frozen=True):
    """The size of a request that was refused, in tokens by our count."""

    prompt: int
    together: int
    """With the reply that was asked for."""
    has_limit: bool
    """The provider stated a limit, which cannot be a window."""


class Recovery:
    """One reply's way through refusals. A refused request is never sent again unchanged."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._tries = Tries()
        self._refused: tuple[Plan, FailedCall] | None = None
        self._refused_sizes: list[RefusedSize] = []
        self._repairs: list[Repair] = []
        self.repair_records: list[str] = []
        """The records of the repairs so far; of each that was undone, none."""
        self._stated: set[int] = set()
        self._is_repaired = False
        self.bounds = Bounds()

    @property
    def attempt(self) -> int:
        """The number of the next call."""
        return 1 + self._tries.recoveries + self._tries.waits

    @property
    def is_under_way(self) -> bool:
        """True once a request was refused for its content or size."""
        return self._tries.recoveries > 0

    def admit(self, plan: Plan) -> None:
        """Raise instead of sending a request that would be refused again."""
        if self._refused is None:
            return
        before, failed = self._refused
        is_other = (plan.prompt, plan.target) != (before.prompt, before.target)
        if not (is_other if self._is_repaired else is_smaller(plan, before)):
            raise final_error(failed, before, "it could not be made smaller") from failed.error
        self._refused = None

    def learn_ceiling(self) -> int | None:
        """After success, learn from the refused sizes for which the provider stated no limit.

        Returns the window that they give away: prompt and reply together were too large, and a
        smaller window has a smaller reserve for the reply, too. Where that cannot be a window, the
        prompts are kept below them. One request that takes a small part of the window was refused
        for another reason; with the second one it is the size."""
        run, sizes = self._run, self._refused_sizes
        if not sizes:
            return None
        is_stated = any(size.has_limit for size in sizes)
        run.size_refusals += not is_stated
        is_alone = is_stated or run.size_refusals == 1
        least = _BELIEVED_SHARE * run.window.tokens if is_alone else 0
        sizes = [size for size in sizes if size.together >= least]
        if not sizes:
            return None
        window = int(_MARGIN * min(size.together for size in sizes))
        if not is_stated and max(run.settings.floor, run.answered) <= window < run.window.tokens:
            return window
        run.ceiling = int(_MARGIN * min(size.prompt for size in sizes))
        return None

    def stated_window(self) -> int | None:
        """The window that the refusals stated; None where they state several: a number that
        moves with the request is no window."""
        return next(iter(self._stated)) if len(self._stated) == 1 else None

    def error_for(self, error: CannotFit) -> HoldfastError:
        """The error to raise where nothing smaller exists: the refusal, if there was one."""
        if self._refused is None:
            return error
        plan, failed = self._refused
        return final_error(failed, plan, f"no smaller request is possible: {error}")

    def judge(self, plan: Plan, failed: FailedCall) -> FailedCall:
        """Return a failure as the request and what was answered before explain it."""
        failure = judge(failed.failure, plan, self._run.answered)
        return msgspec.structs.replace(failed, failure=failure)

    def take(self, plan: Plan, failed: FailedCall) -> Remedy:
        """Decide the next step after a failure, and apply what it taught."""
        found = remedy(
            failed.failure, plan, self.bounds, self._tries, self._run.options.limits, self._repairs
        )
        self._is_repaired = found.repair is not None
        if found.repair is not None:
            self._repairs.append(found.repair)
        if found.step == "wait":
            self._tries = msgspec.structs.replace(self._tries, waits=self._tries.waits + 1)
        elif found.step not in ("give-up", "end-turn"):
            if failed.failure.kind == "output_limit":
                self._run.output_cap = found.bounds.output
            if found.learned is not None:
                self._stated.add(found.learned)
            if found.step == "shrink" and (found.learned or 0) < self._run.settings.floor:
                reply = plan.prompt.output_tokens
                size = RefusedSize(
                    plan.tokens.total, plan.tokens.total + reply, found.learned is not None
                )
                self._refused_sizes.append(size)
            self._refused = (plan, failed)
            self.bounds = found.bounds
            done = self._tries.recoveries + 1
            self._tries = msgspec.structs.replace(self._tries, recoveries=done)
        return found


def is_smaller(plan: Plan, refused: Plan) -> bool:
    """True if a request is measurably smaller than a refused one, in any dimension."""
    if plan.prompt == refused.prompt:
        return False
    return (
        plan.tokens.total <= _MARGIN * refused.tokens.total
        or plan.prompt.output_tokens < refused.prompt.output_tokens
        or len(blocks_of(plan, Image)) < len(blocks_of(refused, Image))
        or len(blocks_of(plan, Thinking)) < len(blocks_of(refused, Thinking))
    )


def final_error(failed: FailedCall, plan: Plan, detail: str) -> ModelError:
    """The one clear error to raise when recovery ends."""
    failure = failed.failure
    where = plan.target.model or plan.target.provider or plan.target.dialect.full_name
    if failure.kind in _OVERFLOWS:
        total, window = plan.tokens.total, plan.window
        return ContextOverflow(
            f"`{where}` refused a request of {total:,} tokens by our count as too large "
            f"({detail}); the window was taken to be {window.tokens:,} ({window.source})",
            failure=failure,
            parts={"request": total, "window": window.tokens, **plan.budget.parts()},
            hint="state the real window, shorten the system prompt or the tools, or use a larger "
            "model; the session is intact, and `holdfast context --explain` shows what was sent",
        )
    message = " ".join(failure.message.split())[:_MESSAGE_CHARS] or "(empty)"
    hint = _HINTS.get(failure.kind, "the session is intact; try again when this is fixed")
    if failure.kind in ("invalid_request", "ambiguous", "payload_too_large", "policy"):
        hint = _REFUSED_HINT
    return ModelError(
        f"`{where}` did not answer: {failure.kind.replace('_', ' ')} ({detail}); "
        f"its message: {message}",
        failure=failure,
        hint=hint,
    )


_REFUSED_HINT: Final = (
    "the log is intact. If the message says what is wrong with a setting, a tool or the model, fix "
    "that; if it is something in the conversation, `rewind` goes back to before it, and `undo` "
    "takes back the newest turn"
)
_HINTS: Final = {
    "auth": "check the API key and its permissions; the session is unchanged",
    "quota_billing": "check the account's credit and limits; the session is unchanged",
    "rate_limit": "wait, or use another key or model; the session is intact",
    "tpm_limit": "wait, send fewer tokens per minute, or use another model; the session is intact",
    "timeout": "try again, or raise the client's timeout; the session is intact",
}


def _calls_left(limits: Limits, repairs: Sequence[Repair]) -> int:
    """Return the most additional calls for a reply: fewer where its content was refused."""
    return min(limits.recovery_calls, REPAIRS_MAX) if repairs else limits.recovery_calls


def _wait(failure: Failure, bounds: Bounds, tries: Tries, limits: Limits) -> Remedy:
    asked = failure.retry_after
    if tries.waits >= limits.waits:
        return Remedy("give-up", bounds, f"after waiting {tries.waits} times")
    if asked is not None and asked > limits.wait_seconds:
        return Remedy("give-up", bounds, f"it asks for a wait of {asked:,.0f} s")
    seconds = min(limits.wait_seconds, _WAIT_SECONDS * 2**tries.waits)
    if asked is not None and asked > 0:
        seconds = asked
    return Remedy("wait", bounds, f"waiting {seconds:g} s", seconds=seconds)


def _overflow(failure: Failure, plan: Plan, bounds: Bounds, tries: Tries) -> Remedy:
    learned = learned_window(failure)
    limit, taken = _plausible_numbers(failure, plan)
    if limit and taken and failure.action == "lower_output_then_shrink_input":
        free = limit - taken - _OUTPUT_MIN // 8
        if learned is not None and learned < plan.window.tokens:
            free = min(free, learned // 4)  # the whole window is smaller than it was taken to be
        if _OUTPUT_MIN <= free < plan.prompt.output_tokens:
            found = _lower_output(plan, bounds, free)
            return msgspec.structs.replace(found, learned=learned)
    sent = plan.tokens.total
    most = _SMALLER * sent
    if limit and taken and limit < taken <= _NEAR * limit:
        # A little too large: a little smaller is enough. What is left of the limit is the reply's.
        most = min(_MARGIN, _NEXT * limit / taken) * sent
        reply = max(_OUTPUT_MIN, int((1 - _NEXT) * limit) - _OUTPUT_MIN // 8)
        bounds = _with(bounds, output=min(plan.budget.output_reserve, reply))
    elif limit and taken and taken > 0:
        # The provider counts differently: scale by its size of what we sent. The reserve for the
        # reply was a share of a window that turned out to be smaller.
        room = limit - min(plan.budget.output_reserve, limit // 4)
        most = min(most, _MARGIN * sent * room / taken)
    elif limit:
        most = min(most, _MARGIN * limit)
    else:
        most = _SHRINK[min(tries.recoveries, len(_SHRINK) - 1)] * sent
    detail = f"from {sent:,} to at most {int(most):,} tokens"
    return Remedy("shrink", _with(bounds, at_most=int(most)), detail, learned=learned)


def _plausible_numbers(failure: Failure, plan: Plan) -> tuple[int | None, int | None]:
    """The limit and the input size of a refusal, where they can be true: servers have printed a
    limit of 3, and a number of characters instead of tokens."""
    limit, taken = failure.limit, failure.input
    if limit is not None and limit < WINDOW_TOKENS_LEARNED_MIN:
        limit = None
    if taken is not None and not 0 < taken <= _COUNTS_APART * plan.tokens.total:
        taken = None
    return limit, taken


def _lower_output(plan: Plan, bounds: Bounds, tokens: int) -> Remedy:
    if not 0 < tokens < plan.prompt.output_tokens:
        return Remedy("give-up", bounds, "the reply cannot be made shorter")
    return Remedy("lower-output", _with(bounds, output=tokens), f"a reply of {tokens:,} tokens")


def _fewer_bytes(plan: Plan, bounds: Bounds, tries: Tries) -> Remedy:
    """Fewer bytes, not fewer tokens: drop pictures first, the oldest of them."""
    pictures = len(blocks_of(plan, Image))
    target = bounds.target or plan.target
    if pictures:
        kept = pictures // 2
        dialect = msgspec.structs.replace(target.dialect, images_max=kept)
        fewer = msgspec.structs.replace(target, dialect=dialect)
        return Remedy(
            "drop-media", _with(bounds, target=fewer), f"with {kept} of {pictures} pictures"
        )
    most = int(_SHRINK[min(tries.recoveries, len(_SHRINK) - 1)] * plan.tokens.total)
    return Remedy("shrink", _with(bounds, at_most=most), f"to at most {most:,} tokens")


def _with(bounds: Bounds, **changes: object) -> Bounds:
    return msgspec.structs.replace(bounds, **changes)
