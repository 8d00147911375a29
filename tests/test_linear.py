"""No text makes a function of Holdfast slower than linear.

The functions and patterns are found, not listed: every module is walked. A function is called with
adversarial texts for whatever parameter can hold one; a pattern searches them, and texts that are
written from the pattern itself.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import io
import pkgutil
import re
import sys
from collections import defaultdict, deque
from contextlib import contextmanager
from functools import cache, partial
from itertools import cycle
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from tests.support.adversarial import grown, long_texts, near_matches
from tests.support.growth import GIVEN_UP, LARGEST, RATIO_MAX, growth, is_superlinear, steepest
from tests.support.runs import sample

import holdfast
from holdfast.core.extract.names import identifiers
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.secrets import patterns as credentials
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Shape = tuple[str, str, str]

SHARE: Final = 1 / 140
"""Of the pairs of reader and text, each reader with at least one; the nightly run has them all."""


@cache
def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    return [importlib.import_module(m.name) for m in found if not m.name.endswith("__main__")]


# Patterns


class Found(msgspec.Struct):
    """A pattern, where it is declared, and the methods that are called on it."""

    pattern: str
    flags: int
    place: str
    methods: frozenset[str]

    def readers(self) -> Iterator[tuple[str, Callable[[str], Any]]]:
        compiled = re.compile(self.pattern, self.flags)
        for name in sorted(self.methods & {"match", "fullmatch"}):
            yield f"{self.place}.{name}", getattr(compiled, name)
        if self.methods - {"match", "fullmatch"}:
            yield self.place, lambda text: deque(compiled.finditer(text), maxlen=0)


_LAZY: Final = type(lazy_pattern(""))
_USE: Final = re.compile(r"\b(\w+)\.(search|match|fullmatch|finditer|findall|sub|subn|split)\b")
_CALL: Final = re.compile(r"\bre\s*\.\s*\w+\s*\(")


@cache
def patterns() -> list[Found]:
    """Every pattern that a module holds or writes in a call of `re`, each once."""
    found: dict[tuple[str, int], Found] = {}
    every = modules()
    sources = {module.__name__: Path(str(module.__file__)).read_text() for module in every}
    uses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for place, source in sources.items():
        for name, method in _USE.findall(source):
            uses[place, name].add(method)
            uses["", name].add(method)
    for module in every:
        for name, value in list(vars(module).items()):
            methods = uses[module.__name__ if name.startswith("_") else "", name] or {"search"}
            for pattern, flags in _patterns_in(value):
                place = f"{module.__name__}.{name}"
                _add(found, Found(pattern, flags, place, frozenset(methods)))
        for pattern, method, line in _written_in_calls(sources[module.__name__]):
            place = f"{module.__name__}:{line}"
            _add(found, Found(pattern, 0, place, frozenset((method,))))
    return list(found.values())


def _add(found: dict[tuple[str, int], Found], new: Found) -> None:
    known = found.setdefault((new.pattern, new.flags), new)
    known.methods |= new.methods


def _patterns_in(value: object, depth: int = 0) -> Iterator[tuple[str, int]]:
    inner: list[object] = []
    if isinstance(value, re.Pattern | _LAZY):
        if isinstance(value.pattern, str):
            yield value.pattern, re.compile(value.pattern, value.flags & ~re.UNICODE).flags
    elif isinstance(value, dict):
        inner = [*value.values(), *value]
    elif isinstance(value, tuple | list | set | frozenset):
        inner = list(value)
    elif isinstance(value, msgspec.Struct):
        inner = [getattr(value, field) for field in value.__struct_fields__]
    elif isinstance(value, type) and value.__module__.startswith("holdfast."):
        inner = list(vars(value).values())
    for item in inner if depth < 4 else []:
        yield from _patterns_in(item, depth + 1)


def _written_in_calls(source: str) -> Iterator[tuple[str, str, int]]:
    if _CALL.search(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str(pattern)), *_],
            ) if method != "escape":
                yield pattern, method, node.lineno


# Functions


def functions() -> Iterator[Callable[..., Any]]:
    """Every function of every module, methods without an instance included."""
    for module in modules():
        for value in vars(module).values():
            if callable(value):
                function = inspect.unwrap(value)
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    yield function


def _json(text: str) -> dict[str, Any]:
    """An object that has the text in every field that some reader looks at."""
    block = {"type": "text", "text": text, "content": text}
    names = ("role", "content", "text", "input", "arguments", "name", "error", "message", "path")
    return {"type": "user", **dict.fromkeys(names, text), "blocks": [block], "parts": [block]}


def _records(text: str) -> list[Any]:
    call = {"type": "tool_use", "id": "c", "name": "run", "input": {"command": text}}
    return [
        User(id="1", content=text),
        Assistant(id="2", content=[{"type": "thinking", "thinking": text}, call]),
        ToolResult(id="3", tool_use_id="c", content=text),
        Assistant(id="4", content=text),
        User(id="5", content="go on"),
    ]


MADE: Final[dict[str, tuple[Callable[[str], Any], ...]]] = {
    "str": (str,),
    "str | None": (str,),
    "bytes": (lambda text: text.encode("utf-8", "surrogatepass"),),
    "Sequence[str]": (lambda text: [text], str.split),
    "Iterable[str]": (lambda text: [text], str.split),
    "list[str]": (lambda text: [text], str.split),
    "tuple[str, ...]": (lambda text: (text,), lambda text: tuple(text.split())),
    "frozenset[str]": (lambda text: frozenset((text,)),),
    "set[str]": (lambda text: {text},),
    "object": (str, _json),
    "Any": (str, _json),
    "Json": (_json,),
    "dict[str, Any]": (_json,),
    "Mapping[str, Any]": (_json,),
    "dict[str, str]": (lambda text: {"command": text, "path": text},),
    "Mapping[str, str]": (lambda text: {"command": text, "path": text},),
    "list[Json]": (lambda text: [_json(text)],),
    "Sequence[Json]": (lambda text: [_json(text)],),
    "Content": (str, lambda text: [{"type": "text", "text": text}]),
    "Record": (lambda text: _records(text)[0], lambda text: _records(text)[1]),
    "Sequence[Record]": (_records,),
    "Iterable[Record]": (_records,),
    "int": (lambda _: 50,),
    "int | None": (lambda _: 50,),
    "float": (lambda _: 10.0,),
    "bool": (lambda _: True,),
    "Counter": (lambda _: Estimator(),),
}
"""Arguments by the annotation of a parameter; those that hold the text are what is tested."""
NOT_MEASURED: Final = frozenset(
    (
        "holdfast.core.secrets.patterns._tokens",  # reads a table of ours alone
        "holdfast.core.secrets.encodings._html",  # the second argument is a constant of ours
        "holdfast.engine.safe_regex.matcher",  # compiles at most PATTERN_CHARS_MAX characters
        "holdfast.surfaces.cli.adopt.first_turn.first_turn_notice",  # projects none but long logs
        "holdfast.surfaces.cli.help._wrap",  # wraps our own texts, with indents of ours
    )
)
"""Functions that nobody gives a long text, or that begin to work at some length."""
PLAIN: Final = frozenset(("int", "int | None", "float", "bool", "Counter"))


def callers(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Ways to call a function with a text: in all its parameters, and in the first alone."""
    if inspect.iscoroutinefunction(function):
        return  # a call does not run it, and pytest fails a coroutine that nobody awaits
    required = [
        str(parameter.annotation)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    ]
    if not set(required) <= set(MADE) or set(required) <= PLAIN:
        return
    names = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    place = f"{function.__module__}.{function.__qualname__}"
    ways = max(len(MADE[annotation]) for annotation in required)
    held = [at for at, annotation in enumerate(required) if annotation not in PLAIN]
    for way in range(ways):
        makers = [MADE[a][min(way, len(MADE[a]) - 1)] for a in required]
        for others in (True, False)[: len(held)]:

            def call(text: str, makers: Any = makers, others: bool = others) -> Any:
                made = [
                    make(text if others or at == held[0] else "a ")
                    for at, make in enumerate(makers)
                ]
                count = len(made) - len(names)
                answer = function(*made[:count], **dict(zip(names, made[count:], strict=True)))
                return list(answer) if inspect.isgenerator(answer) else answer

            yield f"{place} #{way}{'' if others else ' first'}", call


