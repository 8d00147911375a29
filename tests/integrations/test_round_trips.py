"""Real transcripts through the adapters' codecs: in and out, with and without the originals."""

from __future__ import annotations

import json
from collections.abc import Callable  # noqa: TC003  (a struct's field)
from functools import cache
from importlib.util import find_spec
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tests.shared_data import DATA, need_data
from tests.support.cases import check_all
from tests.support.runs import is_whole, sample

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import (
    ORIGINAL_FIELD,
    Assistant,
    Record,
    ToolResult,
    User,
    decode,
    encode,
    text_of,
)
from holdfast.importers import detect_format, read_transcript
from holdfast.importers.common.base import Source
from holdfast.integrations.agent_framework import messages as agent_framework
from holdfast.integrations.claude_agent.session_store import entries_from_items, records_from_entry
from holdfast.integrations.common import langchain_messages as langchain
from holdfast.integrations.common.originals import items_of
from holdfast.integrations.common.responses_items import (
    items_from_record,
    rebuild_items,
    records_from_items,
)
from holdfast.integrations.google_adk.events import events_as_json, records_from_event
from holdfast.integrations.strands import messages as strands

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGES_MAX: Final = None if is_whole() else 150
"""Lines or messages of a transcript."""


@cache
def manifest() -> list[dict[str, Any]]:
    if not DATA.is_dir():
        return []
    lines = (DATA / "MANIFEST.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def check_files(check: Callable[[str], None], *, only: str = "") -> None:
    """Check the transcripts of agents; in the ordinary run, a few of each dataset."""
    need_data()
    entries = [
        entry
        for entry in manifest()
        if entry["file"].startswith("agents/") and only in entry["dataset"]
    ]
    chosen = sample(
        entries, share=1 / 20, name=lambda entry: str(entry["file"]), kind=lambda e: e["dataset"]
    )
    check_all([entry["file"] for entry in chosen], check, name=str)


def stored(record: Record) -> Record:
    found = decode(encode(msgspec.structs.replace(record, id="r")))
    assert not isinstance(found, Flaw)
    return found


def without_original(record: Record) -> Record:
    extra = {name: value for name, value in record.extra.items() if name != ORIGINAL_FIELD}
    return msgspec.structs.replace(record, extra=extra)


def meaning(records: Iterable[Record]) -> list[tuple[str, ...]]:
    """Roles, texts and call pairs in order; texts of one reply are together."""
    found: list[tuple[str, ...]] = []
    for record in records:
        if isinstance(record, ToolResult):
            found.append(("result", record.tool_use_id, text_of(record.content).strip()))
        elif isinstance(record, User | Assistant):
            content = record.content
            blocks_of = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks_of or ():
                if block.get("type") == "tool_use":
                    found.append(("call", block["id"], block["name"]))
                elif words := "".join(text_of([block]).split()):
                    found.append((record.kind, words))
    return found


def test_items_of_the_responses_api_come_back_and_mean_the_same() -> None:
    """A session of any agent, read as items, stored again as an SDK would, read again."""

    def check(file: str) -> None:
        data = (need_data() / file).read_bytes()
        if detect_format(data, file) is None:
            return  # beside a transcript
        for session in islice(read_transcript(data, file), 3):
            records = [
                record
                for record in session.records[:MESSAGES_MAX]
                if isinstance(record, User | Assistant | ToolResult)
            ]
            items = [item for record in records for item in rebuild_items(record)]
            again = [stored(record) for record in records_from_items(items)]
            back = [item for record in again for item in items_from_record(record)]
            assert json.dumps(back) == json.dumps(items)
            assert merged(meaning(map(without_original, again))) == merged(meaning(records))

    check_files(check)


def merged(found: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Texts of one speaker in a row are one text."""
    joined: list[tuple[str, ...]] = []
    for part in found:
        if joined and part[0] in ("user", "assistant") and joined[-1][0] == part[0]:
            joined[-1] = (part[0], joined[-1][1] + part[1])
        else:
            joined.append(part)
    return joined


def test_lines_of_claude_code_come_back_and_mean_the_same() -> None:
    def check(file: str) -> None:
        source = Source((need_data() / file).read_bytes(), file)
        lines = [line.value for line in islice(source.lines, MESSAGES_MAX)]
        records = [stored(record) for line in lines for record in records_from_entry(line)]
        assert json.dumps(_claude_lines(records)) == json.dumps(lines)
        calls = {
            block["id"]
            for line in lines
            for block in blocks(line, "tool_use")
            if line.get("type") == "assistant" and not line.get("isApiErrorMessage")
        }
        results = [
            block["tool_use_id"]
            for line in lines
            for block in blocks(line, "tool_result")
            if line.get("type") == "user"
        ]
        bare = [without_original(record) for record in records]
        told = meaning(bare)
        assert {part[1] for part in told if part[0] == "call"} == calls
        assert [part[1] for part in told if part[0] == "result"] == results

    check_files(check, only="claude-code")


def blocks(line: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    found = content if isinstance(content, list) else []
    return [block for block in found if isinstance(block, dict) and block.get("type") == kind]


class Codec(msgspec.Struct, frozen=True):
    """The way of records into the items of a framework, and back."""

    name: str
    write: Callable[[list[Record]], list[Any]]
    """From the fields of the records alone, without kept originals."""
    read: Callable[[list[Any]], list[Record]]


def _strands_records(messages: list[Any]) -> list[Record]:
    return [record for message in messages for record in strands.records_from_message(message)]


def _adk_records(events: list[Any]) -> list[Record]:
    return [r for event in events for r in records_from_event(event, json.dumps(event))]


def _adk_events(records: list[Record]) -> list[Any]:
    items = items_of(records, "google-adk")
    return [json.loads(event) for event, _item in events_as_json(items, "helper")]


def _claude_lines(records: list[Record]) -> list[Any]:
    return entries_from_items(items_of(records, "claude-code"), "s")


def _framework_messages(records: list[Record]) -> list[Any]:
    return [m for record in records for m in agent_framework.messages_from_record(record)]


CODECS = (
    Codec(
        "agent_framework",
        _framework_messages,
        lambda ms: [r for m in ms for r in agent_framework.records_from_message(m)],
    ),
    Codec(
        "responses",
        lambda records: [item for record in records for item in rebuild_items(record)],
        records_from_items,
    ),
    Codec(
        "strands",
        lambda records: [m for record in records for m in strands.messages_from_record(record)],
        _strands_records,
    ),
    Codec(
        "google_adk",
        _adk_events,
        _adk_records,
    ),
    Codec(
        "claude_agent",
        _claude_lines,
        lambda lines: [record for line in lines for record in records_from_entry(line)],
    ),
)


def codecs() -> list[Codec]:
    """Those of this machine: two need their framework for its messages."""
    found = list(CODECS)
    if find_spec("pydantic_ai") is not None:
        from holdfast.integrations.pydantic_ai import messages as pydantic_ai

        found.append(
            Codec(
                "pydantic_ai",
                lambda rs: [m for r in rs for m in pydantic_ai.messages_from_record(r)],
                lambda ms: [r for m in ms for r in pydantic_ai.records_from_message(m)],
            )
        )
    if find_spec("langchain_core") is not None:
        from langchain_core.messages import messages_from_dict

        write_langchain = langchain.messages_from_record
        found.append(
            Codec(
                "langchain",
                lambda rs: messages_from_dict([m for r in rs for m in write_langchain(r)]),
                lambda ms: [r for m in ms if (r := langchain.record_from_message(m))],
            )
        )
    return found


def test_what_went_in_through_one_adapter_means_the_same_through_every_other() -> None:
    """Roles, texts and call pairs in order; the kept originals are deleted between the two."""

    def check(file: str) -> None:
        data = (need_data() / file).read_bytes()
        if detect_format(data, file) is None:
            return  # beside a transcript
        for session in islice(read_transcript(data, file), 1):
            records = [
                stored(msgspec.structs.replace(record, id="", parent=None))
                for record in session.records[:60]
                if isinstance(record, User | Assistant | ToolResult)
            ]
            records = [without_original(record) for record in records]
            expected = merged(meaning(records))
            for first, second in permutations(codecs(), 2):
                went = [without_original(stored(r)) for r in first.read(first.write(records))]
                came = second.read(second.write(went))
                found = merged(meaning(map(without_original, came)))
                assert found == expected, f"{first.name} to {second.name}"

    check_files(check)
