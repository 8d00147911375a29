"""Files of notes over HTTP: a change is made to what its sender read, or not at all."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.embedding_server import EmbeddingServer
from tests.support.runs import examples
from tests.surfaces.http.servers import serving, token_for

from holdfast import SessionKey, User
from holdfast.core.owners import NO_OWNER, owner_of
from holdfast.engine.operations.memory import version_of
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.opening import open_store
from holdfast.surfaces.http.server import ROUTES
from holdfast.surfaces.serve_settings import MemoryTable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    import httpx2

    from holdfast.ports import SessionStore

FILES = ("MEMORY.md", "projects/site.md", "projects/site.md/x")
TEXTS = ("", "- one\n", "- one\n- two", "# head\n\n- é \U0001f600\n", "- a\r\n- b\r\n")
Step = tuple[str, str, str, bool]
"""What is done, the file, the text, and whether the sender knows the present version."""

steps = st.tuples(
    st.sampled_from(("write", "write", "delete")),
    st.sampled_from(FILES),
    st.sampled_from(TEXTS),
    st.booleans(),
)


def run(scenario: Callable[[httpx2.AsyncClient, MemoryStore], Coroutine[Any, Any, None]]) -> None:
    async def served() -> None:
        with closing(MemoryStore()) as store:
            async with serving(store) as client:
                await scenario(client, store)

    asyncio.run(served())


async def read_all(client: httpx2.AsyncClient, path: str, lines: int) -> tuple[str, str]:
    """Read a file page by page; returns its text, and its version."""
    parts: list[str] = []
    line: int | None = 1
    while line:
        asked: dict[str, str | int] = {"path": path, "firstLine": line, "lines": lines}
        page = (await client.get("/v1/notes/file", params=asked)).json()
        assert not page["truncated"]
        parts += [page["text"]] if page["lines"] else []
        line = page["nextLine"]
    return "\n".join(parts), page["version"]


def test_a_search_by_meaning_makes_its_vectors_in_the_background() -> None:
    """Those of the client's owner alone; the health of the server tells how many."""

    async def scenario(client: httpx2.AsyncClient, store: MemoryStore) -> None:
        for owner in ("ann", "bob"):
            store.create(SessionKey("main", owner), owner=owner_of(owner))
            said = [User(content=f"{owner} {number} aaa") for number in range(60)]
            store.append(SessionKey("main", owner), said, expect=None)
        asked = {"query": "aa 7"}
        found = (await client.get("/v1/memory/search", params=asked)).json()
        assert found["searchNotice"].startswith("0 of 60 passages have a vector")
        for thread in threading.enumerate():
            if thread.name == "holdfast-vectors":
                await asyncio.to_thread(thread.join)
        found = (await client.get("/v1/memory/search", params=asked)).json()
        assert "searchNotice" not in found
        assert found["hits"]

    async def served() -> None:
        token, known = token_for("ann")
        table = MemoryTable(embedder=f"openai:letters@{models.url}")
        with closing(MemoryStore()) as store:
            async with serving(store, known, memory=table) as client:
                client.headers["Authorization"] = f"Bearer {token}"
                await scenario(client, store)

    models = EmbeddingServer()
    with closing(models):
        asyncio.run(served())
    texts = [text for request in models.requests for text in request["input"]]
    assert sorted(set(texts)) == sorted({"aa 7", *(f"ann {number} aaa" for number in range(60))})
    assert not [one for one in threading.enumerate() if one.name == "holdfast-vectors"]


