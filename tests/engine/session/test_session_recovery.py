"""What a session does when a call is refused: smaller requests, waits, or one clear error."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.sessions import (
    EITHER_KIND,
    KINDS,
    Bench,
    boundaries,
    check_requests,
    is_summary_request,
    said,
    texts,
)
from tests.prompts import png

from holdfast.core.flow.events import CallFailed, TroubleNoticed, TurnFailed, WindowLearned
from holdfast.core.log.records import Assistant, ModelChange, User
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.projection.policy import Policy
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn.options import Limits
from holdfast.errors import CannotFit, ContextOverflow, HoldfastError, ModelError
from holdfast.providers.offline.measuring import count_request
from holdfast.providers.replies import keep_partial
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import SCRIPTED, ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


class Refusal(Exception):
    """A provider's error, with its status."""

    def __init__(
        self, status: int, message: str, *, code: str = "", retry_after: Any = None
    ) -> None:
        super().__init__(message)
        self.status_code = status
        self.body = {"error": {"message": message}}
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.response = type("Response", (), {"headers": headers, "status_code": status})()


def sizes(model: ScriptedModel) -> list[int]:
    return [count_request(request, Estimator()) for request in model.requests]


def fill(bench: Bench, session: Any, pairs: int = 20, words: int = 60) -> None:
    """A long history, written by an earlier run."""
    records: list[Any] = []
    for number in range(pairs):
        records.append(
            User(content=f"Question {number} about part-{number:03d}. " + "word " * words)
        )
        records.append(Assistant(content=f"Answer {number}. " + "text " * words))
    bench.store.append(session.key, records, expect=None)


def strictly_smaller(found: list[int]) -> bool:
    return all(later < earlier for earlier, later in itertools.pairwise(found))


OVERFLOWS = {
    "with numbers": "prompt is too long: 4500 tokens > 3000 maximum",
    "limit only": "This model's maximum context length is 3000 tokens. Please reduce the length.",
    "without numbers": "Your input exceeds the context window of this model.",
    "numbers that lie": "prompt is too long: 4500 tokens > 3 maximum",
    "a sum": (
        "This model's maximum context length is 8000 tokens. However, you requested 9500 tokens "
        "(5500 in the messages, 4000 in the completion). Please reduce the length of the messages "
        "or completion."
    ),
    "absurd input": "prompt is too long: 999999999999 tokens > 5000 maximum",
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_an_overflow_is_answered_by_a_smaller_request(bench: Bench, name: str) -> None:
    """Whatever the provider says about sizes, one refusal is survived and the turn is answered."""
    model = ScriptedModel([Refusal(400, OVERFLOWS[name]), "here is your answer"], window=16_000)
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000))
    fill(bench, session)
    reply = bench.say(session, "what about part-007?")
    assert reply.text == "here is your answer"
    first, second = model.requests
    shrunk = sizes(model)[1] < sizes(model)[0]
    assert shrunk or second["max_tokens"] < first["max_tokens"]
    assert "what about part-007?" in texts(second)
    assert bench.of(CallFailed)[0].next in ("shrink", "lower-output")
    check_requests(model)
    model_again = ScriptedModel(["and again"], window=16_000)
    again = bench.open(model_again, summary="extract", limits=Limits(floor=1_000))
    assert bench.say(again, "and part-008?").text == "and again"


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_provider_that_always_overflows_is_asked_a_few_times_only(
    bench: Bench, name: str
) -> None:
    """Each request is smaller than the one before; then one error with the sums in it."""
    model = ScriptedModel(otherwise=lambda _request: Refusal(400, OVERFLOWS[name]), window=16_000)
    session = bench.open(
        model,
        summary="extract",
        limits=Limits(floor=1_000, recovery_calls=4),
    )
    fill(bench, session)
    with pytest.raises(HoldfastError) as raised:
        bench.say(session, "what about part-007?")
    assert isinstance(raised.value, ContextOverflow)
    assert raised.value.hint
    assert raised.value.parts["request"] > 0
    assert 1 <= len(model.requests) <= 5
    seen = [
        (size, request["max_tokens"])
        for size, request in zip(sizes(model), model.requests, strict=True)
    ]
    for (size, output), (later, less) in itertools.pairwise(seen):
        assert later < size or less < output
        assert (later, less) != (size, output)
    assert len(bench.of(TurnFailed)) == 1
    assert said(bench.records())[-1][0] == "user"
    # The session is not spoiled by it: a provider that has come to its senses is answered.
    well = ScriptedModel(["better"], window=16_000)
    assert (
        bench.say(bench.open(well, summary="extract", limits=Limits(floor=1_000)), "now?").text
        == "better"
    )


