"""The loopback binds reasoning to what it was made behind, as the providers do.

Everything goes through the loopback without a connection; `test_loopback.py` has the SDKs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing import Answer, Call, Fault, Loopback
from holdfast.testing.loopback.binding.anthropic import Claude, claude, gpt

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json

NEWEST = "claude-fable-5-2"
CHECKED = "claude-sonnet-5-5"
CONTROLS = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
ON_DEMAND = {"anthropic-beta": "compact-2026-09-04"}
THRESHOLD = {"anthropic-beta": "compact-2026-01-12"}
BOUND = "The block is bound to a different conversation"
TOOL = {"name": "look", "input_schema": {"type": "object"}}


def brain(asked: Any) -> Answer:
    """Looks once for each message of the user, then answers."""
    if asked.results or not asked.tools:
        return Answer(f"Done, {len(asked.messages)} messages.", thinking="Now I know.")
    return Answer("Let me look.", (Call("look", {"at": asked.text[:20]}),), thinking="I must look.")


class Talk:
    """A client that sends everything back as it came."""

    def __init__(self, loopback: Loopback, model: str = NEWEST, **settings: Any) -> None:
        self.loopback = loopback
        self.settings: Json = {"model": model, "max_tokens": 500, "tools": [TOOL], **settings}
        self.headers = {"x-api-key": "key-1"}
        self.messages: list[Json] = []
        self.refused: Json = {}

    def send(self, path: str = "/v1/messages", **changes: Any) -> Json:
        body = {**self.settings, "messages": self.messages, **changes}
        reply = self.loopback.handle(path, json.dumps(body).encode(), self.headers)
        found: Json = json.loads(reply.body)
        self.refused = found["error"] if reply.status != 200 else {}
        return found

    def turn(self, text: str = "Go on.") -> Json:
        """A turn of the user with a call, its result and the answer."""
        self.messages.append({"role": "user", "content": text})
        while True:
            reply = self.send()
            if self.refused:
                return reply
            self.messages.append({"role": "assistant", "content": reply["content"]})
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not calls:
                return reply
            results = [
                {"type": "tool_result", "tool_use_id": one["id"], "content": "seen"}
                for one in calls
            ]
            self.messages.append({"role": "user", "content": results})

    def thinking(self) -> list[tuple[int, int]]:
        return [
            (index, at)
            for index, message in enumerate(self.messages)
            if message["role"] == "assistant"
            for at, block in enumerate(message["content"])
            if block["type"] in ("thinking", "redacted_thinking")
        ]

    def without(self, *places: int) -> list[Json]:
        """The messages without some of their thinking, by its number."""
        gone = [self.thinking()[place] for place in places]
        return [
            message
            if isinstance(message["content"], str)
            else {
                **message,
                "content": [
                    block for at, block in enumerate(message["content"]) if (index, at) not in gone
                ],
            }
            for index, message in enumerate(self.messages)
        ]


def _talk(turns: int = 3, model: str = NEWEST, **options: Any) -> Talk:
    talk = Talk(Loopback(brain, **options), model)
    for number in range(turns):
        talk.turn(f"Turn {number}")
    assert not talk.refused
    return talk


# Anthropic


def test_a_conversation_that_only_grows_keeps_all_its_thinking() -> None:
    """Blocks come without being asked for, empty and signed, and go back; none is missing."""
    talk = _talk(4)
    counts = talk.loopback.reasoning
    blocks = [talk.messages[index]["content"][at] for index, at in talk.thinking()]
    assert len(blocks) == 4 * 3  # before the words, before the call, before the answer
    assert all(block["thinking"] == "" and block["signature"] for block in blocks)
    assert (counts.calls, counts.replies, counts.refused, counts.withheld) == (8, 8, 0, 0)
    assert counts.dropped == {}
    assert counts.valid > 12


INLINE = {"anthropic-beta": "inline-tools-2026-09-15"}


def _addition(**changes: Any) -> Json:
    made = {"name": "more", "input_schema": {"type": "object"}, **changes}
    given = {name: value for name, value in made.items() if value is not None}
    tool = {"type": "tool_definition", "definition": given}
    return {"role": "system", "content": [{"type": "tool_addition", "tool": tool}]}


def test_a_tool_is_added_amid_a_conversation() -> None:
    """The model is offered it, and its thinking from before holds."""

    def brain(asked: Any) -> Answer:
        return Answer("Let me look.", (Call(asked.tools[-1].name, {}),), thinking="I must look.")

    talk = Talk(Loopback(brain))
    talk.messages.append({"role": "user", "content": "Look."})
    reply = talk.send()
    result = {"type": "tool_result", "tool_use_id": reply["content"][-1]["id"], "content": "seen"}
    talk.messages += [
        {"role": "assistant", "content": reply["content"]},
        {"role": "user", "content": [result]},
    ]
    talk.headers.update(INLINE)
    talk.messages.append(_addition())
    before = talk.loopback.reasoning.valid
    reply = talk.send()
    assert reply["content"][-1]["name"] == "more"
    assert talk.loopback.reasoning.valid > before


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda talk: talk.headers.pop("anthropic-beta"), "requires anthropic-beta"),
        (lambda talk: talk.messages.append({"role": "user", "content": "Hm."}), "must be last"),
        (lambda talk: talk.messages.insert(4, talk.messages.pop()), "follow a user turn"),
        (lambda talk: talk.messages[-1].update(role="user"), "only permitted on role 'system'"),
        (lambda talk: talk.messages.__setitem__(-1, _addition(input_schema=None)), "required"),
    ],
)
def test_a_tool_that_is_added_the_wrong_way_is_refused(
    spoil: Callable[[Talk], Any], words: str
) -> None:
    """Without the header, in another place, in another role, without a schema."""
    talk = _talk(1)
    talk.headers.update(INLINE)
    talk.messages += [{"role": "user", "content": "Look again."}, _addition()]
    spoil(talk)
    talk.send()
    assert words in talk.refused["message"]


@pytest.mark.parametrize("item", [{"role": "user"}, {"tools": []}, {"tools": [{"name": "more"}]}])
def test_the_responses_api_takes_added_tools_of_the_developer_alone(item: Json) -> None:
    """And each has a type."""
    tool = {"type": "function", "name": "more", "parameters": {"type": "object"}}
    added = {"type": "additional_tools", "role": "developer", "tools": [tool]}
    loopback = Loopback(lambda asked: Answer(", ".join(tool.name for tool in asked.tools)))

    def ask(*items: Json) -> tuple[int, str]:
        body = {"model": "gpt-6.2-sol", "input": [{"role": "user", "content": "Hi"}, *items]}
        reply = loopback.handle("/v1/responses", json.dumps(body).encode(), {})
        return reply.status, reply.body.decode()

    status, said = ask(added)
    assert status == 200
    assert "more" in said
    assert ask({**added, **item})[0] == 400


def _first_text(talk: Talk) -> None:
    talk.messages[0]["content"] = "Turn zero"


def _result(talk: Talk) -> None:
    talk.messages[2]["content"][0]["content"] = "cleared"


def _added(talk: Talk) -> None:
    talk.messages[0]["content"] = [
        {"type": "text", "text": "Turn 0"},
        {"type": "text", "text": "It is Monday."},
    ]


def _system(talk: Talk) -> None:
    talk.settings["system"] = "Be brief."


def _tools(talk: Talk) -> None:
    talk.settings["tools"] = [TOOL, {**TOOL, "name": "context"}]


def _cut(talk: Talk) -> None:
    talk.messages[:4] = [{"role": "user", "content": "A summary."}]


def _without_one_between(talk: Talk) -> None:
    talk.messages[:] = talk.without(4)


CHANGES = [_first_text, _result, _added, _system, _tools, _cut, _without_one_between]


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_a_changed_prefix_is_refused_by_the_newest_for_every_account(
    change: Callable[[Talk], None],
) -> None:
    """The error names the first block that fails, and what would drop it."""
    talk = _talk(is_old_account=True)
    change(talk)
    talk.turn()
    assert BOUND in talk.refused["message"]
    assert "requires the `thinking-binding-controls-2026-08-01`" in talk.refused["message"]
    assert talk.loopback.reasoning.refused == 1
    assert talk.loopback.requests[-1].violations[0].rule == "prefix-bound"


def test_a_count_of_tokens_is_refused_likewise() -> None:
    """The same check runs where only tokens are counted."""
    talk = _talk()
    _result(talk)
    talk.messages.append({"role": "user", "content": "And?"})
    talk.send("/v1/messages/count_tokens")
    assert BOUND in talk.refused["message"]
    assert talk.loopback.reasoning.refused == 0  # no call


def _marks(talk: Talk) -> None:
    talk.messages[0]["content"] = [
        {"type": "text", "text": "Turn 0", "cache_control": {"type": "ephemeral"}}
    ]


def _deferred(talk: Talk) -> None:
    talk.settings["tools"] = [TOOL, {**TOOL, "name": "later", "defer_loading": True}]


def _effort(talk: Talk) -> None:
    talk.settings["output_config"] = {"effort": "low"}
    talk.settings["max_tokens"] = 600


def _without_the_oldest(talk: Talk) -> None:
    talk.messages[:] = talk.without(0, 1, 2, 3)


def _without_the_last(talk: Talk) -> None:
    talk.messages[:] = talk.without(8)


def _without_all(talk: Talk) -> None:
    talk.messages[:] = talk.without(*range(9))


@pytest.mark.parametrize(
    "change",
    [_marks, _deferred, _effort, _without_the_oldest, _without_the_last, _without_all],
    ids=lambda one: one.__name__,
)
def test_what_is_no_change_of_the_prefix(change: Callable[[Talk], None]) -> None:
    """Marks, deferred tools, settings, and thinking left out from either end."""
    talk = _talk()
    before = talk.loopback.reasoning.withheld
    change(talk)
    talk.turn()
    assert not talk.refused
    assert talk.loopback.reasoning.refused == 0
    left_out = change in (_without_the_oldest, _without_the_last, _without_all)
    assert (talk.loopback.reasoning.withheld > before) == left_out


def test_thinking_that_is_put_back_is_refused() -> None:
    """What was made while an earlier block was gone does not fit behind it."""
    talk = _talk()
    whole = [dict(message) for message in talk.messages]
    talk.messages[:] = talk.without(*range(9))
    talk.turn()
    assert not talk.refused
    talk.messages[: len(whole)] = whole
    talk.turn()
    assert BOUND in talk.refused["message"]
    assert "preceded this one" in talk.refused["message"]


def test_blocks_are_dropped_on_request_and_the_reply_says_so() -> None:
    """`drop_block` drops the failing blocks, lists them, and what is made afterwards holds."""
    talk = _talk()
    _result(talk)
    binding = {"prefix_mismatch_behavior": "drop_block"}
    talk.settings["thinking"] = {"type": "adaptive", "block_binding": binding}
    talk.send(messages=[*talk.messages, {"role": "user", "content": "And?"}])
    assert (
        talk.refused["message"] == "thinking.adaptive.block_binding: Extra inputs are not permitted"
    )
    talk.headers.update(CONTROLS)
    reply = talk.turn()
    assert not talk.refused
    # The first two stand before the result that was changed.
    reported = [item["path"] for item in reply["input_transformations"]]
    assert len(reported) == 7
    assert reported[0] == "messages.3.content.0"
    first, second = talk.loopback.requests[-2:]
    assert [len(one.reasoning.dropped) for one in (first, second)] == [7, 7]
    # The two of the reply in between were made behind the change.
    assert [len(one.reasoning.valid) for one in (first, second)] == [2, 4]


def test_an_old_account_is_told_and_not_held() -> None:
    """Between the models that never check and the newest, the age of the account decides."""
    for model, is_old, status in (
        (CHECKED, False, 400),
        (CHECKED, True, 200),
        ("claude-opus-5", False, 200),
        ("claude-fable-5-2", True, 400),
    ):
        talk = _talk(model=model, is_old_account=is_old)
        talk.headers.update(CONTROLS)
        _result(talk)
        talk.messages.append({"role": "user", "content": "And?"})
        reply = talk.send()
        assert talk.loopback.requests[-1].status == status, model
        if status == 200 and model == CHECKED:
            kinds = {item["type"] for item in reply["input_transformations"]}
            assert kinds == {"thinking_mismatch_allowed"}
            talk.settings["thinking"] = {
                "type": "adaptive",
                "block_binding": {"prefix_mismatch_behavior": "error"},
            }
            talk.send()
            assert BOUND in talk.refused["message"]  # asked for, it holds for every account


def test_signatures_that_were_cut_or_emptied_are_refused_shortly() -> None:
    """No binding helps a signature that is none."""
    for spoil in (
        lambda text: "",
        lambda text: text[:-9],
        lambda text: text[:40] + "A" + text[41:],
    ):
        talk = _talk()
        index, at = talk.thinking()[0]
        block = talk.messages[index]["content"][at]
        block["signature"] = spoil(block["signature"])
        talk.turn()
        assert "Invalid `signature` in `thinking` block" in talk.refused["message"]
        assert BOUND not in talk.refused["message"]


def test_words_in_an_omitted_block_are_ignored_and_shown_ones_hold() -> None:
    """A block that came empty may have any text; one that came with text must keep it."""
    talk = Talk(Loopback(brain))
    talk.messages.append({"role": "user", "content": "Go"})
    content = talk.send()["content"]
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "ok"}],
    }
    content[0]["thinking"] = "Whatever it was."
    talk.messages += [{"role": "assistant", "content": content}, result]
    talk.send()
    assert not talk.refused

    talk = Talk(Loopback(brain), thinking={"type": "adaptive", "display": "summarized"})
    talk.messages.append({"role": "user", "content": "Go"})
    content = talk.send()["content"]
    assert content[0]["thinking"] == "I must look."
    content[0]["thinking"] = "I need not look."
    result["content"][0]["tool_use_id"] = content[-1]["id"]  # type: ignore[index]
    talk.messages += [{"role": "assistant", "content": content}, result]
    talk.send()
    assert "cannot be modified" in talk.refused["message"]


def test_thinking_comes_back_with_a_tool_result_whole_and_in_order() -> None:
    """Leaving one of two out, or swapping them, is a change; leaving out all of it is none."""
    for keep, is_fine in (
        ((0,), False),
        ((1,), False),
        ((1, 0), False),
        ((), True),
        ((0, 1), True),
    ):
        talk = Talk(Loopback(brain))
        talk.messages.append({"role": "user", "content": "Go"})
        first, words, second, call = talk.send()["content"]
        thoughts = (first, second)
        shown = [thoughts[at] for at in keep]
        content = [*shown[:1], words, *shown[1:], call]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
        talk.messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]
        talk.send()
        assert (not talk.refused) == is_fine, keep
        withheld = talk.loopback.requests[-1].reasoning.withheld
        assert len(withheld) == 2 - len(keep)
        assert all(one.is_required for one in withheld)


def test_redacted_thinking_is_bound_too() -> None:
    """It has no text, and the same rules."""
    loopback = Loopback(lambda _asked: Answer("Yes.", thinking="A secret.", is_redacted=True))
    talk = Talk(loopback, tools=[])
    talk.turn("One")
    assert talk.messages[1]["content"][0]["type"] == "redacted_thinking"
    talk.turn("Two")
    assert not talk.refused
    _system(talk)
    talk.turn("Three")
    assert "`redacted_thinking` block. The block is bound" in talk.refused["message"]


def test_a_reader_that_cannot_read_drops_silently_and_reads_again_later() -> None:
    """Another model's thinking stays in the history and counts again for its maker."""
    talk = _talk(2, model="claude-opus-5-5")
    talk.settings["model"] = "claude-haiku-5-5"
    talk.turn("Now you")
    assert not talk.refused
    assert talk.loopback.reasoning.dropped["model_binding_mismatch"] > 0
    before = talk.loopback.reasoning.dropped
    talk.settings["model"] = "claude-opus-5-5"
    talk.turn("And you again")
    assert not talk.refused
    last = talk.loopback.requests[-1].reasoning
    assert {item.reason for item in last.dropped} == {"model_binding_mismatch"}  # Haiku's
    assert len(last.valid) > 6
    assert before != {}


