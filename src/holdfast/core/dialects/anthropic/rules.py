"""Rules of Anthropic's Messages API, and of Bedrock.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.common.rule import CommonRules, PictureRules, ProviderRule
from holdfast.core.text.lazy_pattern import lazy_pattern

THINKING_TOKENS_MIN: Final = 1_024
"""The API refuses a smaller thinking budget."""
_VERSION: Final = lazy_pattern(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2})(?!\d))?(?!\d)")
_ADAPTIVE_SINCE: Final = (4, 6)
FIRST: Final = ProviderRule(
    "first-is-user",
    'messages: first message must use the "user" role',
    "lobehub/lobehub#1601",
)
ALTERNATE: Final = ProviderRule(
    "bedrock-roles-alternate",
    "A conversation must alternate between user and assistant roles. Make sure the conversation "
    "alternates between user and assistant roles and try again.",
    "microsoft/semantic-kernel#10277",
)
ENDS: Final = ProviderRule(
    "ends-with-user",
    "This model does not support assistant message prefill. The conversation must end with a "
    "user message.",
    "smallmain/vscode-unify-chat-provider#249",
)
TRAILING: Final = ProviderRule(
    "prefill-trailing-space", "final assistant content cannot end with trailing whitespace"
)
ANSWERED: Final = ProviderRule(
    "tool-use-answered",
    "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "{ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
    "message.",
    "anthropics/claude-code#2796",
)
EXPECTED: Final = ProviderRule(
    "tool-result-expected",
    "{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` "
    "block must have a corresponding `tool_use` block in the previous message.",
    "anthropics/claude-code#8484",
)
RESULTS_FIRST: Final = ProviderRule(
    "results-first",
    "Did not find {count} tool_result block(s) at the beginning of this message. Messages "
    "following tool_use blocks must begin with a matching number of tool_result blocks.",
    "aaif-goose/goose#1624",
)
UNIQUE: Final = ProviderRule(
    "tool-use-ids-unique",
    "{where}: `tool_use` ids must be unique",
    "BerriAI/litellm#23510",
)
SINGLE: Final = ProviderRule(
    "one-result-per-id",
    "{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
    "id: {id}",
    "vectorize-io/hindsight#4250",
)
ID: Final = ProviderRule(
    "tool-use-id-pattern",
    "{where}: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "experientiallabs/experiential#801",
)
ID_LENGTH: Final = ProviderRule(
    "tool-use-id-length", "{where}: String should have at most {limit} characters"
)
SERVED: Final = ProviderRule(
    "server-result-follows-use",
    "{where}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must "
    "have a corresponding `server_tool_use` block before it.",
    "anthropics/claude-code#64026",
)
UNSERVED: Final = ProviderRule(
    "server-use-has-result",
    "{where}: `{name}` tool use with id `{id}` was found without a corresponding result block",
)
BLOCK_ROLE: Final = ProviderRule(
    "block-role", "{where}: `{kind}` blocks can only be in `{role}` messages"
)
EMPTY: Final = ProviderRule(
    "content-not-empty",
    "messages.{index}: all messages must have non-empty content except for the optional final "
    "assistant message",
    "anthropics/claude-code#3196",
)
EMPTY_TEXT: Final = ProviderRule(
    "text-not-empty", "messages: text content blocks must be non-empty", "block/buzz#559"
)
THINKING_FIRST: Final = ProviderRule(
    "thinking-first",
    "{where}.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
    "`thinking` is enabled, a final `assistant` message must start with a thinking block "
    "(preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    "anomalyco/opencode#3077",
)
THINKING_OFF: Final = ProviderRule(
    "thinking-off",
    "{where}: When thinking is disabled, an `assistant` message in the final position cannot "
    "contain `thinking`.",
    "tailcallhq/forgecode#1853",
)
MODIFIED: Final = ProviderRule(
    "thinking-unmodified",
    "{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response.",
    "anthropics/claude-code#63277",
)
SIGNATURE: Final = ProviderRule(
    "thinking-signature",
    "{where}: Invalid `signature` in `thinking` block",
    "openclaw/openclaw#107221",
)
MAX_TOKENS: Final = ProviderRule("max-tokens-required", "max_tokens: Field required")
BUDGET: Final = ProviderRule(
    "thinking-budget-below-max",
    "`max_tokens` must be greater than `thinking.budget_tokens`.",
    "sigoden/aichat#1304",
)
BUDGET_MIN: Final = ProviderRule(
    "thinking-budget-min",
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    "themaximalist/llm.js#30",
)
MARKS: Final = ProviderRule(
    "cache-marks-max",
    "A maximum of {limit} blocks with cache_control may be provided. Found {count}.",
    "tghamm/Anthropic.SDK#50",
)
TOOL_NAMES: Final = ProviderRule("tool-names-unique", "tools: Tool names must be unique.")
DECLARED: Final = ProviderRule(
    "bedrock-tools-declared",
    "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    "patriceckhart/zot#18",
)
BEDROCK_MISSING: Final = ProviderRule(
    "bedrock-results-missing",
    "Expected toolResult blocks at messages.{index}.content for the following Ids: {ids}",
    "outshift-open/mas-lab#55",
)
BEDROCK_EXCESS: Final = ProviderRule(
    "bedrock-results-excess",
    "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse "
    "blocks of previous turn.",
    "Just-Curieous/Curie#16",
)
BEDROCK_UNIQUE: Final = ProviderRule(
    "bedrock-ids-unique",
    "The toolUse blocks at messages.{index}.content contain duplicate Ids: {ids}",
    "bvcyber/Cyber-AutoAgent-ng#72",
)
COMMON: Final = CommonRules(
    shape=ProviderRule("request-shape", "{where}: Input should be {what}"),
    unicode=ProviderRule(
        "valid-unicode",
        "The request body is not valid JSON: no low surrogate in string: line 1 column … "
        "(char {position})",
        "anthropics/claude-code#56064",
    ),
    size=ProviderRule(
        "body-bytes",
        "413 request_too_large: Request exceeds the maximum size ({size} > {limit} bytes)",
        "earendil-works/pi#401",
    ),
    name=ProviderRule(
        "tool-name", "{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,{limit}}}$'"
    ),
    pictures=PictureRules(
        count=ProviderRule(
            "images-max",
            "Too many images in the request: {count} > {limit} (limit known, its text not seen)",
            "earendil-works/pi#401",
        ),
        kind=ProviderRule(
            "image-type",
            "{where}.source.base64.media_type: Input should be 'image/jpeg', 'image/png', "
            "'image/gif' or 'image/webp'",
        ),
        data=ProviderRule("image-data", "{where}.source.base64.data: Could not process image"),
        size=ProviderRule(
            "image-bytes",
            "{where}.source.base64: image exceeds 5 MB maximum: {size} bytes > {limit} bytes",
            "boldsoftware/shelley#213",
        ),
        pixels=ProviderRule(
            "image-pixels",
            "{where}.source.base64.data: At least one of the image dimensions exceed max allowed "
            "size: {limit} pixels",
            "damianvtran/local-operator#153",
        ),
        many_pixels=ProviderRule(
            "many-image-pixels",
            "{where}.source.base64.data: At least one of the image dimensions exceed max allowed "
            "size for many-image requests: {limit} pixels",
            "damianvtran/local-operator#153",
        ),
    ),
)

RULES: Final = (
    *(*COMMON.rules, MAX_TOKENS, FIRST, ENDS, TRAILING),
    *(EMPTY, EMPTY_TEXT, BLOCK_ROLE, ANSWERED, EXPECTED, RESULTS_FIRST, UNIQUE, SINGLE),
    *(ID, ID_LENGTH, SERVED, UNSERVED),
    *(THINKING_FIRST, THINKING_OFF, MODIFIED, SIGNATURE, BUDGET, BUDGET_MIN, MARKS),
    *COMMON.pictures.rules,
    *(COMMON.name, TOOL_NAMES),
    *(ALTERNATE, DECLARED, BEDROCK_MISSING, BEDROCK_EXCESS, BEDROCK_UNIQUE),
)


def is_adaptive(model: str) -> bool:
    """Return whether a model decides by itself how much it thinks; the same ones refuse a
    prefill."""
    found = _VERSION.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _ADAPTIVE_SINCE
