"""Failures in every shape they arrive in: exceptions of the real SDKs, events, bodies, texts."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.failures.failure_cases import NEAR_MISSES, OVERFLOWS
from tests.core.failures.test_classify import catalogue

from holdfast.core.failures.classify import Rule, Symptoms
from holdfast.errors import CannotFit
from holdfast.providers.failures import name_failure, symptoms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")
httpx2 = pytest.importorskip("httpx2")

OVERFLOW = "prompt is too long: 207791 tokens > 200000 maximum"
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
Entry = dict[str, Any]


class Server:
    """Answers the real clients with whatever a test wants."""

    def __init__(self) -> None:
        self.response = httpx2.Response(200)
        transport = httpx2.MockTransport(lambda _request: self.response)
        http = httpx2.Client(transport=transport)
        self.anthropic = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
        self.openai = openai.OpenAI(api_key="k", http_client=http, max_retries=0)

    def fail_anthropic(self, response: Any) -> Any:
        self.response = response
        with pytest.raises(anthropic.APIError) as caught:
            self.anthropic.messages.create(max_tokens=5, **ASK)
        return caught.value

    def fail_openai(self, response: Any) -> Any:
        self.response = response
        with pytest.raises(openai.APIError) as caught:
            self.openai.chat.completions.create(**ASK)
        return caught.value

    def fail_anthropic_stream(self, events: str) -> Any:
        self.response = _stream(events)
        with pytest.raises(anthropic.APIError) as caught:
            list(self.anthropic.messages.create(max_tokens=5, stream=True, **ASK))
        return caught.value

    def fail_openai_stream(self, events: str) -> Any:
        self.response = _stream(events)
        with pytest.raises(openai.APIError) as caught:
            list(self.openai.chat.completions.create(stream=True, **ASK))
        return caught.value


def _stream(events: str) -> Any:
    return httpx2.Response(200, text=events, headers={"content-type": "text/event-stream"})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.anthropic.close()
    made.openai.close()


def body(entry: Entry) -> Entry:
    return {key: entry[key] for key in ("message", "type", "code") if entry[key]}


def own_entries() -> list[Entry]:
    """Our own cases as the catalogue has its: those whose text says enough without a status."""
    return [
        {
            "message": case.message,
            "status": case.status,
            "code": case.code,
            "type": case.type,
            "class": case.kind,
            "action": case.action,
        }
        for case in (*OVERFLOWS, *NEAR_MISSES)
        if case.message and case.kind != "ambiguous" and case.status and case.status >= 400
    ]


SHAPES: dict[str, Callable[[Server, Entry], object]] = {
    "openai exception": lambda server, entry: server.fail_openai(
        httpx2.Response(entry["status"] or 400, json={"error": body(entry)})
    ),
    "anthropic exception": lambda server, entry: server.fail_anthropic(
        httpx2.Response(entry["status"] or 400, json={"type": "error", "error": body(entry)})
    ),
    "openai stream": lambda server, entry: server.fail_openai_stream(
        f"data: {json.dumps({'error': body(entry)})}\n\n"
    ),
    "anthropic stream": lambda server, entry: server.fail_anthropic_stream(
        f"event: error\ndata: {json.dumps({'type': 'error', 'error': body(entry)})}\n\n"
    ),
    "anthropic event": lambda _server, entry: {"type": "error", "error": body(entry)},
    "responses event": lambda _server, entry: {
        "type": "response.failed",
        "response": {"id": "r", "status": "failed", "error": body(entry), "output": []},
    },
    "dict": lambda _server, entry: {"status": entry["status"], **body(entry)},
    "router": lambda _server, entry: {
        "error": {
            "message": "Provider returned error",
            "code": entry["status"],
            "metadata": {"raw": json.dumps({"error": body(entry)}), "provider_name": "P"},
        }
    },
    "string": lambda _server, entry: json.dumps({"error": body(entry)}),
    "nested string": lambda _server, entry: (
        "proxy: " + json.dumps({"error": {"message": json.dumps({"error": body(entry)})}})
    ),
    "exception around it": lambda server, entry: _raised_from(
        server.fail_openai(httpx2.Response(entry["status"] or 400, json={"error": body(entry)}))
    ),
}


def _raised_from(cause: BaseException) -> BaseException:
    error = RuntimeError("the agent's step did not succeed")
    error.__cause__ = cause
    return error


def wrong_names(server: Server, shape: str, entries: list[Entry]) -> list[object]:
    wrong: list[object] = []
    for entry in entries:
        if entry["status"] == 200 and "exception" in shape:
            continue  # a finish reason: nothing is raised
        found = name_failure(SHAPES[shape](server, entry))
        if (found.kind, found.action) != (entry["class"], entry["action"]):
            wrong.append((entry["message"], found.rule, found.kind, found.action))
    return wrong


@pytest.mark.parametrize("shape", SHAPES)
def test_catalogue_in_every_shape(server: Server, shape: str) -> None:
    """All real errors we know of, as each client and proxy would deliver them."""
    assert wrong_names(server, shape, catalogue()) == []


@pytest.mark.parametrize("shape", ["openai exception", "anthropic exception", "router", "dict"])
def test_own_cases_in_every_shape(server: Server, shape: str) -> None:
    """The same for errors in our own words, where the catalogue is not at hand."""
    entries = [entry for entry in own_entries() if "<" not in entry["message"]]
    assert wrong_names(server, shape, entries) == []


def test_numbers_survive_the_sdk(server: Server) -> None:
    """Limit and input are those of the provider's text, not of the SDK's rendering of it."""
    error = server.fail_anthropic(
        httpx2.Response(400, json={"type": "error", "error": {"message": OVERFLOW}})
    )
    found = name_failure(error)
    assert (found.status, found.limit, found.input) == (400, 200_000, 207_791)


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", "transport"),
        (400, "", "ambiguous"),
        (413, "", "context_overflow"),
        (429, "", "rate_limit"),
        (401, "", "auth"),
        (500, "", "transport"),
        (503, "upstream connect error or disconnect/reset before headers", "rate_limit"),
        (400, "prompt is too long", "context_overflow"),
        (400, "{}", "ambiguous"),
        (400, "[]", "ambiguous"),
        (400, "null", "ambiguous"),
        (400, '{"detail": "prompt is too long"}', "context_overflow"),
        (422, '{"detail": [{"msg": "Input is too long for requested model"}]}', "context_overflow"),
        (400, '{"error": "maximum context length exceeded"}', "context_overflow"),
    ],
)
def test_bodies_that_are_no_error_objects(
    server: Server, status: int, content: str, kind: str
) -> None:
    """HTML, nothing, plain text and half-standard JSON, through both SDKs."""
    for fail in (server.fail_anthropic, server.fail_openai):
        assert name_failure(fail(httpx2.Response(status, text=content))).kind == kind


@pytest.mark.parametrize("size", [1.0, 0.7])
def test_gzip_body_whole_or_cut_short(size: float) -> None:
    """A compressed body is read as far as it goes."""
    packed = gzip.compress(json.dumps({"error": {"message": OVERFLOW}, "pad": "x" * 90}).encode())
    found = name_failure(packed[: int(len(packed) * size)])
    assert found.kind == "context_overflow"


def test_gzip_that_is_none() -> None:
    """Bytes that only begin like gzip are the transport's fault."""
    assert name_failure(b"\x1f\x8bnot at all").kind == "transport"


