"""What Chat Completions refuses: OpenAI's, and that of the hosts which imitate it.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

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
    picture_of_uri,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target

    Messages = list[tuple[int, Json]]

_SHAPE: Final = Rule("request-shape", "Invalid type for '{where}': expected {what}.")
_UNICODE: Final = Rule(
    "valid-unicode",
    "Invalid JSON: lone leading surrogate in hex escape at {where} (wrong_api_format)",
    "elizaOS/eliza#18079",
)
_BODY: Final = Rule("body-bytes", "413 Request Entity Too Large ({size} > {limit} bytes)")
_FOLLOWS: Final = Rule(
    "tool-follows-call",
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
    "with 'tool_calls'.",
    "BerriAI/litellm#4931",
)
_DEEPSEEK_FOLLOWS: Final = Rule(
    "deepseek-tool-follows-call",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    "itmisx/deepx-code#94",
)
_KIMI_FOLLOWS: Final = Rule(
    "kimi-tool-call-id-known", "tool_call_id {id} is not found", "EvoScientist/EvoScientist#360"
)
_ANSWERED: Final = Rule(
    "calls-answered",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
    "HKUDS/OpenHarness#240",
)
_ID_LENGTH: Final = Rule(
    "call-id-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "vercel/ai#5171",
)
_STRING: Final = Rule(
    "string-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "gptscript-ai/clio#41",
)
_TOOLS: Final = Rule(
    "tools-max",
    "Invalid 'tools': array too long. Expected an array with maximum length {limit}, but got an "
    "array with length {length} instead.",
    "0x4m4/hexstrike-ai#29",
)
_MESSAGES: Final = Rule(
    "messages-max",
    "Invalid 'messages': array too long. Expected an array with maximum length {limit}, but got "
    "an array with length {length} instead.",
)
_NAME: Final = Rule(
    "tool-name",
    "Invalid '{spot}': string does not match pattern. Expected a string that matches the pattern "
    "'^[a-zA-Z0-9_-]+$'.",
)
_OUTPUT: Final = Rule(
    "output-tokens-max",
    "max_tokens is too large: {found}. This model supports at most {limit} completion tokens, "
    "whereas you provided {found}.",
    "ChatGPTNextWeb/NextChat#3195",
)
_DEEPSEEK_REASONING: Final = Rule(
    "deepseek-reasoning-content",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "MoonshotAI/kimi-cli#2141",
)
_KIMI_REASONING: Final = Rule(
    "kimi-reasoning-content",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at "
    "index {index}",
    "charmbracelet/crush#2696; anomalyco/opencode#10996",
)
_MISTRAL_ID: Final = Rule(
    "mistral-call-id",
    "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
    "editor-code-assistant/eca#233",
)
_MISTRAL_USER: Final = Rule(
    "mistral-user-after-tool",
    "Unexpected role 'user' after role 'tool'",
    "datapizza-labs/datapizza-ai#98",
)
_MISTRAL_TOOL: Final = Rule(
    "mistral-tool-after-user",
    "Unexpected role 'tool' after role '{role}'",
    "charmbracelet/crush#279",
)
_MISTRAL_COUNTS: Final = Rule(
    "mistral-counts-equal",
    "Not the same number of function calls and responses",
    "partITech/php-mistral#57",
)
_MISTRAL_LAST: Final = Rule(
    "mistral-last-role",
    "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    "0xPlaygrounds/rig#1130",
)
_LOCAL: Final = Rule(
    "local-roles-alternate",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "infiniflow/ragflow#6880",
)
_PICTURES: Final = PictureRules(
    count=Rule("images-max", "Too many images in the request: {count} > {limit}"),
    kind=Rule(
        "image-type",
        "You uploaded an unsupported image ({kind}). Please make sure your image is of one of the "
        "following formats: ['png', 'jpeg', 'gif', 'webp'].",
    ),
    data=Rule(
        "image-data",
        "Invalid base64 image_url or the image data you provided does not represent a valid image.",
    ),
    size=Rule("image-bytes", "Image too large: {size} > {limit} bytes"),
)
_PICTURE_PLACE: Final = Rule(
    "image-role",
    "Invalid '{spot}'. Image URLs are only allowed for messages with role 'user', but this "
    "message with role '{role}' contains an image URL.",
)

RULES: Final = (
    *(_SHAPE, _UNICODE, _BODY, _FOLLOWS, _ANSWERED, _ID_LENGTH, _STRING, _TOOLS, _MESSAGES),
    *(_NAME, _OUTPUT, *_PICTURES.rules, _PICTURE_PLACE),
    *(_DEEPSEEK_FOLLOWS, _DEEPSEEK_REASONING, _KIMI_FOLLOWS, _KIMI_REASONING),
    *(_MISTRAL_ID, _MISTRAL_USER, _MISTRAL_TOOL, _MISTRAL_COUNTS, _MISTRAL_LAST, _LOCAL),
)

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MISTRAL_PATTERN: Final = lazy_pattern("[a-zA-Z0-9]{9}")
_NAME_PATTERN: Final = lazy_pattern("[a-zA-Z0-9_-]+")


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the host would refuse in a request, whoever made it."""
    body = as_dict(request)
    messages = [
        (index, message)
        for index, message in enumerate(as_list(body.get("messages")))
        if isinstance(message, dict)
    ]
    return [
        *judge_body(request, target.dialect, unicode=_UNICODE, too_large=_BODY, shape=_SHAPE),
        *_judge_shape(request),
        *_judge_limits(body, messages, target),
        *_judge_pairs(messages, target),
        *_judge_ids(messages, target),
        *_judge_pictures(messages, target),
        *_judge_host(body, messages, target),
    ]


