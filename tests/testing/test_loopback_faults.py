"""Each fault of the loopback reaches the real SDK as the trouble that it stands for."""

from __future__ import annotations

from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

import pytest
from tests.testing.sdks import (
    BLOCKING,
    DIALECTS,
    STREAMS,
    WAYS,
    WHOLES,
    BrokenStream,
    Way,
    ask,
    body_of,
    errors,
    message_of,
    said,
    send,
)

from holdfast.core.models.messages import Tool
from holdfast.core.models.usage import read_usage
from holdfast.errors import BadSetting
from holdfast.testing import Answer, Call, Fault, Loopback
from holdfast.testing.loopback import OVERFLOWS, WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


GREP = Tool("grep", "Searches")
LONG = "This is the beginning of a long answer, and here comes its end. Truly the end."


def name_of(fault: Fault) -> str:
    return fault.name


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback(lambda _asked: Answer(LONG)) as loopback:
        yield loopback


def struck(loopback: Loopback, way: Way, fault: Fault, kind: Any = None, **changes: Any) -> Any:
    """The exception that a fault becomes."""
    loopback.fail_next(fault)
    with pytest.raises(kind or errors()[way.dialect].APIStatusError) as caught:
        ask(loopback, way, said("Hello", tools=(GREP,)), **changes)
    assert loopback.faults_left == 0
    assert loopback.requests[-1].fault == fault.name
    return caught.value