def test_a_refusal_that_nothing_can_be_done_about_does_not_spoil_the_running_session(
    bench: Bench,
) -> None:
    """The same session object goes on once the provider does."""
    model = ScriptedModel(
        [*(Refusal(400, "Your input exceeds the context window.") for _ in range(9))],
        otherwise="fine",
        window=16_000,
    )
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000))
    for _ in range(10):
        with_error = None
        try:
            reply = bench.say(session, "hello")
        except HoldfastError as error:
            with_error = error
        if with_error is None:
            break
    assert reply.text == "fine"


def test_a_provider_that_counts_four_times_as_much(bench: Bench) -> None:
    """It overflows at a quarter of our estimate; its numbers say so, and are believed."""

    class Fourfold(Estimator):
        def count(self, text: str) -> int:
            return 4 * super().count(text)

    model = ScriptedModel(otherwise="ok", window=32_000, limit=24_000, counter=Fourfold())
    session = bench.open(model, summary="extract", tools=[])
    fill(bench, session, pairs=60)
    for number in range(6):
        before = len(model.requests)
        assert bench.say(session, f"question {number}").text == "ok"
        assert len(model.requests) - before <= 5
    assert len(model.refused) <= 4, "what was learned the first time counts from then on"


def test_a_window_that_was_learned_is_known_after_a_restart(bench: Bench, tmp_path: Path) -> None:
    """It is in the log, survives further compactions, and is never above what is stated."""
    bench.store = JsonlStore(str(tmp_path))
    model = ScriptedModel(otherwise="ok", window=32_000, limit=6_000)
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000))
    fill(bench, session, pairs=60)
    bench.say(session, "go")
    assert [event.tokens for event in bench.of(WindowLearned)] == [6_000]
    assert session.window.tokens == 6_000
    assert session.window.confidence == "learned"
    stored = [one for one in bench.records() if isinstance(one, ModelChange)]
    assert stored
    assert stored[-1].window == 6_000

    for number in range(12):
        bench.say(session, f"more {number} " + "word " * 600)
    assert len(boundaries(bench.records())) >= 2
    again = ScriptedModel(otherwise="ok", window=32_000, limit=6_000)
    reopened = bench.open(again, summary="extract", limits=Limits(floor=1_000))
    assert reopened.window.tokens == 6_000
    bench.say(reopened, "still?")
    assert again.refused == []
    smaller = bench.open(
        ScriptedModel(otherwise="ok", window=4_000), summary="extract", limits=Limits(floor=1_000)
    )
    assert smaller.window.tokens == 4_000


def test_a_server_that_names_a_smaller_limit_each_time_leaves_no_window(bench: Bench) -> None:
    """The stated window stays, and later turns are answered as if nothing had happened."""
    lies = [Refusal(400, f"prompt is too long: {n} tokens > {n - 1} maximum") for n in LIES]
    model = ScriptedModel(lies, otherwise="ok", window=200_000)
    session = bench.open(model, summary="extract", window=200_000)
    fill(bench, session, pairs=60)
    for number in range(4):
        with contextlib.suppress(HoldfastError):
            bench.say(session, f"question {number}")
    assert bench.say(session, "still there?").text == "ok"
    assert session.window.tokens == 200_000
    assert bench.of(WindowLearned) == []
    assert not [one for one in bench.records() if isinstance(one, ModelChange)]


LIES = (9_000, 8_000, 7_000, 6_000, 5_000, 4_000, 3_500, 3_000, 2_089)


