"""`holdfast memory search`, `get` and `index`."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from tests.support.embedding_server import EmbeddingServer

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import NamedOwner
from holdfast.ports import ANY_HEAD
from holdfast.providers.embedders import OpenAIEmbedder
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = str(tmp_path / "root")
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "one"))
        said = [
            User(content="My dog is called Rex", ts=100.0),
            User(content="The dog ate", ts=200.0),
        ]
        store.append(SessionKey("main", "one"), said, expect=None)
    assert main(["--root", root, "memory", "add", "Releases go out on Tuesdays."]) == 0
    return root


def _asked(root: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["--root", root, "memory", *words]) == 0
    return capsys.readouterr().out


def test_hits_are_one_json_document(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A list, best first, with score, citation, session and record."""
    (hit,) = json.loads(_asked(root, capsys, "search", "release", "day", "--words-only", "--json"))

    assert hit["text"] == "Releases go out on Tuesdays."
    assert hit["citation"].startswith(hit["path"] + "#L")
    found = json.loads(
        _asked(root, capsys, "search", "dog", "--scope", "all", "--words-only", "--json")
    )
    assert [one["session"] for one in found] == ["main/one"] * 2
    assert all(one["record"] in one["citation"] for one in found)


def test_people_get_a_list_they_can_read(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _asked(root, capsys, "search", "release", "--words-only")

    assert "#L3-L3" in shown
    assert "Releases go out on Tuesdays." in shown


def test_before_a_time_and_a_limit_hold(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("search", "dog", "--scope", "sessions", "--words-only", "--json")

    assert len(json.loads(_asked(root, capsys, *words, "--before", "150"))) == 1
    assert len(json.loads(_asked(root, capsys, *words, "--before", "1970-01-01"))) <= 1
    assert len(json.loads(_asked(root, capsys, *words, "--limit", "1"))) == 1


def test_many_queries_give_a_line_each(
    root: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = '"release"\n\n{"query": "dog", "id": 7, "scope": "sessions", "limit": 1}\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    shown = _asked(root, capsys, "search", "--queries", "-", "--words-only", "--json")
    first, second = map(json.loads, shown.splitlines())

    assert (first["query"], len(first["hits"])) == ("release", 1)
    assert (second["id"], len(second["hits"])) == (7, 1)


def test_a_citation_is_read(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    (hit,) = json.loads(_asked(root, capsys, "search", "release", "--words-only", "--json"))

    assert "Tuesdays" in _asked(root, capsys, "get", hit["citation"])


def test_the_index_is_made_on_demand(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(_asked(root, capsys, "index", "--words-only", "--json"))

    assert made == {"sources": 2, "passages": 3, "embedded": 0, "vectors": 0}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    running = EmbeddingServer()
    yield running
    running.close()


def test_a_model_of_ones_own_makes_the_vectors(
    root: str,
    server: EmbeddingServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By option or by variable; of one owner alone where one is named; each vector once."""
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "hers"), owner=NamedOwner("ann"))
        said = [User(content=f"ann {number}") for number in range(70)]
        store.append(SessionKey("main", "hers"), said, expect=None)
    model = ("--embedder", f"openai:letters@{server.url}")
    hers = json.loads(_asked(root, capsys, "index", *model, "--owner", "ann", "--json"))
    assert hers == {"sources": 1, "passages": 70, "embedded": 70, "vectors": 70}
    texts = [text for request in server.requests for text in request["input"]]
    assert all("ann" in text for text in texts)
    monkeypatch.setenv("HOLDFAST_EMBEDDER", model[1])
    made = _asked(root, capsys, "index")
    assert made.strip() == "73 passages of 3 sources, 73 with a vector; 3 new vectors"
    assert json.loads(_asked(root, capsys, "search", "dog", "--scope", "all", "--json"))
    assert capsys.readouterr().err == ""
    assert _asked(root, capsys, "index", "--embedder", "off", "--json")


def test_an_owner_without_a_name_is_nobody_and_not_everybody(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--owner ''` finds what is nobody's; without `--owner`, an operator finds everything."""
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "hers"), owner=NamedOwner("ann"))
        store.append(SessionKey("main", "hers"), [User(content="a heron of ann")], expect=None)
        store.create(SessionKey("main", "nobodys"))
        store.append(SessionKey("main", "nobodys"), [User(content="a heron")], expect=None)

    def found(*owner: str) -> set[str]:
        asked = ("search", "heron", "--scope", "sessions", "--words-only", "--json", *owner)
        return {hit["session"] for hit in json.loads(_asked(root, capsys, *asked))}

    assert found("--owner", "") == {"main/nobodys"}
    assert found("--owner", "ann") == {"main/hers"}
    assert found() == {"main/nobodys", "main/hers"}


def test_an_interruption_keeps_what_was_made(
    root: str,
    server: EmbeddingServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C ends it with its own code; the next time goes on."""
    with JsonlStore(root) as store:
        said = [User(content=f"dog {number}") for number in range(150)]
        store.append(SessionKey("main", "one"), said, expect=ANY_HEAD)
    ask = OpenAIEmbedder._ask
    calls = iter([1, 2])

    def interrupt(model: OpenAIEmbedder, texts: Sequence[str]) -> list[list[float]]:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return ask(model, texts)

    monkeypatch.setattr(OpenAIEmbedder, "_ask", interrupt)
    model = ("--embedder", f"openai:letters@{server.url}")
    capsys.readouterr()
    assert main(["--root", root, "memory", "index", *model]) == 130
    assert "stopped after 128 of 153; the next run continues from there" in capsys.readouterr().err
    monkeypatch.setattr(OpenAIEmbedder, "_ask", ask)
    made = json.loads(_asked(root, capsys, "index", *model, "--json"))
    assert (made["embedded"], made["vectors"]) == (25, 153)


@pytest.mark.parametrize(
    "words",
    [
        ("search",),
        ("search", "x", "--queries", "y"),
        ("search", "x", "--before", "yesterday"),
        ("search", "x", "--limit", "0"),
        ("search", "--queries", "/nonexistent"),
        ("get", "nowhere"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    root: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main(["--root", root, "memory", *words]) == 2
    assert "error" in capsys.readouterr().err
