"""The ordered rules that name a failure; the first one that holds decides.

The order is the point: what looks like an overflow and is none (a rate limit that counts tokens,
an output cap, an image, a string that is too long) is recognised before anything is called one.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from holdfast.core.failures import patterns as words

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
]
"""What went wrong."""

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
]
"""What to do about it."""


class Rule(msgspec.Struct, frozen=True):
    """Names a failure where everything it asks for holds."""

    name: str
    kind: Kind
    action: Action
    subclass: str = ""
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
    """Whether a page was sent where an answer should be."""
    is_over: bool = False
    """Whether the numbers must say so themselves: an input above its limit."""


_OVERFLOW_CODE: Final = words.either(
    r"context(?:length|window|size|limit)?exceeded",
    r"modelmaxprompttokensexceeded|tokenslimitreached",
    r"exceed(?:ed)?contextsize",
    r"contextoverflow",
    r"maxcontextlength",
    r"\b(?:prompt|input)toolong",
)
_OVERFLOW_NUMBER: Final = r"\b(?:1261|336103)\b"
"""Of Zhipu and of Baidu."""
_MONEY_CODE: Final = words.either(
    r"insufficient(?:quota|balance|credits?|funds)",
    r"billing(?!disabled)",
    r"paymentrequired",
    r"creditbalance",
    r"budgetexceeded|arrearage",
)
_AUTH_CODE: Final = words.either(
    r"authentication|unauthori[sz]ed|unauthenticated",
    r"permissiondenied|permissionerror|accessdenied|forbidden",
    r"expiredtoken|unrecognizedclient|invalidapikey|apikeyinvalid|invalidsignature|tokeninvalidated",
)
_IMAGES_FIRST: Final = "drop_or_shrink_media_then_shrink_input"
_KEEP_PARTIAL: Final = "keep_partial_and_continue_or_raise_cap"
_WITH_OUTPUT: Final = "lower_output_then_shrink_input"

_NOT_A_CALL: Final = (
    Rule(
        "quoted",
        "not_an_error",
        "ignore",
        "quoted_by_user",
        type=r"chat|user|(?:user|assistant)[-_ ]?(?:text|message)|assistant|conversation",
    ),
    Rule(
        "tool",
        "tool_error",
        "ignore",
        "tool_text",
        type=r"tool|tool[-_ ]?(?:error|result|output|text)|mcp(?:[-_ ]?(?:tool|error))*",
    ),
    Rule("tool's own cap", "tool_error", "ignore", "tool_text", text=words.TOOL_CAP),
    Rule("warning", "ambiguous", "ignore_unless_error", "log_warning", type=r"\w*warn(?:ing)?|log"),
    Rule(
        "tokenizer's warning",
        "ambiguous",
        "ignore_unless_error",
        "log_warning",
        text=r"token indices sequence length is longer",
    ),
    Rule("channel", "channel_error", "split_message", "channel", text=words.CHANNEL),
    Rule(
        "window set too small",
        "config_error",
        "stop_and_tell_user",
        "config",
        text=words.SMALL_WINDOW,
    ),
)
_REPLIES: Final = (
    Rule(
        "empty reply by length",
        "silent_overflow",
        "detect_empty_output_with_length",
        "server_log_only",
        marks=r"reason\w*length",
        text=r"too long|exceed|truncat|empty",
    ),
    Rule(
        "cut in silence",
        "silent_overflow",
        "detect_empty_output_with_length",
        "server_log_only",
        text=r"truncat(?:ing|ed) (?:the )?(?:input|prompt|context)",
    ),
    Rule(
        "reply ended by the window",
        "context_overflow",
        "keep_partial_output_then_compact",
        "finish_reason",
        marks=r"reason|incomplete",
        text=words.WINDOW_REASON,
    ),
    Rule(
        "reply ended by the window, no type",
        "context_overflow",
        "keep_partial_output_then_compact",
        "finish_reason",
        text=r"^\W*model_context\w*\W*$",
    ),
    Rule(
        "reply ended by its cap",
        "output_limit",
        _KEEP_PARTIAL,
        "finish_reason",
        marks=r"reason|incomplete",
        text=words.LENGTH_REASON,
    ),
    Rule(
        "reply ended by its cap, no type",
        "output_limit",
        _KEEP_PARTIAL,
        "finish_reason",
        status=(200,),
        text=words.LENGTH_REASON,
    ),
    Rule(
        "reply complained about",
        "output_limit",
        _KEEP_PARTIAL,
        "finish_reason",
        text=words.OUTPUT_ENDED,
    ),
)
_DECISIVE: Final = (
    Rule(
        "long context tier",
        "context_overflow",
        "compact_below_200k_tier_once",
        "tier_limit",
        text=words.LONG_CONTEXT_TIER,
    ),
    Rule(
        "compaction failed",
        "context_overflow",
        "deterministic_trim_fallback",
        "compaction_failed",
        text=words.COMPACTION_FAILED,
    ),
    Rule(
        "overflow code, with output",
        "context_overflow",
        _WITH_OUTPUT,
        "input_plus_output",
        marks=_OVERFLOW_CODE,
        text=words.PLUS_OUTPUT,
    ),
    Rule("overflow code", "context_overflow", "shrink_input", "input", marks=_OVERFLOW_CODE),
    Rule("overflow number", "context_overflow", "shrink_input", "input", marks=_OVERFLOW_NUMBER),
)
_RATES_AND_MONEY: Final = (
    Rule(
        "tokens a minute, one request too large",
        "tpm_limit",
        "fail_over_or_fit_under_tpm_limit",
        "permanent_for_this_request",
        text=rf"request too large.*{words.TOKEN_RATE}",
    ),
    Rule("tokens a minute", "tpm_limit", "wait_and_retry", "transient", text=words.TOKEN_RATE),
    Rule(
        "tokens a minute, by code",
        "tpm_limit",
        "wait_and_retry",
        "transient",
        marks=r"tokensper\w*(?:minute|day)|tokenrate",
        unless=words.OVERFLOW,
    ),
    Rule(
        "no money, by code", "quota_billing", "stop_and_tell_user", "permanent", marks=_MONEY_CODE
    ),
    Rule("no money, by status", "quota_billing", "stop_and_tell_user", "permanent", status=(402,)),
    Rule("rate", "rate_limit", "wait_and_retry", "transient", text=words.RATE),
    Rule("plan", "quota_billing", "stop_and_tell_user", "until_reset", text=words.PLAN),
    Rule("exhausted for now", "rate_limit", "wait_and_retry", "transient", text=words.EXHAUSTED),
    Rule("no money", "quota_billing", "stop_and_tell_user", "permanent", text=words.MONEY),
    Rule("busy", "rate_limit", "wait_and_retry", "overloaded", text=words.BUSY, is_html=False),
    Rule(
        "some token limit",
        "ambiguous",
        "decide_by_own_estimate",
        "rate_or_window",
        text=words.SOME_LIMIT,
        status=(),
        unless=words.WINDOW,
    ),
)
_WHO: Final = (
    Rule(
        "no such model, plainly",
        "config_error",
        "stop_and_tell_user",
        "config",
        text=words.NO_MODEL_PLAINLY,
    ),
    Rule(
        "credentials",
        "auth",
        "refresh_credentials",
        "credentials",
        text=words.AUTH,
        unless=words.OVERFLOW,
    ),
)
_OUTPUT: Final = (
    Rule(
        "no room for output",
        "context_overflow",
        _WITH_OUTPUT,
        "input_plus_output",
        text=words.NO_ROOM,
    ),
    Rule(
        "output cap, plainly",
        "output_limit",
        "clamp_max_tokens",
        "parameter",
        text=words.OUTPUT_CAP_PLAINLY,
    ),
    Rule(
        "output cap",
        "output_limit",
        "clamp_max_tokens",
        "parameter",
        text=words.OUTPUT_CAP,
        unless=words.NOT_OUTPUT_CAP,
    ),
)
_WRONG: Final = (
    Rule(
        "deadline of a Go client",
        "timeout",
        "retry_with_backoff",
        "deadline",
        text=r"context deadline exceeded",
    ),
    Rule("call id", "invalid_request", "remap_tool_ids", "tool_id", text=words.CALL_ID),
    Rule(
        "one long text",
        "payload_too_large",
        "externalise_or_truncate_that_string",
        "single_string",
        text=words.LONG_CONTENT,
    ),
    Rule(
        "one long string", "invalid_request", "fix_parameters", "parameter", text=words.LONG_STRING
    ),
    Rule("tools", "invalid_request", "reduce_tools", "tools", text=words.TOOLS),
    Rule(
        "media",
        "invalid_request",
        "shrink_or_drop_images",
        "media",
        text=words.MEDIA,
        unless=r"\btokens\b|context[-_ ](?:length|window|size|limit)",
    ),
    Rule(
        "thinking",
        "invalid_request",
        "strip_or_restore_thinking_and_retry_once",
        "history",
        text=words.THINKING,
    ),
    Rule(
        "thought signature",
        "invalid_request",
        "restore_signature_or_use_documented_skip_value",
        "history",
        text=r"thought[-_ ]?signature",
    ),
    Rule(
        "JSON the server cannot read",
        "invalid_request",
        "repair_surrogates_and_retry_once",
        "encoding",
        status=(400, 422),
        text=words.PAGE_AS_JSON,
        unless=r"<",
    ),
    Rule(
        "page where JSON should be",
        "transport",
        "retry_with_backoff",
        "html_body",
        text=words.PAGE_AS_JSON,
    ),
    Rule(
        "encoding",
        "invalid_request",
        "repair_surrogates_and_retry_once",
        "encoding",
        text=words.ENCODING,
        unless=r"unknown name|cannot find field",
    ),
    Rule("calls and results", "invalid_request", "fix_parameters", "history", text=words.PAIRS),
    Rule("no such model", "config_error", "stop_and_tell_user", "config", text=words.NO_MODEL),
    Rule(
        "nothing there, and it is a model",
        "config_error",
        "stop_and_tell_user",
        "config",
        marks=r"notfound",
        text=r"\bmodels?\b",
    ),
    Rule(
        "parameter",
        "invalid_request",
        "fix_parameters",
        "parameter",
        text=words.PARAMETER,
        unless=words.OVERFLOW,
    ),
    Rule(
        "no such model, by code",
        "config_error",
        "stop_and_tell_user",
        "config",
        marks=r"modelnotfound|deploymentnotfound",
    ),
)
_OVERFLOWS: Final = (
    Rule("warning line", "ambiguous", "ignore_unless_error", "log_warning", text=words.WARNING),
    Rule(
        "overflow with output",
        "context_overflow",
        _WITH_OUTPUT,
        "input_plus_output",
        text=words.OVERFLOW,
        also=words.PLUS_OUTPUT,
        is_html=False,
    ),
    Rule(
        "overflow", "context_overflow", "shrink_input", "input", text=words.OVERFLOW, is_html=False
    ),
    Rule(
        "numbers say overflow",
        "context_overflow",
        "shrink_input",
        "input",
        text=r"context|prompt|\binput|\btokens?\b|window",
        is_html=False,
        is_over=True,
    ),
)
_STATUS: Final = (
    Rule("payload", "payload_too_large", _IMAGES_FIRST, "bytes", text=words.PAYLOAD),
    Rule(
        "cancelled",
        "timeout",
        "do_not_retry",
        "cancelled",
        text=words.CANCELLED,
        unless=r"timeout|timed out",
    ),
    Rule(
        "rate, by code",
        "rate_limit",
        "wait_and_retry",
        "transient",
        marks=r"ratelimit|resourceexhausted|toomanyrequests|throttl|requestlimitexceeded|\b1302\b",
    ),
    Rule(
        "busy, by code",
        "rate_limit",
        "wait_and_retry",
        "overloaded",
        marks=r"overloaded|unavailable|capacity",
    ),
    Rule("rate, by status", "rate_limit", "wait_and_retry", "transient", status=(429,)),
    Rule(
        "busy, by status",
        "rate_limit",
        "wait_and_retry",
        "overloaded",
        status=(503, 529),
        is_html=False,
    ),
    Rule(
        "overflow, loosely, with output",
        "context_overflow",
        _WITH_OUTPUT,
        "input_plus_output",
        text=words.LOOSE_OVERFLOW,
        also=words.PLUS_OUTPUT,
        is_html=False,
    ),
    Rule(
        "overflow, loosely",
        "context_overflow",
        "shrink_input",
        "input",
        text=words.LOOSE_OVERFLOW,
        is_html=False,
    ),
    Rule("payload, by status", "payload_too_large", _IMAGES_FIRST, "bytes", status=(413,)),
    Rule(
        "payload, by code",
        "payload_too_large",
        _IMAGES_FIRST,
        "bytes",
        marks=r"(?:request|payload|entity|content|body)toolarge",
    ),
    Rule("credentials, by code", "auth", "refresh_credentials", "credentials", marks=_AUTH_CODE),
    Rule(
        "credentials, by status",
        "auth",
        "refresh_credentials",
        "credentials",
        status=(401, 403, 407),
    ),
)
_TRANSPORT: Final = (
    Rule(
        "cancelled, by code",
        "timeout",
        "do_not_retry",
        "cancelled",
        marks=r"cancell?ed|\baborterror\b|keyboardinterrupt",
    ),
    Rule("timeout", "timeout", "retry_with_backoff", "deadline", text=words.TIMEOUT),
    Rule(
        "timeout, by code",
        "timeout",
        "retry_with_backoff",
        "deadline",
        marks=r"timeout|deadlineexceeded|timedout",
    ),
    Rule(
        "timeout, by status",
        "timeout",
        "retry_with_backoff",
        "deadline",
        status=(408, 504, 522, 524),
    ),
    Rule("page", "transport", "retry_with_backoff", "html_body", is_html=True),
    Rule("connection", "transport", "retry_with_backoff", "connection", text=words.CONNECTION),
    Rule(
        "connection, by code",
        "transport",
        "retry_with_backoff",
        "connection",
        marks=r"connection|connecterror|readerror|protocolerror|networkerror|oserror|brokenpipe",
    ),
    Rule("server", "transport", "retry_with_backoff", "server", text=words.SERVER),
    Rule(
        "server, by status",
        "transport",
        "retry_with_backoff",
        "server",
        status=(*range(500, 503), *range(505, 512), *range(520, 528), 530, 598, 599),
    ),
)
_LEFT_OVER: Final = (
    Rule(
        "nothing said",
        "ambiguous",
        "decide_by_own_estimate",
        "no_body",
        status=(400,),
        text=words.NOTHING,
    ),
    Rule("refused", "invalid_request", "fix_parameters", "parameter", status=(*range(400, 500),)),
    Rule(
        "refused, by code",
        "invalid_request",
        "fix_parameters",
        "parameter",
        marks=r"invalidrequest|badrequest|invalidargument|validation|unprocessable|invalidparam",
    ),
    Rule("refused, loosely", "invalid_request", "fix_parameters", "parameter", text=words.REFUSED),
    Rule(
        "server, by code",
        "transport",
        "retry_with_backoff",
        "server",
        marks=r"servererror|internalerror|apierror\b",
    ),
)

BUILT_IN: Final[tuple[Rule, ...]] = (
    *_NOT_A_CALL,
    *_REPLIES,
    *_DECISIVE,
    *_RATES_AND_MONEY,
    *_WHO,
    *_OUTPUT,
    *_WRONG,
    *_OVERFLOWS,
    *_STATUS,
    *_TRANSPORT,
    *_LEFT_OVER,
)
UNKNOWN: Final = Rule("unknown", "ambiguous", "stop_and_tell_user", "unknown")
"""For what no rule knows. It is never an overflow."""