_REACHES_OUT: Final = frozenset(
    (
        *("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"),
        *("os.system", "os.fork", "os.exec", "os.posix_spawn", "os.kill", "subprocess.Popen"),
        *("os.listdir", "os.scandir", "socket.connect", "socket.bind", "shutil.rmtree"),
        *("sqlite3.connect", "signal.pthread_kill", "os.putenv", "os.chdir"),
    )
)
_is_shut = False


def _refuse(event: str, _arguments: object) -> None:
    if _is_shut and event in _REACHES_OUT:
        raise PermissionError(event)


@cache
def _watch() -> None:
    """Hear of every act of this process from now on: there is no way to stop that."""
    sys.addaudithook(_refuse)


@contextmanager
def shut() -> Iterator[None]:
    """Nothing that is called inside can write a file, start a process or open a connection."""
    global _is_shut
    _watch()
    _is_shut = True
    try:
        yield
    finally:
        _is_shut = False


Reading = tuple[str, "Callable[[str], Any]", "Shape"]


def sample_readings(readings: list[Reading]) -> list[Reading]:
    """Some texts for every reader; in the nightly run, all."""
    return sample(
        readings, share=SHARE, name=lambda item: f"{item[0]} {item[2]}", kind=lambda item: item[0]
    )


def remembering() -> list[tuple[ModuleType, str, Any]]:
    """Return the functions that remember texts; one without a parameter remembers a resource."""
    return [
        (module, name, value)
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, functools._lru_cache_wrapper)
        and value.cache_info().maxsize
        and inspect.signature(value).parameters
    ]