def test_thinking_of_another_account_is_dropped() -> None:
    """Sonnet 5.5 binds to the account; two keys of one account are one."""
    for accounts, lost in (({}, True), ({"key-1": "we", "key-2": "we"}, False)):
        talk = _talk(2, model=CHECKED, accounts=accounts)
        talk.headers["x-api-key"] = "key-2"
        talk.turn()
        assert not talk.refused
        assert ("organization_binding_mismatch" in talk.loopback.reasoning.dropped) == lost


def test_who_reads_whose_thinking() -> None:
    """The table of readers."""
    reads = {
        ("fable-5-2", "mythos-5-2"): True,
        ("fable-5-2", "opus-5-5"): False,
        ("fable-5-1", "opus-5-5"): True,
        ("fable-5-1", "fable-5-2"): False,
        ("opus-5-5", "opus-5"): True,
        ("opus-5-5", "sonnet-5-5"): True,
        ("opus-5-5", "fable-5"): False,
        ("sonnet-5-5", "opus-4-8"): True,
        ("sonnet-5-5", "opus-5"): False,
        ("sonnet-5-5", "sonnet-5"): True,
        ("haiku-5-5", "sonnet-5"): False,
        ("haiku-5-5", "haiku-5-5"): True,
    }
    for (reader, maker), wanted in reads.items():
        found, made = claude(f"claude-{reader}"), claude(f"claude-{maker}")
        assert found is not None
        assert made is not None
        assert found.reads(made) == wanted, (reader, maker)


