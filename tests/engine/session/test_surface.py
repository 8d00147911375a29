"""Both kinds of session have one surface, and one set of options."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from tests.engine.sessions import KINDS, Bench, Kind

from holdfast.core.failures.classify import Rule
from holdfast.core.log.records import Assistant
from holdfast.core.models.prices import Price
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.handles.own_loop import AsyncOwnLoop, OwnLoop
from holdfast.engine.session.options import _GONE_OPTIONS, OptionKeywords, SessionOptions
from holdfast.engine.session.session import Session
from holdfast.errors import BadSetting, UsageError
from holdfast.providers.models import model
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import ScriptedModel, calls

OWN: dict[type, set[str]] = {
    Session: {"__enter__", "__exit__"},
    AsyncSession: {"__aenter__", "__aexit__"},
}
MODELS = {"Model": "AsyncModel", "FlowRun": "AsyncFlowRun", "Iterator": "AsyncIterator"}


def _surface(session: type) -> dict[str, str]:
    """The public methods of a session and their signatures, in the words of `AsyncSession`."""
    found = {}
    for name, method in inspect.getmembers(session, inspect.isroutine):
        own = OWN.get(session, set())
        is_public = not name.startswith("_") or name in own | {"__init__"}
        if is_public and name not in own:
            signature = str(inspect.signature(method))
            for blocking, awaited in MODELS.items():
                signature = signature.replace(awaited, blocking)
            found[name] = signature
    return found


def test_both_kinds_of_session_have_one_surface() -> None:
    """The same methods, with the same parameters and results."""
    assert _surface(Session) == _surface(AsyncSession)
    assert _surface(OwnLoop) == _surface(AsyncOwnLoop)


def test_every_option_is_a_keyword_of_open() -> None:
    """The keywords that editors offer are the fields of the options, no more and no less."""
    assert set(OptionKeywords.__annotations__) == set(SessionOptions.__struct_fields__)


def test_open_has_few_options() -> None:
    """Twelve options beside the model, the store and the owner; the numbers are in `limits`."""
    named = {
        name
        for name, parameter in inspect.signature(Session.open).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    options = named | OptionKeywords.__annotations__.keys()
    assert len(options - {"model", "store", "owner"}) <= 12


@pytest.mark.parametrize("name", sorted(_GONE_OPTIONS))
def test_an_old_option_names_the_new_spelling(name: str) -> None:
    """Nothing is made for a session that is opened with an old word."""
    store = MemoryStore()
    given: Any = {"model": "offline", "store": store, name: None}
    with pytest.raises(BadSetting, match=f"no option `{name}`") as refused:
        Session.open("s", **given)
    assert str(refused.value.hint).startswith(("pass `", "call `", "pass the path"))
    assert not list(store.keys())


def test_a_model_states_its_price_and_its_rules() -> None:
    """A session takes both from its model, also from one that its caller wrote."""
    price = Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
    rule = Rule("ours", "transport", "retry_with_backoff", status=(418,))
    for made in (model("offline", price=price, rules=[rule]), Priced(price, [rule])):
        with Session.open("s", model=made, store=MemoryStore()) as session:
            assert session._state.run.settings.price == price
            assert session._state.run.settings.is_price_stated
            assert list(session._state.world.rules) == [rule]


class Priced(ScriptedModel):
    """A model that knows its price."""

    def __init__(self, price: Price, rules: list[Rule]) -> None:
        super().__init__([])
        self.price, self.rules = price, rules


def test_a_blocking_session_needs_no_event_loop() -> None:
    """A turn with a tool runs without asyncio, which takes a while to load."""
    program = (
        "import sys\n"
        "from holdfast import Session\n"
        "from holdfast.stores import MemoryStore\n"
        "def shout(text: str) -> str:\n"
        "    return text.upper()\n"
        "with Session.open('s', model='offline', store=MemoryStore(), tools=[shout]) as session:\n"
        "    session.say('shout(text=\"hello\")')\n"
        "    session.undo()\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class Unshown:
    """Something that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


