"""Embeddings over HTTP, from a real server that speaks the API, in its good and its bad hours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.embedding_server import EmbeddingServer, vector_of

from holdfast import Memory, SessionKey, User
from holdfast.engine.redactor import redactor
from holdfast.errors import BadSetting, HoldfastError, ModelError
from holdfast.providers.embedders import OpenAIEmbedder, normalise
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("numpy")

KEY = "sk-proj-0123456789abcdef0123456789abcdef"
OWN = "correct horse battery"
"""A secret that only its owner knows to be one."""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    running = EmbeddingServer()
    yield running
    running.close()


class Clock:
    """A time of its own: a wait takes none."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def connect(server: EmbeddingServer, clock: Clock | None = None, **more: Any) -> OpenAIEmbedder:
    clock = clock or Clock()
    given = {"base_url": server.url, "api_key": KEY, "sleep": clock.sleep, "clock": clock, **more}
    return OpenAIEmbedder("text-embedding-3-small", **given)


@pytest.mark.parametrize("as_base64", [False, True])
def test_vectors_are_those_of_the_texts(server: EmbeddingServer, as_base64: bool) -> None:
    """In the order of the texts, whatever order the reply has, in numbers or in base64."""
    server.script = lambda request: server.answer(request, as_base64=as_base64)
    texts = [f"{letter} {letter * number}" for number, letter in enumerate("abcdefgh")]
    model = connect(server, batch_size=3)
    assert model.embed(texts) == normalise(list(map(vector_of, texts)), 8, "m")
    assert [len(request["input"]) for request in server.requests] == [3, 3, 2]
    assert set(server.paths) == {"/v1/embeddings"}
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in model.name


def test_dimensions_are_asked_for_and_part_of_the_name(server: EmbeddingServer) -> None:
    short, whole = connect(server, dimensions=4), connect(server)
    assert len(short.embed(["a"])[0]) == 4
    assert server.requests[-1]["dimensions"] == 4
    assert len(whole.embed(["a"])[0]) == 8
    assert "dimensions" not in server.requests[-1]
    assert short.name != whole.name
    other = OpenAIEmbedder("text-embedding-3-small", base_url="http://127.0.0.1:1/v1")
    assert other.name != whole.name


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_work_later_is_tried_again(server: EmbeddingServer, status: int) -> None:
    left = [status, status]

    def script(request: dict[str, Any]) -> tuple[int, Any]:
        if left:
            return left.pop(), {"error": {"message": "busy", "type": "server_error"}}
        return server.answer(request)

    server.script = script
    clock = Clock()
    assert connect(server, clock).embed(["a"]) == normalise([vector_of("a")], 1, "m")
    assert clock.waits == [0.5, 1.0]


def test_a_wait_that_is_asked_for_is_kept_or_too_long(server: EmbeddingServer) -> None:
    server.script = lambda _request: (429, {"error": {"message": "rate limit reached"}})
    clock = Clock()
    server.headers["Retry-After"] = "3"
    with pytest.raises(ModelError, match="rate limit reached"):
        connect(server, clock).embed(["a"])
    assert clock.waits == [3.0, 3.0]
    assert len(server.requests) == 3
    server.headers["Retry-After"] = "60"
    with pytest.raises(ModelError):
        connect(server, clock).embed(["a"])
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid"}}),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}),
        (302, b""),
    ],
)
def test_what_does_not_work_later_is_not_tried_again(
    server: EmbeddingServer, status: int, body: Any
) -> None:
    """Nor sent to a server that was not named."""
    server.headers["Location"] = f"{server.url}/elsewhere"
    server.script = lambda _request: (status, body)
    with pytest.raises(ModelError):
        connect(server).embed(["a"])
    assert server.paths == ["/v1/embeddings"]


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        {"data": None},
        {"data": [{"index": 0}]},
        {"data": [{"index": 7, "embedding": [1.0]}]},
        {"data": []},
        {"data": [{"index": 0, "embedding": "no base64"}]},
        {"data": [{"index": 0, "embedding": [0.0, 0.0]}]},
        {"error": "an error with the status of a success"},
    ],
)
def test_a_reply_without_vectors_is_refused(server: EmbeddingServer, body: Any) -> None:
    server.script = lambda _request: (200, body)
    with pytest.raises(BadSetting, match=r"the embedding model `openai:text-embedding-3-small"):
        connect(server).embed(["a"])


def test_nobody_listens(server: EmbeddingServer) -> None:
    server.close()
    clock = Clock()
    with pytest.raises(ModelError, match="did not answer"):
        connect(server, clock).embed(["a"])
    server.__init__()  # type: ignore[misc]


def test_a_search_uses_a_server_and_does_without_it(server: EmbeddingServer) -> None:
    """By meaning while it answers, by words with a notice while it does not; secrets stay here."""
    with MemoryStore() as store:
        store.create(SessionKey("main", "a"))
        said = [User(content="aaaa bbbb"), User(content=f"cccc {KEY}"), User(content="harbour")]
        said.append(User(content=f"dddd {OWN}"))
        store.append(SessionKey("main", "a"), said, expect=None)
        masks = redactor({"OWN": OWN})
        memory = Memory(store, None, embedder=connect(server), redactor=masks)
        hits = memory.search("aaaabbbb", scope="sessions")
        assert memory.notice == ""
        assert hits[0].text == "aaaa bbbb"
        assert memory.search(f"cccc {KEY} {OWN}", scope="sessions")
        assert KEY not in json.dumps(server.requests)
        assert OWN not in json.dumps(server.requests)
        server.script = lambda _request: (500, {"error": {"message": "out of order"}})
        assert [hit.text for hit in memory.search("harbour", scope="sessions")] == ["harbour"]
        assert "out of order" in memory.notice
        assert KEY not in memory.notice


def test_another_model_makes_its_own_vectors(server: EmbeddingServer) -> None:
    """Its name says so; nothing of the first one is compared with it."""
    with MemoryStore() as store:
        store.create(SessionKey("main", "a"))
        store.append(SessionKey("main", "a"), [User(content="aaaa bbbb")], expect=None)
        for number, model in enumerate([connect(server), connect(server, dimensions=4)], 1):
            memory = Memory(store, None, embedder=model)
            assert memory.search("ab", scope="sessions")
            assert memory.notice == ""
            texts = [text for request in server.requests for text in request["input"]]
            assert texts.count("aaaa bbbb") == number


def test_settings_that_make_no_sense_are_refused() -> None:
    given: tuple[dict[str, Any], ...] = (
        {"base_url": "host/v1"},
        {"base_url": "file:///etc/passwd"},
        {"attempts": 0},
        {"timeout": 0},
        {"dimensions": 0},
        {"batch_size": 0},
    )
    for more in given:
        with pytest.raises(HoldfastError):
            OpenAIEmbedder("m", **more)