def test_a_learned_window_can_be_forgotten(bench: Bench) -> None:
    """The stated window is back, in this run and in the next; a recalled one has an event."""
    model = ScriptedModel(otherwise="ok", window=60_000, limit=20_000)
    session = bench.open(model, summary="extract", window=60_000)
    fill(bench, session, pairs=180)
    bench.say(session, "go")
    assert session.window.tokens == 20_000
    assert "60,000 was stated" in session.window.source

    reopened = bench.open(model, summary="extract", window=60_000)
    assert reopened.window.tokens == 20_000
    told = len(bench.of(WindowLearned))
    bench.say(reopened, "again")
    assert [event.tokens for event in bench.of(WindowLearned)[told:]] == [20_000]

    assert reopened.forget_window()
    assert not reopened.forget_window()
    assert reopened.window.tokens == 60_000
    assert bench.open(model, window=60_000).window.tokens == 60_000


def test_another_models_window_is_not_taken_for_this_ones(bench: Bench) -> None:
    session = bench.open(ScriptedModel([], window=32_000))
    bench.store.append(session.key, [ModelChange(model="another", window=5_000)], expect=None)
    assert bench.open(ScriptedModel([], window=32_000)).window.tokens == 32_000


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "invalid x-api-key"),
        (403, "Your account does not have access to this model"),
        (402, "Your credit balance is too low to access the API"),
        (400, "Your credit balance is too low. Please go to Plans & Billing to upgrade."),
        (429, "You exceeded your current quota, please check your plan and billing details."),
    ],
)
def test_keys_and_money_are_never_mistaken_for_size(
    bench: Bench, status: int, message: str
) -> None:
    """One call, no recovery, and nothing of the history is touched."""
    model = ScriptedModel([Refusal(status, message)], window=16_000)
    session = bench.open(model, summary="extract")
    fill(bench, session)
    before = bench.records()
    with pytest.raises(ModelError) as raised:
        bench.say(session, "hello?")
    assert not isinstance(raised.value, ContextOverflow)
    assert len(model.requests) == 1
    assert bench.records()[: len(before)] == before
    assert said(bench.records())[len(said(before)) :] == [("user", "hello?")]
    assert session.window.tokens == 16_000
    assert bench.of(WindowLearned) == []


def test_what_nobody_understands_is_never_an_overflow(bench: Bench) -> None:
    refusal = Refusal(400, "the moon is in the wrong house")
    model = ScriptedModel([refusal, refusal], window=100_000)
    session = bench.open(model)
    fill(bench, session)
    with pytest.raises(ModelError, match="the moon is in the wrong house"):
        bench.say(session, "hello?")
    assert len(model.requests) == 2, "as it was, and without what was new"
    assert boundaries(bench.records()) == []


@pytest.mark.parametrize("is_full", [True, False])
def test_a_refusal_without_a_word_is_an_overflow_only_where_it_is_full(
    bench: Bench, is_full: bool
) -> None:
    answers = [Refusal(400, ""), "ok" if is_full else Refusal(400, "")]
    model = ScriptedModel(answers, window=16_000)
    session = bench.open(
        model,
        summary="extract",
        limits=Limits(output_tokens=200),
        system="rule " * (5_000 if is_full else 10),
        policy=Policy(compact=0.99),
    )
    fill(bench, session, pairs=6)
    if is_full:
        for _ in range(100):
            if bench.do(session.status()).share > 0.81:
                break
            fill(bench, session, pairs=1)
        assert bench.do(session.status()).share > 0.81
        assert bench.say(session, "hello").text == "ok"
        assert sizes(model)[1] < sizes(model)[0]
    else:
        with pytest.raises(ModelError):
            bench.say(session, "hello")
        assert len(model.requests) == 2
        assert boundaries(bench.records()) == []


def test_an_output_cap_is_lowered_and_the_history_is_left_alone(bench: Bench) -> None:
    message = "max_tokens: 8000 > 4096, which is the maximum allowed number of output tokens"
    model = ScriptedModel([Refusal(400, message), "ok"], window=32_000)
    session = bench.open(model, limits=Limits(output_tokens=8_000))
    fill(bench, session)
    bench.say(session, "hello")
    first, second = model.requests
    assert (first["max_tokens"], second["max_tokens"]) == (8_000, 4_096)
    assert first["messages"] == second["messages"]
    assert boundaries(bench.records()) == []
    assert [event.next for event in bench.of(CallFailed)] == ["lower-output"]