@examples(60)
@given(given_steps=st.lists(steps, max_size=8))
@example(given_steps=[("write", FILES[0], TEXTS[1], True), ("write", FILES[0], TEXTS[2], False)])
@example(given_steps=[("write", FILES[1], TEXTS[3], True), ("delete", FILES[1], "", False)])
@example(given_steps=[("write", FILES[1], TEXTS[0], True), ("write", FILES[1], TEXTS[4], True)])
def test_a_change_is_made_to_what_was_read(given_steps: Sequence[Step]) -> None:
    """The files are what the accepted changes made of them, and a stale one changes nothing."""

    async def scenario(client: httpx2.AsyncClient, _store: MemoryStore) -> None:
        held: dict[str, str] = {}
        for action, path, text, is_current in given_steps:
            if {FILES[1]: FILES[2], FILES[2]: FILES[1]}.get(path) in held:
                continue  # a file cannot be a folder, too
            version = version_of(held[path].encode()) if path in held else ""
            asked = {"path": path}
            if not is_current:
                version = "0" * 64
            if action == "write":
                body = {"text": text, "version": version}
                answer = await client.put("/v1/notes/file", params=asked, json=body)
            else:
                asked["version"] = version
                answer = await client.delete("/v1/notes/file", params=asked)
            if path not in held and (action == "delete" or not is_current):
                assert answer.status_code == 404, answer.text
            elif not is_current:
                assert answer.status_code == 409, answer.text
            else:
                assert answer.status_code == 200, answer.text
                if action == "write":
                    held[path] = text
                    assert answer.json()["version"] == version_of(text.encode())
                else:
                    del held[path]
            listed = (await client.get("/v1/notes")).json()["files"]
            assert {row["path"]: row["size"] for row in listed} == {
                name: len(said.encode()) for name, said in held.items()
            }
            for name, said in held.items():
                found = await read_all(client, name, lines=2)
                assert found == (said.removesuffix("\n"), version_of(said.encode()))

    run(scenario)


def test_a_long_file_is_read_in_pages() -> None:
    """A page has as many lines as an answer has room for; together they are the file."""
    text = "".join(f"- note {number}: {'the heron waits ' * 20}\n" for number in range(2_000))

    async def scenario(client: httpx2.AsyncClient, _store: MemoryStore) -> None:
        asked = {"path": "long.md"}
        answer = await client.put("/v1/notes/file", params=asked, json={"text": text})
        assert answer.status_code == 200, answer.text
        first = (await client.get("/v1/notes/file", params=asked)).json()
        assert 1 < first["nextLine"] < first["lines"] == 2_000
        assert await read_all(client, "long.md", 2_000) == (
            text.removesuffix("\n"),
            version_of(text.encode()),
        )

    run(scenario)


def test_lists_of_files_have_pages() -> None:
    """Each file is on one page."""

    async def scenario(client: httpx2.AsyncClient, store: MemoryStore) -> None:
        names = [f"n{number:02}.md" for number in range(23)]
        for name in names:
            store.notes("main", NO_OWNER).put(name, None, b"- x\n")
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = (await client.get("/v1/notes", params={"limit": 5, "after": after})).json()
            found += [row["path"] for row in page["files"]]
            after = page["nextAfter"]
        assert found == names

    run(scenario)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """A path through a file, or one of a folder, is refused, and nothing is written."""

    async def scenario(client: httpx2.AsyncClient, store: SessionStore) -> None:
        for taken, other in (("a.md", "a.md/b.md"), ("c/d.md", "c")):
            made = await client.put("/v1/notes/file", params={"path": taken}, json={"text": "x"})
            assert made.status_code == 200, made.text
            for method in ("PUT", "GET", "DELETE"):
                body: Any = {"json": {"text": "y"}} if method == "PUT" else {}
                asked = {"path": other}
                answer = await client.request(method, "/v1/notes/file", params=asked, **body)
                assert 400 <= answer.status_code < 500, answer.text
        assert [file.path for file in store.notes("main", NO_OWNER).files()] == ["a.md", "c/d.md"]

    async def served() -> None:
        with open_store(tmp_path) as store:
            async with serving(store) as client:
                await scenario(client, store)

    run(scenario)
    asyncio.run(served())