def test_generations_are_read_from_names() -> None:
    """A date is no version, and a point release is not its sibling."""
    assert claude("claude-sonnet-4-5-20250929") == Claude("sonnet", (4, 5))
    assert claude("claude-opus-4-20250514") == Claude("opus", (4, 0))
    assert claude("anthropic.claude-fable-5-2-v1:0") == Claude("fable", (5, 2))
    assert claude("claude-next") is None
    versions = {"gpt-5": (5, 0), "gpt-5.6-sol": (5, 6), "gpt-6.2-astra": (6, 2), "gpt-7": (7, 0)}
    for name, version in versions.items():
        found = gpt(name)
        assert found is not None
        assert found.version == version
    assert gpt("claude-opus-5") is None
    plain = gpt("gpt-4o")
    assert plain is not None
    assert not plain.reasons
    assert gpt("o3-mini") is not None


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        (CHECKED, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, '"thinking.type.enabl'),
        (NEWEST, {"thinking": {"type": "disabled"}}, '"thinking.type.disabled" is not supported'),
        ("claude-opus-4-5", {"thinking": {"type": "adaptive"}}, "adaptive thinking is not supp"),
        (CHECKED, {"tool_choice": {"type": "any"}}, 'type "tool" and "any" are not supported'),
    ],
)
def test_settings_that_a_generation_does_not_have(model: str, settings: Json, words: str) -> None:
    """Each is refused in the provider's words."""
    talk = Talk(Loopback(brain), model, max_tokens=2_000, **settings)
    talk.turn()
    assert words in talk.refused["message"]


