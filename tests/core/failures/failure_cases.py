"""Errors in our own words, and what each of them is.

Written without the catalogue at hand: they are how providers, gateways and local servers talk, and
how things that have nothing to do with a full window talk about tokens, limits and contexts.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """An error and its name."""

    kind: str
    action: str
    message: str
    status: int | None = None
    code: str = ""
    type: str = ""
    numbers: tuple[int | None, int | None, int | None] | None = None
    """Limit, input and output, where they matter."""


def overflow(
    message: str,
    status: int | None = 400,
    code: str = "",
    kind: str = "",
    *,
    limit: int | None = None,
    sent: int | None = None,
) -> Case:
    return Case(
        "context_overflow", "shrink_input", message, status, code, kind, (limit, sent, None)
    )


def overflow_with_output(
    message: str,
    status: int | None = 400,
    code: str = "",
    *,
    limit: int | None = None,
    sent: int | None = None,
    output: int | None = None,
) -> Case:
    action = "lower_output_then_shrink_input"
    return Case("context_overflow", action, message, status, code, "", (limit, sent, output))


OVERFLOWS: tuple[Case, ...] = (
    overflow(
        "CAPIError: 400 prompt token count of 184399 exceeds the limit of 128000",
        limit=128_000,
        sent=184_399,
    ),
    overflow(
        "CAPIError: 400 prompt token count of 184399 exceeds the limit of 128000",
        None,
        limit=128_000,
        sent=184_399,
    ),
    overflow(
        "This fine-tuned model's maximum context length is 4096 tokens. However, your "
        "messages resulted in 5000 tokens.",
        limit=4_096,
        sent=5_000,
    ),
    overflow(
        "prompt is too long: 1,048,600 tokens > 1,000,000 maximum", limit=1_000_000, sent=1_048_600
    ),
    overflow("Prompt is too long", 400, kind="invalid_request_error"),
    overflow("prompt is too long: 300.114 tokens > 200.000 maximum", limit=200_000, sent=300_114),
    overflow("PROMPT IS TOO LONG: 300 114 TOKENS > 200 000 MAXIMUM", limit=200_000, sent=300_114),
    overflow(
        "the prompt is too long: 140001, model maximum context length: 131072",
        limit=131_072,
        sent=140_001,
    ),
    overflow(
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        limit=131_072,
        sent=537_812,
    ),
    overflow(
        "Your input exceeds the context window of this model.", None, "context_length_exceeded"
    ),
    overflow("The model's context window was exceeded by this conversation", 500),
    overflow(
        "The number of input tokens 4128 cannot exceed the total tokens limit 4096 for this model",
        limit=4_096,
        sent=4_128,
    ),
    overflow(
        "Requested tokens (5120) exceed context window of 2048", None, limit=2_048, sent=5_120
    ),
    overflow(
        "request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it",
        limit=8_192,
        sent=9_012,
    ),
    overflow(
        "The decoder prompt (length 40960) is longer than the maximum model length of 32768. "
        "Make sure that `max_model_len` is no smaller than the number of text tokens.",
        limit=32_768,
        sent=40_960,
    ),
    overflow(
        "too many tokens: total number of tokens in the prompt exceeds the limit of 4081. "
        "Try using a shorter prompt, or enable truncation.",
        limit=4_081,
    ),
    overflow(
        "Too many input tokens. Max input tokens: 32000, request input token count: 41233",
        limit=32_000,
        sent=41_233,
    ),
    overflow(
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        limit=129_024,
    ),
    overflow("Total tokens of image and text exceed max message tokens", 400, "InvalidParameter"),
    overflow("the max input characters is 20000", 400, limit=20_000),
    overflow("token数量超过上限。对话历史+问题的字数太多，需要精简输入", None, "10907"),
    overflow("输入内容过长，超出模型最大上下文长度 32768", 400, limit=32_768),
    overflow("上下文长度超出限制：最大 131072，当前 140000", limit=131_072, sent=140_000),
    overflow("对话过长，请开启新会话", 400),
    overflow("提示词超出最大长度", 500),
    overflow("輸入內容超過上下文長度上限", 400),
    overflow("入力トークン数がモデルの上限を超えています", 400),
    overflow("입력 토큰이 최대 컨텍스트 길이를 초과했습니다", 400),
    overflow("Die Eingabe überschreitet das Kontextfenster des Modells", 400),
    overflow("Le contexte dépasse la longueur maximale du modèle", 400),
    overflow("La entrada excede el contexto máximo del modelo", 400),
    overflow("Превышена максимальная длина контекста модели", 400),
    overflow("Conversation is too long to continue. Start a new conversation to keep going.", None),
    overflow("Context size exceeded: 70211/65536", 400, limit=65_536, sent=70_211),
    overflow("Context window is full", 500),
    overflow("maximum context length exceeded", 413),
    overflow("Input exceeds maximum sequence length of 8192", 400, limit=8_192),
    overflow("Sequence length 12000 exceeds max_seq_len 8192", None, limit=8_192, sent=12_000),
    overflow(
        "litellm.ContextWindowExceededError: litellm.BadRequestError: something upstream", None
    ),
    overflow("ContextWindowExceededError", None),
    overflow("This request has too many tokens for the model", 400),
    overflow("exceeded the model's token limit of 128k tokens", 400, limit=128_000),
    overflow(
        "The request is 210,000 tokens long, but the context window of this model is 200,000",
        limit=200_000,
        sent=210_000,
    ),
    overflow("Input token limit exceeded", 400),
    overflow("Your messages do not fit the model's context window", 422),
    overflow("We could not fit the conversation into the context window", None),
    overflow(
        "failed to process: prompt (12001 tokens) doesn't fit in n_ctx (8192)",
        500,
        limit=8_192,
        sent=12_001,
    ),
    overflow(
        "Trying to keep the first 9000 tokens when context the overflows. However, the model "
        "is loaded with context length of only 4096 tokens.",
        limit=4_096,
        sent=9_000,
    ),
    overflow(
        "ValidationException: The model returned the following errors: Input is too long for "
        "requested model.",
        None,
    ),
    overflow("Exceeded maximum input length", 400),
    overflow("prompt tokens (33000) exceed the model limit (32768)", limit=32_768, sent=33_000),
    overflow(
        "Vertex AI: the prompt token count of 1,100,000 is above the allowed 1,048,576",
        limit=1_048_576,
        sent=1_100_000,
    ),
    overflow(
        "prompt is too long: 250000 tokens > 200000 maximum", 503, limit=200_000, sent=250_000
    ),
    overflow(
        "prompt is too long: 250000 tokens > 200000 maximum", 429, limit=200_000, sent=250_000
    ),
    overflow(
        "prompt is too long: 250000 tokens > 200000 maximum", 401, limit=200_000, sent=250_000
    ),
    overflow("Please reduce the length of the messages.", 400),
    overflow("The context has grown beyond the model's context limit", 400),
    overflow("ran out of context window", None),
    overflow(
        '{"object":"error","message":"This model\'s maximum context length is 8192 tokens. '
        'However, your request has 9000 input tokens.","code":400}',
        None,
        limit=8_192,
        sent=9_000,
    ),
    overflow(
        "Error code: 400 - {'error': {'message': 'Prompt exceeds the context length of 8192', "
        "'code': 'x'}}",
        None,
        limit=8_192,
    ),
    overflow(
        '{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":'
        '"{\\"error\\":{\\"message\\":\\"prompt is too long: 210000 tokens > 200000 '
        'maximum\\"}}"'
        ',"provider_name":"X"}}',
        400,
        limit=200_000,
        sent=210_000,
    ),
    overflow(
        '{"error": {"code": 400, "message": "the request exceeds the available context size", '
        '"type": "exceed_context_size_error", "n_prompt_tokens": 9100, "n_ctx": 8192}}',
        400,
        limit=8_192,
        sent=9_100,
    ),
    overflow_with_output(
        "This model's maximum context length is 4097 tokens, however you requested 4597 tokens "
        "(3597 in your prompt; 1000 for the completion). Please reduce your prompt; or "
        "completion "
        "length.",
        limit=4_097,
        sent=3_597,
        output=1_000,
    ),
    overflow_with_output(
        "input length and `max_tokens` exceed context limit: 180_000 + 32_000 > 200_000",
        limit=200_000,
        sent=180_000,
        output=32_000,
    ),
    overflow_with_output(
        "This endpoint's maximum context length is 65536 tokens. However, you requested about "
        "70000 tokens (60000 of text input, 10000 in the output).",
        limit=65_536,
        sent=60_000,
        output=10_000,
    ),
    overflow_with_output(
        "You passed 30000 input tokens and requested 4000 output tokens. However, the model's "
        "context length is only 32768 tokens.",
        limit=32_768,
        sent=30_000,
        output=4_000,
    ),
    overflow_with_output(
        "prompt tokens + max_tokens must not exceed the model's context length of 8192", limit=8_192
    ),
    overflow_with_output(
        "You asked to generate 1000 tokens but the maximum context length is 8192 and "
        "your prompt has 8000 tokens",
        limit=8_192,
        sent=8_000,
        output=1_000,
    ),
)

NEAR_MISSES: tuple[Case, ...] = (
    Case(
        "invalid_request",
        "fix_parameters",
        "ValidationException: the maximum number of tokens per training record in a fine-tuning "
        "job is 4096; record 17 has 5120 tokens",
        400,
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "The customization job failed: sum of input and output tokens in a record exceeds the "
        "model's fine-tuning limit of 32000 tokens",
        400,
    ),
    Case(
        "ambiguous",
        "ignore_unless_error",
        "Input length of input_ids is 1050, but `max_length` is set to 1024. This can lead to "
        "unexpected behavior.",
    ),
    Case(
        "ambiguous",
        "ignore_unless_error",
        "This is a friendly reminder - the current text generation call will exceed the model's "
        "predefined maximum length (1024).",
    ),
    Case(
        "rate_limit",
        "wait_and_retry",
        "You have exceeded your usage limits. Please try again later",
        429,
    ),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "You have reached your usage limits; they reset tomorrow. Please try again later",
        429,
    ),
    # rates
    Case(
        "tpm_limit",
        "fail_over_or_fit_under_tpm_limit",
        "Request too large for gpt-4o in organization org-a on tokens per min (TPM): "
        "Limit 30000, "
        "Requested 41290. The input or output tokens must be reduced in order to run "
        "successfully.",
        429,
        "rate_limit_exceeded",
        "tokens",
        (30_000, 41_290, None),
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, "
        "Requested "
        "2000. Please try again in 2s.",
        429,
        "rate_limit_exceeded",
        "tokens",
        (30_000, 2_000, None),
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "Number of request tokens has exceeded your per-minute rate limit",
        429,
        "",
        "rate_limit_error",
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "This request would exceed your organization's maximum usage increase rate for input "
        "tokens per minute.",
        429,
        "",
        "rate_limit_error",
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        None,
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "Too many tokens per day, please wait before trying again.",
        429,
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "Quota exceeded for aiplatform.googleapis.com/"
        "generate_content_input_tokens_per_minute_per_base_model",
        429,
        "RESOURCE_EXHAUSTED",
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "litellm.RateLimitError: AzureException - Requests to the "
        "model have exceeded the token rate limit of your current pricing tier.",
        429,
    ),
    Case("tpm_limit", "wait_and_retry", "每分钟token数量超过限制，请稍后再试", 429),
    Case(
        "rate_limit",
        "wait_and_retry",
        "Rate limit reached for requests",
        429,
        "rate_limit_exceeded",
    ),
    Case("rate_limit", "wait_and_retry", "Too Many Requests", 429),
    Case("rate_limit", "wait_and_retry", "", 429),
    Case("rate_limit", "wait_and_retry", "Overloaded", 529, "", "overloaded_error"),
    Case(
        "rate_limit",
        "wait_and_retry",
        "The engine is currently overloaded, please try again later",
        503,
    ),
    Case(
        "rate_limit",
        "wait_and_retry",
        "This request would exceed your account's rate limit. Please try again later.",
        429,
        "",
        "rate_limit_error",
    ),
    Case("rate_limit", "wait_and_retry", "您的账户已达到速率限制，请您控制请求频率", 429, "1302"),
    Case(
        "rate_limit",
        "wait_and_retry",
        "ServiceUnavailableException: the model is at capacity",
        None,
    ),
    Case("rate_limit", "wait_and_retry", "Concurrency limit exceeded for context generation", 429),
    Case(
        "rate_limit",
        "wait_and_retry",
        "Rate limit exceeded: limit_rpm/model. High demand for the large context model.",
        429,
    ),
    # money
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "You exceeded your current quota, please check your plan and billing details.",
        429,
        "insufficient_quota",
        "insufficient_quota",
    ),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "Your credit balance is too low to access the API. "
        "Please go to Plans & Billing to upgrade or purchase credits.",
        400,
        "",
        "invalid_request_error",
    ),
    Case("quota_billing", "stop_and_tell_user", "Insufficient Balance", 402),
    Case("quota_billing", "stop_and_tell_user", "", 402),
    Case("quota_billing", "stop_and_tell_user", "账户余额不足，请充值后重试", 400),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "You have reached your specified API usage limits. "
        "You will regain access on 2026-01-01 at 00:00 UTC.",
        400,
        "",
        "invalid_request_error",
    ),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "Claude usage limit reached. Your limit will reset at 3pm",
        None,
    ),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "Budget has been exceeded! Current cost: 20.1, Max budget: 20.0",
        400,
        "",
        "budget_exceeded",
    ),
    Case(
        "quota_billing",
        "stop_and_tell_user",
        "Prompt tokens limit exceeded: 9000 > 2500. To increase, "
        "visit the page and upgrade to a paid account",
        402,
    ),
    # who is asking
    Case("auth", "refresh_credentials", "invalid x-api-key", 401, "", "authentication_error"),
    Case("auth", "refresh_credentials", "invalid bearer token", 401),
    Case(
        "auth",
        "refresh_credentials",
        "API key not valid. Please pass a valid API key.",
        400,
        "INVALID_ARGUMENT",
        "API_KEY_INVALID",
    ),
    Case(
        "auth",
        "refresh_credentials",
        "The security token included in the request is expired",
        403,
        "ExpiredTokenException",
    ),
    Case(
        "auth",
        "refresh_credentials",
        "Incorrect API key provided: sk-abc. You can find your key at "
        "https://example.com/context-length",
        401,
        "invalid_api_key",
    ),
    Case("auth", "refresh_credentials", "", 401),
    Case("auth", "refresh_credentials", "Forbidden", 403),
    Case(
        "auth",
        "refresh_credentials",
        "OAuth token has expired. Please obtain a new token or refresh your existing token.",
        401,
        "",
        "authentication_error",
    ),
    Case("auth", "refresh_credentials", "身份验证失败：无效的令牌", 401),
    Case(
        "auth",
        "refresh_credentials",
        "You do not have access to the model with the specified ID.",
        403,
        "AccessDeniedException",
    ),
    # output
    Case(
        "output_limit",
        "clamp_max_tokens",
        "max_tokens: 64000 > 8192, which is the maximum allowed "
        "number of output tokens for claude-3-5-sonnet-20241022",
        400,
        "",
        "invalid_request_error",
        (8_192, None, 64_000),
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "max_tokens is too large: 100000. This model supports at "
        "most 16384 completion tokens, whereas you provided 100000.",
        400,
        "invalid_value",
        "",
        (16_384, None, 100_000),
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        400,
        "",
        "",
        (8_192, None, None),
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "Range of max_tokens should be [1, 2000]",
        400,
        "InvalidParameter",
        "",
        (2_000, None, None),
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "The maximum tokens you requested exceeds the model limit of "
        "4096. Try again with a maximum tokens value that is lower than 4096.",
        400,
        "ValidationException",
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "max_output_tokens must be less than or equal to 32768",
        400,
        "",
        "",
        (32_768, None, None),
    ),
    Case(
        "output_limit",
        "keep_partial_and_continue_or_raise_cap",
        "max_output_tokens",
        200,
        "",
        "incomplete_details.reason",
    ),
    Case(
        "output_limit",
        "keep_partial_and_continue_or_raise_cap",
        "MAX_TOKENS",
        200,
        "",
        "finishReason",
    ),
    Case(
        "output_limit",
        "keep_partial_and_continue_or_raise_cap",
        "Claude's response exceeded the 32000 output token maximum.",
        None,
    ),
    Case(
        "output_limit",
        "keep_partial_and_continue_or_raise_cap",
        "Could not finish the message because "
        "max_tokens or model output limit was reached. Please try again with higher max_tokens.",
        400,
    ),
    # wrong requests
    Case(
        "invalid_request",
        "fix_parameters",
        "Unsupported parameter: 'max_tokens' is not supported with "
        "this model. Use 'max_completion_tokens' instead.",
        400,
        "unsupported_parameter",
    ),
    Case("invalid_request", "fix_parameters", "max_tokens must be at least 1, got 0", 400),
    Case(
        "invalid_request",
        "fix_parameters",
        "context_management: Extra inputs are not permitted",
        400,
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "messages.3: `tool_use` ids were found without `tool_result` "
        "blocks immediately after: toolu_1",
        400,
        "",
        "invalid_request_error",
    ),
    Case(
        "invalid_request", "fix_parameters", "messages: text content blocks must be non-empty", 400
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "Invalid 'user': string too long. Expected a string with "
        "maximum length 64, but got a string with length 90 instead.",
        400,
        "string_above_max_length",
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "Error rendering prompt with jinja template: missing context variable",
        400,
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        400,
    ),
    Case(
        "invalid_request", "fix_parameters", "The token you supplied for `stop` is not allowed", 400
    ),
    Case(
        "invalid_request",
        "remap_tool_ids",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        400,
    ),
    Case(
        "invalid_request",
        "remap_tool_ids",
        "Invalid 'messages[2].tool_calls[0].id': string too long. "
        "Expected a string with maximum length 40, but got a string with length 64 instead.",
        400,
        "string_above_max_length",
    ),
    Case("invalid_request", "reduce_tools", "tools: too many tools: 140 > 128 maximum", 400),
    Case(
        "invalid_request",
        "shrink_or_drop_images",
        "messages.0.content.0.image.source.base64: image "
        "exceeds 5 MB maximum: 6120000 bytes > 5242880 bytes",
        400,
    ),
    Case(
        "invalid_request",
        "shrink_or_drop_images",
        "too many images and documents: 101 + 0 > 100",
        400,
    ),
    Case(
        "invalid_request",
        "shrink_or_drop_images",
        "A maximum of 100 PDF pages may be provided.",
        400,
    ),
    Case("invalid_request", "shrink_or_drop_images", "Could not process image", 400),
    Case(
        "invalid_request",
        "strip_or_restore_thinking_and_retry_once",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        400,
    ),
    Case(
        "invalid_request",
        "strip_or_restore_thinking_and_retry_once",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
        400,
    ),
    Case(
        "invalid_request",
        "repair_surrogates_and_retry_once",
        "invalid high surrogate in string: line 1 column 9000",
        400,
    ),
    # size in bytes
    Case(
        "payload_too_large",
        "drop_or_shrink_media_then_shrink_input",
        "the pictures that have piled up exceed the request size of 30 MB",
        413,
    ),
    Case(
        "quota_billing", "stop_and_tell_user", "Endpoint paused: its inference limit is used", 503
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        "give only one of max_tokens and max_completion_tokens",
        400,
    ),
    Case(
        "payload_too_large",
        "drop_or_shrink_media_then_shrink_input",
        "<html><head><title>413 Request Entity Too Large</title></head><body><center><h1>413 "
        "Request Entity Too Large</h1></center></body></html>",
        413,
    ),
    Case(
        "payload_too_large",
        "drop_or_shrink_media_then_shrink_input",
        "Request payload size exceeds the limit: 20971520 bytes.",
        400,
        "INVALID_ARGUMENT",
    ),
    Case(
        "payload_too_large",
        "externalise_or_truncate_that_string",
        "Invalid 'messages[1].content': string too long. Expected a string with maximum "
        "length 1048576, but got a string with length 1540820 instead.",
        400,
        "string_above_max_length",
        "",
        (1_048_576, 1_540_820, None),
    ),
    # the way there
    Case("timeout", "do_not_retry", "Request was aborted.", None),
    Case("timeout", "retry_with_backoff", "Request timed out.", None),
    Case("timeout", "retry_with_backoff", "context deadline exceeded", None),
    Case(
        "timeout",
        "retry_with_backoff",
        'Post "https://api": context deadline exceeded '
        "(Client.Timeout exceeded while awaiting headers)",
        None,
    ),
    Case("timeout", "retry_with_backoff", "", 504),
    Case(
        "transport",
        "retry_with_backoff",
        "<!DOCTYPE html><html><title>502 Bad Gateway</title></html>",
        502,
    ),
    Case(
        "transport",
        "retry_with_backoff",
        "<html><body>Our model has a maximum context length of 8192 "
        "tokens, read more</body></html>",
        200,
    ),
    Case("transport", "retry_with_backoff", "Connection error.", None),
    Case(
        "transport",
        "retry_with_backoff",
        "peer closed connection without sending complete message body (incomplete chunked read)",
        None,
    ),
    Case(
        "transport",
        "retry_with_backoff",
        "Error -3 while decompressing data: incorrect header check",
        None,
    ),
    Case("transport", "retry_with_backoff", "Internal server error", 500, "", "api_error"),
    Case("transport", "retry_with_backoff", "", 500),
    Case("transport", "retry_with_backoff", "Unexpected token < in JSON at position 0", None),
    Case("transport", "retry_with_backoff", "read ECONNRESET", None),
    Case("transport", "retry_with_backoff", "unexpected EOF", None),
    # nothing to go by
    Case("ambiguous", "decide_by_own_estimate", "", 400),
    Case("ambiguous", "decide_by_own_estimate", "400 status code (no body)", 400),
    Case("ambiguous", "decide_by_own_estimate", "Bad Request", 400),
    Case("ambiguous", "stop_and_tell_user", "the flux capacitor is misaligned", None),
    # not about a model call
    Case(
        "tool_error",
        "ignore",
        "File content (28375 tokens) exceeds maximum allowed tokens (25000). Please "
        "use offset and limit parameters to read specific portions of the file.",
        None,
        "",
        "tool",
    ),
    Case("channel_error", "split_message", "Bad Request: message caption is too long", 400),
    Case(
        "channel_error",
        "split_message",
        "Must be 2000 or fewer in length.",
        400,
        "BASE_TYPE_MAX_LENGTH",
    ),
    Case(
        "not_an_error",
        "ignore",
        "prompt is too long: 207791 tokens > 200000 maximum",
        None,
        "",
        "chat",
    ),
    Case(
        "config_error",
        "stop_and_tell_user",
        "The model `gpt-9-256k-context` does not exist",
        404,
        "model_not_found",
    ),
    Case(
        "config_error",
        "stop_and_tell_user",
        "context window too small: 2048 tokens, at least 16000 needed",
        None,
    ),
)


class Probe(NamedTuple):
    """An error and its class, from a second set that was written when the rules were done."""

    kind: str
    status: int | None
    code: str
    type: str
    message: str


PROBES: tuple[Probe, ...] = (
    Probe("rate_limit", 429, "", "", "Queue limit exceeded, max context in flight"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Requested token count exceeds the model's maximum context length of 131072 "
        "tokens. You requested a total of 140000 tokens: 132000 tokens from the input "
        "messages and 8000 tokens for the completion. Please reduce the number of tokens "
        "in the input messages or the completion to fit within the limit.",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Input validation error: prompt and max_new_tokens 9000 exceed the limit 8192",
    ),
    Probe("context_overflow", 400, "", "", "maximum allowed input length exceeded"),
    Probe(
        "context_overflow",
        500,
        "",
        "",
        "The sum of prompt length (8100.0), query length (0) should not exceed "
        "max_num_tokens (8192)",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Input length of 40000 is longer than the model's max length 32768",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Total number of tokens (prompt + completion) 35000 exceeds model limit 32768",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Your prompt has 9000 tokens which is more than the 8192 allowed",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The message you submitted was too long, please reload the conversation and "
        "submit something shorter.",
    ),
    Probe(
        "context_overflow",
        413,
        "",
        "",
        "Request body is too large for this model: 140000 tokens, max 128000 tokens",
    ),
    Probe(
        "context_overflow",
        400,
        "tokens_limit_reached",
        "",
        "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    ),
    Probe("context_overflow", 400, "", "", "context_window_exceeded"),
    Probe("context_overflow", 400, "", "", "Prompt length exceeds model's max tokens"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "input too large: the total tokens 300000 exceed the maximum 262144",
    ),
    Probe("context_overflow", 400, "", "", "Maximum tokens exceeded: 9000 > 8192"),
    Probe("context_overflow", 400, "", "", "prompt_tokens 9000 is over the limit 8192"),
    Probe("context_overflow", None, "", "", "ollama: input length exceeds maximum context length"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The prompt exceeds the model's maximum input of 200k tokens",
    ),
    Probe(
        "context_overflow",
        400,
        "InvalidParameter",
        "",
        "Total tokens of the conversation exceed the model's limit. Request id: 021",
    ),
    Probe(
        "context_overflow",
        400,
        "20015",
        "",
        "length of prompt_tokens (140000) must be less than max_seq_len (131072).",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The total length of input and output exceeds the maximum context window",
    ),
    Probe("context_overflow", 400, "", "", "输入token长度超过模型限制"),
    Probe("context_overflow", 400, "", "", "请求的上下文过大"),
    Probe("context_overflow", 400, "", "", "会话历史过长，请清理后重试"),
    Probe("context_overflow", 400, "", "", "最大上下文长度为 32768 tokens，请求了 40000 tokens"),
    Probe("context_overflow", 400, "", "", "模型的最大输入长度是30720"),
    Probe("context_overflow", 400, "", "", "文本长度超过模型支持的最大长度"),
    Probe("context_overflow", 400, "", "", "Message history too long"),
    Probe("context_overflow", 400, "", "", "Conversation history exceeds model capacity"),
    Probe(
        "context_overflow",
        None,
        "",
        "",
        "Unable to process: input exceeds the model's capacity of 4096 tokens",
    ),
    Probe("context_overflow", 400, "", "", "messages too long: total 250000 tokens"),
    Probe("context_overflow", 400, "", "", "MODEL_CONTEXT_LIMIT_EXCEEDED"),
    Probe("context_overflow", 400, "max_tokens_exceeded", "", "Too many tokens in prompt"),
    Probe(
        "context_overflow", 400, "", "", "Error: This model only supports 8192 tokens of context"
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The context length (40000) is greater than the allowed maximum (32768)",
    ),
    Probe(
        "context_overflow", 400, "", "", "Model's context length is 4096 tokens but 5000 were given"
    ),
    Probe("context_overflow", None, "", "", "llama_decode: failed to decode, n_tokens > n_ctx"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Bad request: Your request's total token usage is over the model's limit",
    ),
    Probe("context_overflow", 400, "", "", "request exceeds the maximum number of tokens"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "This prompt would use 210,000 tokens, but only 200,000 are available",
    ),
    Probe("context_overflow", 400, "", "", "Input is longer than the maximum context"),
    Probe("context_overflow", 400, "", "", "The text is too long for the model to process"),
    Probe("context_overflow", 400, "", "", "Prompt tokens: 5000. Max context: 4096."),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Sorry, the response hit the length limit because the prompt is too long. Please "
        "rephrase your prompt.",
    ),
    Probe(
        "context_overflow", 400, "", "", "max_total_tokens (4096) exceeded: inputs 4000 + new 200"
    ),
    Probe(
        "tpm_limit",
        429,
        "",
        "",
        "Rate limit exceeded: You have exceeded the token limit per minute of 100000",
    ),
    Probe("tpm_limit", 429, "", "", "Limit 200000 tokens/min reached on input. Current: 210000"),
    Probe("tpm_limit", 429, "", "", "You have exceeded your input tokens per minute quota"),
    Probe(
        "tpm_limit", 413, "", "", "Request too large: tokens per minute limit 8000, requested 9000"
    ),
    Probe(
        "tpm_limit",
        429,
        "429",
        "",
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version "
        "have exceeded token rate limit of your current OpenAI S0 pricing tier. Please "
        "retry after 6 seconds.",
    ),
    Probe("tpm_limit", 429, "", "", "TPM limit reached"),
    Probe("tpm_limit", 429, "", "", "Too many tokens, please wait before trying again."),
    Probe(
        "rate_limit",
        429,
        "",
        "",
        "Model is overloaded with requests. Context window requests are queued.",
    ),
    Probe(
        "rate_limit",
        429,
        "",
        "",
        "We're currently processing too many requests — please try again later.",
    ),
    Probe("rate_limit", None, "", "overloaded_error", "Overloaded"),
    Probe("rate_limit", 503, "", "", "no healthy upstream"),
    Probe("rate_limit", 429, "", "", "quota exceeded for requests per minute"),
    Probe(
        "quota_billing",
        403,
        "",
        "",
        "Key limit exceeded (total limit). Manage it using the settings page",
    ),
    Probe(
        "quota_billing", 402, "", "", "Insufficient credits. This account never purchased credits."
    ),
    Probe("quota_billing", 429, "", "", "You've hit your limit · resets 3pm"),
    Probe(
        "quota_billing",
        400,
        "",
        "",
        "Your account has insufficient funds for a request with 200000 context tokens",
    ),
    Probe("quota_billing", 429, "", "", "Monthly token quota exhausted"),
    Probe("quota_billing", 429, "1113", "", "您的账户已欠费，请充值后重试。"),
    Probe("auth", 401, "", "", "Unauthorized"),
    Probe("auth", 403, "", "", "Request had insufficient authentication scopes."),
    Probe("auth", 401, "", "", "token is expired or the context is not authorised"),
    Probe("auth", 400, "", "", "Missing bearer or basic authentication in header"),
    Probe("auth", 401, "", "", "invalid_grant: Token has been expired or revoked."),
    Probe(
        "output_limit",
        400,
        "",
        "",
        "max_tokens must be less than or equal to 8192, the maximum value for max_tokens "
        "is less than the context_window for this model",
    ),
    Probe(
        "output_limit",
        400,
        "",
        "",
        "max_completion_tokens is too large: 200000. This model supports at most 128000 "
        "completion tokens",
    ),
    Probe("output_limit", 400, "", "", "Invalid value for maxTokens: must be in range [1, 4096]"),
    Probe(
        "output_limit", 400, "", "", "The requested max_new_tokens 5000 exceeds the allowed 4096"
    ),
    Probe("output_limit", 400, "", "", "maxOutputTokens must be in the range 1 to 8192"),
    Probe("output_limit", 400, "", "", "`max_tokens` exceeds the maximum of 4096"),
    Probe(
        "invalid_request", 400, "", "", "messages: roles must alternate between user and assistant"
    ),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "Invalid value: 'tool'. Supported values are: 'system', 'assistant', 'user'",
    ),
    Probe("invalid_request", 400, "", "", "context: Input should be a valid dictionary"),
    Probe("invalid_request", 400, "", "", "The `messages` array is too long: 3000 > 2048"),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "stop: array too long. Expected an array with maximum length 4",
    ),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "system: text content blocks must contain non-whitespace text",
    ),
    Probe("invalid_request", 400, "", "", "Function name is too long: maximum length 64"),
    Probe("invalid_request", 400, "", "", "metadata: key is longer than the 64 characters allowed"),
    Probe("invalid_request", 400, "", "", "image dimensions exceed max allowed size: 8000 pixels"),
    Probe("invalid_request", 400, "", "", "The image context could not be decoded"),
    Probe("invalid_request", 400, "", "", "Invalid JSON in tool input token stream"),
    Probe("invalid_request", 400, "", "", "logprobs exceeds the maximum of 20"),
    Probe("invalid_request", 400, "", "", "n must be at most 128"),
    Probe("payload_too_large", 413, "", "", "request entity too large"),
    Probe("payload_too_large", 400, "", "", "Request body exceeds 32 MB"),
    Probe("payload_too_large", None, "FUNCTION_PAYLOAD_TOO_LARGE", "", "Request Entity Too Large"),
    Probe(
        "payload_too_large",
        413,
        "",
        "request_too_large",
        "Request exceeds the maximum allowed number of bytes.",
    ),
    Probe("timeout", None, "", "", "AbortError: This operation was aborted"),
    Probe(
        "timeout",
        None,
        "",
        "",
        "net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
    ),
    Probe("timeout", 524, "", "", "A timeout occurred"),
    Probe(
        "timeout",
        None,
        "",
        "",
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    ),
    Probe("timeout", None, "", "", "Stream idle timeout: no tokens received for 60s"),
    Probe("transport", None, "", "", "error decoding response body: unexpected end of file"),
    Probe("transport", 520, "", "", "Web server is returning an unknown error"),
    Probe("transport", None, "", "", "getaddrinfo ENOTFOUND api.example.com"),
    Probe(
        "transport", None, "", "", "Failed to parse JSON: Unexpected token I in JSON at position 0"
    ),
    Probe("transport", 502, "", "", "Bad gateway: error reading context from upstream"),
    Probe("tool_error", None, "", "tool", "Error: file too large (300000 tokens)"),
    Probe("channel_error", 400, "", "", "telegram.error.BadRequest: Message is too long"),
    Probe(
        "channel_error",
        None,
        "",
        "",
        "Invalid Form Body: content: Must be 2000 or fewer in length.",
    ),
    Probe("not_an_error", None, "", "user", "why do I get context_length_exceeded?"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Invalid request: Your request exceeded model token limit: 131072",
    ),
    Probe(
        "context_overflow",
        422,
        "",
        "",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
        "Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",
    ),
    Probe("context_overflow", 400, "", "", "Validation: prompt too large. Limit is 100000 tokens."),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The request was too large for the model's context window; 140,213 tokens were "
        "submitted, 128,000 allowed",
    ),
    Probe("context_overflow", 400, "BadRequest", "", "[{'error': 'context exceeded'}]"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Received a request with 45000 tokens but max allowed is 32768",
    ),
    Probe("context_overflow", 400, "", "", "Tokens in prompt exceeds limit"),
    Probe("context_overflow", 400, "", "", "AI21: Prompt has too many tokens: 9000 (limit 8191)"),
    Probe("context_overflow", 400, "", "", "Input too long. Max 32000 tokens, got 40000 tokens"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "The combined length of the prompt and completion cannot exceed 4096",
    ),
    Probe("context_overflow", 400, "", "", "your request is too big for this model"),
    Probe("context_overflow", 400, "", "", "Prompt must not exceed 30000 characters"),
    Probe("context_overflow", 400, "", "", "exceeded max context length by 312 tokens"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "input_tokens (120000) + max_tokens (10000) = 130000 > 128000",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "prompt tokens 5000 + completion tokens 4000 > context length 8192",
    ),
    Probe(
        "context_overflow", 500, "", "", "Error processing request: sequence too long (9000 > 8192)"
    ),
    Probe("context_overflow", 400, "", "", "Unprocessable: token count 9000 over maximum 8192"),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "message: This model's context window has been exceeded, compact the conversation",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "the context is longer than what the model supports (40000 vs 32768)",
    ),
    Probe(
        "context_overflow",
        None,
        "",
        "",
        "API Error: 400 "
        '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is '
        'too long: 205000 tokens > 200000 maximum"},"request_id":"req_1"}',
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
    ),
    Probe(
        "context_overflow",
        400,
        "invalid_parameter_error",
        "",
        "<400> InternalError.Algo.InvalidParameter: Input length exceeds the limit",
    ),
    Probe("context_overflow", 400, "", "", "Error: 400 当前请求token数超出模型上限"),
    Probe("context_overflow", 400, "", "", "消息总长度超出模型上下文窗口"),
    Probe(
        "context_overflow", 400, "", "", "Límite de contexto superado: el prompt tiene 9000 tokens"
    ),
    Probe(
        "context_overflow",
        None,
        "",
        "",
        "vertexai: 400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'The input "
        "token count (1500000) exceeds the maximum number of tokens allowed "
        "(1048576).', 'status': 'INVALID_ARGUMENT'}}",
    ),
    Probe(
        "context_overflow",
        400,
        "",
        "",
        "Unable to submit request because the input token count is 40000 but model "
        "only supports up to 32768. Reduce the input token count and try again.",
    ),
    Probe("context_overflow", 400, "", "", "Please shorten your prompt"),
    Probe("context_overflow", 400, "", "", "Conversation exceeded the maximum length"),
    Probe("context_overflow", 400, "", "", "your message exceeds the maximum context length"),
    Probe("output_limit", 400, "", "", "max_tokens (100000) cannot be greater than 8192"),
    Probe(
        "output_limit",
        400,
        "",
        "",
        "Unable to submit request because it has a maxOutputTokens value of 100000 but "
        "the supported range is from 1 (inclusive) to 8193 (exclusive).",
    ),
    Probe("output_limit", 400, "", "", "The value of max_tokens should be in [1, 4096]"),
    Probe("output_limit", 400, "", "", "max_tokens 参数超出范围，最大 4096"),
    Probe("output_limit", 422, "", "", "ensure max_tokens is less than or equal to 4096"),
    Probe(
        "output_limit",
        400,
        "",
        "",
        "integer above maximum value: max_output_tokens expected <= 128000 but got 200000",
    ),
    Probe(
        "output_limit",
        400,
        "integer_above_max_value",
        "",
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= "
        "128000, but got 200000 instead.",
    ),
    Probe(
        "invalid_request",
        400,
        "integer_below_min_value",
        "",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= "
        "16, but got 1 instead.",
    ),
    Probe("invalid_request", 400, "", "", "max_tokens: Field required"),
    Probe(
        "invalid_request", 400, "", "", "`max_tokens` must be greater than `thinking.budget_tokens`"
    ),
    Probe("invalid_request", 400, "", "", "thinking.budget_tokens: must be less than max_tokens"),
    Probe("invalid_request", 400, "", "", "num_ctx must be positive"),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "Prompt caching: cache_control cannot be set for empty text blocks",
    ),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "tools.0.custom.description: String should have at most 1024 characters",
    ),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "messages.2.content.0.image.source: image file size too large",
    ),
    Probe(
        "invalid_request",
        400,
        "",
        "",
        "An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each 'tool_call_id'.",
    ),
    Probe("tpm_limit", 429, "", "", "Request rejected: input token rate exceeded. Retry later"),
    Probe(
        "tpm_limit",
        429,
        "rate_limit_exceeded",
        "tokens",
        "Rate limit reached for gpt-4 in organization org-x on tokens per day (TPD): "
        "Limit 100000, Used 99000, Requested 2000.",
    ),
    Probe(
        "tpm_limit",
        429,
        "",
        "",
        "Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, "
        "limit: 250000, model: gemini-2.5-pro. Please retry in 12.3s.",
    ),
    Probe("tpm_limit", 429, "", "", "您的账户TPM已达上限"),
    Probe("rate_limit", 429, "", "", "Requests rate limit exceeded, please try again later."),
    Probe(
        "rate_limit",
        429,
        "",
        "rate_limit_error",
        "Number of concurrent connections has exceeded your rate limit.",
    ),
    Probe("rate_limit", 503, "UNAVAILABLE", "", "The model is overloaded. Please try again later."),
    Probe("rate_limit", 503, "", "", "Service Unavailable"),
    Probe(
        "rate_limit",
        429,
        "ThrottlingException",
        "",
        "Too many requests, please wait before trying again.",
    ),
    Probe(
        "quota_billing",
        429,
        "",
        "",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    Probe(
        "quota_billing",
        400,
        "Arrearage",
        "",
        "Access denied, please make sure your account is in good standing.",
    ),
    Probe(
        "quota_billing",
        402,
        "",
        "",
        "Prompt tokens limit exceeded: 25000 > 11771. To increase, visit "
        "https://openrouter.ai/settings/credits",
    ),
    Probe("quota_billing", None, "", "client", "Claude AI usage limit reached|1760000000"),
    Probe("quota_billing", 403, "", "", "Your organization's monthly spend limit has been reached"),
    Probe("auth", 403, "PERMISSION_DENIED", "", "Permission denied: Consumer has been suspended."),
    Probe("auth", 401, "", "", "No auth credentials found"),
    Probe("auth", 401, "", "", "User not found."),
    Probe(
        "auth", 403, "", "", "Your API key does not have permission to use the long-context model"
    ),
    Probe("auth", 400, "API_KEY_INVALID", "", "API key expired. Please renew the API key."),
    Probe("payload_too_large", 413, "", "", "413 Request Entity Too Large nginx"),
    Probe(
        "payload_too_large", 400, "", "", "Request payload size exceeds the limit: 10485760 bytes"
    ),
    Probe(
        "payload_too_large",
        413,
        "",
        "",
        "Maximum request body size 1048576 exceeded, actual body size 2000000",
    ),
    Probe(
        "payload_too_large",
        400,
        "string_above_max_length",
        "",
        "Invalid 'messages[3].content[0].text': string too long. Expected a string "
        "with maximum length 10485760, but got a string with length 12000000 instead.",
    ),
    Probe(
        "payload_too_large",
        400,
        "string_above_max_length",
        "",
        "Invalid 'input[7].output': string too long. Expected a string with maximum "
        "length 10485760, but got a string with length 20000000 instead.",
    ),
    Probe("timeout", None, "", "", "context deadline exceeded"),
    Probe(
        "timeout",
        None,
        "",
        "client",
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
    ),
    Probe("timeout", None, "", "", "The operation was canceled."),
    Probe("timeout", None, "", "", "asyncio.exceptions.CancelledError"),
    Probe(
        "transport",
        None,
        "",
        "",
        "stream disconnected before completion: error sending request for url",
    ),
    Probe("transport", 500, "", "api_error", "Internal server error"),
    Probe("transport", None, "", "", "SSLError: certificate verify failed"),
    Probe("tool_error", None, "", "tool", "Output too large (45.2KB). Full output saved to file"),
    Probe(
        "tool_error",
        None,
        "",
        "tool_result",
        "File content (25600 tokens) exceeds maximum allowed tokens (25000).",
    ),
    Probe("channel_error", 400, "", "", "Bad Request: message caption is too long"),
    Probe(
        "channel_error",
        400,
        "50035",
        "",
        "Invalid Form Body content: Must be 4000 or fewer in length.",
    ),
    Probe("channel_error", None, "msg_too_long", "", "msg_too_long"),
    Probe(
        "not_an_error",
        None,
        "",
        "assistant",
        "The error context_length_exceeded means that the prompt is too long.",
    ),
    Probe(
        "config_error",
        None,
        "",
        "client",
        "Context window too small: 8000 tokens. Minimum is 16000.",
    ),
    Probe(
        "config_error",
        None,
        "",
        "",
        "Model context window too small (8192 tokens). Minimum is 16000.",
    ),
    Probe(
        "ambiguous",
        None,
        "",
        "warning",
        "Token indices sequence length is longer than the specified maximum sequence "
        "length for this model (1030 > 1024). Running this sequence through the model "
        "will result in indexing errors",
    ),
    Probe("ambiguous", 400, "", "", "(no body)"),
    Probe(
        "silent_overflow",
        200,
        "",
        "",
        "truncating input prompt limit=4096 prompt=9000 keep=5 new=4096",
    ),
)

LEARNED_OVERFLOWS: tuple[Case, ...] = (
    overflow("this turn would exceed session max length", 500),
    overflow("max tokens of 65,536 exceeded", limit=65_536),
    overflow("cannot truncate the prompt to 4096 tokens: 5120 required", limit=4_096, sent=5_120),
    overflow("too many total text bytes in the messages"),
    overflow("Your prompt is too long: max tokens allowed is 300, got 412", limit=300, sent=412),
    overflow(
        "12010 input tokens were passed and 0 output tokens requested, but the context length is "
        "only 12000 tokens",
        limit=12_000,
        sent=12_010,
    ),
    overflow("Conversation too long. Go back a few messages and try again.", None),
    overflow("context length exceeded: num_ctx is 4096, prompt has 5000", limit=4_096, sent=5_000),
    overflow(
        "length of prompt_tokens (7000) must be less than max_seq_len (4096)",
        None,
        limit=4_096,
        sent=7_000,
    ),
    overflow(
        '{"error_code": "BAD_REQUEST", "message": "{\\"upstream_model_error\\": '
        '{\\"error\\": {\\"message\\": \\"prompt is too long: 9000 tokens > 8192 maximum\\"}}}"}',
        limit=8_192,
        sent=9_000,
    ),
    overflow_with_output("max_tokens must be at least 1, got -1400."),
    overflow_with_output(
        "Input tokens length is 30000. Output tokens length is 4000. Range of total length should "
        "be less than or equal to 32768",
        limit=32_768,
        sent=30_000,
        output=4_000,
    ),
    Case(
        "context_overflow",
        "deterministic_trim_fallback",
        "Error during compaction: Conversation too long.",
    ),
)
LEARNED_MISSES: tuple[Case, ...] = (
    Case("config_error", "stop_and_tell_user", "house/model-9 is not a valid model ID", 400),
    Case("config_error", "stop_and_tell_user", "Model Not Exist", 400),
    Case(
        "config_error",
        "stop_and_tell_user",
        "The model house-9 does not exist or you do not have access to it.",
        404,
    ),
    Case("config_error", "stop_and_tell_user", "model: house-9", 404, "", "not_found_error"),
    Case("config_error", "stop_and_tell_user", "The model identifier given is invalid.", 400),
    Case("invalid_request", "fix_parameters", "max_tokens must be at least 1, got 0", 400),
    Case(
        "invalid_request",
        "fix_parameters",
        "Requests with max_tokens > 16000 must set stream=true",
        400,
    ),
    Case(
        "invalid_request",
        "fix_parameters",
        'Invalid JSON payload received. Unknown name "effort": Cannot find field.',
        400,
    ),
    Case("invalid_request", "fix_parameters", "InvalidArgument: it has an invalid argument."),
    Case(
        "invalid_request",
        "strip_or_restore_thinking_and_retry_once",
        "Item r1 of type 'reasoning' was provided without the item that must follow it.",
        400,
    ),
    Case("invalid_request", "shrink_or_drop_images", "Exceeded the limit on data-uris: 250", 400),
    Case(
        "output_limit",
        "clamp_max_tokens",
        "field MaxTokens invalid, should be in [1, 65536]",
        400,
        numbers=(65_536, None, None),
    ),
    Case(
        "output_limit",
        "clamp_max_tokens",
        '{"error": {"message": "Param Incorrect", "param": "max_tokens is too large: 9000. '
        'This model supports at most 8000 completion tokens."}}',
        400,
        numbers=(8_000, None, 9_000),
    ),
    Case(
        "tpm_limit",
        "wait_and_retry",
        "organization TPM rate limit reached, current: 130000, limit: 128000",
        429,
    ),
    Case(
        "rate_limit",
        "wait_and_retry",
        "Quota exceeded for metric: example.com/free_tier_requests, limit: 20. Retry in 36s.",
        429,
    ),
    Case("quota_billing", "stop_and_tell_user", "You have used up your request allowance."),
    Case("quota_billing", "stop_and_tell_user", "已达到5小时的使用上限，限额将在明天重置", 429),
    Case("auth", "refresh_credentials", "CSRF token mismatch", 400),
    Case("timeout", "retry_with_backoff", "error code: 524", 524),
    Case("timeout", "do_not_retry", "Retry cancelled"),
    Case("transport", "retry_with_backoff", "Error: Premature close"),
    Case("transport", "retry_with_backoff", "SyntaxError: Unexpected token 'd', is not valid JSON"),
    Case("transport", "retry_with_backoff", "bufio.Scanner: token too long"),
    Case(
        "transport",
        "retry_with_backoff",
        "<html><body><p>The page is currently unavailable.</p></body></html>",
        502,
    ),
    Case(
        "ambiguous",
        "ignore_unless_error",
        "WARN requested context size too large for model num_ctx=8192 n_ctx_train=2048",
    ),
)
"""What texts that people have shown in public taught the rules."""
