"""A registered secret is in no file of a store, whatever brings it there."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import Memory
from holdfast.core.history.access import OPERATOR
from holdfast.engine.session.session import Session
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

SIGNS = st.sampled_from("abcXYZ019-_.:/+=!#$%&'\"\\ üñ世")
VALUES = st.text(SIGNS, min_size=12, max_size=40).filter(lambda text: text == text.strip())


@examples(40)
@given(value=VALUES)
def test_no_file_has_a_registered_secret(
    value: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Said, returned by a tool, injected, noted, compacted, labelled, saved and searched for."""
    root = tmp_path_factory.mktemp("store")
    encoded = b64encode(value.encode()).decode(), value.encode().hex()
    use(root, value, encoded)
    plain = [value.encode(), value.encode("unicode_escape")]
    found = {
        name: form
        for name, data in files(root)
        for form in (*plain, *(text.encode() for text in encoded))
        if form in data
    }
    assert found == {}


def use(root: Path, value: str, encoded: tuple[str, ...]) -> None:
    def run(command: str) -> str:
        """Run a command."""
        return f"{command}: {value}; {encoded[0]}; {encoded[1]}\n" + f"line {value}\n" * 9_000

    script: list[Any] = [calls(("c1", "run", {"command": f"use '{value}'"})), f"I used {value}."]
    model = ScriptedModel(script, otherwise=f"it is {value}", window=200_000)
    with JsonlStore(str(root)) as store:
        memory = Memory(store, store.notes("main"), caller=OPERATOR)
        secrets = {"KEY": value}
        options: dict[str, Any] = {"tools": [run], "secrets": secrets, "memory": memory}
        with Session.open("s", store=store, model=model, **options) as session:
            session.say(f"take {value} and {encoded[0]} and {encoded[1]}")
            session.own_loop.inject_context(f"the environment has {value}", source="env")
            session.say("and again?")
            session.checkpoint(current_objective=f"use {value}")
            session.rename(f"about {value}")
            session.compact()
        assert memory.search("environment again", scope="all") is not None
        memory.close()


def files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file, and every payload as it was before it was compressed."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix().removeprefix("agents/main/"), path.read_bytes()
    with JsonlStore(str(root)) as store:
        for sha256 in store.blobs:
            yield f"blobs/{sha256}", store.blobs.get(sha256)