def test_fields_that_nobody_knows_are_refused() -> None:
    """A client that dumps its objects whole sends them."""
    talk = _talk(1)
    talk.messages[1]["content"][0]["citations"] = None
    talk.turn()
    assert talk.refused["message"].endswith("thinking.citations: Extra inputs are not permitted")


def test_a_reply_that_never_arrived_is_not_missed() -> None:
    """Thinking that the client did not get cannot be sent back."""
    talk = Talk(Loopback(brain))
    talk.loopback.fail_next(Fault.dropped_within())
    talk.messages.append({"role": "user", "content": "Go"})
    body = json.dumps({**talk.settings, "messages": talk.messages, "stream": True}).encode()
    assert talk.loopback.handle("/v1/messages", body).is_broken
    talk.turn("Again")
    assert talk.loopback.reasoning.withheld == 0


# Anthropic: compaction


def _compacted(talk: Talk, messages: list[Json] | None = None) -> Json:
    talk.headers.update(ON_DEMAND)
    wanted = {"type": "summarize"}
    reply = talk.send(messages=messages or talk.messages, compaction=wanted)
    assert not talk.refused
    assert reply["stop_reason"] == "compaction"
    [block] = reply["content"]
    found: Json = block
    return found


def test_kept_turns_go_on_behind_a_compaction() -> None:
    """A signed block in place of what it summarises keeps the thinking of the turns after it."""
    talk = _talk()
    summarised, kept = talk.messages[:5], talk.messages[5:]
    block = _compacted(talk, summarised)
    talk.messages[:] = [{"role": "assistant", "content": [block]}, *kept]
    before = talk.loopback.reasoning.valid
    talk.turn()
    assert not talk.refused
    assert talk.loopback.reasoning.valid > before
    _tools(talk)
    talk.turn()
    assert BOUND in talk.refused["message"]