def _judge_shape(request: object) -> Iterator[Violation]:
    if not isinstance(request, dict):
        yield _SHAPE.broken("", where="request", what="an object")
        return
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield _SHAPE.broken("messages", what="a non-empty array of objects")
        return
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            yield _SHAPE.broken(where, what="an object")
            continue
        if as_text(message.get("role")) not in _ROLES:
            yield _SHAPE.broken(f"{where}.role", what="one of the known roles")
        content, calls = message.get("content"), message.get("tool_calls")
        if not isinstance(content, str | list) and not (content is None and calls):
            yield _SHAPE.broken(f"{where}.content", what="a string or an array of objects")
        elif content == []:
            yield _SHAPE.broken(f"{where}.content", what="a non-empty array")
        if calls is not None and (not isinstance(calls, list) or not calls):
            yield _SHAPE.broken(f"{where}.tool_calls", what="a non-empty array")


def _judge_limits(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    dialect = target.dialect
    tools = as_list(body.get("tools"))
    if dialect.tools_max and len(tools) > dialect.tools_max:
        yield _TOOLS.broken("tools", limit=dialect.tools_max, length=len(tools))
    for place, tool in dicts(tools, "tools"):
        name = as_text(as_dict(tool.get("function")).get("name"))
        yield from _judge_name(name, f"{place}.function.name", target)
    if dialect.messages_max and len(messages) > dialect.messages_max:
        yield _MESSAGES.broken("messages", limit=dialect.messages_max, length=len(messages))
    for where, text in _texts(messages):
        if dialect.string_chars and len(text) > dialect.string_chars:
            limit = dialect.string_chars
            yield _STRING.broken(where, spot=bracketed(where), limit=limit, length=len(text))
    for field in ("max_completion_tokens", "max_tokens"):
        found = as_number(body.get(field))
        if found is not None and target.output_max and found > target.output_max:
            yield _OUTPUT.broken(field, found=found, limit=target.output_max)


def _judge_name(name: str, where: str, target: Target) -> Iterator[Violation]:
    if not _NAME_PATTERN.fullmatch(name) or len(name) > target.dialect.tool_name_chars:
        yield _NAME.broken(where, spot=bracketed(where))


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
                yield _unexpected(f"messages.{index}", found, before, target)
            continue
        yield from _judge_answers(at, called, answered, target)
        called, answered, at = _calls(message), [], index


def _unexpected(where: str, found: str, before: str, target: Target) -> Violation:
    match target.flavour:
        case "mistral" if before not in ("assistant", "tool"):
            return _MISTRAL_TOOL.broken(where, role=before or "none")
        case "deepseek":
            return _DEEPSEEK_FOLLOWS.broken(where)
        case "kimi":
            return _KIMI_FOLLOWS.broken(where, id=found)
        case _:
            return _FOLLOWS.broken(where)


def _judge_answers(
    index: int, called: list[str], answered: list[str], target: Target
) -> Iterator[Violation]:
    missing = [call_id for call_id in called if call_id not in answered]
    if target.flavour == "mistral":
        if called and len(called) != len(answered):
            yield _MISTRAL_COUNTS.broken(f"messages.{index}")
    elif missing:
        yield _ANSWERED.broken(f"messages.{index}", ids=", ".join(missing))


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
            name = as_text(as_dict(call.get("function")).get("name"))
            yield from _judge_name(name, f"{place}.function.name", target)


def _judge_id(where: str, call_id: str, target: Target) -> Iterator[Violation]:
    limit = target.dialect.call_id_chars
    if target.flavour == "mistral":
        if not _MISTRAL_PATTERN.fullmatch(call_id):
            yield _MISTRAL_ID.broken(where, id=call_id)
    elif len(call_id) > limit:
        yield _ID_LENGTH.broken(where, spot=bracketed(where), limit=limit, length=len(call_id))


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
                yield _PICTURE_PLACE.broken(place, spot=bracketed(place), role=role)
    yield from _PICTURES.judge(found, target.dialect)


def _judge_host(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    match target.flavour:
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
            yield _MISTRAL_USER.broken(f"messages.{index}")
    if messages:
        index, last = messages[-1]
        if last.get("role") == "assistant" and last.get("prefix") is not True:
            yield _MISTRAL_LAST.broken(f"messages.{index}")


def _judge_deepseek(body: Json, messages: Messages, target: Target) -> Iterator[Violation]:
    mode = as_dict(body.get("thinking")).get("type")
    if mode == "disabled" or (mode != "enabled" and not target.thinking):
        return
    for index, message in messages:
        is_said = message.get("role") == "assistant"
        if is_said and not isinstance(message.get("reasoning_content"), str):
            yield _DEEPSEEK_REASONING.broken(f"messages.{index}")


def _judge_kimi(body: Json, messages: Messages) -> Iterator[Violation]:
    if as_dict(body.get("thinking")).get("type") == "disabled":
        return
    for index, message in messages:
        if _calls(message) and not as_text(message.get("reasoning_content")):
            yield _KIMI_REASONING.broken(f"messages.{index}", index=index)


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
            yield _LOCAL.broken(f"messages.{index}")
            return
        wanted = "assistant" if role == "user" else "user"
