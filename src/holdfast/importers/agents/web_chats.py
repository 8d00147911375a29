"""Exports of web chats, and message dumps of frameworks.

ChatGPT and Claude exports, ShareGPT lists, LangChain messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.apis.chat import carry_message, carry_messages
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
    from holdfast.core.log.records import Json


def _documents(source: Source) -> list[Json]:
    value = source.value
    if isinstance(value, dict):
        return [value]
    return mappings(value) if isinstance(value, list) else [line.value for line in source.lines]


def _first_documents(source: Source) -> list[Json]:
    is_whole = isinstance(source.value, dict | list)
    return _documents(source)[:4] if is_whole else source.head


# ChatGPT: a tree of messages by id; `current_node` is its head.


def detect_chatgpt(source: Source) -> bool:
    return any(map(_has_tree, _first_documents(source)))


def _has_tree(talk: Json) -> bool:
    nodes = mappings(list(mapping(talk.get("mapping")).values())[:8])
    return any("message" in node and "parent" in node for node in nodes)


def read_chatgpt(source: Source) -> list[Imported]:
    found = [talk for talk in _documents(source) if isinstance(talk.get("mapping"), dict)]
    return read_each(source, "chatgpt", found, _carry_tree)


def _carry_tree(draft: Draft, talk: Json) -> str:
    draft.label = text_at(talk, "title")
    nodes = mapping(talk.get("mapping"))
    path = _path(nodes, talk.get("current_node"))
    for node in path:
        _carry_node(draft, mapping(node.get("message")))
    with_words = sum(bool(mapping(node).get("message")) for node in nodes.values())
    on_path = sum(bool(node.get("message")) for node in path)
    draft.skip("abandoned branch", "a newer branch took its place", with_words - on_path)
    return text_at(talk, "conversation_id", "id")


def _path(nodes: Json, head: object) -> list[Json]:
    path: list[Json] = []
    seen: set[str] = set()
    place: object = head if is_text(head) else next(reversed(nodes), "")
    while is_text(place) and place in nodes and place not in seen:
        seen.add(place)
        path.append(mapping(nodes[place]))
        place = path[-1].get("parent")
    return path[::-1]


def _carry_node(draft: Draft, message: Json) -> None:
    if not message:
        return
    author = mapping(message.get("author"))
    role, name = text_at(author, "role"), text_at(author, "name")
    content = mapping(message.get("content"))
    recipient = text_at(message, "recipient") or "all"
    said: Any = [_part(part) for part in listing(content.get("parts"))]
    said = [block for block in said if block] or blocks.blocks_of(content.get("text"))
    if not said:
        draft.skip("empty message", "it says nothing, as the export's first ones do")
        return
    about = {"id": message.get("id"), "timestamp": message.get("create_time")}
    if role == "assistant" and recipient != "all":
        words = "\n".join(text_at(block, "text") for block in said)
        said = [blocks.call(draft.call_id(), recipient, {"input": words})]
    model = text_at(mapping(message.get("metadata")), "model_slug") or None
    shaped = {**about, "role": role, "name": name or None, "content": said}
    carry_message(draft, shaped, provider="openai", model=model)


def _part(part: object) -> Json:
    if isinstance(part, str):
        return blocks.text(part) if part.strip() else {}
    return {**mapping(part), "type": text_or_empty(mapping(part).get("content_type")) or "part"}


CHATGPT: Final = Importer(
    "chatgpt", "ChatGPT data exports (conversations.json)", detect_chatgpt, read_chatgpt
)


# Claude on the web


def detect_claude(source: Source) -> bool:
    return any(
        isinstance(document.get("chat_messages"), list) and "uuid" in document
        for document in _first_documents(source)
    )


def read_claude(source: Source) -> list[Imported]:
    found = [talk for talk in _documents(source) if isinstance(talk.get("chat_messages"), list)]
    return read_each(source, "claude-web", found, _carry_claude)


def _carry_claude(draft: Draft, talk: Json) -> str:
    draft.label = text_at(talk, "name")
    for message in mappings(talk.get("chat_messages")):
        _carry_claude_message(draft, message)
    return text_at(talk, "uuid")


def _carry_claude_message(draft: Draft, message: Json) -> None:
    about = about_line(message, "created_at", name="uuid")
    said = [item for item in blocks.blocks_of(message.get("content")) if item.get("type") == "text"]
    said = said or blocks.blocks_of(message.get("text"))
    others = [item for item in mappings(message.get("content")) if item.get("type") != "text"]
    for other in others:
        draft.skip(f"block `{other.get('type')}`", "the export keeps no ids to pair it by")
    for file in mappings(message.get("attachments")):
        said += blocks.blocks_of(file.get("extracted_content"))
    attached = (*mappings(message.get("attachments")), *mappings(message.get("files")))
    names = [name for file in attached if (name := text_at(file, "file_name"))]
    draft.skip("file", "the export only names it", len(listing(message.get("files"))))
    if message.get("sender") == "assistant":
        draft.assistant(said, provider="anthropic", **about)
    else:
        draft.user(said, extra={"files": names} if names else {}, **about)


CLAUDE: Final = Importer(
    "claude-web", "Claude data exports (conversations.json)", detect_claude, read_claude
)


# ShareGPT: `from` and `value`

_VOICES: Final = {
    "human": "user",
    "user": "user",
    "system": "system",
    "gpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "tool": "tool",
    "function_response": "tool",
    "observation": "tool",
}


def _speeches(one: Json) -> list[Json]:
    for name in ("conversations", "conversation", "items"):
        found = mappings(one.get(name))
        if any("from" in turn and "value" in turn for turn in found[:4]):
            return found
    return []


def detect_sharegpt(source: Source) -> bool:
    return any(map(_speeches, _first_documents(source)))


def read_sharegpt(source: Source) -> list[Imported]:
    return read_each(source, "sharegpt", list(filter(_speeches, _documents(source))), _carry_talk)


def _carry_talk(draft: Draft, talk: Json) -> str:
    draft.system = text_at(talk, "system")
    for turn in _speeches(talk):
        role = _VOICES.get(text_at(turn, "from"), turn.get("from"))
        carry_message(draft, {"role": role, "content": turn.get("value")})
    given = talk.get("id")
    return str(given) if isinstance(given, str | int) else ""


SHAREGPT: Final = Importer(
    "sharegpt", "ShareGPT conversations (from, value)", detect_sharegpt, read_sharegpt
)


# LangChain: messages as `messages_to_dict` or `dumpd` write them.

_KINDS: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "AIMessageChunk": "assistant",
}


def _langchain(value: Json) -> Json:
    """A message in the shape of Chat; empty where it is none."""
    kind = value.get("type")
    inner = mapping(value.get("data")) or value
    path = listing(value.get("id"))
    if kind == "constructor" and path:
        kind, inner = path[-1], mapping(value.get("kwargs"))
    role = _KINDS.get(text_or_empty(kind), "")
    if not role or "content" not in inner:
        return {}
    about = mapping(inner.get("response_metadata"))
    used = mapping(about.get("token_usage") or about.get("usage") or inner.get("usage_metadata"))
    content = inner.get("content")
    if isinstance(content, list):  # calls stand among the blocks and again beside them
        content = [item for item in content if mapping(item).get("type") != "tool_use"]
    return {
        "role": role,
        "content": content,
        "tool_calls": inner.get("tool_calls"),
        "tool_call_id": inner.get("tool_call_id"),
        "name": inner.get("name"),
        "id": inner.get("id"),
        "is_error": inner.get("status") == "error",
        "usage": used,
        "model": about.get("model_name") or about.get("model"),
        "finish_reason": about.get("finish_reason") or about.get("stop_reason"),
    }


def _read_dump(source: Source) -> list[Any]:
    value = source.value
    if isinstance(value, dict):
        return listing(value.get("messages")) or [value]
    return value if isinstance(value, list) else [line.value for line in source.lines]


def detect_langchain(source: Source) -> bool:
    value = source.value
    found = source.head if not isinstance(value, dict | list) else mappings(_read_dump(source))[:8]
    return any(map(_langchain, found)) and not any("role" in item for item in found)


def read_langchain(source: Source) -> list[Imported]:
    draft = Draft()
    found = _read_dump(source)
    shaped = [_langchain(item) for item in mappings(found)]
    carry_messages(draft, filter(None, shaped))
    draft.skip("item that is not a message", "no content", len(found) - sum(map(bool, shaped)))
    return [draft.finish(source, "langchain")]


LANGCHAIN: Final = Importer(
    "langchain", "LangChain message dumps", detect_langchain, read_langchain
)

IMPORTERS: Final = (CHATGPT, CLAUDE, SHAREGPT, LANGCHAIN)
