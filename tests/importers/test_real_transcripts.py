"""Every real transcript: the right format, the right counts, and records that can be stored."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.importers.samples import detect, read
from tests.shared_data import DATA, need_data
from tests.support.cases import check_all
from tests.support.runs import sample

from holdfast.core.log.ids import is_name
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    ToolResult,
    User,
    decode,
    encode,
    tool_calls,
)
from holdfast.importers import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.importers.common.base import Imported

FORMAT_OF_DATASET = {
    "entire-claude-code": "claude-code",
    "entire-claude-code-checkpoints": "claude-code",
    "spotter-claude-code": "claude-code",
    "pi-session": "pi",
    "entire-gemini-cli": "gemini-cli",
    "aider-chat-history": "aider",
    "mini-swe-agent-gemini3": "mini-swe-agent",
    "swe-agent-traj": "swe-agent",
    "openhands-output": "openhands",
    "trail-swe-bench": "openinference",
    "trail-swe-bench-annotations": None,
    "tau-bench-airline": "tau-bench",
    "toolbench-answers": "toolbench",
    "inspect-log": "inspect",
    "longmemeval-oracle": "longmemeval",
    "realmem": "realmem",
    "qmsum": "qmsum",
    "memorycode": "memorycode",
    "goodai-ltm": "goodai-ltm",
    "goodai-ltm-definitions": None,
}
COMPANIONS = ("state.json", "summary.json", "meta.json", "probing_questions")
"""Files beside transcripts that hold no conversation."""

FOLDER_FORMATS = {"gemini": "gemini-cli", "claude": "claude-code"}


class Counts(NamedTuple):
    """What the list of the data and the records can both tell."""

    sessions: int
    messages: int
    calls: int


@cache
def manifest() -> list[dict[str, Any]]:
    if not DATA.is_dir():
        return []
    lines = (DATA / "MANIFEST.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def wanted_format(entry: dict[str, Any]) -> str | None:
    file, dataset = entry["file"], entry["dataset"]
    if any(mark in file for mark in COMPANIONS) or "/storage_" in file:
        return None
    if dataset == "memorybank":
        return "memorybank"
    if dataset in FORMAT_OF_DATASET:
        return FORMAT_OF_DATASET[dataset]
    folder = file.split("/")[2]
    return "codex" if folder.endswith(".jsonl") else FOLDER_FORMATS.get(folder, folder)


def counted(found: list[Imported]) -> Counts:
    records = [record for one in found for record in one.records]
    return Counts(
        len(found),
        sum(isinstance(record, User | Assistant | ToolResult) for record in records),
        sum(len(tool_calls(one.content)) for one in records if isinstance(one, Assistant)),
    )


def load(entry: dict[str, Any]) -> list[Imported]:
    folder = need_data()
    return read((folder / entry["file"]).read_bytes(), entry["file"])


def check_files(check: Callable[[dict[str, Any]], None], *datasets: str) -> None:
    """Check every file of these datasets, or of all; in the ordinary run, some of each dataset."""
    need_data()
    entries = [one for one in manifest() if one["dataset"] in datasets or not datasets]
    chosen = sample(
        entries, share=1 / 6, name=lambda entry: str(entry["file"]), kind=lambda e: e["dataset"]
    )
    check_all(chosen, check, name=lambda entry: str(entry["file"]))


def test_every_file_is_recognised_and_its_records_can_be_stored() -> None:
    """The right format, valid names, and every record the same after a trip through a log."""

    def check(entry: dict[str, Any]) -> None:
        data = (need_data() / entry["file"]).read_bytes()
        kind = wanted_format(entry)

        assert detect(data, entry["file"]) == kind
        if kind is None:
            return
        found = read(data, entry["file"])
        assert len({one.name for one in found}) == len(found)
        for one in found:
            assert is_name(one.name)
            assert one.format == kind
            ids = [record.id for record in one.records if record.id]
            assert len(set(ids)) == len(ids)
            for record in one.records:
                assert decode(encode(record)) == record

    check_files(check)


def test_claude_code_calls_compactions_and_lines_add_up() -> None:
    """Every call and compaction of the list; and every line is a record, a part of one, or listed.

    The list counts lines; we make one message of the lines of one API call, so ours are fewer.
    """

    def check(entry: dict[str, Any]) -> None:
        found = load(entry)
        records = [record for one in found for record in one.records]
        compactions = sum(isinstance(record, Compaction) for record in records)

        assert counted(found).calls == (entry.get("tool_calls") or 0)
        assert compactions == (entry.get("compactions") or 0)
        replies = [
            one.extra["message_id"] for one in records if isinstance(one, Assistant) and one.usage
        ]
        assert len(set(replies)) == len(replies)
        left_out = {"abandoned branch": 0, "API error message": 0}
        for one in found:
            for skip in one.skipped:
                if skip.what in left_out:
                    left_out[skip.what] += skip.count
        lines = _claude_messages(entry)
        ours = len(records) + sum(left_out.values())
        assert ours == lines, "a line was lost or made twice"

    check_files(check, "entire-claude-code", "spotter-claude-code")


def _claude_messages(entry: dict[str, Any]) -> int:
    """How many records the file should make: lines with one message id are one."""
    seen: set[str] = set()
    count = 0
    with gzip.open(need_data() / entry["file"], "rt", encoding="utf-8") as file:
        for line in file:
            value = json.loads(line)
            if value.get("type") == "assistant":
                message_id = value["message"]["id"]
                count += message_id not in seen
                seen.add(message_id)
            elif value.get("type") == "user":
                count += _records_of(value["message"]["content"])
    return count


def _records_of(content: Any) -> int:
    """Results are records of their own; what stands beside them is one more."""
    if not isinstance(content, list):
        return 1
    results = sum(block["type"] == "tool_result" for block in content)
    return int(results + (results < len(content)))


def test_counts_are_those_of_the_list() -> None:
    """Sessions, messages and calls, as the list of the data has them."""

    def check(entry: dict[str, Any]) -> None:
        if "probing" in entry["file"]:
            return  # questions about the sessions, not a session
        found = load(entry)

        assert counted(found) == Counts(
            entry["sessions"], entry["messages"], entry.get("tool_calls") or 0
        )

    check_files(check, "pi-session", "realmem", "qmsum", "memorybank", "goodai-ltm")


def test_counts_but_for_the_system_prompt_are_those_of_the_list() -> None:
    """The list counts system prompts as messages; here they are beside the records."""

    def check(entry: dict[str, Any]) -> None:
        found = load(entry)
        prompts = sum(bool(one.system) for one in found)
        counts = counted(found)

        assert counts.sessions == entry["sessions"]
        assert counts.calls == (entry.get("tool_calls") or 0)
        if entry.get("messages"):
            assert counts.messages + prompts == entry["messages"]

    check_files(check, "swe-agent-traj", "tau-bench-airline", "toolbench-answers", "inspect-log")


def test_mini_swe_agent_has_messages_and_usage_but_no_calls() -> None:
    """Its calls are code blocks in the text, which the list counts and a provider does not."""

    def check(entry: dict[str, Any]) -> None:
        (found,) = load(entry)
        replies = [record for record in found.records if isinstance(record, Assistant)]

        assert counted([found]) == Counts(1, entry["messages"] - 1, 0)
        assert len(replies) == entry["tool_calls"]
        assert all(reply.usage and reply.model for reply in replies)

    check_files(check, "mini-swe-agent-gemini3")


def test_trail_requests_are_one_conversation() -> None:
    """The list counts the longest request; calls written as messages are joined to their reply."""

    def check(entry: dict[str, Any]) -> None:
        (found,) = load(entry)
        counts = counted([found])
        unread = sum(
            one.count for one in found.skipped if one.what == "request that cannot be read"
        )

        # One message of the list is the system prompt, one more a call's; ours has the last
        # replies.
        assert counts.messages == entry["messages"] - 1 - counts.calls + 1 + unread

    check_files(check, "trail-swe-bench")


def test_memorycode_sessions_are_those_of_the_list() -> None:
    """Speeches are told apart by other rules than the list's: within six in a hundred."""

    def check(entry: dict[str, Any]) -> None:
        counts = counted(load(entry))

        assert counts.sessions == entry["sessions"]
        assert counts.messages == pytest.approx(entry["messages"], rel=0.06)

    check_files(check, "memorycode")