def test_a_lost_compaction_is_a_lost_history() -> None:
    """The model sees the summary, and nothing of what it stands for."""
    seen = []

    def look(asked: Any) -> Answer:
        seen.append(str(asked.messages))
        return Answer("The port is 8443.")

    talk = Talk(Loopback(look), tools=[])
    talk.turn("A long story")
    block = _compacted(talk)
    talk.messages[:] = [
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": "Which port?"},
    ]
    talk.send()
    assert "8443" in seen[-1]
    assert "A long story" not in seen[-1]


def test_errors_of_compaction() -> None:
    """A block that is changed, misplaced, twice there, or sent without its header."""
    talk = _talk(1)
    block = _compacted(talk)
    own: Json = {"role": "assistant", "content": [block]}
    ask: Json = {"role": "user", "content": "And?"}
    cases = {
        "compaction_content_mismatch": [
            {"role": "assistant", "content": [{**block, "content": "Else."}]},
            ask,
        ],
        "compaction_signature_invalid": [
            {"role": "assistant", "content": [{**block, "signature": "bG9vcGJhY2s6"}]},
            ask,
        ],
        "compaction_block_misplaced": [ask, own, ask],
        "at most one": [{"role": "assistant", "content": [block, block]}, ask],
        "citations: Extra inputs": [
            {"role": "assistant", "content": [{**block, "citations": None}]},
            ask,
        ],
    }
    for words, messages in cases.items():
        talk.send(messages=messages)
        assert words in talk.refused.get("message", ""), words
    del talk.headers["anthropic-beta"]
    talk.send(messages=[own, ask])
    assert "compaction" in talk.refused["message"]