def test_a_payload_that_is_too_large_loses_its_oldest_pictures_first(bench: Bench) -> None:
    """Bytes are not tokens: no summary is asked for, and the words stay."""
    images = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": png(9, 9)},
        }
        for _ in range(8)
    ]

    def count(request: Any) -> int:
        return str(request["messages"]).count("'base64'")

    def bytes_limit(request: Any) -> Any:
        if count(request) > 3:
            return Refusal(413, "Request exceeds the maximum size")
        return "I see three at most"

    model = ScriptedModel(otherwise=bytes_limit, window=32_000)
    session = bench.open(model)
    reply = bench.say(session, [{"type": "text", "text": "what is on these?"}, *images])
    assert reply.text == "I see three at most"
    found = [count(request) for request in model.requests]
    assert found[0] == 8
    assert strictly_smaller(found)
    assert len(found) <= 5
    assert not any(is_summary_request(request) for request in model.requests)
    assert boundaries(bench.records()) == []
    assert {event.next for event in bench.of(CallFailed)} == {"drop-media"}


def test_thinking_that_is_refused_is_left_out_once(bench: Bench) -> None:
    thought = {"type": "thinking", "thinking": "hmm", "signature": "c2lnbmF0dXJl" * 4}
    asked = calls(("c1", "now", {}))
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"
    model = ScriptedModel(
        [Reply(content=[thought, *asked.content]), Refusal(400, message), "fine"],
        target=msgspec.structs.replace(SCRIPTED, thinking=True),
    )

    def now() -> str:
        return "noon"

    session = bench.open(model, tools=[now])
    assert bench.say(session, "what time is it?").text == "fine"
    assert "'thinking'" in str(model.requests[1]["messages"])
    assert "'thinking'" not in str(model.requests[2]["messages"])
    assert [event.next for event in bench.of(CallFailed)] == ["drop-thinking"]


# Waiting


def test_fifty_refusals_by_rate_then_an_overflow_then_an_answer(bench: Bench) -> None:
    """Waits are not recoveries: the history is untouched until the overflow."""
    busy = [Refusal(429, "rate limit exceeded", retry_after=0) for _ in range(50)]
    model = ScriptedModel(
        [*busy, Refusal(400, OVERFLOWS["without numbers"]), "at last"], window=16_000
    )
    session = bench.open(
        model,
        summary="extract",
        limits=Limits(waits=60, wait_seconds=0.001, floor=1_000),
    )
    fill(bench, session)
    assert bench.say(session, "hello?").text == "at last"
    assert len(model.requests) == 52
    assert len({str(request["messages"]) for request in model.requests[:51]}) == 1
    steps = [event.next for event in bench.of(CallFailed)]
    assert steps == ["wait"] * 50 + ["shrink"]


def test_a_provider_that_stays_busy_is_given_up(bench: Bench) -> None:
    model = ScriptedModel(otherwise=lambda _r: Refusal(429, "rate limit exceeded"))
    session = bench.open(
        model,
        limits=Limits(waits=3, wait_seconds=0.001),
    )
    with pytest.raises(ModelError, match="waiting 3 times"):
        bench.say(session, "hello?")
    assert len(model.requests) == 4
    assert boundaries(bench.records()) == []


def test_an_absurd_wait_is_not_waited(bench: Bench) -> None:
    model = ScriptedModel([Refusal(429, "rate limit exceeded", retry_after=86_400)])
    session = bench.open(model, limits=Limits(wait_seconds=1.0))
    with pytest.raises(ModelError, match="86,400 s"):
        bench.say(session, "hello?")
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "429 … would exceed your organization's rate limit of 40,000 input tokens per minute",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "529 overloaded_error: Overloaded",
    ],
)
def test_rates_are_waited_for_and_nothing_is_summarised(bench: Bench, message: str) -> None:
    model = ScriptedModel([RuntimeError(message), "ok"])
    session = bench.open(model, limits=Limits(wait_seconds=0.001))
    fill(bench, session, pairs=5)
    assert bench.say(session, "hello?").text == "ok"
    assert [event.next for event in bench.of(CallFailed)] == ["wait"]
    assert boundaries(bench.records()) == []
    assert model.requests[0] == model.requests[1]


# Silent trouble


def usage(**tokens: int) -> dict[str, int]:
    return {"output_tokens": 5, **tokens}