_NO_BLOCKS: list[Any] = [[5], ["a"], [{}], [{"text": "a"}], [{"type": 5}], [None], [[]], [b"a"]]
_BAD_CONTENT: list[Any] = [
    *(5, True, 1.5, b"text", bytearray(b"x"), {}, {"type": "text", "text": "a"}, ("a",), {"a"}),
    *(object(), Unshown(), *_NO_BLOCKS, [{"type": "text", "text": Unshown()}]),
    *(iter("a"), [{"type": "text", "text": b"bytes"}], [{"type": "text", "a": [{5: object()}]}]),
]
_NO_TEXT: list[Any] = [5, True, b"text", ["a"], {"a": 1}, object(), Unshown()]
_NO_NUMBER: list[Any] = ["5", True, 1.5, b"5", [5], object(), Unshown()]

WRONG: dict[str, list[Any]] = {
    "Content": _BAD_CONTENT,
    "str": [None, *_NO_TEXT],
    "str | None": _NO_TEXT,
    "str | OwnerFilter": [5, True, b"ann", [], object()],
    "int": [None, *_NO_NUMBER],
    "int | None": _NO_NUMBER,
    "float": [None, "5", True, b"5", [5], object(), Unshown()],
    "bool": [None, 0, 1, "yes", b"", [], object()],
    "Callable[[Json], Any]": [None, 5, "text", b"", [], {}, object()],
    "Callable[[Any], Any]": [None, 5, "text", b"", [], {}, object()],
    "OnDelta | None": [5, "text", b"", [], {}, object()],
    "type": [None, 5, "text", object()],
    "Json | None": [5, "text", b"", [], object(), {5: 1}, {"a": object()}, {"content": "x"}],
    "Json": [None, 5, "text", b"", [], object()],
    "Literal['continue', 'fresh']": [None, 5, "", "other", [], object(), Unshown()],
    "str | Model": [None, 5, b"offline", [], object()],
    "str | Model | None": [5, b"offline", [], object()],
    "str | os.PathLike[str] | SessionStore | None": [5, b"folder", [], object()],
    "Any": [],
    "object": [],
    "ToolCall": [None, 5, "context", b"", [], {}, object()],
}
"""For each annotation of a public parameter, values of other types."""

VALID: dict[str, Any] = {"content": "text", "call_id": "c1", "send": lambda _request: "a reply"}
VALID |= {"handler": lambda _event: None, "arguments": {}, "tool": "t", "ref": "r", "label": "l"}
VALID |= {"text": "context", "source": "a program"}
VALID |= {"mode": "continue", "reply": "a reply", "trigger": "asked"}


def _cases() -> list[tuple[str, str, Any]]:
    found = []
    for name, method in inspect.getmembers(Session, inspect.isroutine):
        if name.startswith("_"):
            continue
        for parameter in inspect.signature(method).parameters.values():
            if parameter.name != "self" and parameter.name != "options":
                values = WRONG[str(parameter.annotation).replace('"', "'")]
                found += [(name, parameter.name, value) for value in values]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_of_a_wrong_type_are_refused_and_store_nothing(kind: Kind) -> None:
    """Every public method, every parameter: `UsageError` by its name, and the log is as it was."""
    bench = Bench(kind)
    reply = calls(("c1", "t", {}))
    session = bench.open(ScriptedModel([reply, *["done"] * 5]), window=32_000)
    bench.do(session.own_loop.add_user("hello"))
    bench.do(session.own_loop.record(reply))
    before = bench.records()
    assert any(isinstance(record, Assistant) for record in before)
    for method, parameter, value in _cases():
        given = {parameter: value}
        called = getattr(session, method)
        for wanted in inspect.signature(called).parameters.values():
            if wanted.default is wanted.empty and wanted.name in VALID:
                given.setdefault(wanted.name, VALID[wanted.name])
        if method == "open":
            given = {"store": bench.store, "model": ScriptedModel(["a"]), "name": "s", **given}
        raised: BaseException | None = None
        try:
            if parameter == "kinds":
                called(given["handler"], value)
            elif method == "stream":
                bench.stream(session, **given)
            else:
                bench.do(called(**given))
        except Exception as error:
            raised = error
        assert isinstance(raised, UsageError), (method, parameter, type(value))
        assert raised.hint, (method, parameter)
        is_named = parameter == "content" or f"`{parameter}`" in str(raised)
        assert is_named, (method, parameter, str(raised))
        assert bench.records() == before, (method, parameter, type(value))
        assert len(bench.store.sessions(owner=ANY_OWNER)) == 1
    bench.close()