REFUSED = {
    "a path above the folder": ("../x.md", "x", 400),
    "an absolute path": ("/etc/passwd", "x", 400),
    "a hidden file": (".trash/x.md", "x", 400),
    "the folder of owners": ("owners/bob/MEMORY.md", "x", 400),
    "a secret": ("a.md", "the password is hunter2!Xy", 400),
    "an origin that is made up": (
        "a.md",
        "- x <!-- hf: 2026-11-16T03:20:00+01:00 main/other r1 -->",
        400,
    ),
    "no text": ("a.md", "a\0b", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_written(name: str) -> None:
    """The answer says why, and there is no file."""
    path, text, status = REFUSED[name]

    async def scenario(client: httpx2.AsyncClient, store: MemoryStore) -> None:
        asked = {"path": path}
        answer = await client.put("/v1/notes/file", params=asked, json={"text": text})
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]
        assert not store.notes("main", NO_OWNER).files()
        for method in ("GET", "DELETE"):
            answer = await client.request(method, "/v1/notes/file", params=asked)
            assert answer.status_code in (400, 404), answer.text

    run(scenario)


def test_a_file_with_a_secret_is_shown_masked_and_not_overwritten() -> None:
    """It has no version, so that no change can be sent that would lose the secret."""
    secret = "- the password is hunter2!Xy\n- fine\n"

    async def scenario(client: httpx2.AsyncClient, store: MemoryStore) -> None:
        notes = store.notes("main", NO_OWNER)
        notes.put("s.md", None, secret.encode())
        asked = {"path": "s.md"}
        page = (await client.get("/v1/notes/file", params=asked)).json()
        assert "hunter2" not in page["text"]
        assert page["version"] == ""
        body = {"text": page["text"], "version": page["version"]}
        assert (await client.put("/v1/notes/file", params=asked, json=body)).status_code == 409
        assert notes.data("s.md").decode() == secret

    run(scenario)


def test_a_token_that_reads_cannot_write() -> None:
    """Its scope is checked before the file is looked for."""
    token, settings = token_for("ann", "read")

    async def served() -> None:
        with closing(MemoryStore()) as store:
            async with serving(store, settings) as client:
                client.headers["Authorization"] = f"Bearer {token}"
                asked = {"path": "a.md"}
                answer = await client.put("/v1/notes/file", params=asked, json={"text": "x"})
                assert answer.status_code == 403
                assert (await client.delete("/v1/notes/file", params=asked)).status_code == 403
                assert (await client.get("/v1/notes/file", params=asked)).status_code == 404

    asyncio.run(served())


def test_notes_belong_to_the_agent_that_a_request_names(tmp_path: Path) -> None:
    """Every route of notes takes the agent; what is done for one leaves those of others alone."""
    routes = [
        route
        for route in ROUTES
        if route.path.startswith(("/v1/notes", "/v1/memory"))
        and "agent" not in (route.body or route.query).__struct_fields__
        and "agent" not in route.query.__struct_fields__
    ]
    assert routes == []

    async def scenario(client: httpx2.AsyncClient, store: SessionStore) -> None:
        for agent in ("main", "ops"):
            body = {"text": f"the {agent} heron", "agent": agent}
            assert (await client.post("/v1/notes", json=body)).status_code == 201
            asked = {"path": "plan.md", "agent": agent}
            put = await client.put("/v1/notes/file", params=asked, json={"text": f"- {agent}\n"})
            assert put.status_code == 200
        for agent, other in (("main", "ops"), ("ops", "main")):
            asked = {"path": "plan.md", "agent": agent}
            page = (await client.get("/v1/notes/file", params=asked)).json()
            assert page["text"] == f"- {agent}"
            sought = {"query": "heron", "scope": "notes", "agent": agent}
            hits = (await client.get("/v1/memory/search", params=sought)).json()["hits"]
            assert [other in hit["text"] for hit in hits] == [False]
            cited = {"citation": hits[0]["citation"], "agent": agent}
            passage = (await client.get("/v1/memory/passage", params=cited)).json()
            assert f"the {agent} heron" in passage["text"]
            page_text = (await client.get("/memory", params={"agent": agent, "q": "heron"})).text
            assert f"the {agent} heron" in page_text
            assert f"the {other} heron" not in page_text
        assert (await client.get("/v1/notes")).json() == (
            await client.get("/v1/notes", params={"agent": "main"})
        ).json()
        gone = {"path": "plan.md", "agent": "ops"}
        assert (await client.delete("/v1/notes/file", params=gone)).status_code == 200
        assert (await client.get("/v1/notes/file", params=gone)).status_code == 404
        kept = {"path": "plan.md", "agent": "main"}
        assert (await client.get("/v1/notes/file", params=kept)).status_code == 200
        before = sorted(tmp_path.rglob("*"))
        for path in (
            "/v1/notes",
            "/memory",
            "/v1/memory/search?query=x",
            "/v1/notes/file?path=a.md",
        ):
            answer = await client.get(path, params={"agent": "nobody", **_asked(path)})
            assert answer.status_code in (200, 404), path
            for bad in ("../main", "a/b", "", "ä"):
                given = {"agent": bad, **_asked(path)}
                assert (await client.get(path, params=given)).status_code in (200, 400, 404), (
                    path,
                    bad,
                )
        assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == []

    async def served() -> None:
        with open_store(str(tmp_path / "root")) as store:
            async with serving(store) as client:
                await scenario(client, store)

    asyncio.run(served())


def _asked(path: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in path.partition("?")[2].split("&") if pair)
