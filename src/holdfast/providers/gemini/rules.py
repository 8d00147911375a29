"""What Gemini's generateContent refuses, on its own API and on Vertex.

The words of each rule are the provider's; docs/dialects.md lists them all. Both spellings of a
field, `functionCall` and `function_call`, are read, as the API does.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.wire.rule import (
    Picture,
    PictureRules,
    Rule,
    Violation,
    as_dict,
    as_list,
    as_number,
    as_text,
    bracketed,
    dicts,
    judge_body,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.dialects import Target

_SHAPE: Final = Rule(
    "request-shape", "Invalid JSON payload received. Invalid value at '{where}': expected {what}."
)
_UNICODE: Final = Rule(
    "valid-unicode",
    "400 FAILED_PRECONDITION: The input data is not valid json",
    "vertesia/llumiverse#462",
)
_BODY: Final = Rule(
    "inline-bytes",
    "Sent message larger than max ({size} vs. {limit})",
    "provider error catalogue",
)
_CALL_ORDER: Final = Rule(
    "call-after-user",
    "Please ensure that function call turn comes immediately after a user turn or after a "
    "function response turn.",
    "google-gemini/gemini-cli#11814",
)
_RESPONSE_ORDER: Final = Rule(
    "response-after-call",
    "Please ensure that function response turn comes immediately after a function call turn.",
    "BerriAI/litellm#26755",
)
_COUNTS: Final = Rule(
    "counts-equal",
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn.",
    "microsoft/vscode#299295",
)
_PARTS: Final = Rule(
    "parts-not-empty",
    "* GenerateContentRequest.{spot}.parts: contents.parts must not be empty.",
    "vercel/ai#3775",
)
_VERTEX_PARTS: Final = Rule(
    "vertex-parts-not-empty",
    "Unable to submit request because it must include at least one parts field, which describes "
    "the prompt input.",
    "genkit-ai/genkit#3690",
)
_DATA: Final = Rule(
    "part-has-data",
    "* GenerateContentRequest.{spot}.data: required oneof field 'data' must have one initialized "
    "field",
    "router-for-me/CLIProxyAPI#1292",
)
_SIGNED: Final = Rule(
    "call-signature",
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. ({where}, function call `{name}`)",
    "dirge-code/dirge#833; octos-org/octos#1897",
)
_STARTS: Final = Rule(
    "starts-with-user", "History must start with a user turn.", "googleapis/python-genai#529"
)
_ENDS: Final = Rule(
    "ends-with-user",
    "Please ensure that the request ends with a user turn or a function response (rejection "
    "described, its text not seen)",
    "crewAIInc/crewAI#6973",
)
_NAMED: Final = Rule(
    "response-name", "* GenerateContentRequest.{spot}.function_response.name: Name cannot be empty."
)
_MATCHED: Final = Rule(
    "response-matches-call",
    "Function response `{name}` at {where} does not match a function call of the turn before it",
)
_OUTPUT: Final = Rule(
    "output-tokens-range",
    "Unable to submit request because it has a maxOutputTokens value of {found} but the supported "
    "range is from 1 (inclusive) to {limit} (exclusive). Update the value and try again.",
    "google-gemini/gemini-cli#7784",
)
_NAME: Final = Rule(
    "tool-name",
    "{where}: Invalid function name. Must start with a letter or an underscore. Must be "
    "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length "
    "of 64.",
)
_PICTURES: Final = PictureRules(
    count=Rule("images-max", "Too many images in the request: {count} > {limit}"),
    kind=Rule("image-type", "Unsupported MIME type: {kind}"),
    data=Rule("image-data", "Unable to process input image. Please retry or report."),
)

RULES: Final = (
    *(_SHAPE, _UNICODE, _BODY, _STARTS, _ENDS, _CALL_ORDER, _RESPONSE_ORDER, _COUNTS),
    *(_PARTS, _VERTEX_PARTS, _DATA, _SIGNED, _NAMED, _MATCHED, _OUTPUT, _NAME),
    *_PICTURES.rules,
)

_DATA_FIELDS: Final = (
    *("inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
_NAME_PATTERN: Final = lazy_pattern(r"[a-zA-Z_][a-zA-Z0-9_.:-]*")
_UNSIGNED_MODELS: Final = lazy_pattern(r"gemini-(1|2|exp|pro|flash)\b|gemini-[12]\.")
"""Models before Gemini 3, which do not ask for signatures."""


def wants_signatures(model: str) -> bool:
    """Whether a model refuses calls without their thought signature; unknown ones may."""
    return _UNSIGNED_MODELS.search(model) is None


class _Turn(msgspec.Struct, frozen=True):
    """One content of the request."""

    where: str
    role: str
    parts: list[tuple[str, Json]]

    def having(self, field: str) -> list[tuple[str, Json]]:
        found = ((where, either(part, field)) for where, part in self.parts)
        return [(where, value) for where, value in found if isinstance(value, dict)]


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request, whoever made it."""
    body = as_dict(request)
    turns = [
        _Turn(
            where,
            as_text(content.get("role", "user")),
            list(dicts(content.get("parts"), f"{where}.parts")),
        )
        for where, content in dicts(body.get("contents"), "contents")
    ]
    return [
        *judge_body(request, target.dialect, unicode=_UNICODE, too_large=_BODY, shape=_SHAPE),
        *_judge_shape(request),
        *_judge_ends(turns),
        *_judge_parts(body, target),
        *_judge_order(turns),
        *_judge_names(body, turns, target),
        *_judge_signatures(turns, target),
        *_judge_output(body, target),
        *_PICTURES.judge(list(_pictures(turns)), target.dialect),
    ]


