"""Plain typed functions as tools: schema, arguments, results."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

from holdfast import Session
from holdfast.core.flow.effects import Outcome
from holdfast.core.limits import NESTING_MAX
from holdfast.core.models.messages import Tool, ToolCall
from holdfast.engine.tool_values import ToolOutput, outcome_of, outcome_of_error
from holdfast.engine.tools import Toolbox, tool_function
from holdfast.errors import BadSetting
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass
class Place:
    """Where something is."""

    shelf: int
    box: str = "a"


def store(
    name: str,
    count: int = 1,
    *,
    place: Place | None = None,
    kind: Literal["x", "y"] = "x",
    tags: list[str] = [],  # noqa: B006
) -> str:
    """Put something away.

    Args:
        name: What it is called,
            in plain words.
        count (int): How many.

    Returns:
        What was stored.
    """
    return f"{name} {count} {place} {kind} {tags}"


def test_a_signature_gives_the_schema() -> None:
    """Types, defaults, choices and descriptions; what it returns is no argument."""
    tool = tool_function(store).tool
    assert tool.name == "store"
    assert tool.description.startswith("Put something away.")
    assert "Returns" not in tool.description
    schema = tool.parameters
    assert schema["required"] == ["name"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["name"]["type"] == "string"
    assert properties["name"]["description"] == "What it is called, in plain words."
    assert properties["count"]["default"] == 1
    assert properties["count"]["description"] == "How many."
    assert properties["kind"]["enum"] == ["x", "y"]
    assert "Place" in schema["$defs"]


def _bound(arguments: Any) -> Any:
    found = Toolbox([store]).prepare(ToolCall("c", "store", arguments))
    return found if isinstance(found, Outcome) else found[1]


def test_arguments_become_what_the_function_takes() -> None:
    assert _bound({"name": "hat", "count": "3", "place": {"shelf": 2}}) == {
        "name": "hat",
        "count": 3,
        "place": Place(2),
        "kind": "x",
        "tags": [],
    }


@pytest.mark.parametrize(
    "arguments",
    [{}, {"name": 3.5, "kind": "z"}, {"name": "a", "other": 1}, {"name": "a", "count": "x"}],
)
def test_wrong_arguments_are_told_of(arguments: dict[str, Any]) -> None:
    found = _bound(arguments)
    assert isinstance(found, Outcome)
    assert found.is_error
    assert "`store`" in str(found.content)


def test_a_default_list_is_not_shared() -> None:
    """What one call does to its list is nothing to the next."""
    first = _bound({"name": "a"})["tags"]
    first.append("mine")
    assert _bound({"name": "a"})["tags"] == []


def test_functions_no_schema_can_describe_are_refused() -> None:
    def many(*things: str) -> None: ...

    def placed(name: str, /) -> None: ...

    class Strange:
        pass

    def odd(thing: Strange) -> None: ...

    odd.__annotations__ = {"thing": Strange}
    many.__annotations__ = {"things": str}
    for function in (many, placed, odd, lambda x: x):
        with pytest.raises(BadSetting):
            tool_function(function)
    with pytest.raises(BadSetting, match="two tools"):
        Toolbox([store, store])


def test_a_declaration_is_offered_and_not_run() -> None:
    box = Toolbox([Tool("look", "Look there."), store])
    assert [tool.name for tool in box.tools] == ["look", "store"]
    assert "look" not in box
    found = box.prepare(ToolCall("c", "look", {}))
    assert isinstance(found, Outcome)
    assert found.is_error


def test_what_a_function_returns_can_be_stored() -> None:
    """Everything becomes text, blocks or JSON; nothing is refused."""

    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    values: list[Any] = [
        *(None, "text", 3, [1], {"a": Odd()}, Odd(), b"\xff", {Odd(): 1}),
        [{"type": "text", "text": Odd()}],
        ToolOutput({"a": 1}, details=Odd()),  # type: ignore[arg-type]
        ToolOutput([Odd()], is_error=True),  # type: ignore[list-item]
    ]
    for value in values:
        made = outcome_of("c", value, 0.5)
        msgspec.json.encode([made.content, made.details])
        assert made.content is None or isinstance(made.content, str | list)
        if isinstance(made.content, list):
            assert all(isinstance(block, dict) for block in made.content)


@pytest.mark.parametrize("levels", [NESTING_MAX + 1, 2_000, 100_000])
def test_what_is_nested_too_deeply_becomes_text(levels: int) -> None:
    """A tool may return anything; the log takes so many levels."""
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    deep = outcome_of("c1", ToolOutput([{"type": "text", "text": value}], details=value), 0.0)
    assert isinstance(deep.content, str)
    assert isinstance(deep.details, str)
    assert isinstance(outcome_of("c1", value, 0.0).content, str)


def test_what_a_function_raises_names_its_kind() -> None:
    assert outcome_of_error("c", KeyError("x"), 0.0).content == "KeyError: 'x'"
    assert outcome_of_error("c", RuntimeError(), 0.0).content == "RuntimeError"
    assert "\ud800" not in str(outcome_of_error("c", ValueError("\ud800"), 0.0).content)


GOOGLE = """Look up the weather.

    It may be a day old.

    Args:
        city (str): The city, such as
            Rome.
        days: How many days.

    Returns:
        A text.
    """
NUMPY = """Look up the weather.

    It may be a day old.

    Parameters
    ----------
    city : str
        The city, such as
        Rome.
    days : int, optional
        How many days.

    Returns
    -------
    str
        A text.
    """
REST = """Look up the weather.

    It may be a day old.

    :param city: The city, such as
        Rome.
    :type city: str
    :param int days: How many days.
    :returns: A text.
    :rtype: str
    """
EPYTEXT = """Look up the weather.

    It may be a day old.

    @param city: The city, such as
        Rome.
    @type city: str
    @param days: How many days.
    @return: A text.
    """


def weather(city: str, days: int = 1) -> str:
    return f"{city}: sun for {days} days"


@pytest.mark.parametrize(
    "docstring",
    [GOOGLE, NUMPY, REST, EPYTEXT],
    ids=["google", "numpy", "rest", "epytext"],
)
def test_request_describes_parameters_in_every_docstring_style(
    docstring: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tools of the request that a provider gets carry the descriptions, and no section."""
    monkeypatch.setattr(weather, "__doc__", docstring)
    model = ScriptedModel(["sunny"])
    with Session.open("s", model=model, tools=[weather], store=str(tmp_path)) as session:
        session.say("weather?")
    sent = next(tool for tool in model.requests[0]["tools"] if tool["name"] == "weather")
    assert sent["description"] == "Look up the weather.\n\nIt may be a day old."
    properties = sent["input_schema"]["properties"]
    assert properties["city"]["description"] == "The city, such as Rome."
    assert properties["days"]["description"] == "How many days."


