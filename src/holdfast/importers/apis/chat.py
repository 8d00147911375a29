"""OpenAI Chat Completions: message lists, request bodies, and one message or list a line.

Many tools store this shape with additions of their own; they call `carry_messages` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    is_text,
    listing,
    mapping,
    mappings,
    read_each,
    text_at,
    text_or_empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Content, Json

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def carry_messages(
    draft: Draft,
    messages: Iterable[object],
    *,
    provider: str | None = None,
    model: str | None = None,
) -> None:
    """Every message of a list. The first system messages become the system prompt."""
    for message in messages:
        if not isinstance(message, dict):
            draft.skip("item that is not a message", f"found {type(message).__name__}")
            continue
        carry_message(draft, message, provider=provider, model=model)


def carry_message(
    draft: Draft, message: Json, *, provider: str | None = None, model: str | None = None
) -> None:
    role = message.get("role")
    about = about_line(message, "timestamp", "created_at", "ts")
    match role:
        case "system" | "developer":
            carry_system(draft, blocks.content_of(message.get("content")), about)
        case "user" | "human":
            name = text_at(message, "name") or None
            draft.user(blocks.content_of(message.get("content")), name=name, **about)
        case "assistant" | "ai" | "model":
            about["provider"] = provider
            about["model"] = text_at(message, "model") or model
            _carry_assistant(draft, message, about)
        case "tool" | "function":
            _carry_result(draft, message, about)
        case _:
            blocks.skip_role(draft, role)


def carry_system(draft: Draft, content: Content, about: dict[str, Any]) -> None:
    """A system message: the prompt where it comes first, later one more message to the model."""
    if not draft.records:
        draft.add_system(content)
    else:
        draft.user(content, **{**about, "extra": {"role": "system", "meta": True}})


def tools_of(value: object) -> list[Json]:
    """Tools in any dialect as `name`, `description`, `parameters`."""
    found: list[Json] = []
    for tool in mappings(value):
        about = mapping(tool.get("function")) or tool
        for item in mappings(tool.get("functionDeclarations")) or [about]:
            schema = item.get("parameters") or item.get("input_schema") or item.get("inputSchema")
            if is_text(item.get("name")):
                found.append(
                    {
                        "name": item["name"],
                        "description": text_at(item, "description"),
                        "parameters": mapping(schema),
                    }
                )
    return found


def _carry_assistant(draft: Draft, message: Json, about: dict[str, Any]) -> None:
    said: list[Json] = []
    thought = message.get("reasoning_content") or message.get("reasoning")
    if is_text(thought) and thought.strip():
        said.append(blocks.thinking(thought))
    content = blocks.content_of(message.get("content"))
    if isinstance(content, str):
        said += [blocks.text(content)] if content.strip() else []
    else:
        said += content or []
    if is_text(message.get("refusal")) and message["refusal"]:
        said.append(blocks.text(message["refusal"]))
    said += _calls(draft, message)
    reply = mapping(mapping(message.get("extra")).get("response"))
    usage = mapping(message.get("usage")) or mapping(reply.get("usage"))
    stop = message.get("finish_reason") or message.get("stop_reason")
    is_plain = isinstance(content, str) and said == [blocks.text(content)]
    name = text_at(message, "name")
    draft.assistant(
        content if is_plain else blocks.with_ids(draft, said),
        **about,
        extra={"name": name} if name else {},
        usage=usage or None,
        stop_reason=text_or_empty(stop) or None,
    )


def _calls(draft: Draft, message: Json) -> list[Json]:
    calls = [
        blocks.call(
            draft.call_id(call.get("id")),
            text_or_empty(mapping(call.get("function")).get("name") or call.get("name"))
            or text_at(call, "function"),
            _arguments(call),
        )
        for call in mappings(message.get("tool_calls"))
    ]
    legacy = mapping(message.get("function_call"))
    if legacy:
        name = text_at(legacy, "name")
        calls.append(blocks.call(draft.call_id(), name, legacy.get("arguments")))
    return calls


def _arguments(call: Json) -> object:
    for place in (mapping(call.get("function")), mapping(call.get("custom")), call):
        for name in ("arguments", "input", "args"):
            if name in place:
                return place[name]
    return None


def _carry_result(draft: Draft, message: Json, about: dict[str, Any]) -> None:
    name = text_at(message, "name", "tool_name")
    ids = listing(message.get("tool_call_ids"))
    given = message.get("tool_call_id") or (ids[0] if ids else "")
    error = message.get("error")
    draft.result(
        draft.answer_id(given, name),
        blocks.content_of(message.get("content")),
        name=name or text_at(message, "function"),
        is_error=bool(error) or message.get("is_error") is True,
        **about,
    )


# The format itself


def lists_in(source: Source) -> list[Json]:
    """The conversations in a file, each as an object with `messages`."""
    value = source.value
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        return [{"messages": item} for item in value if isinstance(item, list)]
    if isinstance(value, list) and any("messages" in item for item in mappings(value)):
        return [item for item in mappings(value) if isinstance(item.get("messages"), list)]
    if isinstance(value, list):
        return [{"messages": value}]
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return [value]
    lines = [line.value for line in source.lines]
    if any(isinstance(entry.get("messages"), list) for entry in lines):
        return [entry for entry in lines if isinstance(entry.get("messages"), list)]
    return [{"messages": lines}] if lines else []


def first_messages(source: Source) -> list[Json]:
    """Messages from the beginning, for detectors."""
    value = source.value
    if isinstance(value, dict):
        messages = mappings(value.get("messages"))
        return messages or [value]
    if isinstance(value, list):
        found = mappings(value[:64])
        nested = [message for item in found for message in mappings(item.get("messages"))[:64]]
        inner = [message for item in value[:8] for message in mappings(item)[:64]]
        return nested or found or inner
    nested = [message for item in source.head for message in mappings(item.get("messages"))[:64]]
    return nested or source.head


def are_known(messages: Iterable[Json]) -> bool:
    """Return whether every block of the messages is of a kind that can be read."""
    found = (block for message in messages for block in mappings(message.get("content")))
    return all(map(blocks.is_known, found))


def detect(source: Source) -> bool:
    messages = first_messages(source)
    if not are_known(messages):
        return False
    roles = [message.get("role") for message in messages]
    known = sum(role in _ROLES for role in roles if is_text(role))
    is_said = any(
        "content" in item or "tool_calls" in item or "function_call" in item for item in messages
    )
    return known > 0 and is_said and known * 2 >= len(roles)


def read(source: Source) -> list[Imported]:
    return read_each(source, "openai-chat", lists_in(source), _carry_body)


def _carry_body(draft: Draft, body: Json) -> str:
    draft.tools = tools_of(body.get("tools") or body.get("functions"))
    carry_messages(draft, body["messages"], model=text_at(body, "model") or None)
    blocks.pass_over(draft, body, ("messages", "tools", "functions"))
    return text_at(body, "session_id")


IMPORTER: Final = Importer(
    "openai-chat", "OpenAI Chat message lists, request bodies, or one message a line", detect, read
)


# Several agents in one conversation: `history` with a role and a name for each message.


def detect_history(source: Source) -> bool:
    return any(_histories(source, is_head=True))


def _histories(source: Source, *, is_head: bool = False) -> list[Json]:
    value = source.value
    items = [value] if isinstance(value, dict) else mappings(value)
    items = items or (source.head if is_head else [line.value for line in source.lines])
    found = (item for item in items if isinstance(item, dict))
    return [item for item in found if _is_history(mappings(item.get("history")))]


def _is_history(messages: list[Json]) -> bool:
    said = [message for message in messages if is_text(message.get("role"))]
    return bool(said) and all("content" in message for message in said)


def read_history(source: Source) -> list[Imported]:
    return read_each(source, "history", _histories(source), _carry_history)


def _carry_history(draft: Draft, body: Json) -> str:
    draft.tools = tools_of(body.get("tools") or body.get("functions"))
    carry_messages(draft, map(_with_known_role, listing(body["history"])))
    return text_at(body, "session_id", "id")


def _with_known_role(message: object) -> object:
    """An agent may be named by its role: what it says is a reply."""
    if not isinstance(message, dict) or message.get("role") in (*_ROLES, "human", "ai", "model"):
        return message
    return {**message, "role": "assistant", "name": message.get("name") or message.get("role")}


HISTORY: Final = Importer(
    "history",
    "conversations of several agents: `history` with `role`, `name` and `content`",
    detect_history,
    read_history,
)