def test_compaction_at_a_threshold_begins_the_prefix_again() -> None:
    """The block comes first in the reply; what is before it may stay or go."""
    edit = {
        "type": "compact_20260112",
        "trigger": {"type": "input_tokens", "value": 50_000},
    }
    talk = Talk(Loopback(brain), context_management={"edits": [edit]}, tools=[])
    talk.headers.update(THRESHOLD)
    talk.turn("word " * 60_000)
    kinds = [block["type"] for block in talk.messages[1]["content"]]
    assert kinds == ["compaction", "thinking", "text"]
    talk.turn("Second")
    assert not talk.refused
    assert [block["type"] for block in talk.messages[3]["content"]] == ["thinking", "text"]
    del talk.messages[0]
    talk.turn("Third")
    assert not talk.refused
    assert talk.loopback.requests[-1].reasoning.valid == (1, 2)


# OpenAI Responses

FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}


class Items:
    """A client of the Responses API that sends all output items back."""

    def __init__(self, model: str, **options: Any) -> None:
        self.loopback = Loopback(brain, **options)
        self.settings: Json = {
            "model": model,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "tools": [FUNCTION],
        }
        self.items: list[Json] = []
        self.key = "key-1"
        self.refused: Json = {}

    def send(self, path: str = "/v1/responses", **changes: Any) -> Json:
        body = {**self.settings, "input": self.items, **changes}
        headers = {"authorization": f"Bearer {self.key}"}
        reply = self.loopback.handle(path, json.dumps(body).encode(), headers)
        found: Json = json.loads(reply.body)
        self.refused = found["error"] if reply.status != 200 else {}
        return found

    def turn(self, text: str = "Go on.") -> None:
        self.items.append({"type": "message", "role": "user", "content": text})
        while True:
            reply = self.send()
            if self.refused:
                return
            self.items += reply["output"]
            calls = [item for item in reply["output"] if item["type"] == "function_call"]
            if not calls:
                return
            for call in calls:
                self.items.append(
                    {
                        "type": "function_call_output",
                        "call_id": call["call_id"],
                        "output": "seen",
                    }
                )


def test_reasoning_items_come_unasked_and_go_back() -> None:
    """A model that reasons has an item in each reply; all of them are valid in their place."""
    talk = Items("gpt-6.2-sol")
    for _ in range(3):
        talk.turn()
    assert not talk.refused
    counts = talk.loopback.reasoning
    assert (counts.refused, counts.withheld, counts.dropped) == (0, 0, {})
    assert counts.valid == sum(range(6))


def test_since_gpt_6_2_a_changed_history_drops_reasoning_without_a_word() -> None:
    """Status 200, nothing in the reply, and a count for the test."""
    for model, dropped in (("gpt-6.2-sol", 4), ("gpt-6.1-sol", 0)):
        talk = Items(model)
        talk.turn()
        talk.turn()
        talk.items[3]["output"] = "cleared"
        talk.turn()
        assert not talk.refused
        first = talk.loopback.requests[4].reasoning
        assert len(first.dropped) == max(0, dropped - 1)  # the first item stands before the change
    talk = Items("gpt-6.2-sol")
    talk.turn()
    talk.settings["reasoning"] = {"effort": "high"}
    talk.turn()
    assert talk.loopback.reasoning.dropped["prefix_binding_mismatch"] > 0


