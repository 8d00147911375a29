"""Back to message lists: the records of a path as Anthropic or OpenAI Chat messages.

This is a faithful conversion and no projection: nothing is repaired, shortened or summarised.
What a dialect has no place for is listed, as an importer lists what it leaves out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Assistant, Header, ToolResult, ToolUse, User
from holdfast.importers.common.base import Skipped, mapping, text_at, text_or_empty
from holdfast.importers.common.blocks import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Content, Json, Record


class Exported(msgspec.Struct, frozen=True):
    """A message list, and what has no place in it."""

    messages: list[Json]
    skipped: list[Skipped]


def export_messages(records: Iterable[Record], dialect: str) -> Exported:
    """The records as messages of a dialect: a key of `DIALECTS`."""
    writer = DIALECTS[dialect]()
    for record in records:
        writer.add(record)
    skipped = [Skipped(what, why, count) for (what, why), count in writer.skipped.items()]
    return Exported(writer.messages, skipped)


class MessageWriter(ABC):
    """Shared by both dialects: calls of the seed format, and records that are no messages."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.skipped: Counter[tuple[str, str]] = Counter()

    def add(self, record: Record) -> None:
        match record:
            case User():
                self.user(record)
            case Assistant():
                self.assistant(record)
            case ToolResult():
                self.result(record)
            case ToolUse(tool_use_id=call_id, name=name, input=given):
                call = {"type": "tool_use", "id": call_id, "name": name, "input": given}
                self.assistant(Assistant(content=[call]))
            case Header():
                pass
            case _:
                self.skip(f"{record.kind} record", "no message")

    def skip(self, what: str, why: str) -> None:
        self.skipped[what, why] += 1

    @abstractmethod
    def user(self, record: User) -> None: ...

    @abstractmethod
    def assistant(self, record: Assistant) -> None: ...

    @abstractmethod
    def result(self, record: ToolResult) -> None: ...


class _Anthropic(MessageWriter):
    """Results of one step are blocks of one user message."""

    def user(self, record: User) -> None:
        if record.name:
            self.skip("name of a user", "the dialect has no place for it")
        self.messages.append({"role": "user", "content": record.content or ""})

    def assistant(self, record: Assistant) -> None:
        content = record.content
        if isinstance(content, list):
            content = [block for block in content if self._is_known(block)]
        self.messages.append({"role": "assistant", "content": content or ""})

    def result(self, record: ToolResult) -> None:
        block: Json = {"type": "tool_result", "tool_use_id": record.tool_use_id}
        if record.content is not None:
            block["content"] = record.content
        if record.is_error:
            block["is_error"] = True
        if record.details is not None:
            self.skip("details of a result", "the dialect has no place for them")
        last = self.messages[-1] if self.messages else {}
        if _is_answer(last):
            last["content"].append(block)
        else:
            self.messages.append({"role": "user", "content": [block]})

    def _is_known(self, block: Json) -> bool:
        if block.get("type") != "reasoning":
            return True
        self.skip("reasoning item", "only its own provider can read it")
        return False


def _is_answer(message: Json) -> bool:
    content = message.get("content")
    return (
        message.get("role") == "user"
        and isinstance(content, list)
        and bool(content)
        and all(block.get("type") == "tool_result" for block in content)
    )


class _Chat(MessageWriter):
    """Calls and results are fields and messages of their own."""

    def user(self, record: User) -> None:
        message: Json = {"role": "user", "content": self._content(record.content) or ""}
        self.messages.append({**message, "name": record.name} if record.name else message)

    def assistant(self, record: Assistant) -> None:
        content = record.content
        if not isinstance(content, list):
            self.messages.append({"role": "assistant", "content": content or ""})
            return
        kinds = ("tool_use", "thinking", "redacted_thinking", "reasoning")
        said = [block for block in content if block.get("type") not in kinds]
        message: Json = {"role": "assistant", "content": self._write_text(said)}
        thoughts = [item for item in content if item.get("type") == "thinking"]
        if thoughts:
            texts = [text_at(thought, "thinking") for thought in thoughts]
            message["reasoning_content"] = "\n".join(texts)
        for block in content:
            if block.get("signature"):
                self.skip("signature of a thought", "the dialect has no place for it")
            elif block.get("type") in ("redacted_thinking", "reasoning"):
                self.skip("encrypted thought", "only its own provider can read it")
        calls = [_call(block) for block in content if block.get("type") == "tool_use"]
        self.messages.append({**message, "tool_calls": calls} if calls else message)

    def result(self, record: ToolResult) -> None:
        content = self._content(record.content) or ""
        if record.is_error:
            self.skip("error flag of a result", "the dialect has no place for it")
        if record.details is not None:
            self.skip("details of a result", "the dialect has no place for them")
        message: Json = {"role": "tool", "tool_call_id": record.tool_use_id, "content": content}
        self.messages.append(message)

    def _write_text(self, said: list[Json]) -> Any:
        """A reply of one text is a text; a list would be odd for most readers."""
        if len(said) == 1 and said[0].get("type") == "text":
            return said[0].get("text")
        return self._content(said) or None

    def _content(self, content: Content) -> Any:
        if not isinstance(content, list):
            return content
        return [self._part(block) for block in content]

    def _part(self, block: Json) -> Json:
        if block.get("type") == "image":
            source = mapping(block.get("source"))
            address = text_at(source, "url")
            if not address:
                kind = text_at(source, "media_type") or "image/png"
                address = f"data:{kind};base64,{text_or_empty(source.get('data'))}"
            return {"type": "image_url", "image_url": {"url": address}}
        if block.get("type") not in ("text", "image_url"):
            self.skip(f"block `{block.get('type')}` as it is", "the dialect may not know it")
        return block


def _call(block: Json) -> Json:
    function = {"name": block.get("name"), "arguments": as_text(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": function}


DIALECTS: Final[dict[str, Callable[[], MessageWriter]]] = {
    "anthropic": _Anthropic,
    "openai-chat": _Chat,
}