@pytest.mark.parametrize(
    ("reported", "kind"),
    [
        (usage(input_tokens=3, cache_read_input_tokens=150_000), "over-window"),
        (usage(input_tokens=40_000), "over-window"),
        (usage(input_tokens=10), "cut-silently"),
        ({"input_tokens": 0, "output_tokens": 0}, "zero-usage"),
    ],
)
def test_a_success_that_is_not_what_it_seems_is_noticed(
    bench: Bench, reported: dict[str, int], kind: str
) -> None:
    """The finished answer is kept and not asked for again."""
    answer = Reply(content=[{"type": "text", "text": "an answer"}], raw_usage=reported)
    model = ScriptedModel([answer, "next"], window=32_000)
    session = bench.open(model, summary="extract")
    fill(bench, session)
    assert bench.say(session, "hello").text == "an answer"
    assert len(model.requests) == 1
    assert [event.kind for event in bench.of(TroubleNoticed)] == [kind]
    cut_before = len(boundaries(bench.records()))
    assert cut_before == 0
    assert bench.say(session, "and now?").text == "next"
    cuts = boundaries(bench.records())
    assert len(cuts) == (1 if kind == "over-window" else 0)
    for cut in cuts:  # nobody asked for it
        assert "the provider counted more tokens than the window has" in (cut.reason or "")


def test_a_reply_with_nothing_in_it_because_the_window_was_full_is_asked_for_again(
    bench: Bench,
) -> None:
    empty = Reply(content=[], stop="window", stop_reason="model_context_window_exceeded")
    model = ScriptedModel([empty, "a real answer"], window=16_000)
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000))
    fill(bench, session)
    assert bench.say(session, "hello").text == "a real answer"
    assert sizes(model)[1] < sizes(model)[0]
    assert said(bench.records())[-2:] == [("user", "hello"), ("assistant", "a real answer")]


def test_a_server_that_always_reports_too_much_does_not_cut_for_ever(bench: Bench) -> None:
    """Usage that never comes down: cutting again what was just cut would gain nothing."""

    def speak(_request: Any) -> Reply:
        return Reply(
            content=[{"type": "text", "text": "ok"}], raw_usage=usage(input_tokens=999_999)
        )

    model = ScriptedModel(otherwise=speak, window=32_000)
    session = bench.open(model, summary="extract")
    fill(bench, session, pairs=30)
    for number in range(10):
        bench.say(session, f"go {number}")
    made = boundaries(bench.records())
    assert len(made) <= 3
    assert len(model.requests) == 10


def test_zero_usage_leaves_the_estimate_in_charge(bench: Bench) -> None:
    """With no sizes reported at all, no request exceeds the window."""

    def speak(_request: Any) -> Reply:
        return Reply(
            content=[{"type": "text", "text": "word " * 300}], raw_usage=usage(input_tokens=0)
        )

    model = ScriptedModel(otherwise=speak, window=16_000, limit=12_000)
    session = bench.open(model, summary="extract")
    for number in range(40):
        bench.say(session, f"question {number} " + "word " * 300)
    assert model.refused == []


# The budget before every call


def test_sixty_tool_rounds_in_one_turn_never_exceed_the_window(bench: Bench) -> None:
    """Each round brings a twentieth of the window; the turn goes to its end by itself."""
    window = 24_000
    rounds = 60

    def read(page: int) -> str:
        return f"page {page}: " + f"line of page {page} with some words in it\n" * 110

    answers = [calls((f"c{n}", "read", {"page": n})) for n in range(rounds)]
    model = ScriptedModel([*answers, "read it all"], window=window)
    session = bench.open(model, tools=[read], limits=Limits(steps=100), summary="extract")
    reply = bench.say(session, "read the book from page 0 to page 59, please")
    assert reply.text == "read it all"
    assert len(model.requests) == rounds + 1
    for request, size in zip(model.requests, sizes(model), strict=True):
        assert size <= window - request["max_tokens"]
        assert "read the book from page 0" in texts(request)
    check_requests(model)


