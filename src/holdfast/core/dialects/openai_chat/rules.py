"""Rules of Chat Completions: OpenAI's, and those of compatible hosts.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rule import CommonRules, PictureRules, ProviderRule

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

    Messages = list[tuple[int, Json]]


FOLLOWS: Final = ProviderRule(
    "tool-follows-call",
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
    "with 'tool_calls'.",
    "BerriAI/litellm#4931",
)
DEEPSEEK_FOLLOWS: Final = ProviderRule(
    "deepseek-tool-follows-call",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    "itmisx/deepx-code#94",
)
KIMI_FOLLOWS: Final = ProviderRule(
    "kimi-tool-call-id-known", "tool_call_id {id} is not found", "EvoScientist/EvoScientist#360"
)
ANSWERED: Final = ProviderRule(
    "calls-answered",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
    "HKUDS/OpenHarness#240",
)
ID_LENGTH: Final = ProviderRule(
    "call-id-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "vercel/ai#5171",
)
STRING: Final = ProviderRule(
    "string-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "gptscript-ai/clio#41",
)
TOOLS: Final = ProviderRule(
    "tools-max",
    "Invalid 'tools': array too long. Expected an array with maximum length {limit}, but got an "
    "array with length {length} instead.",
    "0x4m4/hexstrike-ai#29",
)
MESSAGES: Final = ProviderRule(
    "messages-max",
    "Invalid 'messages': array too long. Expected an array with maximum length {limit}, but got "
    "an array with length {length} instead.",
)
OUTPUT: Final = ProviderRule(
    "output-tokens-max",
    "max_tokens is too large: {found}. This model supports at most {limit} completion tokens, "
    "whereas you provided {found}.",
    "ChatGPTNextWeb/NextChat#3195",
)
DEEPSEEK_REASONING: Final = ProviderRule(
    "deepseek-reasoning-content",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "MoonshotAI/kimi-cli#2141",
)
KIMI_REASONING: Final = ProviderRule(
    "kimi-reasoning-content",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at "
    "index {index}",
    "charmbracelet/crush#2696; anomalyco/opencode#10996",
)
MISTRAL_ID: Final = ProviderRule(
    "mistral-call-id",
    "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
    "editor-code-assistant/eca#233",
)
MISTRAL_USER: Final = ProviderRule(
    "mistral-user-after-tool",
    "Unexpected role 'user' after role 'tool'",
    "datapizza-labs/datapizza-ai#98",
)
MISTRAL_TOOL: Final = ProviderRule(
    "mistral-tool-after-user",
    "Unexpected role 'tool' after role '{role}'",
    "charmbracelet/crush#279",
)
MISTRAL_COUNTS: Final = ProviderRule(
    "mistral-counts-equal",
    "Not the same number of function calls and responses",
    "partITech/php-mistral#57",
)
MISTRAL_LAST: Final = ProviderRule(
    "mistral-last-role",
    "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    "0xPlaygrounds/rig#1130",
)
LOCAL: Final = ProviderRule(
    "local-roles-alternate",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "infiniflow/ragflow#6880",
)
PICTURE_PLACE: Final = ProviderRule(
    "image-role",
    "Invalid '{spot}'. Image URLs are only allowed for messages with role 'user', but this "
    "message with role '{role}' contains an image URL.",
)
COMMON: Final = CommonRules(
    shape=ProviderRule("request-shape", "Invalid type for '{where}': expected {what}."),
    unicode=ProviderRule(
        "valid-unicode",
        "Invalid JSON: lone leading surrogate in hex escape at {where} (wrong_api_format)",
        "elizaOS/eliza#18079",
    ),
    size=ProviderRule("body-bytes", "413 Request Entity Too Large ({size} > {limit} bytes)"),
    name=ProviderRule(
        "tool-name",
        "Invalid '{spot}': string does not match pattern. Expected a string that matches the "
        "pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    pictures=PictureRules(
        count=ProviderRule("images-max", "Too many images in the request: {count} > {limit}"),
        kind=ProviderRule(
            "image-type",
            "You uploaded an unsupported image ({kind}). Please make sure your image is of one of "
            "the following formats: ['png', 'jpeg', 'gif', 'webp'].",
        ),
        data=ProviderRule(
            "image-data",
            "Invalid base64 image_url or the image data you provided does not represent a valid "
            "image.",
        ),
        size=ProviderRule("image-bytes", "Image too large: {size} > {limit} bytes"),
    ),
)

RULES: Final = (
    *(*COMMON.rules, FOLLOWS, ANSWERED, ID_LENGTH, STRING, TOOLS, MESSAGES),
    *(COMMON.name, OUTPUT, *COMMON.pictures.rules, PICTURE_PLACE),
    *(DEEPSEEK_FOLLOWS, DEEPSEEK_REASONING, KIMI_FOLLOWS, KIMI_REASONING),
    *(MISTRAL_ID, MISTRAL_USER, MISTRAL_TOOL, MISTRAL_COUNTS, MISTRAL_LAST, LOCAL),
)
