"""OpenAI Responses: lists of items, request bodies, and stored responses.

One reply of the model is several items: reasoning, messages, calls. They become one record, and
a reasoning item stays as it is, for only its own provider can read it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.apis.chat import carry_system, tools_of
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    is_text,
    listing,
    mapping,
    mappings,
    text_at,
    text_or_empty,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_CALLS: Final = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "tool_call", "tool_search_call")
)
_OUTPUTS: Final = frozenset(
    (
        *("function_call_output", "custom_tool_call_output", "local_shell_call_output"),
        *("tool_result", "function_result", "tool_search_output"),
    )
)
_SAID: Final = frozenset(
    (
        *("web_search_call", "file_search_call", "image_generation_call", "mcp_call"),
        *("code_interpreter_call", "computer_call", "mcp_list_tools", "mcp_approval_request"),
    )
)
ITEMS: Final = _CALLS | _OUTPUTS | _SAID | {"reasoning"}


class ResponseReply:
    """The items of a conversation as they come; those of one reply are put together."""

    def __init__(self, draft: Draft, *, provider: str | None = "openai") -> None:
        self.draft = draft
        self.provider = provider
        self.model: str | None = None
        self._blocks: list[Json] = []
        self._about: dict[str, Any] = {}

    def item(self, item: Json, *, ts: float = 0.0) -> None:
        kind = text_at(item, "type")
        role = item.get("role")
        if kind in _CALLS:
            self._say([self._call(item)], item, ts)
        elif kind in _OUTPUTS:
            self._result(item, ts)
        elif kind == "reasoning" or kind in _SAID:
            self._say([item], item, ts)
        elif role is None and kind:
            # A compaction, or a kind of a later time: kept as it is, for its provider to read.
            self._say([item], item, ts)
        elif role == "assistant":
            self._say(blocks.blocks_of(_read_text_item(item)), item, ts)
        elif is_text(role):
            self._message(item, role, ts)
        else:
            self.draft.skip(f"item `{kind}`", "no message, call or result")

    def end(self, usage: Json | None = None) -> None:
        """The reply is over; the usage reported for it belongs to it."""
        if self._blocks:
            self.draft.assistant(
                self._blocks, provider=self.provider, model=self.model, usage=usage, **self._about
            )
        self._blocks, self._about = [], {}

    @property
    def is_open(self) -> bool:
        return bool(self._blocks)

    def _say(self, said: list[Json], item: Json, ts: float) -> None:
        if not self._blocks:
            self._about = {"record_id": text_at(item, "id"), "ts": ts}
        self._blocks += said

    def _call(self, item: Json) -> Json:
        function = mapping(item.get("function"))
        kind = text_at(item, "type")
        name = text_or_empty(item.get("name") or function.get("name"))
        arguments = item.get("arguments", function.get("arguments", item.get("action")))
        if kind == "custom_tool_call":
            arguments = {"input": item.get("input")}
        given = item.get("call_id") or (item.get("id") if kind != "function_call" else "")
        return blocks.call(self.draft.call_id(given), name or kind.removesuffix("_call"), arguments)

    def _result(self, item: Json, ts: float) -> None:
        self.end()
        name = text_at(item, "name")
        output = next(
            (item[field] for field in ("output", "result", "content", "tools") if field in item),
            None,
        )
        self.draft.result(
            self.draft.answer_id(item.get("call_id"), name),
            output_content(output),
            name=name,
            is_error=item.get("status") == "failed",
            record_id=text_at(item, "id"),
            ts=ts,
        )

    def _message(self, item: Json, role: str, ts: float) -> None:
        self.end()
        content = blocks.content_of(_read_text_item(item))
        about: dict[str, Any] = {"record_id": text_at(item, "id"), "ts": ts}
        if role in ("system", "developer"):
            carry_system(self.draft, content, about)
        elif role == "user":
            self.draft.user(content, **about)
        else:
            blocks.skip_role(self.draft, role)


def output_content(output: object) -> Any:
    """A tool's output: text or blocks as they are, anything else as the JSON the model saw."""
    if isinstance(output, dict) and output.get("type") in ("input_text", "input_image"):
        output = [output]
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, list) and all(
        isinstance(item, dict) and "type" in item for item in output
    ):
        return blocks.content_of(output)
    return blocks.as_text(output)


def _read_text_item(item: Json) -> object:
    return next((item[name] for name in ("content", "message", "text") if name in item), None)


def detect(source: Source) -> bool:
    value = source.value
    if isinstance(value, dict):
        items = mappings(value.get("input")) or mappings(value.get("output"))
        return value.get("object") == "response" or any(map(_is_item, items))
    items = mappings(value) if isinstance(value, list) else []
    return any(map(_is_item, items))


def _is_item(item: Json) -> bool:
    kind = item.get("type")
    if kind in ("function_call", "function_call_output", "custom_tool_call"):
        return "call_id" in item
    is_reasoning = kind == "reasoning" and ("summary" in item or "encrypted_content" in item)
    is_message = kind == "message" and "role" in item and "content" in item
    return is_reasoning or is_message


def read(source: Source) -> list[Imported]:
    value = source.value
    body = value if isinstance(value, dict) else {"input": value}
    draft = Draft()
    draft.system = text_at(body, "instructions")
    draft.tools = tools_of(body.get("tools"))
    reply = ResponseReply(draft)
    reply.model = text_at(body, "model") or None
    given = body.get("input")
    if isinstance(given, str):
        draft.user(given)
    for item in listing(given) if not isinstance(given, str) else []:
        _take(reply, item)
    for item in listing(body.get("output")):
        _take(reply, item)
    reply.end(mapping(body.get("usage")) or None)
    name = text_at(body, "id") if body.get("object") == "response" else ""
    return [draft.finish(source, "openai-responses", name)]


def _take(reply: ResponseReply, item: object) -> None:
    if isinstance(item, dict):
        reply.item(item)
    else:
        reply.draft.skip("item that is not an object", f"found {type(item).__name__}")


IMPORTER: Final = Importer(
    "openai-responses", "OpenAI Responses item lists, request bodies or responses", detect, read
)
