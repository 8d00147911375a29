"""Whatever a tool returns or raises becomes a result, and the turn goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import decimal
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.sessions import KINDS, Bench, Kind
from tests.support.runs import EXAMPLES, RUN

from holdfast.core.flow.effects import Cancelled
from holdfast.core.log.records import ToolResult
from holdfast.core.turn.options import Limits
from holdfast.engine import tool_values
from holdfast.engine.tool_values import ToolOutput, outcome_of, outcome_of_error
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Ending(BaseException):
    """Neither an `Exception` nor one of the interrupts that Python knows."""


class Mute:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Leaving:
    """An object that ends the process when it is shown."""

    def __repr__(self) -> str:
        raise SystemExit(3)


class Disguised:
    """An object that hides its class and has no truth."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise Ending

    def __bool__(self) -> bool:
        raise Ending


class LyingText(str):
    """A text that denies being one."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")

    def __len__(self) -> int:
        return -1


class WrongText:
    """An object whose text is no text."""

    def __repr__(self) -> Any:
        return 5


class SpeechlessError(Exception):
    """An exception without words."""

    def __str__(self) -> str:
        raise ValueError("no")


class BrokenList(list[Any]):
    """A list that cannot be read."""

    def __iter__(self) -> Iterator[Any]:
        raise OSError("no")


@dataclasses.dataclass
class Node:
    """A dataclass that can contain itself."""

    inner: Any


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _cycle() -> Any:
    value: list[Any] = []
    value += [value, value, {"self": value}]
    return value


def _node() -> Node:
    node = Node(None)
    node.inner = [node, node]
    return node


def _shared() -> Any:
    """A value of forty parts that is 2**40 parts long when it is written out."""
    value: Any = ["x"]
    for _ in range(40):
        value = [value, value]
    return value


def _endless() -> Iterator[int]:
    while True:
        yield 1


LEAVES: tuple[Callable[[], Any], ...] = (
    *(lambda: 10**5000, lambda: -(10**5000), lambda: 2**64, lambda: float("nan"), lambda: None),
    *(lambda: float("-inf"), lambda: decimal.Decimal("sNaN"), lambda: 1 + 2j, lambda: True),
    *(lambda: "\ud800 half", lambda: "\x00", lambda: b"\xff\x00", lambda: bytearray(b"\xfe")),
    *(lambda: memoryview(b"x"), Mute, Leaving, Disguised, WrongText, lambda: LyingText("text")),
    *(_endless, lambda: iter([1]), object, lambda: Mute, lambda: SpeechlessError("x"), _cycle),
    *(_node, _shared, lambda: _deep(151), lambda: _deep(5000), lambda: BrokenList([1])),
    *(lambda: {("a", 1): 2}, lambda: {Mute(): 1}, lambda: {10**5000: 1}, lambda: {"\ud800": 1}),
    *(lambda: {1, "a"}, lambda: frozenset(), lambda: [{"type": "text"}], lambda: [{"type": 5}]),
    *(lambda: [{"type": "image", "source": Mute()}], list, dict, lambda: "", lambda: ...),
    *(lambda: range(5), lambda: NotImplemented, lambda: type, lambda: asyncio.Lock()),
)
"""What a tool may return."""

FAILURES: tuple[Callable[[], BaseException], ...] = (
    *(SpeechlessError, Ending, lambda: GeneratorExit(), lambda: SystemExit(2), RecursionError),
    *(MemoryError, StopIteration, StopAsyncIteration, lambda: ValueError("\ud800"), Cancelled),
    *(lambda: ValueError(Mute()), lambda: ValueError(10**5000), lambda: OSError(5, "io")),
    *(
        lambda: ExceptionGroup("g", [SpeechlessError()]),
        lambda: BaseExceptionGroup("g", [Ending()]),
    ),
    *(lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), asyncio.CancelledError),
)
"""What a tool may raise. Two of them interrupt the turn of a blocking session."""

INTERRUPTS = (Cancelled, asyncio.CancelledError)


@pytest.fixture(autouse=True)
def _small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values without an end are given up soon."""
    monkeypatch.setattr(tool_values, "TOOL_VALUE_PARTS_MAX", 20_000)


