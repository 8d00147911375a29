"""A round as messages for the next request: the model's reply, and results of the proxy's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from holdfast.core.proxy.joining.rounds import as_object, as_objects

if TYPE_CHECKING:
    from collections.abc import Container

    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName

_REASONING_FIELDS: Final = ("type", "id", "summary", "encrypted_content")
"""Fields of a reasoning item that the API accepts back."""
_CHAT_FIELDS: Final = (
    *("role", "content", "refusal", "tool_calls", "name"),
    *("reasoning_content", "reasoning_details"),
)
"""Fields of a completion's message that hosts accept back."""


def reply_items(
    body: Json, dialect: DialectName, left_out: Container[str], *, is_stored: bool = True
) -> list[Json]:
    """A reply as the next request repeats it, without the calls of some ids.

    `is_stored` is False where the provider keeps nothing, so that its ids mean nothing to it.
    """
    match dialect:
        case "anthropic":
            content = [_without_null(block) for block in as_objects(body.get("content"))]
            content = [block for block in content if not _is_left_out(block, left_out)]
            return [{"role": "assistant", "content": content}] if content else []
        case "openai-chat":
            return _chat_items(_first(body, "choices").get("message"), left_out)
        case "openai-responses":
            items = [_response_item(item, is_stored) for item in as_objects(body.get("output"))]
            return [item for item in items if item and item.get("call_id") not in left_out]
        case "gemini":
            found = as_object(_first(body, "candidates").get("content")).get("parts")
            parts = [part for part in as_objects(found) if part != {"text": ""}]
            return [{"role": "model", "parts": parts}] if parts else []
        case _:
            assert_never(dialect)


def result_items(dialect: DialectName, call: Json, text: str, *, is_error: bool) -> list[Json]:
    """The result of a call, of which `call` has the name and, where it has one, the id."""
    call_id = call.get("id")
    match dialect:
        case "anthropic":
            failed = {"is_error": True} if is_error else {}
            block = {"type": "tool_result", "tool_use_id": call_id, "content": text, **failed}
            return [{"role": "user", "content": [block]}]
        case "openai-chat":
            return [{"role": "tool", "tool_call_id": call_id, "content": text}]
        case "openai-responses":
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
        case "gemini":
            known = {"id": call_id} if call_id else {}
            response = {"error" if is_error else "output": text}
            answer = {**known, "name": call.get("name"), "response": response}
            return [{"role": "user", "parts": [{"functionResponse": answer}]}]
        case _:
            assert_never(dialect)


def with_result_text(items: list[Json], text: str) -> list[Json]:
    """A result of ours with another text."""
    item = items[0]
    if "parts" in item:
        (part,) = item["parts"]
        answer = part["functionResponse"]
        response = dict.fromkeys(answer["response"], text)
        return [{**item, "parts": [{"functionResponse": {**answer, "response": response}}]}]
    if "output" in item:
        return [{**item, "output": text}]
    if item.get("role") == "tool":
        return [{**item, "content": text}]
    return [{**item, "content": [{**item["content"][0], "content": text}]}]


def wire_calls(body: Json, names: Container[str]) -> list[Json]:
    """The calls of some Gemini tools in a reply as they came: their ids may be missing."""
    parts = as_object(_first(body, "candidates").get("content")).get("parts")
    calls = [as_object(part.get("functionCall")) for part in as_objects(parts)]
    return [call for call in calls if call.get("name") in names]


def call_ids(body: Json, dialect: DialectName, names: Container[str]) -> list[str]:
    """The ids of all calls of some tools in a reply, those that broke off among them. Gemini's
    calls are whole, and need no ids."""
    match dialect:
        case "anthropic":
            calls = as_objects(body.get("content"))
        case "openai-chat":
            message = as_object(_first(body, "choices").get("message"))
            calls = [
                {**as_object(call.get("function")), "id": call.get("id")}
                for call in as_objects(message.get("tool_calls"))
            ]
        case "openai-responses":
            calls = [
                {"name": item.get("name"), "id": item.get("call_id")}
                for item in as_objects(body.get("output"))
            ]
        case "gemini":
            calls = []
        case _:
            assert_never(dialect)
    return [str(call.get("id")) for call in calls if call.get("name") in names]


def _chat_items(message: Any, left_out: Container[str]) -> list[Json]:
    known = as_object(message)
    kept = {name: known[name] for name in _CHAT_FIELDS if known.get(name)}
    calls = [call for call in as_objects(known.get("tool_calls")) if call.get("id") not in left_out]
    if calls:
        kept["tool_calls"] = calls
    else:
        kept.pop("tool_calls", None)
    is_said = any(kept.get(name) for name in ("content", "refusal", "tool_calls"))
    item = {"role": "assistant", "content": None, **kept}
    return [item] if is_said else []


def _response_item(item: Json, is_stored: bool) -> Json:
    if item.get("type") == "reasoning":
        if not is_stored and not item.get("encrypted_content"):
            return {}  # nothing could be found by its id
        known = {name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None}
        return {"summary": [], **known}
    left_out = ("status",) if is_stored else ("status", "id")
    return {n: v for n, v in item.items() if n not in left_out and v is not None}


def _is_left_out(block: Json, left_out: Container[str]) -> bool:
    return block.get("type") == "tool_use" and block.get("id") in left_out


def _without_null(value: Json) -> Json:
    return {name: item for name, item in value.items() if item is not None}


def _first(body: Json, field: str) -> Json:
    found = body.get(field)
    return as_object(found[0]) if isinstance(found, list) and found else {}
