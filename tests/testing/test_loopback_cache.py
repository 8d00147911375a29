"""The loopback's prompt caches, against sums made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.testing.sdks import DIALECTS, Way, ask, body_of, send

from holdfast.core.models.messages import Message, Prompt, Text
from holdfast.engine.simulation.prompt_cache import CacheRules
from holdfast.testing import Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
SYSTEM = 1_500


class Words:
    """A counter for which a token is a word: so the sums can be made by hand."""

    name = "words"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text.split())


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loopback(clock: Clock) -> Iterator[Loopback]:
    with Loopback(clock=clock, counter=Words()) as loopback:
        yield loopback


def text(words: int, word: str = "w", mark: Json | None = None) -> Json:
    block: Json = {"type": "text", "text": " ".join([word] * words)}
    return {**block, "cache_control": mark} if mark else block


def body(system: Json, *messages: Sequence[Json], **more: Any) -> Json:
    roles = ("user", "assistant")
    return {
        "model": "claude-opus-4-5",
        "max_tokens": 100,
        "system": [system],
        "messages": [
            {"role": roles[at % 2], "content": list(blocks)} for at, blocks in enumerate(messages)
        ],
        **more,
    }


def anthropic(loopback: Loopback, request: Json) -> tuple[int, int, int]:
    """Fresh, written and read input, as the SDK reports it; they are all of the input."""
    usage = send(loopback, Way("anthropic"), request).usage
    assert usage is not None
    found = (
        usage["input_tokens"],
        usage["cache_creation_input_tokens"],
        usage["cache_read_input_tokens"],
    )
    received = loopback.requests[-1]
    assert sum(found) == received.tokens
    assert (received.cached.written, received.cached.read) == found[1:]
    return found


def test_a_marked_prefix_is_written_once_and_then_read(loopback: Loopback) -> None:
    """The first request writes what lies before its mark, the second reads it."""
    request = body(text(SYSTEM, mark=MARK), [text(10)])

    # 4 tokens for the system text's wrapping, 4 for the message's.
    assert anthropic(loopback, request) == (14, 1504, 0)
    assert anthropic(loopback, request) == (14, 0, 1504)


def test_a_growing_conversation_reads_what_it_wrote(loopback: Loopback) -> None:
    """With a mark at the end, each request reads the one before and writes only what is new."""
    system = text(SYSTEM, mark=MARK)
    first = body(system, [text(100, mark=MARK)])
    assert anthropic(loopback, first) == (0, 1504 + 104, 0)

    second = body(system, [text(100)], [text(20)], [text(30, mark=MARK)])
    assert anthropic(loopback, second) == (0, 24 + 34, 1608)

    unmarked = body(system, [text(100)], [text(20)], [text(30)], [text(7)], [text(8)])
    assert anthropic(loopback, unmarked) == (104 + 24 + 34 + 11 + 12, 0, 1504)


def test_a_change_in_the_middle_costs_everything_after_it(loopback: Loopback) -> None:
    """A cut in an old message leaves only the prefix before it."""
    system = text(SYSTEM, mark=MARK)
    before = body(system, [text(100)], [text(20)], [text(30, mark=MARK)])
    after = body(system, [text(90)], [text(20)], [text(30, mark=MARK)])

    assert anthropic(loopback, before) == (0, 1504 + 104 + 24 + 34, 0)
    assert anthropic(loopback, after) == (0, 94 + 24 + 34, 1504)
    assert anthropic(loopback, before) == (0, 0, 1666)


def test_five_minutes_from_the_last_use(loopback: Loopback, clock: Clock) -> None:
    """Each use keeps a prefix alive; unused for more than five minutes, it is gone."""
    request = body(text(SYSTEM, mark=MARK), [text(10)])
    assert anthropic(loopback, request)[1:] == (1504, 0)
    for _again in range(3):
        clock.seconds += 300
        assert anthropic(loopback, request)[1:] == (0, 1504)
    clock.seconds += 301
    assert anthropic(loopback, request)[1:] == (1504, 0)


def test_a_prefix_that_is_found_lives_on(loopback: Loopback, clock: Clock) -> None:
    """A use counts where the prefix is only found by looking back, without a mark of its own."""
    first = body(text(SYSTEM), [text(10, "a", MARK)])
    longer = body(text(SYSTEM), [text(10, "a"), text(5, "b", MARK)])
    anthropic(loopback, first)
    clock.seconds += 200
    assert anthropic(loopback, longer) == (0, 5, 1518)
    clock.seconds += 200
    assert anthropic(loopback, first) == (0, 0, 1518)


def test_only_what_is_new_is_written_for_an_hour(loopback: Loopback) -> None:
    """What was read is not paid for again, whatever its marks say."""
    head = text(SYSTEM, mark=HOUR)
    anthropic(loopback, body(head, [text(10)]))
    got = send(loopback, Way("anthropic"), body(head, [text(10, mark=HOUR)]))

    assert got.usage is not None
    assert got.usage["cache_creation"] == {
        "ephemeral_1h_input_tokens": 14,
        "ephemeral_5m_input_tokens": 0,
    }


def test_an_hour_where_that_was_paid_for(loopback: Loopback, clock: Clock) -> None:
    """Marks of an hour outlive those of five minutes, and are reported apart."""
    request = body(text(SYSTEM, mark=HOUR), [text(200, mark=MARK)])
    got = send(loopback, Way("anthropic"), request)
    assert got.usage is not None
    assert got.usage["cache_creation"] == {
        "ephemeral_1h_input_tokens": 1504,
        "ephemeral_5m_input_tokens": 204,
    }
    clock.seconds += 1_000
    assert anthropic(loopback, request) == (0, 204, 1504)
    clock.seconds += 3_601
    assert anthropic(loopback, request) == (0, 1708, 0)


def test_short_prefixes_are_not_kept(loopback: Loopback) -> None:
    """Below the minimum, a mark does nothing."""
    short = body(text(1_019, mark=MARK), [text(10)])
    assert [anthropic(loopback, short)[1:] for _ in range(2)] == [(0, 0), (0, 0)]

    enough = body(text(1_020, mark=MARK), [text(10)])
    assert [anthropic(loopback, enough)[1:] for _ in range(2)] == [(1_024, 0), (0, 1_024)]


def test_the_provider_looks_back_twenty_blocks(loopback: Loopback) -> None:
    """A prefix that lies further back from the mark than that is not found."""
    first = body(text(SYSTEM), [text(10, "a", MARK)])
    anthropic(loopback, first)
    end = 1504 + 14

    near = [text(10, "a"), *(text(1, f"b{n}") for n in range(18)), text(1, "c", MARK)]
    assert anthropic(loopback, body(text(SYSTEM), near)) == (0, 19, end)

    loopback.caches.clear()
    anthropic(loopback, first)
    far = [text(10, "a"), *(text(1, f"b{n}") for n in range(19)), text(1, "c", MARK)]
    assert anthropic(loopback, body(text(SYSTEM), far)) == (0, end + 20, 0)


def test_settings_can_spoil_the_messages_and_spare_the_head(loopback: Loopback) -> None:
    """Another tool choice makes Anthropic forget the messages, not tools and system."""
    tool = {"name": "read", "description": "Reads", "input_schema": {"type": "object"}}
    request = body(text(SYSTEM, mark=MARK), [text(200, mark=MARK)], tools=[tool])
    anthropic(loopback, request)
    head = loopback.requests[0].tokens - 204

    changed = {**request, "tool_choice": {"type": "any"}}
    assert anthropic(loopback, changed) == (0, 204, head)
    assert anthropic(loopback, {**request, "model": "claude-opus-4-6"})[2] == 0


def test_a_mark_for_the_whole_request(loopback: Loopback) -> None:
    """A mark beside the messages stands for one at their end."""
    request = body(text(SYSTEM), [text(10)], cache_control=MARK)
    assert [anthropic(loopback, request) for _ in range(2)] == [(0, 1518, 0), (0, 0, 1518)]


def test_a_request_that_is_refused_leaves_nothing_in_the_cache(loopback: Loopback) -> None:
    """Only what was answered is kept."""
    import anthropic as sdk

    request = body(text(SYSTEM, mark=MARK), [text(10)])
    loopback.rules.limit = 1_000
    with pytest.raises(sdk.BadRequestError):
        send(loopback, Way("anthropic"), request)
    loopback.rules.limit = 10_000
    assert anthropic(loopback, request) == (14, 1504, 0)


def test_other_rules_for_the_cache(clock: Clock) -> None:
    """How much is kept and how far is looked back can be set, as models differ."""
    rules = CacheRules(minimum_tokens=4_096, look_back=2)
    with Loopback(clock=clock, counter=Words(), cache=rules) as loopback:
        request = body(text(SYSTEM, mark=MARK), [text(10)])
        assert [anthropic(loopback, request)[1:] for _ in range(2)] == [(0, 0), (0, 0)]


# OpenAI: by itself, in steps


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_openai_reads_what_it_has_seen_in_steps(
    loopback: Loopback, clock: Clock, dialect: str
) -> None:
    """Without any mark, the beginning of a longer request is cached, in steps of 128 tokens."""

    def cached(*words: int) -> int:
        messages = tuple(
            Message(("user", "assistant")[at % 2], (Text(" ".join(["w"] * count)),))
            for at, count in enumerate(words)
        )
        prompt = Prompt(messages, "Be brief.", (), 100)
        usage = send(loopback, Way(dialect), body_of(dialect, prompt)).usage
        assert usage is not None
        details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
        found = details["cached_tokens"]
        assert loopback.requests[-1].cached.read == found
        return int(found)

    head = 2 + 4  # the system text
    assert cached(1_200) == 0
    assert cached(1_200) == 1_152  # 1,210 tokens in whole steps
    assert cached(1_200, 100, 100) == (head + 1_204) // 128 * 128
    assert cached(1_200, 100, 100, 5, 5) == (head + 1_204 + 104 + 104) // 128 * 128
    assert cached(1_201) == 0  # only the system text is the same, and it is too short
    assert cached(500) == 0
    assert cached(500) == 0  # below 1,024
    clock.seconds += 601
    assert cached(1_200) == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_as_we_render_it_is_cached(loopback: Loopback, dialect: str) -> None:
    """Requests of our own renderers read what the one before left, turn after turn."""
    messages: tuple[Message, ...] = ()
    shares = []
    for turn in range(4):
        messages = (*messages, Message("user", (Text(f"turn {turn} " + "w " * 700),)))
        got = ask(loopback, Way(dialect), Prompt(messages, "s " * 1_100, (), 100))
        messages = (*messages, Message("assistant", (Text(got.text),)))
        received = loopback.requests[-1]
        shares.append(received.cached.read / received.tokens)

    assert shares[0] == 0
    assert all(share > 0.55 for share in shares[1:])
    assert shares[1:] == sorted(shares[1:])