def _evil(chance: random.Random, depth: int = 3) -> Any:
    """A value made of evil values."""
    if depth == 0 or chance.random() < 0.4:
        return chance.choice(LEAVES)()
    parts = [_evil(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    match chance.randint(0, 5):
        case 0:
            return parts
        case 1:
            return {chance.choice(["a", 5, None, "\udfff", 1.5]): part for part in parts}
        case 2:
            return [{"type": "text", "text": part} for part in parts]
        case 3:
            return ToolOutput(parts, is_error=_evil(chance, 0), details=_evil(chance, 0))
        case 4:
            return Node(parts)
        case _:
            return tuple(parts)


@pytest.mark.parametrize("seed", range(4 * EXAMPLES[RUN]))
def test_any_value_becomes_a_bounded_result(seed: int) -> None:
    """Nothing is raised, and what comes out is JSON that the log takes."""
    outcome = outcome_of("c", _evil(random.Random(seed)), 0.0)
    assert outcome.content is None or isinstance(outcome.content, str | list)
    assert isinstance(outcome.is_error, bool)
    assert len(msgspec.json.encode((outcome.content, outcome.details))) < 1_000_000


@pytest.mark.parametrize("failure", FAILURES)
def test_any_exception_becomes_a_result_that_names_it(failure: Any) -> None:
    error = failure()
    outcome = outcome_of_error("c", error, 0.0)
    assert outcome.is_error
    assert str(outcome.content).startswith(type(error).__name__)
    msgspec.json.encode(outcome.content)


@pytest.mark.sampled(1 / 2, "kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_parallel", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_the_turn_goes_on_whatever_a_tool_does(
    kind: Kind, is_parallel: bool, is_async: bool
) -> None:
    """Every call has one result in the log, and the model is asked again with all of them."""
    bench = Bench(kind)
    allowed = [make for make in FAILURES if kind == "async" or type(make()) not in INTERRUPTS]
    acts: list[Callable[[], Any]] = [*LEAVES, *(partial(_throw, make) for make in allowed)]

    def act(number: int) -> Any:
        return acts[number]()

    async def act_later(number: int) -> Any:
        return acts[number]()

    name = "act_later" if is_async else "act"
    wanted = [(f"c{number}", name, {"number": number}) for number in range(len(acts))]
    replies = [calls(*wanted)] if is_parallel else [calls(call) for call in wanted]
    model = ScriptedModel([*replies, "done"])
    session = bench.open(model, tools=[act, act_later], window=200_000, limits=Limits(steps=200))
    assert bench.say(session, "act").text == "done"
    results = [record for record in bench.records() if isinstance(record, ToolResult)]
    assert sorted(record.tool_use_id for record in results) == sorted(call[0] for call in wanted)
    assert model.requests
    bench.close()


def _throw(make: Callable[[], BaseException]) -> Any:
    raise make()


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_in_a_tool_is_an_interrupt(kind: Kind) -> None:
    """Ctrl-C while a tool runs is no result of the tool."""
    bench = Bench(kind)

    def act() -> None:
        raise KeyboardInterrupt

    session = bench.open(ScriptedModel([calls(("c", "act", {})), "done"]), tools=[act])
    with pytest.raises(KeyboardInterrupt):
        bench.say(session, "act")
    bench.close()


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_a_type_refuses_become_a_result(kind: Kind) -> None:
    """A type of the caller's may raise anything while it is made."""
    bench = Bench(kind)

    class Strict(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            raise SpeechlessError

    def act(strict: Strict) -> str:
        return str(strict)

    act.__annotations__["strict"] = Strict
    wanted = [(name, "act", {"strict": {"number": 1}}) for name in ("c1", "c2")]
    session = bench.open(ScriptedModel([calls(*wanted), "done"]), tools=[act])
    assert bench.say(session, "act").text == "done"
    bench.close()
