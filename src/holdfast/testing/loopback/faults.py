"""The ways in which the loopback can be told to fail.

A fault either takes the place of the reply (a status, a page, a closed connection) or spoils a
reply that the brain gave (a stream that breaks, a usage that is wrong, an odd ending).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.errors import BadSetting
from holdfast.testing.loopback.asking import Answer

Stage = Literal["open", "start", "text", "call"]
"""The point in a reply: after status and headers; after its first event; amid its text; amid the
arguments of a tool call."""
Ending = Literal["error", "end", "drop", "reset"]
"""An error event; the proper end of the body, too early; the connection closed; reset."""


class Counts(msgspec.Struct, frozen=True):
    """The tokens that a reply reports."""

    prompt: int
    """All input, cached parts included."""
    read: int = 0
    """Of it, read from the cache."""
    written: int = 0
    """Of it, written to the cache."""
    written_1h: int = 0
    """Of what was written: to live for an hour."""
    output: int = 0
    """Tokens of the reply."""
    thinking: int = 0
    """Of the output."""


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of a request that a fault may need."""

    input: int
    output: int
    limit: int
    earlier_input: int = 0
    """Of all requests answered before."""
    earlier_output: int = 0


Recount: TypeAlias = Callable[[Counts, Sizes], Counts | None]


class WireFailure(msgspec.Struct, frozen=True):
    """An error in words. `{input}`, `{output}`, `{total}`, `{limit}` and `{over}` are filled in."""

    message: str
    """The words of the error."""
    status: int = 400
    """The status of the reply."""
    type: str = ""
    """The error type; empty means the dialect's own for that status."""
    code: str | int | None = None
    """The error code, where the dialect has one."""
    param: str | None = None
    """The parameter at fault, where the dialect names it."""
    about: Literal["", "window", "bytes", "output"] = ""
    """The subject, if the provider is to state it in its own words."""

    def with_sizes(self, sizes: Sizes) -> WireFailure:
        """The same with the request's numbers in it."""
        numbers = {
            "input": sizes.input,
            "output": sizes.output,
            "total": sizes.input + sizes.output,
            "limit": sizes.limit,
            "over": max(0, sizes.input + sizes.output - sizes.limit),
        }
        message = self.message
        for name, number in numbers.items():
            message = message.replace(f"{{{name}}}", str(number))
        return msgspec.structs.replace(self, message=message)


