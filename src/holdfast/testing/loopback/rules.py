"""Rules that the loopback enforces, and the faults it was told to show."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from holdfast.core.dialects.registry import find_variant, target
from holdfast.core.models.dialects import (
    DialectVariant,  # noqa: TC001  (a struct's field)
)
from holdfast.core.models.messages import ToolCall
from holdfast.core.tokens.counting import Counter, count_block
from holdfast.errors import BadSetting
from holdfast.providers.tokenizers import counter_for
from holdfast.testing.loopback.asking import Answer, Asked
from holdfast.testing.loopback.faults import Fault  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from holdfast.core.models.dialects import (
        Target,
    )
    from holdfast.testing.loopback.reading import Heard

When: TypeAlias = Callable[[Asked], bool]


class Rules(msgspec.Struct, kw_only=True):
    """Limits and quirks. They may be changed between two requests."""

    limit: int
    limits: dict[str, int] = {}
    output_max: int = 0
    reserves_output: bool = True
    body_bytes: int | None = None
    variants: dict[str, str] = {}
    counter: Counter | None = None
    factor: float = 1.0
    api_key: str = ""
    checks_foreign_signatures: bool = False
    is_old_account: bool = False
    accounts: dict[str, str] = {}

    def __post_init__(self) -> None:
        if min([self.limit, *self.limits.values()]) < 1 or self.factor <= 0:
            raise BadSetting(
                f"a window of {self.limit} tokens, counted by a factor of {self.factor}, makes no "
                "sense",
                hint="give a `limit` of at least 1 and a `factor` above 0",
            )
        for name, variant in self.variants.items():
            find_variant(name, variant)  # an unknown one is refused here, not at the first request

    def limit_for(self, model: str) -> int:
        return self.limits.get(model, self.limit)

    def dialect(self, name: str) -> DialectVariant:
        return find_variant(name, self.variants.get(name, ""))

    def bytes_for(self, name: str) -> int:
        """The largest body; 0 for any."""
        return self.dialect(name).body_bytes if self.body_bytes is None else self.body_bytes

    def target(self, heard: Heard) -> Target:
        """Whom a request was made for, as far as it tells."""
        return target(
            heard.dialect,
            self.variants.get(heard.dialect, ""),
            model=heard.model,
            thinking=heard.thinks,
        )

    # Counting

    def sums(self, heard: Heard) -> list[int]:
        """The tokens of a request up to the end of each piece."""
        return heard.weigh(self._counter(heard.model), self.factor)

    def text_tokens(self, text: str, model: str) -> int:
        return math.ceil(self._counter(model).count(text) * self.factor)

    def answer_tokens(self, answer: Answer, model: str) -> int:
        """All of the output: thinking, text and calls."""
        counter = self._counter(model)
        calls = (ToolCall(call.id, call.name, call.arguments) for call in answer.calls)
        total = counter.count(answer.thinking) + counter.count(answer.text)
        total += sum(count_block(call, counter) for call in calls)
        return math.ceil(total * self.factor)

    def within(self, answer: Answer, wanted: int, left: int, model: str) -> Answer:
        """An answer as far as there is room: the last calls go first, then the end of the text.

        `wanted` is the output cap of the request, 0 for none; `left` is what the window has left.
        """
        room = min(wanted or left, left)
        if self.answer_tokens(answer, model) <= room:
            return answer
        is_cap = room == wanted or not wanted
        shorter = msgspec.structs.replace(answer, stop="length" if is_cap else "window")
        while shorter.calls:
            shorter = msgspec.structs.replace(shorter, calls=shorter.calls[:-1])
            if self.answer_tokens(shorter, model) <= room:
                return shorter
        for field in ("text", "thinking"):
            text: str = getattr(shorter, field)
            bare = msgspec.structs.replace(shorter, **{field: ""})
            free = room - self.answer_tokens(bare, model)
            shorter = msgspec.structs.replace(bare, **{field: self._first(text, free, model)})
            if free >= 0:
                break
        return shorter

    def _first(self, text: str, tokens: int, model: str) -> str:
        """The longest beginning of a text that has no more than so many tokens."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.text_tokens(text[:middle], model) <= tokens:
                low = middle
            else:
                high = middle - 1
        return text[:low]

    def _counter(self, model: str) -> Counter:
        return self.counter or counter_for(model)


class _Told(msgspec.Struct):
    when: When
    fault: Fault
    left: int


class Faults:
    """The queue of faults. Safe to use from several threads."""

    def __init__(self) -> None:
        self._queue: deque[Fault | None] = deque()
        self._told: list[_Told] = []
        self._lock = Lock()

    def add(self, *faults: Fault | None) -> None:
        with self._lock:
            self._queue.extend(faults)

    def add_when(self, when: When, fault: Fault, times: int) -> None:
        with self._lock:
            self._told.append(_Told(when, fault, times))

    def clear(self) -> None:
        with self._lock:
            self._queue.clear()
            self._told.clear()

    @property
    def waiting(self) -> int:
        """Return the number of faults queued for the next requests."""
        return len(self._queue)

    def take(self, asked: Asked) -> Fault | None:
        """The fault for this request, if there is one."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            for item in self._told:
                if item.left > 0 and item.when(asked):
                    item.left -= 1
                    return item.fault
            return None

    def put_back(self, fault: Fault) -> None:
        """It found nothing to strike."""
        with self._lock:
            self._queue.appendleft(fault)
