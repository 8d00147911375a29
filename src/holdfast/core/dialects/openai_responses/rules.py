"""Rules of OpenAI's Responses API.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.dialects.common.rule import ProviderRule
from holdfast.core.dialects.openai_chat import rules as chat

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

    Items = list[tuple[str, Json]]


COMMON: Final = replace(chat.COMMON, pictures=replace(chat.COMMON.pictures, size=None))
ID_LENGTH: Final = replace(chat.ID_LENGTH, seen="fitchmultz/pi-cursor-sdk#237")
STRING: Final = replace(chat.STRING, seen="VectorlyApp/bluebox#31")

OUTPUT_TOKENS_MIN: Final = 16
"""The API refuses a smaller `max_output_tokens`."""
ANSWERED: Final = ProviderRule(
    "call-has-output",
    "No tool output found for function call {id}.",
    "EvoScientist/EvoScientist#360",
)
CALLED: Final = ProviderRule(
    "output-has-call", "No tool call found for function call output with call_id {id}."
)
FOLLOWED: Final = ProviderRule(
    "reasoning-has-follower",
    "Item '{id}' of type 'reasoning' was provided without its required following item.",
    "vercel/ai#7099",
)
CALL_REASONED: Final = ProviderRule(
    "call-has-reasoning",
    "Item '{id}' of type 'function_call' was provided without its required 'reasoning' item: "
    "'rs_…'.",
    "TanStack/ai#1212",
)
MESSAGE_REASONED: Final = ProviderRule(
    "message-has-reasoning",
    "Item '{id}' of type 'message' was provided without its required 'reasoning' item: 'rs_…'.",
    "continuedev/continue#11994",
)
VERIFIED: Final = ProviderRule(
    "encrypted-content-verified",
    "The encrypted content {content} could not be verified. (invalid_encrypted_content)",
    "openai/codex#8119",
)
OWN_ID: Final = ProviderRule(
    "encrypted-content-own-id",
    "Encrypted content item_id did not match the target item id.",
    "can1357/oh-my-pi#290",
)
NEEDS_ID: Final = ProviderRule(
    "reasoning-needs-id", "400 invalid_payload: {where}.id", "dotnet/extensions#7628"
)
STORED: Final = ProviderRule(
    "reasoning-not-stored",
    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try "
    "again with `store` set to true, or remove this item from your input.",
)
CHAIN: Final = ProviderRule(
    "server-chain",
    "Previous response cannot be used for this organization due to Zero Data Retention.",
    "can1357/oh-my-pi#2341",
)
UNIQUE: Final = ProviderRule(
    "item-ids-unique",
    "Duplicate item found with id {id}. Remove duplicate items from your input and try again.",
)
OUTPUT_MIN: Final = ProviderRule(
    "output-tokens-min",
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {limit}, but "
    "got {found} instead.",
)
OUTPUT: Final = ProviderRule(
    "output-tokens-max",
    "max_output_tokens is too large: {found}. This model supports at most {limit} output tokens.",
)
RULES: Final = (
    *(*COMMON.rules, ANSWERED, CALLED, FOLLOWED, CALL_REASONED, MESSAGE_REASONED),
    *(VERIFIED, OWN_ID, NEEDS_ID, STORED, CHAIN, ID_LENGTH, UNIQUE, STRING, chat.TOOLS),
    *(COMMON.name, OUTPUT_MIN, OUTPUT, *COMMON.pictures.rules),
)
