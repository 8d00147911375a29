"""An import keeps what a compaction kept: the view is what the tool itself would send next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.importers.agents.test_trees import HEADER, codex, entry, qwen, said
from tests.importers.samples import STAMP, claude_user, jsonl, only

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Compaction
from holdfast.core.models.messages import text_of_blocks
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window

if TYPE_CHECKING:
    from holdfast.importers.common.base import Imported


def view(found: Imported) -> str:
    """Everything the next request says, in order."""
    request = ProjectionRequest(found.records, Window(64_000, "test"), target("anthropic"))
    return "\n".join(text_of_blocks(one.blocks) for one in project(request).prompt.messages)


def kept(found: Imported, *words: str) -> list[str]:
    """Those of the words that are in view, in the order in which they stand there."""
    shown = view(found)
    assert all(shown.count(word) <= 1 for word in words)
    return sorted((word for word in words if word in shown), key=shown.index)


WORDS = ("alpha", "beta", "gamma", "delta", "the gist", "omega")


def openclaw(first_kept: str) -> Imported:
    """A session that was compacted after a custom entry, as OpenClaw writes it."""
    cache = {"customType": "openclaw.cache-ttl", "data": {"ttl": "5m"}}
    return only(
        jsonl(
            HEADER,
            said("e1", None, "alpha"),
            said("e2", "e1", "beta", "assistant"),
            entry("custom", "e3", "e2", **cache),
            said("e4", "e3", "gamma"),
            said("e5", "e4", "delta", "assistant"),
            entry("compaction", "e6", "e5", summary="the gist", firstKeptEntryId=first_kept),
            said("e7", "e6", "omega"),
        )
    )


def test_openclaw_keeps_from_an_entry_that_is_no_message() -> None:
    assert kept(openclaw("e3"), *WORDS) == ["the gist", "gamma", "delta", "omega"]
    assert kept(openclaw("e4"), *WORDS) == ["the gist", "gamma", "delta", "omega"]
    assert kept(openclaw("e1"), *WORDS) == ["the gist", *WORDS[:4], "omega"]
    assert kept(openclaw("not there"), *WORDS) == ["the gist", "omega"]


def test_the_first_version_of_pi_keeps_from_a_line_of_the_file() -> None:
    """The header is line 0, and no entry has an id."""
    lines: list[Any] = [
        said("", None, "alpha"),
        said("", None, "beta", "assistant"),
        entry("thinking_level_change", "", None, thinkingLevel="high"),
        said("", None, "gamma"),
        said("", None, "delta", "assistant"),
    ]
    for index, expected in ((4, ["gamma", "delta"]), (3, ["gamma", "delta"]), (5, ["delta"])):
        compaction = entry("compaction", "", None, summary="the gist", firstKeptEntryIndex=index)
        every = [HEADER, *lines, compaction, said("", None, "omega")]
        bare = [{key: item for key, item in line.items() if key != "parentId"} for line in every]
        for line in bare[1:]:
            line.pop("id", None)
        assert kept(only(jsonl(*bare)), *WORDS) == ["the gist", *expected, "omega"]


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_codex_keeps_all_words_of_the_user() -> None:
    """Also those of the turn that it compacts in, and of a message that it had to shorten."""
    history = [item("user", "alpha"), item("user", "gam…"), item("user", "Summary:\nthe gist")]
    found = only(
        jsonl(
            codex("session_meta", id="c0de"),
            codex("response_item", **item("user", "alpha")),
            codex("response_item", **item("assistant", "beta")),
            codex("response_item", **item("user", "gamma")),
            codex("response_item", **item("assistant", "delta")),
            codex("compacted", message="the gist", replacement_history=history),
            codex("response_item", **item("assistant", "omega")),
        )
    )
    assert kept(found, *WORDS, "gam…") == ["the gist", "alpha", "gam…", "omega"]
    ids = [record.id for record in found.records if record.id]
    assert len(ids) == len(set(ids))


def test_the_words_that_codex_kept_are_carried_over_by_the_next_cut() -> None:
    """They are behind the boundary, where the next cut no longer reads."""
    said = [item("user", f"Never touch module {number}.") for number in range(3)]
    found = only(
        jsonl(
            codex("session_meta", id="c0de"),
            *(codex("response_item", **one) for one in said),
            codex("compacted", message="the gist", replacement_history=said),
            codex("response_item", **item("user", "omega")),
            *(
                codex("response_item", **said)
                for number in range(6)  # the newest three steps are protected
                for said in (item("assistant", "Long. " * 4_000), item("user", f"delta {number}"))
            ),
        )
    )
    records = found.records[len(said) :]  # as a store reads them: from the boundary on
    request = ProjectionRequest(
        records, Window(64_000, "test"), target("anthropic"), pressure="cut"
    )
    (cut,) = (made for made in project(request).decisions if isinstance(made, Compaction))
    assert all(one["content"][0]["text"] in cut.summary for one in said)


@pytest.mark.parametrize("reminders", [(), ("The date is: Thursday.",)], ids=["0.15", "0.24"])
def test_qwen_keeps_the_message_that_it_compacts_before(reminders: tuple[str, ...]) -> None:
    """It compacts between a user's message and the answer, and the message goes on. Since 0.24 it
    puts reminders before the words."""

    def words(text: str, role: str = "user", *before: str) -> Any:
        return {"role": role, "parts": [{"text": part} for part in (*before, text)]}

    kept_words = words("gamma", "user", *reminders)
    history = [words("the gist"), words("Got it. Thanks!", "model"), kept_words]
    compression = {"subtype": "chat_compression", "systemPayload": {"compressedHistory": history}}
    found = only(
        jsonl(
            qwen("q1", None, "user", message=words("alpha")),
            qwen("q2", "q1", "assistant", message=words("beta", "model")),
            qwen("q3", "q2", "user", message=words("gamma")),
            qwen("q4", "q3", "system", **compression),
            qwen("q5", "q4", "assistant", message=words("delta", "model")),
            qwen("q6", "q5", "user", message=words("omega")),
        )
    )
    assert kept(found, *WORDS) == ["the gist", "gamma", "delta", "omega"]


def test_gemini_replaces_its_history_by_a_summary_and_what_it_keeps() -> None:
    """Updates that only repeat the history, as at each resume, change nothing."""

    def words(place: str, text: str, kind: str = "user") -> Any:
        return {"id": place, "timestamp": STAMP, "type": kind, "content": [{"text": text}]}

    setting = words("g0", "a setting")
    lines = [words("g1", "alpha"), words("g2", "beta", "gemini"), words("g3", "gamma")]
    lines.append(words("g4", "delta", "gemini"))
    gist = [words("s1", "the gist"), words("s2", "Got it.", "gemini")]
    for rest, expected in ((lines[2:], ["gamma", "delta"]), ([], [])):
        found = only(
            jsonl(
                {"sessionId": "g", "projectHash": "p", "startTime": STAMP, "lastUpdated": STAMP},
                {"$set": {"messages": [setting]}},
                *lines,
                {"$set": {"messages": [setting, *lines]}},
                {"$set": {"messages": [setting, *gist, *rest]}},
                words("g5", "omega"),
                {"$set": {"messages": [setting, *gist, *rest, words("g5", "omega")]}},
            )
        )
        assert kept(found, *WORDS) == ["the gist", *expected, "omega"]


def test_claude_code_keeps_the_messages_it_lists() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "u3",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "sessionId": "s",
        "compactMetadata": {"trigger": "auto", "preservedMessages": {"uuids": ["u2", "u3"]}},
    }
    found = only(
        jsonl(
            claude_user("u1", None, "alpha"),
            claude_user("u2", "u1", "beta"),
            claude_user("u3", "u2", "gamma"),
            boundary,
            claude_user("u4", "b1", "the gist", isCompactSummary=True),
            claude_user("u5", "u4", "omega"),
        )
    )
    assert kept(found, *WORDS) == ["the gist", "beta", "gamma", "omega"]