# In place of the reply


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    ("fault", "status", "kinds"),
    [
        (Fault.rate_limited(), 429, ("RateLimitError", "RateLimitError")),
        (Fault.no_credit(), 402, ("APIStatusError", "APIStatusError")),
        (Fault.unauthorized(), 401, ("AuthenticationError", "AuthenticationError")),
        (Fault.overflow(), 400, ("BadRequestError", "BadRequestError")),
        (Fault.overloaded(), 529, ("OverloadedError", "InternalServerError")),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_a_status_is_the_exception_of_the_sdk(
    loopback: Loopback, way: Way, fault: Fault, status: int, kinds: tuple[str, str]
) -> None:
    """The usual refusals, in every way of asking."""
    error = struck(loopback, way, fault)

    assert type(error).__name__ == kinds[way.dialect != "anthropic"]
    assert error.status_code == status
    assert message_of(error, way.dialect) == loopback.requests[-1].said


@pytest.mark.parametrize("way", WHOLES, ids=str)
def test_any_status_and_any_body(loopback: Loopback, way: Way) -> None:
    """Status, type, code and headers are whatever the test wants."""
    error = struck(
        loopback,
        way,
        Fault.http(418, "teapot", type="odd_error", code="odd", headers={"x-odd": "1"}),
    )
    assert error.status_code == 418
    assert error.response.headers["x-odd"] == "1"
    told = error.body["error"] if way.dialect == "anthropic" else error.body
    assert (told["type"], told["message"]) == ("odd_error", "teapot")
    if way.dialect != "anthropic":
        assert error.code == "odd"

    error = struck(loopback, way, Fault.raw(503, b'{"detail": "busy"}', {"x-odd": "2"}))
    assert error.status_code == 503
    assert error.response.json() == {"detail": "busy"}


@pytest.mark.parametrize("seconds", [None, 0, 0.5, -7, 10**9, "tomorrow", ""])
def test_retry_after_is_as_absurd_as_wanted(loopback: Loopback, seconds: Any) -> None:
    """The header is absent, or says just what it was told to say."""
    error = struck(loopback, Way("anthropic"), Fault.rate_limited(seconds))

    found = error.response.headers.get("retry-after")
    assert found == (None if seconds is None else str(seconds))


@pytest.mark.parametrize("host", OVERFLOWS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_overflows_in_the_words_of_every_host(loopback: Loopback, host: str, dialect: str) -> None:
    """Each text is there with the numbers of the request filled in."""
    error = struck(loopback, Way(dialect), Fault.overflow(host, limit=123))

    words = message_of(error, dialect)
    received = loopback.requests[-1]
    expected = (
        OVERFLOWS[host]
        .message.replace("{input}", str(received.tokens))
        .replace("{output}", "500")
        .replace("{total}", str(received.tokens + 500))
        .replace("{over}", str(received.tokens + 500 - 123))
        .replace("{limit}", "123")
    )
    assert words == expected
    assert "{" not in words
    assert error.status_code == OVERFLOWS[host].status


def test_an_overflow_that_nobody_deserved_has_believable_numbers(loopback: Loopback) -> None:
    """Without a limit, the window that is named is just too small for the request."""
    error = struck(loopback, Way("anthropic"), Fault.overflow())

    total = loopback.requests[-1].tokens + 500
    assert f"{total - 500} + 500 > {total - 1}" in message_of(error, "anthropic")
    with pytest.raises(BadSetting, match="antropic"):
        Fault.overflow("antropic")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_limits_have_words_of_their_own(loopback: Loopback, dialect: str) -> None:
    """Output caps, sizes in bytes and tokens per minute are none of them overflows."""
    way = Way(dialect)
    cap = struck(loopback, way, Fault.output_cap(64))
    assert "64" in message_of(cap, dialect)
    assert "500" in message_of(cap, dialect)
    assert struck(loopback, way, Fault.too_large()).status_code == 413
    minute = struck(loopback, way, Fault.tokens_per_minute(12_000))
    assert minute.status_code == 429
    assert "12,000 input tokens per minute" in message_of(minute, dialect)


@pytest.mark.parametrize("way", WHOLES, ids=str)
def test_replies_that_are_none(loopback: Loopback, way: Way) -> None:
    """HTML, nothing, an error under status 200, half of a compressed reply."""
    error = struck(loopback, way, Fault.html())
    assert error.status_code == 502
    assert "<html>" in error.response.text
    assert struck(loopback, way, Fault.empty(400)).response.content == b""

    struck(loopback, way, Fault.empty(), JSONDecodeError)
    struck(loopback, way, Fault.cut_gzip(), JSONDecodeError)
    # An SDK takes these for replies and gives something that has no content.
    struck(loopback, way, Fault.html(200), AttributeError)
    struck(loopback, way, Fault.error_with_200(), TypeError)
    assert [one.status for one in loopback.requests] == [502, 400, 200, 200, 200, 200]


def test_an_error_under_200_can_be_read(loopback: Loopback) -> None:
    """The object is there, in the provider's shape, with an overflow or what was given."""
    loopback.fail_next(Fault.error_with_200(host="openai"), Fault.error_with_200("no luck"))
    way = Way("openai-chat")
    for words in ("maximum context length", "no luck"):
        with pytest.raises(TypeError):
            ask(loopback, way)
        assert words in loopback.requests[-1].said


@pytest.mark.parametrize("way", STREAMS, ids=str)
@pytest.mark.parametrize(
    "fault", [Fault.empty(), Fault.html(200), Fault.error_with_200()], ids=name_of
)
def test_streams_that_bring_nothing(loopback: Loopback, way: Way, fault: Fault) -> None:
    """The SDKs see a stream without events; Anthropic's helper has no message then."""
    loopback.fail_next(fault)
    if way.dialect == "openai-chat":
        got = ask(loopback, way)
        assert (got.text, got.stop, got.usage) == ("", "", None)
        return
    with pytest.raises((AssertionError, BrokenStream)):
        ask(loopback, way)


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_reset_before_the_reply(loopback: Loopback, way: Way) -> None:
    """The connection breaks; the next one is sound."""
    error = struck(loopback, way, Fault.reset(), errors()[way.dialect].APIConnectionError)

    assert "reset" in str(error.__cause__)
    assert loopback.requests[-1].status == 0
    assert ask(loopback, way).text == LONG


# Replies that break


@pytest.mark.parametrize("way", WHOLES, ids=str)
@pytest.mark.parametrize("fault", [Fault.reset_within(), Fault.dropped_within()], ids=name_of)
def test_a_connection_that_breaks_amid_a_reply(loopback: Loopback, way: Way, fault: Fault) -> None:
    """Half of the body came: that is an error of the connection."""
    struck(loopback, way, fault, errors()[way.dialect].APIConnectionError)
    struck(loopback, way, Fault.stream_ends(), JSONDecodeError)


@pytest.mark.parametrize("way", STREAMS, ids=str)
@pytest.mark.parametrize("after", ["open", "start", "text", "call"])
@pytest.mark.parametrize("make", [Fault.reset_within, Fault.dropped_within], ids=["reset", "drop"])
def test_a_connection_that_breaks_amid_a_stream(
    loopback: Loopback, way: Way, after: Any, make: Any
) -> None:
    """What came before is read, and then the SDK says that the connection broke."""
    import httpx2

    kinds = (errors()[way.dialect].APIConnectionError, httpx2.TransportError)
    struck(loopback, way, make(after), kinds)


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_a_stream_that_just_ends(loopback: Loopback, way: Way) -> None:
    """Half of the text and no word about why: no SDK calls that an error."""
    loopback.fail_next(Fault.stream_ends("text"))
    if way.dialect == "openai-responses":
        with pytest.raises(BrokenStream) as caught:
            ask(loopback, way)
        text = caught.value.text
    else:
        got = ask(loopback, way)
        text = got.text
        assert not got.stop
    assert text
    assert LONG.startswith(text)
    assert len(text) < len(LONG)


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_half_of_a_compressed_stream(loopback: Loopback, way: Way) -> None:
    """The same, where the body is compressed and ends in the middle."""
    loopback.fail_next(Fault.cut_gzip())
    if way.dialect == "openai-responses":
        with pytest.raises(BrokenStream) as caught:
            ask(loopback, way)
        text = caught.value.text
    else:
        text = ask(loopback, way).text
    assert LONG.startswith(text)
    assert 0 < len(text) < len(LONG)


def test_a_partial_call_must_not_be_run(loopback: Loopback) -> None:
    """Half of a call's arguments can look like a whole call: only the missing stop tells."""
    loopback.fail_next(Fault.stream_ends("call"))
    got = ask(loopback, Way("anthropic", is_streamed=True), said("Go", tools=(GREP,)))

    [(_id, name, arguments)] = got.calls
    sent = loopback.requests[-1].answer
    assert sent is not None
    assert name == "grep"
    assert arguments != sent.calls[0].arguments
    assert got.stop is None


@pytest.mark.parametrize("way", STREAMS, ids=str)
@pytest.mark.parametrize("after", ["open", "start", "text", "call"])
def test_an_overflow_amid_a_stream(loopback: Loopback, way: Way, after: Any) -> None:
    """The status was 200 and some of the reply is there; then comes the overflow."""
    loopback.fail_next(Fault.overflow_in_stream(after))
    with pytest.raises((errors()[way.dialect].APIError, BrokenStream)) as caught:
        ask(loopback, way, said("Hello", tools=(GREP,)))

    received = loopback.requests[-1]
    assert received.status == 200
    error = caught.value
    if isinstance(error, BrokenStream):
        last = error.events[-1]
        assert (last.type, last.response.error.code) == (
            "response.failed",
            "context_length_exceeded",
        )
        assert last.response.error.message == received.said
        assert bool(error.text) == (after in ("text", "call"))
        assert len(error.events) == 1 or after != "open"
        kinds = {event.type for event in error.events}
        assert ("response.function_call_arguments.delta" in kinds) == (after == "call")
    else:
        assert received.said in str(error)
    words = {
        "anthropic": "exceed context limit",
        "openai-chat": "maximum context length",
        "openai-responses": "exceeds the context window",
    }
    assert words[way.dialect] in received.said


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_an_error_amid_a_stream(loopback: Loopback, way: Way) -> None:
    """An error event in a stream; the same as a status where nothing is streamed."""
    loopback.fail_next(Fault.stream_error("text", "server on fire", status=500))
    with pytest.raises((errors()[way.dialect].APIError, BrokenStream)) as caught:
        ask(loopback, way)

    if isinstance(caught.value, BrokenStream):
        assert caught.value.events[-1].message == "server on fire"
    else:
        assert "server on fire" in str(caught.value)
    assert loopback.requests[-1].status == (200 if way.is_streamed else 500)


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_hang_is_the_clients_timeout(loopback: Loopback, way: Way) -> None:
    """Nothing comes, before the reply or amid it, until the client gives up."""
    import httpx2

    kinds = (errors()[way.dialect].APITimeoutError, httpx2.TimeoutException)
    body = body_of(way, said("Hello"))
    for fault in (
        Fault.hang(3_600),
        Fault.hang(3_600, after="open"),
        Fault.hang(3_600, after="text"),
    ):
        loopback.fail_next(fault)
        with pytest.raises(kinds):
            send(loopback, way, body, timeout=0.2)


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_short_hang_loses_nothing(loopback: Loopback, way: Way) -> None:
    """After the wait the reply goes on, the same as ever."""
    loopback.fail_next(Fault.hang(0.05), Fault.hang(0.05, after="text"))
    assert [ask(loopback, way).text for _ in range(2)] == [LONG, LONG]


def test_answers_can_be_slow() -> None:
    """A delay before the reply and pauses in it change nothing of what arrives."""
    slow = Answer(LONG, delay=0.02, pause=0.002)
    with Loopback([slow, slow]) as loopback:
        loopback.fail_next(None, Fault.hang(0.01, after="text"))
        way = Way("openai-chat", is_streamed=True)
        assert [ask(loopback, way).text for _ in range(2)] == [LONG, LONG]


# Good replies with something wrong in them


def usage_of(loopback: Loopback, way: Way, fault: Fault, text: str = "Hello") -> Any:
    loopback.fail_next(fault)
    got = ask(loopback, way, text)
    assert got.text == LONG
    return got.usage


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_usage_that_is_wrong(loopback: Loopback, way: Way) -> None:
    """Zero, summed up, above the window, or only what the host kept."""
    provider = "anthropic" if way.dialect == "anthropic" else "openai"
    right = read_usage(usage_of(loopback, way, Fault(name="none")), provider)
    assert right is not None
    assert right.prompt == loopback.requests[-1].tokens

    assert read_usage(usage_of(loopback, way, Fault.usage_zero()), provider) is None
    above = read_usage(usage_of(loopback, way, Fault.over_window(by=7)), provider)
    assert above is not None
    assert above.prompt == 200_007
    cut = read_usage(
        usage_of(loopback, way, Fault.silent_truncation(100), "word " * 5_000), provider
    )
    assert cut is not None
    assert cut.prompt == 100
    tokens = [one.tokens for one in loopback.requests]
    summed = read_usage(usage_of(loopback, way, Fault.usage_cumulative()), provider)
    assert summed is not None
    assert summed.prompt == sum(tokens) + loopback.requests[-1].tokens


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_usage_that_is_missing(loopback: Loopback, way: Way) -> None:
    """No usage at all. Anthropic's own helper for streams cannot bear that."""
    if way == Way("anthropic", is_streamed=True):
        struck(loopback, way, Fault.usage_missing(), AttributeError)
        return
    assert usage_of(loopback, way, Fault.usage_missing()) is None


@pytest.mark.parametrize("fault", [Fault.silent_truncation(), Fault.over_window()], ids=name_of)
def test_a_host_that_takes_any_size(fault: Fault) -> None:
    """It answers what is far over its window, and the loopback has noticed."""
    with Loopback(limit=500) as loopback:
        loopback.fail_next(fault)
        assert ask(loopback, Way("openai-chat"), "word " * 2_000).text
        [received] = loopback.over_limit
        assert received.status == 200


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_odd_endings(loopback: Loopback, way: Way) -> None:
    """Stopped by the cap with and without text, by the window, by a refusal, by a filter."""

    def ending(fault: Fault) -> tuple[str, str]:
        loopback.fail_next(fault)
        got = ask(loopback, way)
        return got.stop, got.text

    half = LONG[: len(LONG) // 2]
    length, window, refused, filtered = {
        "anthropic": ("max_tokens", "model_context_window_exceeded", "refusal", "refusal"),
        "openai-chat": ("length", "model_context_window_exceeded", "stop", "content_filter"),
        "openai-responses": (
            *("max_output_tokens", "max_output_tokens"),
            *("completed", "content_filter"),
        ),
    }[way.dialect]
    assert ending(Fault.length()) == (length, half)
    assert ending(Fault.length(text=False)) == (length, "")
    assert ending(Fault.window_exceeded()) == (window, half)
    assert ending(Fault.refusal("No.")) == (refused, "No.")
    assert ending(Fault.refusal("")) == (filtered, "")


# Which request is struck


def test_faults_strike_in_order(loopback: Loopback) -> None:
    """A script of faults: rate limits, an overflow, and then all is well."""
    way = Way("openai-chat")
    loopback.fail_next(*[Fault.rate_limited()] * 50, Fault.overflow(), None, Fault.reset())
    openai = errors()[way.dialect]
    for _ in range(50):
        with pytest.raises(openai.RateLimitError):
            ask(loopback, way)
    with pytest.raises(openai.BadRequestError):
        ask(loopback, way)
    assert ask(loopback, way).text == LONG
    with pytest.raises(openai.APIConnectionError):
        ask(loopback, way)
    assert ask(loopback, way).text == LONG
    assert [one.fault for one in loopback.requests[50:]] == ["overflow", "", "reset", ""]


def test_faults_by_what_is_asked(loopback: Loopback) -> None:
    """A predicate chooses; what was queued goes first; `heal` ends it all."""
    way = Way("anthropic")
    loopback.fail_when(lambda asked: "summary" in asked.text, Fault.refusal("No."), times=2)
    loopback.fail_when(lambda asked: asked.tokens > 100, Fault.length())
    texts = ["Hello", "a summary", "the summary", "no summary", "word " * 200]
    stops = [ask(loopback, way, text).stop for text in texts]
    assert stops == ["end_turn", "refusal", "refusal", "end_turn", "max_tokens"]

    loopback.fail_next(Fault.refusal())
    assert ask(loopback, way, "word " * 200).stop == "refusal"
    loopback.heal()
    assert ask(loopback, way, "word " * 200).stop == "end_turn"


def test_a_refused_request_leaves_the_fault_for_the_next(loopback: Loopback) -> None:
    """What spoils a reply needs a reply; what replaces one does not."""
    anthropic = errors()["anthropic"]
    way = Way("anthropic")
    loopback.rules.limit = 1_000
    loopback.fail_next(Fault.refusal("No."))
    with pytest.raises(anthropic.BadRequestError):
        ask(loopback, way, "word " * 2_000)
    assert loopback.faults_left == 1
    assert ask(loopback, way).text == "No."

    loopback.fail_next(Fault.unauthorized())
    with pytest.raises(anthropic.AuthenticationError):
        ask(loopback, way, "word " * 2_000)
    [first, last] = loopback.over_limit
    assert (first.status, last.status) == (400, 401)


def test_a_fault_of_ones_own() -> None:
    """The parts of a fault can be put together as a test needs them."""
    fault = Fault(
        name="slow-and-wrong",
        failure=WireFailure("{input} is too much", 418, code="odd"),
        seconds=0.01,
        headers={"x-odd": "yes"},
    )
    with Loopback([Answer("", (Call("grep"),))]) as loopback:
        error = struck(loopback, Way("openai-chat"), fault)
        assert error.response.headers["x-odd"] == "yes"
        assert message_of(error, "openai-chat") == f"{loopback.requests[0].tokens} is too much"
