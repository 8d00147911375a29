"""Judge a request to Chat Completions by its rules."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rule import (
    Picture,
    Violation,
    bracket_path,
    dicts,
    judge_length,
    picture_of_uri,
)
from holdfast.core.dialects.common.values import as_dict, as_list, as_number, as_text
from holdfast.core.dialects.openai_chat import rules
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target

    Messages = list[tuple[int, Json]]

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MISTRAL_PATTERN: Final = lazy_pattern("[a-zA-Z0-9]{9}")


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the host would refuse in a request of any origin."""
    body = as_dict(request)
    messages = [
        (index, message)
        for index, message in enumerate(as_list(body.get("messages")))
        if isinstance(message, dict)
    ]
    return [
        *rules.COMMON.judge(request, target.dialect, "messages", "a non-empty array of objects"),
        *_judge_shape(body),
        *_judge_limits(body, messages, target),
        *_judge_pairs(messages, target),
        *_judge_ids(messages, target),
        *_judge_pictures(messages, target),
        *_judge_host(body, messages, target),
    ]


def _judge_shape(body: Json) -> Iterator[Violation]:
    for where, message in dicts(body.get("messages"), "messages"):
        if as_text(message.get("role")) not in _ROLES:
            yield rules.COMMON.shape.broken(f"{where}.role", what="one of the known roles")
        content, calls = message.get("content"), message.get("tool_calls")
        if not isinstance(content, str | list) and not (content is None and calls):
            yield rules.COMMON.shape.broken(
                f"{where}.content", what="a string or an array of objects"
            )
        elif content == []:
            yield rules.COMMON.shape.broken(f"{where}.content", what="a non-empty array")
        if calls is not None and (not isinstance(calls, list) or not calls):
            yield rules.COMMON.shape.broken(f"{where}.tool_calls", what="a non-empty array")