class Break(msgspec.Struct, frozen=True):
    """A reply that does not come to its end."""

    after: Stage
    ending: Ending


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fail. The class methods name the usual ones."""

    name: str
    """The name by which `Received.fault` tells of it."""
    failure: WireFailure | None = None
    """With `breaks`, the event that ends the stream; alone, it is the reply."""
    status: int = 0
    """Of `body`; with a `failure`, instead of its own."""
    body: bytes | None = None
    """The reply, byte for byte."""
    headers: dict[str, str] = {}
    """Headers of the reply."""
    seconds: float = 0.0
    """Seconds to wait before anything else, or at `hangs_after`."""
    hangs_after: Stage | None = None
    """The point in the reply at which it waits."""
    resets: bool = False
    """The connection is reset before a byte of the reply."""
    breaks: Break | None = None
    """The point at which a stream ends, and its ending."""
    cuts_gzip: bool = False
    """True if the packed body is cut short."""
    change: Callable[[Answer], Answer] | None = None
    """Changes the answer before it is sent."""
    recount: Recount | None = None
    """Changes the tokens that the reply reports."""
    claims: int = 0
    """The limit that its words name; 0: the loopback's, or one just too small."""
    takes_any_size: bool = False
    """True if a request over the limit is answered as if nothing were wrong."""

    @property
    def is_reply(self) -> bool:
        """Return whether it takes the place of the reply, whatever was asked."""
        said = self.body is not None or (self.failure is not None and self.breaks is None)
        return said or self.resets

    # In place of a reply

    @classmethod
    def http(
        cls,
        status: int,
        message: str = "",
        *,
        type: str = "",  # noqa: A002  (the provider's word)
        code: str | int | None = None,
        headers: dict[str, str] | None = None,
    ) -> Fault:
        """Any status, with an error in the shape of the provider that was asked."""
        failure = WireFailure(message or f"the loopback answers {status}", status, type, code)
        return cls(name=f"http-{status}", failure=failure, headers=headers or {})

    @classmethod
    def raw(cls, status: int, body: bytes | str, headers: dict[str, str] | None = None) -> Fault:
        """Any status with any body, as it is."""
        data = body.encode() if isinstance(body, str) else body
        return cls(name=f"raw-{status}", status=status, body=data, headers=headers or {})

    @classmethod
    def rate_limited(cls, retry_after: float | str | None = None) -> Fault:
        """429. Retry-After is absent, or whatever is given, however absurd."""
        message = "Number of requests has exceeded your per-minute rate limit. Try again later."
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        failure = WireFailure(message, 429, code="rate_limit_exceeded")
        return cls(name="rate-limited", failure=failure, headers=headers)

    @classmethod
    def tokens_per_minute(cls, limit: int = 30_000) -> Fault:
        """429 that speaks of input tokens and is no overflow."""
        message = (
            f"This request would exceed your organization's rate limit of {limit:,} input tokens "
            "per minute. Please reduce the prompt length or try again later."
        )
        return cls(
            name="tokens-per-minute", failure=WireFailure(message, 429, code="rate_limit_exceeded")
        )

    @classmethod
    def overloaded(cls, status: int = 529) -> Fault:
        return cls(name="overloaded", failure=WireFailure("Overloaded", status))

    @classmethod
    def no_credit(cls) -> Fault:
        """402."""
        message = "Your credit balance is too low. Buy credits, or ask for fewer max_tokens."
        return cls(name="no-credit", failure=WireFailure(message, 402, code="insufficient_quota"))

    @classmethod
    def unauthorized(cls) -> Fault:
        """401."""
        return cls(
            name="unauthorized", failure=WireFailure("invalid api key", 401, code="invalid_api_key")
        )

    @classmethod
    def overflow(cls, host: str = "", *, limit: int = 0) -> Fault:
        """An overflow in the words of a host (`OVERFLOWS`), with the numbers of the request.

        Without a host: of the provider whose dialect is spoken. `limit` is the window it names;
        without one it is the loopback's, or where the request is within that, one just too small.
        """
        return cls(name="overflow", failure=_overflow(host), claims=limit)

    @classmethod
    def output_cap(cls, limit: int = 0) -> Fault:
        """400: more output was asked for than the model can give. No overflow.

        `limit` is what it can give; without one, half of what was asked for.
        """
        return cls(name="output-cap", failure=WireFailure("", about="output"), claims=limit)

    @classmethod
    def too_large(cls) -> Fault:
        """413, in the provider's words."""
        return cls(name="too-large", failure=WireFailure("", about="bytes"))

    @classmethod
    def html(cls, status: int = 502) -> Fault:
        """A gateway's page instead of JSON."""
        page = f"<html><head><title>{status}</title></head><body>Bad gateway</body></html>"
        headers = {"content-type": "text/html"}
        return cls(name="html", status=status, body=page.encode(), headers=headers)

    @classmethod
    def empty(cls, status: int = 200) -> Fault:
        """A status and no body at all."""
        return cls(name="empty", status=status, body=b"")

    @classmethod
    def error_with_200(cls, message: str = "", host: str = "") -> Fault:
        """Status 200 and an error object, as some gateways do; an overflow unless told else."""
        failure = WireFailure(message) if message else _overflow(host)
        return cls(name="error-with-200", failure=failure, status=200)

    @classmethod
    def reset(cls) -> Fault:
        """The connection is reset before the reply."""
        return cls(name="reset", resets=True)

    # Instead of a good reply

    @classmethod
    def cut_gzip(cls) -> Fault:
        """A compressed reply of which the second half is missing."""
        return cls(name="cut-gzip", cuts_gzip=True)

    @classmethod
    def hang(cls, seconds: float, *, after: Stage | None = None) -> Fault:
        """Nothing happens for a while: before the reply, or amid the stream. Then it goes on.

        Closing the loopback ends the wait.
        """
        return cls(name="hang", seconds=seconds, hangs_after=after)

    @classmethod
    def reset_within(cls, after: Stage = "text") -> Fault:
        """The connection is reset amid the reply."""
        return cls(name="reset-within", breaks=Break(after, "reset"))

    @classmethod
    def dropped_within(cls, after: Stage = "text") -> Fault:
        """The connection is closed amid the reply, without the end that HTTP promises."""
        return cls(name="dropped-within", breaks=Break(after, "drop"))

    @classmethod
    def stream_ends(cls, after: Stage = "text") -> Fault:
        """The stream ends amid the reply, in good form and without a word."""
        return cls(name="stream-ends", breaks=Break(after, "end"))

    @classmethod
    def stream_error(
        cls,
        after: Stage = "text",
        message: str = "Overloaded",
        *,
        status: int = 529,
        type: str = "",  # noqa: A002  (the provider's word)
        code: str | int | None = None,
    ) -> Fault:
        """An error event amid the stream. Without a stream, a reply of that status."""
        failure = WireFailure(message, status, type, code)
        return cls(name="stream-error", failure=failure, breaks=Break(after, "error"))

    @classmethod
    def overflow_in_stream(cls, after: Stage = "text", host: str = "") -> Fault:
        """The provider notices amid its reply that the request was too large."""
        return cls(name="overflow-in-stream", failure=_overflow(host), breaks=Break(after, "error"))

    @classmethod
    def silent_truncation(cls, kept: int = 2_048) -> Fault:
        """The host throws the beginning away and reports only what it kept, as Ollama does."""
        return cls(
            name="silent-truncation",
            recount=lambda counts, _sizes: Counts(min(kept, counts.prompt), output=counts.output),
            takes_any_size=True,
        )

    @classmethod
    def usage_missing(cls) -> Fault:
        return cls(name="usage-missing", recount=lambda _counts, _sizes: None)

    @classmethod
    def usage_zero(cls) -> Fault:
        return cls(name="usage-zero", recount=lambda _counts, _sizes: Counts(0))

    @classmethod
    def usage_cumulative(cls) -> Fault:
        """Usage summed up over everything this loopback has answered."""
        return cls(
            name="usage-cumulative",
            recount=lambda counts, sizes: Counts(
                counts.prompt + sizes.earlier_input, output=counts.output + sizes.earlier_output
            ),
        )

    @classmethod
    def over_window(cls, by: int = 1) -> Fault:
        """A good reply that reports more input than the window holds."""
        return cls(
            name="over-window",
            recount=lambda counts, sizes: Counts(
                max(counts.prompt, sizes.limit + by), output=counts.output
            ),
            takes_any_size=True,
        )

    @classmethod
    def length(cls, *, text: bool = True) -> Fault:
        """Stopped by the output cap, amid the text or before there is any."""
        return cls(name="length", change=lambda said: _stop_answer(said, "length", has_text=text))

    @classmethod
    def window_exceeded(cls, *, text: bool = True) -> Fault:
        """Stopped by the model's window: `model_context_window_exceeded`."""
        return cls(
            name="window-exceeded",
            change=lambda said: _stop_answer(said, "window", has_text=text),
        )

    @classmethod
    def refusal(cls, text: str = "I can't help with that.") -> Fault:
        """The model declines; without a text, a filter took the reply away."""
        return cls(name="refusal", change=lambda _said: Answer(text, stop="refusal"))


