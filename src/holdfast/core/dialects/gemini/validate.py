"""Judge a request to generateContent by its rules.

Both spellings of a field, `functionCall` and `function_call`, are read, as the API does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.rule import Picture, Violation, bracket_path, dicts
from holdfast.core.dialects.common.values import as_dict, as_list, as_number, as_text
from holdfast.core.dialects.gemini import rules
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.dialects import Target

_NOTES: Final = (
    *("partMetadata", "videoMetadata", "mediaResolution"),
    *("part_metadata", "video_metadata", "media_resolution"),
)
"""Objects beside the data of a part. Any other object is data, also of a kind that is newer than
this: the provider made it, and gets it back."""


class _Turn(msgspec.Struct, frozen=True):
    """One content of the request."""

    where: str
    role: str
    parts: list[tuple[str, Json]]

    def having(self, field: str) -> list[tuple[str, Json]]:
        found = ((where, either(part, field)) for where, part in self.parts)
        return [(where, value) for where, value in found if isinstance(value, dict)]


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request of any origin."""
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
        *rules.COMMON.judge(request, target.dialect, "contents", "a non-empty list"),
        *_judge_shape(body),
        *_judge_ends(turns),
        *_judge_parts(body, target),
        *_judge_order(turns),
        *_judge_names(body, turns, target),
        *_judge_signatures(turns, target),
        *_judge_output(body, target),
        *rules.COMMON.pictures.judge(list(_pictures(turns)), target.dialect),
    ]


def either(value: Json, field: str) -> object:
    """A field in the spelling of the wire (`functionCall`) or of Google's package."""
    return value[field] if field in value else value.get(_snake(field))


def standard_base64(data: object) -> str:
    """Base64 in the usual alphabet; Google's package writes the one for addresses."""
    return as_text(data).replace("-", "+").replace("_", "/")


def _snake(field: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", field)


def _judge_shape(body: Json) -> Iterator[Violation]:
    for where, content in dicts(body.get("contents"), "contents"):
        if content.get("role", "user") not in ("user", "model", "function"):
            yield rules.COMMON.shape.broken(f"{where}.role", what="a valid role: user, model")
        for at, part in enumerate(as_list(content.get("parts"))):
            if not isinstance(part, dict):
                yield rules.COMMON.shape.broken(f"{where}.parts.{at}", what="an object")


def _judge_ends(turns: list[_Turn]) -> Iterator[Violation]:
    if turns and turns[0].role == "model":
        yield rules.STARTS.broken(turns[0].where)
    if turns and turns[-1].role == "model":
        yield rules.ENDS.broken(turns[-1].where)


def _judge_parts(body: Json, target: Target) -> Iterator[Violation]:
    system = as_dict(either(body, "systemInstruction"))
    places = [*dicts(body.get("contents"), "contents")]
    if system:
        places.append(("systemInstruction", system))
    for where, content in places:
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            rule = rules.VERTEX_PARTS if target.variant == "vertex" else rules.PARTS
            yield rule.broken(where, spot=bracket_path(where))
        for place, part in dicts(parts, f"{where}.parts"):
            if not _has_data(part):
                yield rules.DATA.broken(place, spot=bracket_path(place))


def _has_data(part: Json) -> bool:
    if isinstance(part.get("text"), str):
        # An empty text may carry the signature that came at the end of a stream.
        return bool(part["text"]) or bool(either(part, "thoughtSignature"))
    return any(isinstance(value, dict) for name, value in part.items() if name not in _NOTES)


def _judge_order(turns: list[_Turn]) -> Iterator[Violation]:
    for index, turn in enumerate(turns):
        before = turns[index - 1] if index else None
        after = turns[index + 1] if index + 1 < len(turns) else None
        calls, responses = turn.having("functionCall"), turn.having("functionResponse")
        if calls and (before is None or before.role == "model"):
            yield rules.CALL_ORDER.broken(turn.where)
        if responses and (before is None or not before.having("functionCall")):
            yield rules.RESPONSE_ORDER.broken(turn.where)
        if calls and after is not None:
            answered = after.having("functionResponse")
            if len(answered) != len(calls):
                yield rules.COUNTS.broken(turn.where)


def _judge_names(body: Json, turns: list[_Turn], target: Target) -> Iterator[Violation]:
    for place, group in dicts(body.get("tools"), "tools"):
        declared = dicts(either(group, "functionDeclarations"), f"{place}.functionDeclarations")
        for where, tool in declared:
            yield from rules.COMMON.judge_name(tool.get("name"), where, target.dialect)
    called: list[str] = []
    for turn in turns:
        for where, response in turn.having("functionResponse"):
            name = as_text(response.get("name"))
            if not name:
                yield rules.NAMED.broken(where, spot=bracket_path(where))
            elif called and name not in called:
                yield rules.MATCHED.broken(where, name=name)
        called = [as_text(call.get("name")) for _where, call in turn.having("functionCall")]


def _judge_signatures(turns: list[_Turn], target: Target) -> Iterator[Violation]:
    """The first call of each step of the current turn is signed, on the part around it."""
    if not rules.wants_signatures(target.model):
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
                    yield rules.SIGNED.broken(where, name=as_text(call.get("name")))
                break


def _judge_output(body: Json, target: Target) -> Iterator[Violation]:
    settings = as_dict(either(body, "generationConfig"))
    found = as_number(either(settings, "maxOutputTokens"))
    if found is None:
        return
    limit = target.output_max
    if found < 1 or (limit and found > limit):
        where = "generationConfig.maxOutputTokens"
        yield rules.OUTPUT.broken(where, found=found, limit=limit + 1 if limit else "…")


def _pictures(turns: list[_Turn]) -> Iterator[Picture]:
    for turn in turns:
        for where, data in turn.having("inlineData"):
            kind = as_text(either(data, "mimeType"))
            if kind.startswith("image/"):
                yield Picture(where, standard_base64(data.get("data")), kind)
