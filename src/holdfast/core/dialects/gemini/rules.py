"""Rules of Gemini's generateContent, on its own API and on Vertex, in the provider's words.

docs/dialects.md lists all rules.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.common.rule import CommonRules, PictureRules, ProviderRule
from holdfast.core.text.lazy_pattern import lazy_pattern

CALL_ORDER: Final = ProviderRule(
    "call-after-user",
    "Please ensure that function call turn comes immediately after a user turn or after a "
    "function response turn.",
    "google-gemini/gemini-cli#11814",
)
RESPONSE_ORDER: Final = ProviderRule(
    "response-after-call",
    "Please ensure that function response turn comes immediately after a function call turn.",
    "BerriAI/litellm#26755",
)
COUNTS: Final = ProviderRule(
    "counts-equal",
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn.",
    "microsoft/vscode#299295",
)
PARTS: Final = ProviderRule(
    "parts-not-empty",
    "* GenerateContentRequest.{spot}.parts: contents.parts must not be empty.",
    "vercel/ai#3775",
)
VERTEX_PARTS: Final = ProviderRule(
    "vertex-parts-not-empty",
    "Unable to submit request because it must include at least one parts field, which describes "
    "the prompt input.",
    "genkit-ai/genkit#3690",
)
DATA: Final = ProviderRule(
    "part-has-data",
    "* GenerateContentRequest.{spot}.data: required oneof field 'data' must have one initialized "
    "field",
    "router-for-me/CLIProxyAPI#1292",
)
SIGNED: Final = ProviderRule(
    "call-signature",
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. ({where}, function call `{name}`)",
    "dirge-code/dirge#833; octos-org/octos#1897",
)
STARTS: Final = ProviderRule(
    "starts-with-user", "History must start with a user turn.", "googleapis/python-genai#529"
)
ENDS: Final = ProviderRule(
    "ends-with-user",
    "Please ensure that the request ends with a user turn or a function response (rejection "
    "described, its text not seen)",
    "crewAIInc/crewAI#6973",
)
NAMED: Final = ProviderRule(
    "response-name", "* GenerateContentRequest.{spot}.function_response.name: Name cannot be empty."
)
MATCHED: Final = ProviderRule(
    "response-matches-call",
    "Function response `{name}` at {where} does not match a function call of the turn before it",
)
OUTPUT: Final = ProviderRule(
    "output-tokens-range",
    "Unable to submit request because it has a maxOutputTokens value of {found} but the supported "
    "range is from 1 (inclusive) to {limit} (exclusive). Update the value and try again.",
    "google-gemini/gemini-cli#7784",
)
COMMON: Final = CommonRules(
    shape=ProviderRule(
        "request-shape",
        "Invalid JSON payload received. Invalid value at '{where}': expected {what}.",
    ),
    unicode=ProviderRule(
        "valid-unicode",
        "400 FAILED_PRECONDITION: The input data is not valid json",
        "vertesia/llumiverse#462",
    ),
    size=ProviderRule(
        "inline-bytes",
        "Sent message larger than max ({size} vs. {limit})",
        "provider error catalogue",
    ),
    name=ProviderRule(
        "tool-name",
        "{where}: Invalid function name. Must start with a letter or an underscore. Must be "
        "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum "
        "length of 64.",
    ),
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]*",
    pictures=PictureRules(
        count=ProviderRule("images-max", "Too many images in the request: {count} > {limit}"),
        kind=ProviderRule("image-type", "Unsupported MIME type: {kind}"),
        data=ProviderRule("image-data", "Unable to process input image. Please retry or report."),
    ),
)

RULES: Final = (
    *(*COMMON.rules, STARTS, ENDS, CALL_ORDER, RESPONSE_ORDER, COUNTS),
    *(PARTS, VERTEX_PARTS, DATA, SIGNED, NAMED, MATCHED, OUTPUT, COMMON.name),
    *COMMON.pictures.rules,
)
_UNSIGNED_MODELS: Final = lazy_pattern(r"gemini-(1|2|exp|pro|flash)\b|gemini-[12]\.")
"""Models before Gemini 3, which do not ask for signatures."""


def wants_signatures(model: str) -> bool:
    """Return whether a model refuses calls without their thought signature; unknown ones may."""
    return _UNSIGNED_MODELS.search(model) is None