def either(value: Json, field: str) -> object:
    """A field in the spelling of the wire (`functionCall`) or of Google's package."""
    return value[field] if field in value else value.get(_snake(field))


def standard_base64(data: object) -> str:
    """Base64 in the usual alphabet; Google's package writes the one for addresses."""
    return as_text(data).replace("-", "+").replace("_", "/")


@functools.cache
def _snake(field: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", field)


def _judge_shape(request: object) -> Iterator[Violation]:
    if not isinstance(request, dict):
        yield _SHAPE.broken("", where="request", what="an object")
        return
    contents = request.get("contents")
    if not isinstance(contents, list) or not contents:
        yield _SHAPE.broken("contents", what="a non-empty list")
    for index, content in enumerate(as_list(contents)):
        where = f"contents.{index}"
        if not isinstance(content, dict):
            yield _SHAPE.broken(where, what="an object")
            continue
        if content.get("role", "user") not in ("user", "model", "function"):
            yield _SHAPE.broken(f"{where}.role", what="a valid role: user, model")
        for at, part in enumerate(as_list(content.get("parts"))):
            if not isinstance(part, dict):
                yield _SHAPE.broken(f"{where}.parts.{at}", what="an object")


def _judge_ends(turns: list[_Turn]) -> Iterator[Violation]:
    if turns and turns[0].role == "model":
        yield _STARTS.broken(turns[0].where)
    if turns and turns[-1].role == "model":
        yield _ENDS.broken(turns[-1].where)


def _judge_parts(body: Json, target: Target) -> Iterator[Violation]:
    system = as_dict(either(body, "systemInstruction"))
    places = [*dicts(body.get("contents"), "contents")]
    if system:
        places.append(("systemInstruction", system))
    for where, content in places:
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            rule = _VERTEX_PARTS if target.flavour == "vertex" else _PARTS
            yield rule.broken(where, spot=bracketed(where))
        for place, part in dicts(parts, f"{where}.parts"):
            if not _has_data(part):
                yield _DATA.broken(place, spot=bracketed(place))


def _has_data(part: Json) -> bool:
    if isinstance(part.get("text"), str):
        # An empty text may carry the signature that came at the end of a stream.
        return bool(part["text"]) or bool(either(part, "thoughtSignature"))
    return any(isinstance(either(part, field), dict) for field in _DATA_FIELDS)


def _judge_order(turns: list[_Turn]) -> Iterator[Violation]:
    for index, turn in enumerate(turns):
        before = turns[index - 1] if index else None
        after = turns[index + 1] if index + 1 < len(turns) else None
        calls, responses = turn.having("functionCall"), turn.having("functionResponse")
        if calls and (before is None or before.role == "model"):
            yield _CALL_ORDER.broken(turn.where)
        if responses and (before is None or not before.having("functionCall")):
            yield _RESPONSE_ORDER.broken(turn.where)
        if calls and after is not None:
            answered = after.having("functionResponse")
            if len(answered) != len(calls):
                yield _COUNTS.broken(turn.where)


def _judge_names(body: Json, turns: list[_Turn], target: Target) -> Iterator[Violation]:
    limit = target.dialect.tool_name_chars
    for place, tool in dicts(body.get("tools"), "tools"):
        declared = dicts(either(tool, "functionDeclarations"), f"{place}.functionDeclarations")
        for where, one in declared:
            name = as_text(one.get("name"))
            if not _NAME_PATTERN.fullmatch(name) or len(name) > limit:
                yield _NAME.broken(where)
    called: list[str] = []
    for turn in turns:
        for where, response in turn.having("functionResponse"):
            name = as_text(response.get("name"))
            if not name:
                yield _NAMED.broken(where, spot=bracketed(where))
            elif called and name not in called:
                yield _MATCHED.broken(where, name=name)
        called = [as_text(call.get("name")) for _where, call in turn.having("functionCall")]


def _judge_signatures(turns: list[_Turn], target: Target) -> Iterator[Violation]:
    """The first call of each step of the current turn is signed, on the part around it."""
    if not wants_signatures(target.model):
        return
    starts = [
        index
        for index, turn in enumerate(turns)
        if turn.role != "model" and turn.parts and not turn.having("functionResponse")
    ]
    for turn in turns[starts[-1] if starts else 0 :]:
        for where, part in turn.parts:
            call = either(part, "functionCall")
            if isinstance(call, dict):
                if not as_text(either(part, "thoughtSignature")):
                    yield _SIGNED.broken(where, name=as_text(call.get("name")))
                break


def _judge_output(body: Json, target: Target) -> Iterator[Violation]:
    settings = as_dict(either(body, "generationConfig"))
    found = as_number(either(settings, "maxOutputTokens"))
    if found is None:
        return
    limit = target.output_max
    if found < 1 or (limit and found > limit):
        where = "generationConfig.maxOutputTokens"
        yield _OUTPUT.broken(where, found=found, limit=limit + 1 if limit else "…")


def _pictures(turns: list[_Turn]) -> Iterator[Picture]:
    for turn in turns:
        for where, data in turn.having("inlineData"):
            kind = as_text(either(data, "mimeType"))
            if kind.startswith("image/"):
                yield Picture(where, standard_base64(data.get("data")), kind)