def _judge_limits(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    dialect = target.dialect
    tools = as_list(body.get("tools"))
    yield from judge_length(rules.TOOLS, "tools", len(tools), dialect.tools_max)
    for place, tool in dicts(tools, "tools"):
        yield from _judge_function(tool, place, target)
    yield from judge_length(rules.MESSAGES, "messages", len(messages), dialect.messages_max)
    for where, text in _texts(messages):
        yield from judge_length(rules.STRING, where, len(text), dialect.string_chars)
    for field in ("max_completion_tokens", "max_tokens"):
        found = as_number(body.get(field))
        if found is not None and target.output_max and found > target.output_max:
            yield rules.OUTPUT.broken(field, found=found, limit=target.output_max)


def _judge_function(tool: Json, where: str, target: Target) -> Iterator[Violation]:
    name = as_dict(tool.get("function")).get("name")
    yield from rules.COMMON.judge_name(name, f"{where}.function.name", target.dialect)


def _texts(messages: Messages) -> Iterator[tuple[str, str]]:
    for index, message in messages:
        where = f"messages.{index}"
        yield f"{where}.content", as_text(message.get("content"))
        for place, part in dicts(message.get("content"), f"{where}.content"):
            yield f"{place}.text", as_text(part.get("text"))
        for place, call in dicts(message.get("tool_calls"), f"{where}.tool_calls"):
            arguments = as_dict(call.get("function")).get("arguments")
            yield f"{place}.function.arguments", as_text(arguments)


def _calls(message: Json) -> list[str]:
    return [as_text(call.get("id")) for _where, call in dicts(message.get("tool_calls"), "")]


def _judge_pairs(messages: Messages, target: Target) -> Iterator[Violation]:
    """Tool messages against the calls before them."""
    called: list[str] = []
    answered: list[str] = []
    at, role = -1, ""
    for index, message in [*messages, (-1, {})]:
        before, role = role, as_text(message.get("role"))
        if role == "tool":
            found = as_text(message.get("tool_call_id"))
            answered.append(found)
            if found not in called:
                yield _unexpected_role(f"messages.{index}", found, before, target)
            continue
        yield from _judge_answers(at, called, answered, target)
        called, answered, at = _calls(message), [], index


def _unexpected_role(where: str, found: str, before: str, target: Target) -> Violation:
    match target.variant:
        case "mistral" if before not in ("assistant", "tool"):
            return rules.MISTRAL_TOOL.broken(where, role=before or "none")
        case "deepseek":
            return rules.DEEPSEEK_FOLLOWS.broken(where)
        case "kimi":
            return rules.KIMI_FOLLOWS.broken(where, id=found)
        case _:
            return rules.FOLLOWS.broken(where)


def _judge_answers(
    index: int, called: list[str], answered: list[str], target: Target
) -> Iterator[Violation]:
    missing = [call_id for call_id in called if call_id not in answered]
    if target.variant == "mistral":
        if called and len(called) != len(answered):
            yield rules.MISTRAL_COUNTS.broken(f"messages.{index}")
    elif missing:
        yield rules.ANSWERED.broken(f"messages.{index}", ids=", ".join(missing))


def _judge_ids(messages: Messages, target: Target) -> Iterator[Violation]:
    for index, message in messages:
        where = f"messages.{index}"
        found = [
            (f"{place}.id", as_text(call.get("id")))
            for place, call in dicts(message.get("tool_calls"), f"{where}.tool_calls")
        ]
        if message.get("role") == "tool":
            found.append((f"{where}.tool_call_id", as_text(message.get("tool_call_id"))))
        for place, call_id in found:
            yield from _judge_id(place, call_id, target)
        for place, call in dicts(message.get("tool_calls"), f"{where}.tool_calls"):
            yield from _judge_function(call, place, target)


def _judge_id(where: str, call_id: str, target: Target) -> Iterator[Violation]:
    if target.variant == "mistral":
        if not _MISTRAL_PATTERN.fullmatch(call_id):
            yield rules.MISTRAL_ID.broken(where, id=call_id)
    else:
        limit = target.dialect.call_id_chars
        yield from judge_length(rules.ID_LENGTH, where, len(call_id), limit)


def _judge_pictures(messages: Messages, target: Target) -> Iterator[Violation]:
    found: list[Picture] = []
    for index, message in messages:
        role = as_text(message.get("role"))
        for place, part in dicts(message.get("content"), f"messages.{index}.content"):
            if part.get("type") != "image_url":
                continue
            address = part.get("image_url")
            uri = as_text(address) or as_text(as_dict(address).get("url"))
            found.append(picture_of_uri(uri, place))
            if role != "user":
                yield rules.PICTURE_PLACE.broken(place, spot=bracket_path(place), role=role)
    yield from rules.COMMON.pictures.judge(found, target.dialect)


def _judge_host(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    match target.variant:
        case "mistral":
            yield from _judge_mistral(messages)
        case "deepseek":
            yield from _judge_deepseek(body, messages, target)
        case "kimi":
            yield from _judge_kimi(body, messages)
        case "local":
            yield from _judge_local(messages)


def _judge_mistral(messages: Messages) -> Iterator[Violation]:
    for (_, before), (index, message) in pairwise(messages):
        if before.get("role") == "tool" and message.get("role") == "user":
            yield rules.MISTRAL_USER.broken(f"messages.{index}")
    if messages:
        index, last = messages[-1]
        if last.get("role") == "assistant" and last.get("prefix") is not True:
            yield rules.MISTRAL_LAST.broken(f"messages.{index}")


def _judge_deepseek(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    mode = as_dict(body.get("thinking")).get("type")
    if mode == "disabled" or (mode != "enabled" and not target.thinking):
        return
    for index, message in messages:
        is_said = message.get("role") == "assistant"
        if is_said and not isinstance(message.get("reasoning_content"), str):
            yield rules.DEEPSEEK_REASONING.broken(f"messages.{index}")


def _judge_kimi(body: Json, messages: Messages) -> Iterator[Violation]:
    if as_dict(body.get("thinking")).get("type") == "disabled":
        return
    for index, message in messages:
        if _calls(message) and not as_text(message.get("reasoning_content")):
            yield rules.KIMI_REASONING.broken(f"messages.{index}", index=index)


def _judge_local(messages: Messages) -> Iterator[Violation]:
    """The templates pass over calls and results, and count the rest."""
    counted = [
        (index, message.get("role"))
        for index, message in messages
        if message.get("role") in ("user", "assistant") and not _calls(message)
    ]
    wanted = "user"
    for index, role in counted:
        if role != wanted:
            yield rules.LOCAL.broken(f"messages.{index}")
            return
        wanted = "assistant" if role == "user" else "user"