def _stop_answer(said: Answer, stop: Literal["length", "window"], *, has_text: bool) -> Answer:
    text = (said.text or "So far I have found") if has_text else ""
    kept = text[: -(-len(text) // 2)]
    return Answer(kept, stop=stop, thinking=said.thinking, delay=said.delay, pause=said.pause)


def _overflow(host: str) -> WireFailure:
    if not host:
        return WireFailure("", about="window")
    if host not in OVERFLOWS:
        raise BadSetting(
            f"no overflow text of `{host}` is known", hint=f"hosts: {', '.join(OVERFLOWS)}"
        )
    return OVERFLOWS[host]


_NUMBERS: Final = (
    "This model's maximum context length is {limit} tokens. However, you requested {total} tokens "
    "({input} in the messages, {output} in the completion). Please reduce the length of the "
    "messages or completion."
)

OVERFLOWS: Final[dict[str, WireFailure]] = {
    "anthropic": WireFailure("prompt is too long: {input} tokens > {limit} maximum"),
    "anthropic-output": WireFailure(
        "input length and `max_tokens` exceed context limit: {input} + {output} > {limit}, "
        "decrease input length or `max_tokens` and try again"
    ),
    "anthropic-long": WireFailure(
        "Extra usage is required for long context requests.", 429, type="rate_limit_error"
    ),
    "bedrock": WireFailure("Input is too long for requested model.", code="ValidationException"),
    "openai": WireFailure(_NUMBERS, code="context_length_exceeded", param="messages"),
    "openai-responses": WireFailure(
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        code="context_length_exceeded",
        param="input",
    ),
    "openai-configured": WireFailure(
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in "
        "{input} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
        param="messages",
    ),
    "gemini": WireFailure(
        "The input token count ({input}) exceeds the maximum number of tokens allowed ({limit}).",
        code="INVALID_ARGUMENT",
    ),
    "groq": WireFailure(
        "Please reduce the length of the messages or completion.", code="context_length_exceeded"
    ),
    "openrouter": WireFailure(
        "This endpoint's maximum context length is {limit} tokens. However, you requested about "
        "{total} tokens ({input} of text input, {output} in the output).",
        code=400,
    ),
    "copilot": WireFailure(
        "prompt token count of {input} exceeds the limit of {limit}",
        code="model_max_prompt_tokens_exceeded",
    ),
    "deepseek": WireFailure(_NUMBERS, code="invalid_request_error"),
    "kimi": WireFailure(
        "Invalid request: Your request exceeded model token limit: {limit} (requested: {total})"
    ),
    "glm": WireFailure("Prompt 超长", code="1261"),
    "minimax": WireFailure("invalid params, context window exceeds limit (2013)"),
    "mistral": WireFailure("Prompt {input} > {limit} maximum context length"),
    "xai": WireFailure(
        "This model's maximum prompt length is {limit} but the request contains {input} tokens."
    ),
    "vllm": WireFailure(
        "This model's maximum context length is {limit} tokens. However, your request has {input} "
        "input tokens. Please reduce the length of the input messages.",
        type="BadRequestError",
        code=400,
    ),
    "sglang": WireFailure(
        "The input ({input} tokens) is longer than the model's context length ({limit} tokens)."
    ),
    "llama.cpp": WireFailure(
        "the request exceeds the available context size, try increasing it",
        type="exceed_context_size_error",
        code=400,
    ),
    "lm-studio": WireFailure("Cannot truncate prompt with n_keep ({input}) >= n_ctx ({limit})"),
    "ollama": WireFailure("prompt too long; exceeded max context length by {over} tokens"),
    "tgi": WireFailure(
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: "
        "{input} `inputs` tokens and {output} `max_new_tokens`",
        422,
        type="validation",
    ),
    "proxy": WireFailure("Your input exceeds the context window of this model.", 502),
}
"""Overflow texts by host. What a test shows for one of them it should show for all."""
