"""Calls in a message: which are run, with what, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.messages import Tool
from holdfast.providers.offline.calls import CALLS_MAX, Orders, ToolOrder, example, read_orders

TEXT = {"type": "string"}


def takes(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TOOLS = (
    Tool("read_file", "Reads a file", takes("path", path=TEXT, limit={"type": "integer"})),
    Tool("read_file_part", "Reads lines", takes("path", path=TEXT)),
    Tool("get_time", "Tells the time", takes()),
    Tool("fs.write-file", "Writes a file", takes("path", "content", path=TEXT, content=TEXT)),
)


@pytest.mark.parametrize(
    ("said", "name", "arguments"),
    [
        ("read_file(path='README.md')", "read_file", {"path": "README.md"}),
        ('Please call read_file(path="a b.txt", limit=20).', "read_file",
         {"path": "a b.txt", "limit": 20}),
        ("read_file('a.txt', 5)", "read_file", {"path": "a.txt", "limit": 5}),
        ('read_file({"path": "a.txt", "limit": null})', "read_file",
         {"path": "a.txt", "limit": None}),
        ("read_file(path=a.txt, limit=true)", "read_file", {"path": "a.txt", "limit": True}),
        ("read_file(path='a) (b.txt')", "read_file", {"path": "a) (b.txt"}),
        ("read_file(path='it\\'s', more=[1, {'a': None}])", "read_file",
         {"path": "it's", "more": [1, {"a": None}]}),
        ("`get_time()`?", "get_time", {}),
        ("read_file_part(path='x')", "read_file_part", {"path": "x"}),
        ("fs.write-file(path='x', content='''two\nlines''')", "fs.write-file",
         {"path": "x", "content": "two\nlines"}),
    ],
)  # fmt: skip
def test_calls_are_read(said: str, name: str, arguments: dict[str, Any]) -> None:
    """As Python or JSON writes them, anywhere in a message."""
    assert read_orders(said, TOOLS).calls == (ToolOrder(name, arguments),)


def test_several_calls_and_the_rest() -> None:
    """Calls keep their order, the same one is made once, and what is left can be a question."""
    said = "get_time() and read_file(path='a') then get_time(). What is the time?"

    found = read_orders(said, TOOLS)

    assert [call.name for call in found.calls] == ["get_time", "read_file"]
    assert found.rest == " and  then . What is the time?"


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        ("read_file()", "`read_file()` lacks `path`: write it as `read_file(path=…)`."),
        ("read_file(path=/etc/passwd)", "I cannot read `read_file(path=/etc/passwd)`"),
        ("read_file(path='a", "I cannot read `read_file(path='a`"),
    ],
)
def test_a_call_that_cannot_be_run_is_asked_about(said: str, doubt: str) -> None:
    found = read_orders(said, TOOLS)

    assert found.calls == ()
    assert found.doubts[0].startswith(doubt)


def test_only_calls_are_calls() -> None:
    """English is not understood, and neither is a tool that nobody offers."""
    for said in ("read README.md", "my_read_file(path='x')", "write_file(path='x')", "", "(("):
        assert read_orders(said, TOOLS) == Orders(rest=said)
    assert read_orders("get_time()", ()).calls == ()


def test_there_are_not_too_many() -> None:
    said = " ".join(f"read_file(path='{number}')" for number in range(2 * CALLS_MAX))
    assert len(read_orders(said, TOOLS).calls) == CALLS_MAX


def test_examples_are_understood() -> None:
    """What the model offers can be typed, once the gap is filled."""
    for tool in TOOLS:
        assert read_orders(example(tool).replace("…", "'x'"), TOOLS).calls[0].name == tool.name


@given(st.text(alphabet="read_fil()'\"=,[]{}\\ \n\x00a1", max_size=40))
def test_anything_can_be_said(text: str) -> None:
    """No message ends in an exception."""
    found = read_orders(f"read_file({text}", TOOLS)
    assert len(found.calls) + len(found.doubts) >= 1