def _raise_connection(_request: Any) -> Any:
    raise httpx2.ConnectError("no route to host")


def _raise_timeout(_request: Any) -> Any:
    raise httpx2.ReadTimeout("")


@pytest.mark.parametrize(
    ("fault", "kind"), [(_raise_connection, "transport"), (_raise_timeout, "timeout")]
)
def test_sdk_connection_errors(fault: Callable[[Any], Any], kind: str) -> None:
    """What never reached a provider is neither an overflow nor a refusal."""
    with httpx2.Client(transport=httpx2.MockTransport(fault)) as http:
        client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
        with pytest.raises(openai.APIConnectionError) as caught:
            client.chat.completions.create(**ASK)
        other = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
        with pytest.raises(anthropic.APIConnectionError) as also:
            other.messages.create(max_tokens=5, **ASK)
    assert name_failure(caught.value).kind == kind
    assert name_failure(also.value).kind == kind


@pytest.mark.parametrize(
    ("error", "kind", "action"),
    [
        (TimeoutError(), "timeout", "retry_with_backoff"),
        (TimeoutError("timed out"), "timeout", "retry_with_backoff"),
        (ConnectionResetError(104, "Connection reset by peer"), "transport", "retry_with_backoff"),
        (ConnectionRefusedError(), "transport", "retry_with_backoff"),
        (BrokenPipeError(), "transport", "retry_with_backoff"),
        (OSError("no route"), "transport", "retry_with_backoff"),
        (asyncio.CancelledError(), "timeout", "do_not_retry"),
        (KeyboardInterrupt(), "timeout", "do_not_retry"),
        (KeyError("tokens"), "ambiguous", "stop_and_tell_user"),
        (ValueError("context"), "ambiguous", "stop_and_tell_user"),
        (ExceptionGroup("two", [TimeoutError()]), "timeout", "retry_with_backoff"),
        (None, "ambiguous", "stop_and_tell_user"),
        (object(), "ambiguous", "stop_and_tell_user"),
        (17, "ambiguous", "stop_and_tell_user"),
    ],
)
def test_plain_exceptions(error: object, kind: str, action: str) -> None:
    """What Python itself raises, and what is no error at all."""
    found = name_failure(error)
    assert (found.kind, found.action) == (kind, action)