def test_a_downgrade_and_another_user_drop_reasoning() -> None:
    """From the larger model to the smaller one, not the other way; and for another end user."""
    for first, second, reason in (
        ("gpt-6.2-astra", "gpt-6.2-sol", {"model_binding_mismatch": 5}),
        ("gpt-6.2-sol", "gpt-6.2-astra", {}),
    ):
        talk = Items(first)
        talk.turn()
        talk.settings["model"] = second
        talk.turn()
        found = talk.loopback.reasoning.dropped
        assert set(found) == set(reason)
    talk = Items("gpt-6.2-sol")
    talk.turn()
    talk.settings["safety_identifier"] = "somebody"
    talk.turn()
    assert set(talk.loopback.reasoning.dropped) == {"end_user_binding_mismatch"}


def test_the_ciphertext_of_another_organisation_is_refused_or_dropped() -> None:
    """Refused up to GPT-6.1, dropped from then on; changed, it is refused by all."""
    for model, is_refused in (("gpt-6.1-sol", True), ("gpt-6.2-sol", False)):
        talk = Items(model)
        talk.turn()
        talk.key = "key-2"
        talk.turn()
        assert bool(talk.refused) == is_refused
        if is_refused:
            assert talk.refused["code"] == "invalid_encrypted_content"
        else:
            assert talk.loopback.reasoning.dropped["organization_binding_mismatch"] > 0
    talk = Items("gpt-6.2-sol")
    talk.turn()
    item = next(item for item in talk.items if item["type"] == "reasoning")
    item["encrypted_content"] = item["encrypted_content"][:-8]
    talk.turn()
    assert talk.refused["code"] == "invalid_encrypted_content"


def test_items_and_their_reasoning_stay_together() -> None:
    """An item with its id needs the reasoning that it came with, and the other way round."""
    talk = Items("gpt-6.2-sol")
    talk.turn()
    whole = list(talk.items)
    talk.items[:] = [item for item in whole if item["type"] != "reasoning"]
    talk.turn()
    assert "without its required 'reasoning' item" in talk.refused["message"]
    talk.items[:] = [
        {name: value for name, value in item.items() if name != "id"}
        for item in whole
        if item["type"] != "reasoning"
    ]
    talk.turn()
    assert not talk.refused
    assert len(talk.loopback.requests[-2].reasoning.withheld) == 2
    talk.items[:] = whole[:2]
    talk.turn()
    assert "without its required following item" in talk.refused["message"]


def test_models_that_do_not_reason_have_items_without_reasoning() -> None:
    """Their items go back with their ids, and nothing is missing."""
    talk = Items("gpt-4.1")
    for _ in range(3):
        talk.turn()
    assert not talk.refused
    assert not any(item["type"] == "reasoning" for item in talk.items)
    assert talk.loopback.reasoning.refused == 0


def test_ids_are_short_and_ciphertext_is_sent_where_it_is_asked_for() -> None:
    """An id over 64 characters is refused; without `include` there is nothing to send back."""
    talk = Items("gpt-5")
    talk.turn()
    talk.items[1]["id"] = "rs_" + "x" * 70
    talk.turn()
    assert talk.refused["code"] == "string_above_max_length"
    talk = Items("gpt-5")
    del talk.settings["include"]
    talk.turn()
    assert "not found" in talk.refused["message"]


def test_a_compacted_window_is_opaque_and_whole() -> None:
    """The item can be expanded by the loopback alone; without it, the history is lost."""
    seen = []

    def look(asked: Any) -> Answer:
        seen.append(str(asked.messages))
        return Answer("The port is 8443.")

    talk = Items("gpt-6.2-sol")
    talk.loopback = Loopback(look)
    talk.turn("First")
    window = talk.send("/v1/responses/compact")
    assert window["object"] == "response.compaction"
    assert "8443" not in str(window["output"])
    talk.items[:] = window["output"]
    talk.turn("Second")
    assert not talk.refused
    assert "8443" in seen[-1]

    talk.settings["context_management"] = [{"type": "compaction", "compact_threshold": 1_000}]
    talk.turn("word " * 2_000)
    kinds = [item["type"] for item in talk.items]
    assert kinds.count("compaction") == 2
    at = len(kinds) - 1 - kinds[::-1].index("compaction")
    del talk.items[:at]
    talk.settings.pop("context_management")
    talk.turn("Third")
    assert not talk.refused
    assert len(talk.loopback.requests[-1].reasoning.valid) == 1


# OpenAI Chat, DeepSeek, Gemini