def describe(docstring: str) -> tuple[str, dict[str, str]]:
    def look(city: str, x: int = 0, y: int = 0) -> None: ...

    look.__doc__ = docstring
    look.__annotations__ = {"city": str, "x": int, "y": int}
    tool = tool_function(look).tool
    properties = tool.parameters["properties"].items()
    return tool.description, {n: p["description"] for n, p in properties if "description" in p}


def test_parameters_that_share_a_description_each_get_it() -> None:
    assert describe("Look.\n\nParameters\n----------\nx, y : int\n    Coordinates.\n") == (
        "Look.",
        {"x": "Coordinates.", "y": "Coordinates."},
    )


@pytest.mark.parametrize(
    "rest",
    [
        "Note:\n    Never at night.",
        "Then the rest of the text, never at night.",
        "Example:\n    never at night",
    ],
)
def test_text_after_the_parameters_reaches_the_model(rest: str) -> None:
    """A section that the parser does not know is not lost."""
    description, parameters = describe(f"Look.\n\nArgs:\n    city: The city.\n\n{rest}\n")
    assert "never at night" in description.lower()
    assert parameters == {"city": "The city."}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Look.",
        "Look at `Args:` in the text.\n\nNote: a colon is not a section.",
        "Look.\n\n:param: broken\n@param\nArgs:",
        "Look.\n\nArgs:\n",
    ],
)
def test_docstring_without_parameters_is_the_description(text: str) -> None:
    assert describe(text) == (text.strip(), {})