def test_cause_counts_and_context_does_not() -> None:
    """An exception raised from an overflow is one; a bug in the handler of one is a bug."""
    overflow = Exception(OVERFLOW)
    assert name_failure(_raised_from(overflow)).kind == "context_overflow"
    bug = KeyError("usage")
    bug.__context__ = overflow
    assert not name_failure(bug).is_overflow


def test_own_refusals_are_not_taken_for_the_provider() -> None:
    """`CannotFit` speaks of windows, but sending less has been tried already."""
    error = CannotFit("the prompt exceeds the context window", parts={"system": 9})
    assert name_failure(error).kind == "config_error"


class BotoError(Exception):
    """As botocore's ClientError: the body hides in a dict called response."""

    def __init__(self, response: Entry) -> None:
        super().__init__("An error occurred when calling the Converse operation")
        self.response = response


def test_bedrock_client_error() -> None:
    """Code, message and status are found where botocore keeps them."""
    error = BotoError(
        {
            "Error": {"Code": "ValidationException", "Message": "Input is too long."},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "3"}},
        }
    )
    found = name_failure(error)
    assert (found.kind, found.status, found.retry_after) == ("context_overflow", 400, 3.0)
    throttled = BotoError(
        {"Error": {"Code": "ThrottlingException", "Message": "Too many tokens, please wait."}}
    )
    assert name_failure(throttled).kind == "tpm_limit"


class Hostile(Exception):
    """Raises from everything that can be asked of it."""

    @property
    def response(self) -> Any:
        raise RuntimeError("not read")

    @property
    def message(self) -> str:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_hostile_exception_is_named() -> None:
    """Reading an exception never raises another one."""
    assert name_failure(Hostile()).kind == "ambiguous"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, 360.0),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "9"}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:29:00Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            60.0,
        ),
        ({}, None),
    ],
)
def test_wait_is_read_from_headers(
    server: Server, headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds, dates by the server's own clock, and limits that start anew."""
    response = httpx2.Response(429, json={"error": {"message": "slow down"}}, headers=headers)
    assert name_failure(server.fail_openai(response)).retry_after == seconds


def test_gemini_body() -> None:
    """Google's details hold the reason and the wait."""
    quota = {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [
                        {"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier"}
                    ],
                },
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
            ],
        }
    }
    found = name_failure(quota)
    assert (found.kind, found.retry_after, found.status) == ("tpm_limit", 37.0, 429)


def test_words_of_users_and_tools_are_not_looked_at() -> None:
    """Errors that carry a conversation are named without it."""
    said = [{"role": "user", "content": OVERFLOW}]
    for value in (
        {"error": {"message": "bad role"}, "status": 400, "messages": said},
        {"type": "response.failed", "response": {"error": {"message": "oops"}, "output": said}},
        {"status": 400, "request": {"messages": said}, "message": "unsupported value"},
    ):
        assert not name_failure(value).is_overflow


def test_symptoms_pass_through_and_own_rules_come_first() -> None:
    """What is known already is taken as it is."""
    known = Symptoms(400, message="teapot")
    assert symptoms_of(known) is known
    rule = Rule("teapot", "rate_limit", "wait_and_retry", text="teapot")
    assert name_failure(known, [rule]).rule == "teapot"
    assert name_failure(ValueError("teapot"), [rule]).rule == "teapot"