def test_what_is_pasted_is_counted_before_it_is_sent(bench: Bench) -> None:
    """The view is nearly full and the user pastes a fifth of the window: cut first, then sent."""
    model = ScriptedModel(otherwise="ok", window=20_000, limit=20_000 - 5_000)
    session = bench.open(model, summary="extract")
    for _ in range(60):
        if bench.do(session.status()).fill > 0.85:
            break
        bench.say(session, "some more words " * 60)
    assert boundaries(bench.records()) == []
    bench.say(session, "pasted " * 2_500)
    assert len(boundaries(bench.records())) == 1
    assert model.refused == []
    assert "pasted " * 2_000 in texts(model.requests[-1])


def test_a_prompt_that_leaves_no_room_is_one_clear_error(bench: Bench) -> None:
    """A static prompt larger than the budget: no call, no compaction, the sums by name."""
    model = ScriptedModel(otherwise="never", window=16_000)
    session = bench.open(model, system="You are. " * 9_000)
    for _ in range(3):
        with pytest.raises(CannotFit) as raised:
            bench.say(session, "hello")
        assert raised.value.parts["system"] > 16_000 / 2
    assert model.requests == []
    assert boundaries(bench.records()) == []
    assert [kind for kind, _ in said(bench.records())] == ["user"] * 3


# Streams that break


class Breaking(ScriptedModel):
    """Says a part of its reply, then fails in the middle of the stream."""

    def __init__(self, error: Exception, partial: Reply, **options: Any) -> None:
        super().__init__(["whole"], **options)
        self._broken: Exception | None = error
        self._partial = partial

    def send(self, request: Any, on_delta: Any = None) -> Reply:
        if self._broken is None:
            return super().send(request, on_delta)
        error, self._broken = self._broken, None
        self.requests.append(request)
        if on_delta is not None:
            on_delta(Delta("text", "half of "))
        keep_partial(error, self._partial)
        raise error


@pytest.mark.parametrize(
    "partial",
    [
        Reply(content=[{"type": "text", "text": "half of "}]),
        Reply(content=[{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]),
    ],
    ids=["text", "call"],
)
def test_an_overflow_in_the_middle_of_a_stream(bench: Bench, partial: Reply) -> None:
    """What had arrived of the refused reply is not kept, and no tool of it is run."""
    model = Breaking(Refusal(400, OVERFLOWS["without numbers"]), partial, window=16_000)
    ran: list[int] = []

    def look() -> str:
        ran.append(1)
        return "seen"

    session = bench.open(model, tools=[look], summary="extract", limits=Limits(floor=1_000))
    fill(bench, session)
    heard: list[Delta] = []
    assert bench.say(session, "hello", on_delta=heard.append).text == "whole"
    assert said(bench.records())[-2:] == [("user", "hello"), ("assistant", "whole")]
    assert ran == []
    assert sizes(model)[1] < sizes(model)[0]


def test_a_connection_that_breaks_is_tried_again(bench: Bench) -> None:
    """The same request: nothing was wrong with it."""
    partial = Reply(content=[{"type": "text", "text": "half of "}])
    model = Breaking(ConnectionResetError("connection reset by peer"), partial)
    session = bench.open(model, limits=Limits(wait_seconds=0.001))
    assert bench.say(session, "hello").text == "whole"
    assert model.requests[0] == model.requests[1]
    assert said(bench.records()) == [("user", "hello"), ("assistant", "whole")]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": OVERFLOWS["limit only"]}},
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": OVERFLOWS["limit only"]},
        },
    ],
    ids=["bare", "typed"],
)
def test_an_error_that_came_as_a_success_is_an_error(bench: Bench, body: Any) -> None:
    """Status 200 with an error in the body: read, named, and recovered from."""
    session = bench.open(
        ScriptedModel([], window=16_000), summary="extract", limits=Limits(floor=1_000)
    )
    fill(bench, session)
    requests: list[Any] = []

    def send(request: Any) -> Any:
        requests.append(request)
        if len(requests) == 1:
            return body
        return {"role": "assistant", "content": [{"type": "text", "text": "fine"}]}

    async def send_async(request: Any) -> Any:
        return send(request)

    bench.do(session.own_loop.add_user("hello"))
    assert bench.do(session.own_loop.call(send_async if bench.is_async else send)).text == "fine"
    assert len(requests) == 2
    assert session.window.tokens == 3_000
