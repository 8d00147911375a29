"""Which tools a plain request means, and what has to be asked first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.messages import Tool
from holdfast.providers.offline.intents import CALLS_MAX, Call, Wanted, wanted

TEXT = {"type": "string"}


def takes(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TOOLS = (
    Tool("read_file", "Reads a file", takes("path", path=TEXT, limit={"type": "integer"})),
    Tool("list_files", "Lists a folder", takes(path=TEXT)),
    Tool("search", "Searches files for a text", takes("query", query=TEXT, path=TEXT)),
    Tool("get_time", "Tells the time", takes()),
    Tool("weather", "Of a city", takes("city", city=TEXT, unit={"enum": ["celsius", "kelvin"]})),
    Tool("writeFile", "Writes a file", takes("path", "content", path=TEXT, content=TEXT)),
    Tool("bash", "Runs a command", takes("command", command=TEXT)),
    Tool("fetch_url", "Fetches a page", takes("url", url=TEXT)),
    Tool("move", "", takes("x", "fast", x={"type": "number"}, fast={"type": "boolean"})),
)


def one(name: str, **arguments: Any) -> tuple[Call, ...]:
    return (Call(name, arguments),)


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("read README.md", one("read_file", path="README.md")),
        ("Could you please read the file docs/cli.md?", one("read_file", path="docs/cli.md")),
        ("show README", one("read_file", path="README")),
        ("What's in pyproject.toml?", one("read_file", path="pyproject.toml")),
        ("Show the first 20 lines of a/b.py", one("read_file", path="a/b.py", limit=20)),
        ("read `my notes/today.txt`", one("read_file", path="my notes/today.txt")),
        ("list the files in src", one("list_files", path="src")),
        ("list files", one("list_files")),
        ("ls docs", one("list_files", path="docs")),
        ("search for fsync in src/holdfast", one("search", query="fsync", path="src/holdfast")),
        ("find TODO in src", one("search", query="TODO", path="src")),
        ('grep "def main" in a.py', one("search", query="def main", path="a.py")),
        ("Search for cats and dogs in notes", one("search", query="cats and dogs", path="notes")),
        ("what time is it?", one("get_time")),
        ("What is the weather in Paris?", one("weather", city="Paris")),
        ("weather city=Oslo unit=kelvin", one("weather", city="Oslo", unit="kelvin")),
        ("run `ls -la`", one("bash", command="ls -la")),
        ("bash ls -la src", one("bash", command="ls -la src")),
        ("fetch https://example.com/a.html", one("fetch_url", url="https://example.com/a.html")),
        # The explicit forms.
        ('read_file(path="a b.txt")', one("read_file", path="a b.txt")),
        ('read_file({"path": "x", "limit": 3})', one("read_file", path="x", limit=3)),
        ("use the tool search('x', 'src')", one("search", query="x", path="src")),
        ("/read_file path=README.md limit=5", one("read_file", path="README.md", limit=5)),
        ("write_file path=x content='a b'", one("writeFile", path="x", content="a b")),
        ("move x=1.5 fast=yes", one("move", x=1.5, fast=True)),
        ("get_time", one("get_time")),
        ("get_time()", one("get_time")),
    ],
)
def test_plain_requests(said: str, calls: tuple[Call, ...]) -> None:
    """A request that names a tool, or plainly means one, is that call."""
    assert wanted(said, TOOLS) == Wanted(calls)


def test_several_requests_in_one_message() -> None:
    """Requests that follow each other are calls side by side, in their order."""
    found = wanted(
        "list the files in src and then read README.md; what time is it?\nsearch for x in y.py",
        TOOLS,
    )

    assert [call.name for call in found.calls] == ["list_files", "read_file", "get_time", "search"]


def test_several_files_are_several_calls() -> None:
    """A tool that takes one path is called once for each that is named."""
    found = wanted("Please read README.md, setup.py and docs/cli.md", TOOLS)

    assert [call.arguments["path"] for call in found.calls] == [
        "README.md",
        "setup.py",
        "docs/cli.md",
    ]


def test_the_rest_is_left_for_an_answer() -> None:
    """What is asked beside the tools is handed back."""
    found = wanted("read README.md and tell me what it says about crashes", TOOLS)

    assert found.calls == one("read_file", path="README.md")
    assert found.rest == "tell me what it says about crashes"


@pytest.mark.parametrize(
    "said",
    [
        "Why did read_file fail?",
        "What did the search say about x?",
        "How do I run the tests?",
        "Which file has the bug?",
        "My name is Ada.",
        "remember that the port is 8080",
        "hello",
        "I read README.md yesterday.",
        "",
        "???",
    ],
)
def test_talk_about_tools_is_no_request(said: str) -> None:
    """Questions about the past, statements and greetings call nothing."""
    found = wanted(said, TOOLS)
    assert (found.calls, found.doubts) == ((), ())


def test_what_is_missing_is_asked_for() -> None:
    """A tool without what it needs is not called; the question says how to ask."""
    found = wanted("read the file", TOOLS)

    assert found.calls == ()
    assert "`read_file` needs `path`" in found.doubts[0]
    assert "read_file path=…" in found.doubts[0]
    assert wanted("open the door", TOOLS).calls == ()


def test_two_tools_that_fit_are_not_guessed_between() -> None:
    """Where a request fits several tools, it is asked which."""
    schema = takes("query", query=TEXT)
    tools = (Tool("search_web", "", schema), Tool("search_notes", "", schema))

    found = wanted("search for cats", tools)

    assert found.calls == ()
    assert "`search_web`, `search_notes`" in found.doubts[0]
    assert wanted("search the web for cats", tools).calls == one("search_web", query="cats")


def test_a_value_that_is_json_is_taken_whole() -> None:
    schema = takes("where", where={"type": "object"}, days={"type": "integer"})
    said = 'weather(where={"city": "Ulm, Donau", "at": [1, 2]}, days=2)'
    where = {"city": "Ulm, Donau", "at": [1, 2]}
    assert wanted(said, (Tool("weather", "", schema),)).calls == one("weather", where=where, days=2)
    broken = wanted('weather(where={"city": , days=2)', (Tool("weather", "", schema),))
    assert broken.calls == ()


def test_calls_are_bounded() -> None:
    """However many requests there are, a reply has a bounded number of calls."""
    said = "\n".join(f"read file{number}.txt" for number in range(40))
    assert len(wanted(said, TOOLS).calls) == CALLS_MAX


@given(st.text(max_size=200), st.sampled_from(["", "read ", "search for ", "read_file(", "bash "]))
def test_any_text_is_read(text: str, start: str) -> None:
    """No message breaks the rules, and no call lacks what its tool needs."""
    found = wanted(start + text, TOOLS)

    needed = {tool.name: tool.parameters["required"] for tool in TOOLS}
    assert all(set(needed[call.name]) <= set(call.arguments) for call in found.calls)
    assert found == wanted(start + text, TOOLS)
