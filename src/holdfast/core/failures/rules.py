"""The ordered rules that name a failure; the first one that holds decides.

The order is the point: what looks like an overflow and is none (a rate limit that counts tokens,
an output cap, an image, a string that is too long) is recognised before anything is called one.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.core.failures.patterns import expand, wordings

Kind = Literal[
    "context_overflow",
    "silent_overflow",
    "payload_too_large",
    "output_limit",
    "tpm_limit",
    "rate_limit",
    "quota_billing",
    "auth",
    "invalid_request",
    "config_error",
    "timeout",
    "transport",
    "ambiguous",
    "tool_error",
    "channel_error",
    "not_an_error",
    "policy",
]
"""The class of a failure."""

Action = Literal[
    "shrink_input",
    "lower_output_then_shrink_input",
    "keep_partial_output_then_compact",
    "compact_below_200k_tier_once",
    "deterministic_trim_fallback",
    "detect_empty_output_with_length",
    "drop_or_shrink_media_then_shrink_input",
    "externalise_or_truncate_that_string",
    "clamp_max_tokens",
    "keep_partial_and_continue_or_raise_cap",
    "wait_and_retry",
    "fail_over_or_fit_under_tpm_limit",
    "stop_and_tell_user",
    "refresh_credentials",
    "fix_parameters",
    "shrink_or_drop_images",
    "remap_tool_ids",
    "reduce_tools",
    "strip_or_restore_thinking_and_retry_once",
    "repair_surrogates_and_retry_once",
    "restore_signature_or_use_documented_skip_value",
    "retry_with_backoff",
    "do_not_retry",
    "decide_by_own_estimate",
    "ignore_unless_error",
    "ignore",
    "split_message",
    "end_turn",
]
"""The action to take."""


class Rule(msgspec.Struct, frozen=True):
    """Names a failure where everything it asks for holds."""

    name: str
    """The name of the rule, which a classification cites."""
    kind: Kind
    """The class of the failure."""
    action: Action
    """The action that helps."""
    subclass: str = ""
    """A finer class, where one is known."""
    status: tuple[int, ...] = ()
    """Any of these."""
    marks: str = ""
    """A pattern to find among codes, types and class names: lower case, letters and digits only."""
    text: str = ""
    """A pattern to find in the text: lower case, without addresses, quotes, digit grouping."""
    also: str = ""
    """Another one."""
    unless: str = ""
    """A pattern the text must not have."""
    type: str = ""
    """A pattern for all of the type alone."""
    is_html: bool | None = None
    """True if a page was sent where an answer should be."""
    is_over: bool = False
    """True if the numbers must say so themselves: an input above its limit."""


_Outcome: TypeAlias = tuple[Kind, Action, str]
_CONFIG: _Outcome = ("config_error", "stop_and_tell_user", "config")
_OVERFLOW: _Outcome = ("context_overflow", "shrink_input", "input")
_MUTE_OVERFLOW: _Outcome = ("context_overflow", "shrink_input", "no_body")
_UNSPECIFIC: _Outcome = ("invalid_request", "fix_parameters", "unspecific")
_PARAMETER: _Outcome = ("invalid_request", "fix_parameters", "parameter")
_WITH_OUTPUT: _Outcome = ("context_overflow", "lower_output_then_shrink_input", "input_plus_output")
_RATE: _Outcome = ("rate_limit", "wait_and_retry", "transient")
_TIMEOUT: _Outcome = ("timeout", "retry_with_backoff", "deadline")
_LOG_WARNING: _Outcome = ("ambiguous", "ignore_unless_error", "log_warning")
_OUTPUT_ENDED: _Outcome = (
    "output_limit",
    "keep_partial_and_continue_or_raise_cap",
    "finish_reason",
)
_NO_MONEY: _Outcome = ("quota_billing", "stop_and_tell_user", "permanent")
_BUSY: _Outcome = ("rate_limit", "wait_and_retry", "overloaded")
_AUTH: _Outcome = ("auth", "refresh_credentials", "credentials")
_PAYLOAD: _Outcome = ("payload_too_large", "drop_or_shrink_media_then_shrink_input", "bytes")
_SERVER: _Outcome = ("transport", "retry_with_backoff", "server")
_TOOL: _Outcome = ("tool_error", "ignore", "tool_text")
_SILENT: _Outcome = ("silent_overflow", "detect_empty_output_with_length", "server_log_only")
_WINDOW_ENDED: _Outcome = ("context_overflow", "keep_partial_output_then_compact", "finish_reason")
_TOKEN_RATE: _Outcome = ("tpm_limit", "wait_and_retry", "transient")
_OUTPUT_CAP: _Outcome = ("output_limit", "clamp_max_tokens", "parameter")
_ENCODING: _Outcome = ("invalid_request", "repair_surrogates_and_retry_once", "encoding")
_PAGE: _Outcome = ("transport", "retry_with_backoff", "html_body")
_CANCELLED: _Outcome = ("timeout", "do_not_retry", "cancelled")
_COMMAND_TIMEOUT: _Outcome = ("timeout", "do_not_retry", "command")
_COMMAND: _Outcome = ("transport", "do_not_retry", "command")
_CONNECTION: _Outcome = ("transport", "retry_with_backoff", "connection")
_TIER: _Outcome = ("context_overflow", "compact_below_200k_tier_once", "tier_limit")
_COMPACTION_FAILED: _Outcome = (
    "context_overflow",
    "deterministic_trim_fallback",
    "compaction_failed",
)
_ABOVE_TOKEN_RATE: _Outcome = (
    "tpm_limit",
    "fail_over_or_fit_under_tpm_limit",
    "permanent_for_this_request",
)
_RATE_OR_WINDOW: _Outcome = ("ambiguous", "decide_by_own_estimate", "rate_or_window")
_LONG_STRING: _Outcome = (
    "payload_too_large",
    "externalise_or_truncate_that_string",
    "single_string",
)
_MEDIA: _Outcome = ("invalid_request", "shrink_or_drop_images", "media")
_THINKING: _Outcome = ("invalid_request", "strip_or_restore_thinking_and_retry_once", "history")
_SIGNATURE: _Outcome = (
    "invalid_request",
    "restore_signature_or_use_documented_skip_value",
    "history",
)
_POLICY: _Outcome = ("policy", "end_turn", "policy")
_NO_BODY: _Outcome = ("ambiguous", "decide_by_own_estimate", "no_body")
_QUOTED: _Outcome = ("not_an_error", "ignore", "quoted_by_user")

_SERVER_STATUS: Final = (*range(500, 503), *range(505, 512), *range(520, 528), 530, 598, 599)
_PATTERNS: Final = ("marks", "text", "also", "unless", "type")

_ROWS: Final[tuple[Rule, ...]] = (
    # What is no failed call.
    Rule("quoted", *_QUOTED, type="{quoted_type}"),
    Rule("tool", *_TOOL, type="{tool_type}"),
    Rule("tool's own cap", *_TOOL, text="{tool_cap}"),
    Rule("warning", *_LOG_WARNING, type=r"\w*warn(?:ing)?|log"),
    Rule("tokenizer's warning", *_LOG_WARNING, text="{tokenizer_warning}"),
    Rule("training", *_PARAMETER, text="{training}"),
    Rule("channel", "channel_error", "split_message", "channel", text="{channel}"),
    Rule("window set too small", *_CONFIG, text="{small_window}"),
    # A command that is run as a model; it may have done part of its work.
    Rule("command out of time", *_COMMAND_TIMEOUT, marks=r"commandtimeout"),
    Rule("command ended", *_COMMAND, marks=r"command(?:killed|output|work)"),
    # Replies that ended early.
    Rule("empty reply by length", *_SILENT, marks=r"reason\w*length", text="{empty_reply}"),
    Rule("cut in silence", *_SILENT, text=r"truncat(?:ing|ed) (?:the )?(?:input|prompt|context)"),
    Rule(
        "reply ended by the window",
        *_WINDOW_ENDED,
        marks=r"reason|incomplete",
        text="{window_reason}",
    ),
    Rule("reply ended by the window, no type", *_WINDOW_ENDED, text=r"^\W*model_context\w*\W*$"),
    Rule(
        "reply ended by its cap", *_OUTPUT_ENDED, marks=r"reason|incomplete", text="{length_reason}"
    ),
    Rule("reply ended by its cap, no type", *_OUTPUT_ENDED, status=(200,), text="{length_reason}"),
    Rule("reply complained about", *_OUTPUT_ENDED, text="{output_ended}"),
    # Codes that leave no doubt.
    Rule("long context tier", *_TIER, text="{long_context_tier}"),
    Rule("compaction failed", *_COMPACTION_FAILED, text="{compaction_failed}"),
    Rule(
        "overflow code, with output", *_WITH_OUTPUT, marks="{overflow_code}", text="{plus_output}"
    ),
    Rule("overflow code", *_OVERFLOW, marks="{overflow_code}"),
    Rule("overflow number", *_OVERFLOW, marks="{overflow_number}"),
    # Rates and money, which speak of tokens and limits too.
    Rule(
        "tokens a minute, one request too large",
        *_ABOVE_TOKEN_RATE,
        text=r"request too large.*{token_rate}",
    ),
    Rule("tokens a minute", *_TOKEN_RATE, text="{token_rate}"),
    Rule(
        "tokens a minute, by code",
        *_TOKEN_RATE,
        marks=r"tokensper\w*(?:minute|day)|tokenrate",
        unless="{overflow}",
    ),
    Rule("no money, by code", *_NO_MONEY, marks="{money_code}"),
    Rule("no money, by status", *_NO_MONEY, status=(402,)),
    Rule("rate", *_RATE, text="{rate}"),
    Rule("plan, for a while", *_RATE, status=(429,), text="{plan}", also="{later}", unless="{day}"),
    Rule("plan", "quota_billing", "stop_and_tell_user", "until_reset", text="{plan}"),
    Rule("exhausted for now", *_RATE, text="{exhausted}"),
    Rule("no money", *_NO_MONEY, text="{money}"),
    Rule("busy", *_BUSY, text="{busy}", is_html=False),
    Rule("some token limit", *_RATE_OR_WINDOW, text="{some_limit}", unless="{window}"),
    # What a provider refuses to answer.
    Rule("policy", *_POLICY, text="{policy}"),
    Rule("policy, by code", *_POLICY, marks="{policy_code}"),
    # Names and credentials.
    Rule("no such model, plainly", *_CONFIG, text="{no_model_plainly}"),
    Rule("credentials", *_AUTH, text="{auth}", unless="{overflow}"),
    # The cap on the output.
    Rule("no room for output", *_WITH_OUTPUT, text="{no_room}"),
    Rule(
        "two caps",
        *_PARAMETER,
        text="{two_caps}",
        also=r"both|together|same time|only one|one of|either|instead|mutually|conflict",
        unless="{over}",
    ),
    Rule("output cap, plainly", *_OUTPUT_CAP, text="{output_cap_plainly}"),
    Rule("output cap", *_OUTPUT_CAP, text="{output_cap}", unless="{not_output_cap}"),
    # Requests that are wrong whatever their length.
    Rule("deadline of a Go client", *_TIMEOUT, text=r"context deadline exceeded"),
    Rule("call id", "invalid_request", "remap_tool_ids", "tool_id", text="{call_id}"),
    Rule("one long text", *_LONG_STRING, text="{long_content}"),
    Rule("one long string", *_PARAMETER, text="{long_string}"),
    Rule("tools", "invalid_request", "reduce_tools", "tools", text="{tools}"),
    Rule(
        "media, too large",
        *_PAYLOAD,
        status=(413,),
        text="{media}",
        also=r"\b(?:images|pictures|photos|pages|documents|attachments|media|total|accumulat\w+)\b",
        unless="{not_media}|\bpixels\b|\bdimension",
    ),
    Rule("media", *_MEDIA, text="{media}", unless="{not_media}"),
    Rule("thinking", *_THINKING, text="{thinking}"),
    Rule("thought signature", *_SIGNATURE, text=r"thought[-_ ]?signature"),
    Rule(
        "JSON the server cannot read",
        *_ENCODING,
        status=(400, 422),
        text="{page_as_json}",
        unless=r"<",
    ),
    Rule("page where JSON should be", *_PAGE, text="{page_as_json}"),
    Rule("encoding", *_ENCODING, text="{encoding}", unless=r"unknown name|cannot find field"),
    Rule("calls and results", "invalid_request", "fix_parameters", "history", text="{pairs}"),
    Rule("no such model", *_CONFIG, text="{no_model}"),
    Rule("nothing there, and it is a model", *_CONFIG, marks=r"notfound", text=r"\bmodels?\b"),
    Rule("parameter", *_PARAMETER, text="{parameter}", unless="{overflow}"),
    Rule("no such model, by code", *_CONFIG, marks=r"modelnotfound|deploymentnotfound"),
    # Overflows.
    Rule("warning line", *_LOG_WARNING, text="{warning}"),
    Rule("overflow of a context, by its cap", *_OVERFLOW, text="{context_cap}"),
    Rule(
        "overflow with output",
        *_WITH_OUTPUT,
        text="{overflow}",
        also="{plus_output}",
        is_html=False,
    ),
    Rule("overflow", *_OVERFLOW, text="{overflow}", is_html=False),
    Rule("numbers say overflow", *_OVERFLOW, text="{some_input}", is_html=False, is_over=True),
    # Wordings that need the status or code beside them.
    Rule("payload", *_PAYLOAD, text="{payload}"),
    Rule("cancelled", *_CANCELLED, text="{cancelled}", unless=r"timeout|timed out"),
    Rule("rate, by code", *_RATE, marks="{rate_code}"),
    Rule("busy, by code", *_BUSY, marks=r"overloaded|unavailable|capacity"),
    Rule("rate, by status", *_RATE, status=(429,)),
    Rule("busy, by status", *_BUSY, status=(503, 529), is_html=False),
    Rule(
        "overflow, loosely, with output",
        *_WITH_OUTPUT,
        text="{loose_overflow}",
        also="{plus_output}",
        is_html=False,
    ),
    Rule("overflow, loosely", *_OVERFLOW, text="{loose_overflow}", is_html=False),
    Rule("too large, nothing said", *_MUTE_OVERFLOW, status=(413,), text="{nothing}"),
    Rule("payload, by status", *_PAYLOAD, status=(413,)),
    Rule("payload, by code", *_PAYLOAD, marks=r"(?:request|payload|entity|content|body)toolarge"),
    Rule("credentials, by code", *_AUTH, marks="{auth_code}"),
    Rule("credentials, by status", *_AUTH, status=(401, 403, 407)),
    # The connection and the server.
    Rule("cancelled, by code", *_CANCELLED, marks=r"cancell?ed|\baborterror\b|keyboardinterrupt"),
    Rule("timeout", *_TIMEOUT, text="{timeout}"),
    Rule("timeout, by code", *_TIMEOUT, marks=r"timeout|deadlineexceeded|timedout"),
    Rule("timeout, by status", *_TIMEOUT, status=(408, 504, 522, 524)),
    Rule("page", *_PAGE, is_html=True),
    Rule("connection", *_CONNECTION, text="{connection}"),
    Rule("connection, by code", *_CONNECTION, marks="{connection_code}"),
    Rule("server", *_SERVER, text="{server}"),
    Rule("server, by status", *_SERVER, status=_SERVER_STATUS),
    # Everything else.
    Rule("nothing said", *_NO_BODY, status=(400,), text="{nothing}"),
    Rule("refused", *_UNSPECIFIC, status=(*range(400, 500),)),
    Rule("refused, by code", *_UNSPECIFIC, marks="{refused_code}"),
    Rule("refused, loosely", *_UNSPECIFIC, text="{refused}"),
    Rule("server, by code", *_SERVER, marks=r"servererror|internalerror|apierror\b"),
)
"""In order. A `{name}` in a pattern is an entry of the table in `patterns`."""

UNKNOWN: Final = Rule("unknown", "ambiguous", "stop_and_tell_user", "unknown")
"""For a failure that no rule knows. It is never an overflow."""


@cache
def built_in_rules() -> tuple[Rule, ...]:
    """Return the rules in order, with the wordings in their patterns."""
    known = wordings()
    return tuple(
        msgspec.structs.replace(
            rule, **{name: expand(getattr(rule, name), known) for name in _PATTERNS}
        )
        for rule in _ROWS
    )
