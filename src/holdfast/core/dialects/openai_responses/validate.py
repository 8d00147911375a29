"""Judge a request to the Responses API by its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rule import (
    Picture,
    Violation,
    dicts,
    judge_length,
    picture_of_uri,
)
from holdfast.core.dialects.common.values import as_dict, as_list, as_number, as_text
from holdfast.core.dialects.openai_chat.rules import TOOLS
from holdfast.core.dialects.openai_responses import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target

    Items = list[tuple[str, Json]]

_CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}
_OUTPUTS: Final = {output: call for call, output in _CALLS.items()}


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request of any origin."""
    body = as_dict(request)
    items = list(dicts(body.get("input"), "input"))
    return [
        *rules.COMMON.judge(
            request,
            target.dialect,
            "input",
            "a text or a non-empty array of input items",
            may_be_text=True,
        ),
        *_judge_shape(body, items),
        *_judge_limits(body, items, target),
        *_judge_pairs(body, items),
        *_judge_reasoning(body, items),
        *_judge_followers(items),
        *_judge_item_ids(items),
        *rules.COMMON.pictures.judge(list(_pictures(items)), target.dialect),
    ]


def _judge_shape(body: Json, items: Items) -> Iterator[Violation]:
    for where, item in items:
        if not isinstance(item.get("type", "message"), str):
            yield rules.COMMON.shape.broken(f"{where}.type", what="the name of an item's type")
        elif _kind(item) == "message" and item.get("content") in (None, "", []):
            yield rules.COMMON.shape.broken(
                f"{where}.content", what="a text or a non-empty array of objects"
            )
    if body.get("previous_response_id"):
        yield rules.CHAIN.broken("previous_response_id")


def _kind(item: Json) -> str:
    return as_text(item.get("type", "message"))


def _judge_limits(body: Json, items: Items, target: Target) -> Iterator[Violation]:
    dialect = target.dialect
    tools = as_list(body.get("tools"))
    yield from judge_length(TOOLS, "tools", len(tools), dialect.tools_max)
    functions = [(w, tool) for w, tool in dicts(tools, "tools") if tool.get("type") == "function"]
    calls = [(where, item) for where, item in items if _kind(item) == "function_call"]
    for where, named in (*functions, *calls):
        yield from rules.COMMON.judge_name(named.get("name"), f"{where}.name", dialect)
    for where, text in _texts(items):
        yield from judge_length(rules.STRING, where, len(text), dialect.string_chars)
    found = as_number(body.get("max_output_tokens"))
    if found is not None and found < rules.OUTPUT_TOKENS_MIN:
        yield rules.OUTPUT_MIN.broken(
            "max_output_tokens", limit=rules.OUTPUT_TOKENS_MIN, found=found
        )
    if found is not None and target.output_max and found > target.output_max:
        yield rules.OUTPUT.broken("max_output_tokens", limit=target.output_max, found=found)
    for where, item in items:
        call_id = as_text(item.get("call_id"))
        limit = dialect.call_id_chars
        yield from judge_length(rules.ID_LENGTH, f"{where}.call_id", len(call_id), limit)


def _texts(items: Items) -> Iterator[tuple[str, str]]:
    for where, item in items:
        for field in ("content", "output", "arguments"):
            yield f"{where}.{field}", as_text(item.get(field))
            for place, part in dicts(item.get(field), f"{where}.{field}"):
                yield f"{place}.text", as_text(part.get("text"))


def _judge_pairs(body: Json, items: Items) -> Iterator[Violation]:
    called = {
        (_kind(item), as_text(item.get("call_id"))) for _w, item in items if _kind(item) in _CALLS
    }
    answered: set[tuple[str, str]] = set()
    seen: set[tuple[str, str]] = set()
    has_more = bool(body.get("previous_response_id") or body.get("conversation"))
    for where, item in items:
        kind, call_id = _kind(item), as_text(item.get("call_id"))
        if kind in _CALLS:
            seen.add((kind, call_id))
        elif kind in _OUTPUTS:
            call = (_OUTPUTS[kind], call_id)
            answered.add(call)
            if call not in seen and not (has_more and call not in called):
                yield rules.CALLED.broken(where, id=call_id)
    for where, item in items:
        kind, call_id = _kind(item), as_text(item.get("call_id"))
        if kind in _CALLS and (kind, call_id) not in answered:
            yield rules.ANSWERED.broken(where, id=call_id)


def _judge_reasoning(body: Json, items: Items) -> Iterator[Violation]:
    is_stored = body.get("store") is not False
    owners: dict[str, str] = {}
    for where, item in items:
        if _kind(item) != "reasoning":
            continue
        item_id, content = as_text(item.get("id")), item.get("encrypted_content")
        if not item_id and not is_stored:
            yield rules.NEEDS_ID.broken(where)
        if content is None:
            if not is_stored:
                yield rules.STORED.broken(where, id=item_id)
        elif not isinstance(content, str) or not content.strip():
            yield rules.VERIFIED.broken(where, content=repr(content)[:12])
        elif owners.setdefault(content, item_id) != item_id:
            yield rules.OWN_ID.broken(where)


def _judge_followers(items: Items) -> Iterator[Violation]:
    """Reasoning stands right before what it led to; what has the server's id has its reasoning."""
    has_reasoned = False
    waiting: list[tuple[str, Json]] = []
    for where, item in [*items, ("", {"role": "user"})]:
        if _kind(item) == "reasoning":
            waiting.append((where, item))
            has_reasoned = True
            continue
        if not _is_said(item):
            for place, lonely in waiting:
                yield rules.FOLLOWED.broken(place, id=as_text(lonely.get("id")))
            waiting, has_reasoned = [], False
            continue
        waiting = []
        item_id = as_text(item.get("id"))
        if item_id.startswith("fc_") and not has_reasoned:
            yield rules.CALL_REASONED.broken(where, id=item_id)
        elif item_id.startswith("msg_") and not has_reasoned:
            yield rules.MESSAGE_REASONED.broken(where, id=item_id)


def _is_said(item: Json) -> bool:
    """Return whether the model made an item."""
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind.endswith("_call")


def _judge_item_ids(items: Items) -> Iterator[Violation]:
    seen: set[str] = set()
    for where, item in items:
        item_id = as_text(item.get("id"))
        if item_id and item_id in seen:
            yield rules.UNIQUE.broken(where, id=item_id)
        seen.add(item_id)


def _pictures(items: Items) -> Iterator[Picture]:
    for where, item in items:
        for field in ("content", "output"):
            for place, part in dicts(item.get(field), f"{where}.{field}"):
                if part.get("type") == "input_image":
                    yield picture_of_uri(as_text(part.get("image_url")), place)
