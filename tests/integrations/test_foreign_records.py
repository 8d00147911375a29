"""Records of an adapter's own format that no release of ours wrote: newer ones, edited by hand."""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.cases import check_all
from tests.support.peer_writers import OPENERS, opener
from tests.support.runs import sample

from holdfast.core.log.records import Unknown, User
from holdfast.errors import HoldfastError
from holdfast.ports import ANY_HEAD
from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.log.records import Record

pytestmark = pytest.mark.files_only("thousands of stores with one odd record; the decoding is one")

FORMATS: Final = {
    "agent_framework": "agent-framework",
    "openai_agents": "openai-responses",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "strands": "strands",
    "strands storage": "strands_snapshot",
    "pydantic_ai": "pydantic-ai",
    "google_adk": "google-adk",
    "claude_agent": "claude-code",
}
VALUES: Final[tuple[Any, ...]] = (
    *(None, 5, [], {}, "{bad", "5", "[]", "{}", "null", '"x"'),
    *('{"message_id":"a"}', '{"message_id":0}', '{"message":{"role":"user"}}'),
    *('{"id":1,"parent_id":2,"message":{}}', '{"id":"a","parent_id":null,"message":{"kind":"x"}}'),
    *('{"id":"e","timestamp":"x","author":1}', '{"type":"newer","data":{}}', '{"type":"user"}'),
)
KINDS: Final = (
    *("peer_state", "peer_item", "peer_summary", "peer_value"),
    *("graph_checkpoint", "graph_writes", "graph_deleted"),
)
ERRORS: Final = ("UserError", "SessionException", "StorageError")
"""What users of Pydantic AI and Strands expect."""


def records_of(form: str) -> Iterator[Record]:
    for value in VALUES:
        yield User(content="x", extra={"original": {"format": form, "json": value}})
        kept = {"format": form, "kind": "msgpack", "data": value}
        yield User(content="x", extra={"original": kept})
    yield User(content="x", extra={"original": [form]})
    for kind, of, value in product(KINDS, ("session", "agent", "whole", None, 5), VALUES[3:8]):
        yield Unknown(type=kind, extra={"format": form, "of": of, "json": value})
    for kind in KINDS:
        yield Unknown(type=kind, extra={})
        odd = {"places": 5, "place": "x", "writes": 7, "ns": 1, "values": [], "part": "x"}
        yield Unknown(type=kind, extra=odd)
        lacking = {"version": ["str", "1"], "base": "str:9", "keep": 3, "items": [None]}
        about: dict[str, Any] = {"ns": "", "name": "a", "before": None, "run": None, "loose": {}}
        packed = {"checkpoint": ["msgpack", "!"], "metadata": ["json", "e30="]}
        yield Unknown(type=kind, extra={**about, **packed, "values": {"messages": lacking}})


@pytest.mark.parametrize("name", OPENERS)
def test_record_of_another_shape_is_named_or_read_and_nothing_is_lost(
    name: str, tmp_path: Path
) -> None:
    """Reading and appending end in our error or the framework's, or show everything else."""
    make = opener(name)

    def check(record: Record) -> None:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        with open_store(place) as store, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = make(store)
            known.append("first")
            store.append(known.key, [record], expect=ANY_HEAD)
            for writer in (known, make(store)):
                try:
                    assert "first" in writer.texts()
                    writer.append("second")
                    assert "second" in writer.texts()
                except Exception as error:
                    is_expected = isinstance(error, HoldfastError) or type(error).__name__ in ERRORS
                    if not is_expected or "cannot read" not in str(error):
                        raise
            assert b"first" in b"".join(store.export(known.key))

    records = sample(list(records_of(FORMATS[name])), share=1 / 8, name=repr)
    check_all(records, check, name=repr)


def test_message_of_another_program_is_in_no_checkpoint(tmp_path: Path) -> None:
    """A message of LangGraph's that no checkpoint follows takes the place of none."""
    make = opener("langgraph")
    with open_store(tmp_path) as store:
        writer: Any = make(store)
        writer.append("first")
        (copied,) = [record for record in store.read(writer.key) if isinstance(record, User)]
        strange = User(content="strange", extra=copied.extra)
        store.append(writer.key, [strange], expect=ANY_HEAD)
        writer.append("second")
        texts = [message.content for message in state_of(make(store))]
    assert texts == ["first", "second"]


def state_of(writer: Any) -> Any:
    """The messages of the newest checkpoint."""
    config = {"configurable": {"thread_id": "thread-1"}}
    return writer._saver.get_tuple(config).checkpoint["channel_values"]["messages"]