@pytest.mark.parametrize(
    ("model", "effort", "is_fine"),
    [
        ("gpt-4o", None, True),
        ("gpt-5.4", None, True),
        ("gpt-5.4", "low", False),
        ("gpt-6-sol", None, False),
        ("gpt-6-sol", "none", True),
        ("gpt-6-astra", "none", False),
        ("gpt-6.2-sol", None, False),
    ],
)
def test_function_tools_in_chat_completions(model: str, effort: str | None, is_fine: bool) -> None:
    """Models that reason take function tools through the other API only."""
    body: Json = {
        "model": model,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        **({"reasoning_effort": effort} if effort else {}),
    }
    with Loopback(brain) as loopback:
        reply = loopback.handle("/v1/chat/completions", json.dumps(body).encode())
        assert (reply.status == 200) == is_fine
        if not is_fine:
            assert b"Function tools with reasoning_effort are not supported" in reply.body


def test_deepseek_wants_its_reasoning_back_in_stretches_with_calls() -> None:
    """Every message of the model in such a stretch, in all later requests."""
    loopback = Loopback(brain, variants={"openai-chat": "deepseek"})
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    messages: list[Json] = [{"role": "user", "content": "Go"}]

    def send(given: list[Json], **changes: Any) -> tuple[int, Json]:
        body = {"model": "deepseek-v4", "messages": given, "tools": tools, **changes}
        reply = loopback.handle("/chat/completions", json.dumps(body).encode())
        return reply.status, json.loads(reply.body)

    _status, reply = send(messages)
    said = reply["choices"][0]["message"]
    assert said["reasoning_content"]
    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "seen"}
    status, reply = send([*messages, said, result])
    answer = reply["choices"][0]["message"]
    assert status == 200
    more = {"role": "user", "content": "More"}
    bare = {name: value for name, value in said.items() if name != "reasoning_content"}
    plain = {name: value for name, value in answer.items() if name != "reasoning_content"}
    assert send([*messages, said, result, answer, more])[0] == 200
    assert loopback.reasoning.withheld == 0
    padded = {**said, "reasoning_content": " "}
    assert send([*messages, padded, result])[0] == 200
    assert loopback.reasoning.withheld == 1  # taken, and still not what the model thought
    for history in ([*messages, bare, result], [*messages, said, result, plain, more]):
        status, reply = send(history)
        assert status == 400
        assert "must be passed back" in reply["error"]["message"]
    assert send([*messages, bare, result], thinking={"type": "disabled"})[0] == 200
    assert send([*messages, plain, more])[0] == 200  # no call in that stretch
    assert loopback.reasoning.refused == 2


def test_gemini_signatures_fit_one_model_and_one_key() -> None:
    """The first call of a step is signed; a dummy passes and is counted, a foreign one fails."""
    loopback = Loopback(brain)
    tools = [{"functionDeclarations": [{"name": "look"}]}]
    contents: list[Json] = [{"role": "user", "parts": [{"text": "Go"}]}]

    def send(given: list[Json], model: str = "gemini-3-pro", key: str = "one") -> tuple[int, Json]:
        body = json.dumps({"contents": given, "tools": tools}).encode()
        path = f"/v1beta/models/{model}:generateContent"
        reply = loopback.handle(path, body, {"x-goog-api-key": key})
        return reply.status, json.loads(reply.body)

    _status, reply = send(contents)
    said = reply["candidates"][0]["content"]
    call = next(part for part in said["parts"] if "functionCall" in part)
    answer = {
        "functionResponse": {
            "id": call["functionCall"]["id"],
            "name": "look",
            "response": {"output": "seen"},
        }
    }

    def history(signature: str | None) -> list[Json]:
        signed = {"thoughtSignature": signature} if signature is not None else {}
        part = {"functionCall": call["functionCall"], **signed}
        return [
            *contents,
            {"role": "model", "parts": [{"text": "Let me look."}, part]},
            {"role": "user", "parts": [answer]},
        ]

    real = call["thoughtSignature"]
    status, reply = send(history(real))
    assert status == 200
    assert reply["candidates"][0]["content"]["parts"][-1]["thoughtSignature"]
    assert send(history("skip_thought_signature_validator"))[0] == 200
    assert send(history(None))[0] == 400
    assert send(history(real[:-6]))[0] == 400
    assert send(history(real), model="gemini-3.1-pro")[0] == 400
    assert send(history(real), key="two")[0] == 400
    counts = loopback.reasoning
    assert (counts.valid, counts.refused) == (1, 4)
    dummy = loopback.requests[2].reasoning
    assert [one.is_required for one in dummy.withheld] == [True]