def test_longmemeval_sessions_are_carried_once() -> None:
    """Three sessions belong to two questions; the list counts their messages twice."""

    def check(entry: dict[str, Any]) -> None:
        found = load(entry)
        marked = sum("has_answer" in record.extra for one in found for record in one.records)

        assert len(found) == entry["sessions"]
        assert counted(found).messages <= entry["messages"]
        assert 0 < marked <= entry["evidence_turns"]

    check_files(check, "longmemeval-oracle")


def test_openhands_calls_are_those_of_the_list() -> None:
    """The list leaves out the call with which a run declares itself finished."""

    def check(entry: dict[str, Any]) -> None:
        found = load(entry)
        finishes = sum(
            call["name"] == "finish"
            for one in found
            for record in one.records
            if isinstance(record, Assistant)
            for call in tool_calls(record.content)
        )

        assert len(found) == entry["sessions"]
        assert counted(found).calls - finishes == entry["tool_calls"]

    check_files(check, "openhands-output")


def test_aider_chats_with_words_are_carried() -> None:
    """Of all chats that were started, those without a word to a model are only counted."""

    def check(entry: dict[str, Any]) -> None:
        found = load(entry)
        silent = sum(one.count for one in found[0].skipped if one.what == "chat without messages")

        assert len(found) + silent == entry["sessions"]
        assert all(one.records for one in found)

    check_files(check, "aider-chat-history")


def test_opencode_storage_is_found_in_its_folder() -> None:
    """Two storages, three sessions, each with its messages."""
    folder = need_data() / "agents" / "format-samples" / "opencode"
    found = [one for place in places.find(str(folder)) for one in read(places.load(place), place)]

    assert {one.name for one in found} == {"s_stage0_drift", "s_stage0_large", "s_stage0_small"}
    assert all(len(one.records) >= 3 for one in found)