def _read_grown(read: Callable[[str], Any], shape: Shape, size: int) -> Any:
    return read(grown(shape, size))


def slow(readings: list[Reading]) -> dict[str, list[Shape]]:
    """Readers that take more than 2.5 times as long for twice a text, with up to 3 texts."""
    found: dict[str, list[Shape]] = defaultdict(list)
    for name, read, shape in readings:
        is_known = len(found.get(name, ())) >= 3
        if not is_known and is_superlinear(partial(_read_grown, read, shape)):
            found[name].append(shape)
    return dict(found)


def report(found: dict[str, list[Shape]]) -> str:
    """All of them by name: pytest leaves out the end of a long difference."""
    return "\n".join(f"{name}: {shapes}" for name, shapes in found.items())


def test_every_pattern_is_linear() -> None:
    readings = [
        (name, read, shape)
        for pattern in patterns()
        for name, read in pattern.readers()
        for shape in (*long_texts(), *near_matches(pattern.pattern, pattern.flags))
    ]

    found = slow(sample_readings(readings))

    assert not found, report(found)


def test_every_function_is_linear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readings = [
        (name, read, shape)
        for function in functions()
        if f"{function.__module__}.{function.__qualname__}" not in NOT_MEASURED
        for name, read in callers(function)
        for shape in long_texts()
    ]
    chosen = sample_readings(readings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("time.sleep", lambda _: None)
    for module, name, function in remembering():
        monkeypatch.setattr(module, name, function.__wrapped__)

    with shut(), no_compiled_patterns_kept():
        found = slow(chosen)

    assert not found, report(found)


@contextmanager
def no_compiled_patterns_kept() -> Iterator[None]:
    """Otherwise a pattern that is compiled again costs nothing, unless the first time took too
    long: then twice the text costs as much as we let it."""
    before = regex.cache_all(None)
    regex.cache_all(False)
    try:
        yield
    finally:
        regex.cache_all(before)


@pytest.mark.parametrize(
    "pattern",
    [
        r"[\w.@+-]+(?:/[\w.@+-]+)+",  # searches for a slash from every letter of a word
        r"\b[A-Za-z]*[a-z0-9]+[A-Z]\w*",  # reads a word in as many ways as it has letters
        r"(?m)^\s*Action:",  # searches all blank lines from each of them
        r'"(?:[^"\\]|\\.)*"',  # finds an escaped quote, and searches for its end
    ],
)
def test_quadratic_pattern_is_found(pattern: str) -> None:
    found = Found(pattern, 0, "here", frozenset(("search",)))
    [(_name, read)] = found.readers()
    shapes = (*near_matches(pattern, 0), *long_texts())

    assert any(growth(partial(_read_grown, read, shape)) > RATIO_MAX for shape in shapes)


def test_quadratic_function_is_found() -> None:
    def read(text: str) -> None:
        while text:
            text.count("!")
            text = text[1:]

    assert growth(partial(_read_grown, read, long_texts()[0])) > RATIO_MAX


def test_quadratic_function_is_judged_so_far_out() -> None:
    read = re.compile("a*!").search  # one call: a run that counts lines would slow down a loop

    assert is_superlinear(lambda size: read("a" * (size // 10)))


def test_work_that_begins_at_some_length_is_linear_work() -> None:
    """It looks steep between two sizes, whatever it does behind them."""

    def read(size: int) -> None:
        text = "a" * size
        for _ in range(400 if size > LARGEST // 4 else 1):
            text.count("!")

    assert growth(read) > RATIO_MAX
    assert not is_superlinear(read)


def test_exponential_pattern_is_found() -> None:
    read = re.compile(r"(a|a)*!").match

    assert growth(lambda size: read("a" * size)) > RATIO_MAX


def test_a_reader_that_drops_the_signal_is_stopped_all_the_same() -> None:
    """Python drops what a finalizer raises, and reports it; the report must not fail a test."""

    class Slow:
        def __del__(self) -> None:
            while True:
                pass

    def read(_size: int) -> None:
        Slow()
        while True:
            pass

    assert growth(read) == inf
    assert gc.isenabled()


def noisy(cost: Callable[[int], float], noise: list[float]) -> Callable[[int], float]:
    """A cost as a busy machine shows it: each call slower by the next factor."""
    factors = cycle(noise)

    def measure(size: int) -> float:
        measured = cost(size) * next(factors)
        return measured if measured < GIVEN_UP else inf

    return measure


BURSTS: Final = st.lists(st.floats(1, 10), min_size=1, max_size=2).map(
    lambda slow: [*slow, 1.0, 1.1]
)
"""Among some calls in a row, at least one that no other process disturbs."""


@given(st.floats(-9, 3), st.floats(0, 1), BURSTS)
def test_linear_work_is_never_found(weight: float, start: float, noise: list[float]) -> None:
    """However slow the reader and busy the machine; to begin a call may cost something, too."""
    assert steepest(noisy(lambda size: 10**weight * size / LARGEST + start, noise)) <= RATIO_MAX


@given(st.floats(-0.5, 5), BURSTS)
def test_quadratic_work_is_always_found(weight: float, noise: list[float]) -> None:
    """However slow the reader and busy the machine, down to a third of the cheapest reading."""
    assert steepest(noisy(lambda size: 10**weight * (size / LARGEST) ** 2, noise)) > RATIO_MAX


def test_every_argument_can_be_made() -> None:
    """What a reader raises is an answer; what the makers raise would hide the reader."""
    for makers in MADE.values():
        for make in makers:
            make("some text")


def test_functions_that_remember_are_found() -> None:
    """Otherwise a text that is read again would seem to cost nothing."""
    names = {name for _module, name, _function in remembering()}
    assert {"thousandths", "_estimate_long", "_estimate_short"} <= names


def test_patterns_and_functions_are_found() -> None:
    """The walk reaches what is private, nested in a table, and written inside a call."""
    names = {found.place for found in patterns()}
    called = {name.partition(" ")[0] for function in functions() for name, _ in callers(function)}

    assert {"holdfast.core.extract.names._NAME", "holdfast.core.tokens.images._RULES"} <= names
    assert any(":" in name for name in names)
    assert {"holdfast.core.extract.names.identifiers", "holdfast.core.text.cut.scrub"} <= called
    assert len(called) > 500


SIGNS: Final = "\\/.:-_=+~%<>()[]{}|&*#@!?'\",;a0é世"


def test_a_word_of_one_sign_is_read_in_linear_time() -> None:
    """Every sign, each time: a sample of all texts left out a run of backslashes, which held the
    reading of names for minutes."""
    readings: list[Reading] = [
        (name, read, ("", sign, tail))
        for name, read in (("names", identifiers), ("secrets", credentials.spans))
        for sign in SIGNS
        for tail in ("", "!")
    ]
    assert slow(readings) == {}
