"""What OpenAI's Responses API refuses.

The words of each rule are the provider's; docs/dialects.md lists them all.
"""

from __future__ import annotations

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

    Items = list[tuple[str, Json]]

OUTPUT_TOKENS_MIN: Final = 16

_SHAPE: Final = Rule("request-shape", "Invalid type for '{where}': expected {what}.")
_UNICODE: Final = Rule(
    "valid-unicode",
    "Invalid JSON: lone leading surrogate in hex escape at {where} (wrong_api_format)",
    "elizaOS/eliza#18079",
)
_BODY: Final = Rule("body-bytes", "413 Request Entity Too Large ({size} > {limit} bytes)")
_ANSWERED: Final = Rule(
    "call-has-output",
    "No tool output found for function call {id}.",
    "EvoScientist/EvoScientist#360",
)
_CALLED: Final = Rule(
    "output-has-call", "No tool call found for function call output with call_id {id}."
)
_FOLLOWED: Final = Rule(
    "reasoning-has-follower",
    "Item '{id}' of type 'reasoning' was provided without its required following item.",
    "vercel/ai#7099",
)
_CALL_REASONED: Final = Rule(
    "call-has-reasoning",
    "Item '{id}' of type 'function_call' was provided without its required 'reasoning' item: "
    "'rs_…'.",
    "TanStack/ai#1212",
)
_MESSAGE_REASONED: Final = Rule(
    "message-has-reasoning",
    "Item '{id}' of type 'message' was provided without its required 'reasoning' item: 'rs_…'.",
    "continuedev/continue#11994",
)
_VERIFIED: Final = Rule(
    "encrypted-content-verified",
    "The encrypted content {content} could not be verified. (invalid_encrypted_content)",
    "openai/codex#8119",
)
_OWN_ID: Final = Rule(
    "encrypted-content-own-id",
    "Encrypted content item_id did not match the target item id.",
    "can1357/oh-my-pi#290",
)
_NEEDS_ID: Final = Rule(
    "reasoning-needs-id", "400 invalid_payload: {where}.id", "dotnet/extensions#7628"
)
_STORED: Final = Rule(
    "reasoning-not-stored",
    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try "
    "again with `store` set to true, or remove this item from your input.",
)
_CHAIN: Final = Rule(
    "server-chain",
    "Previous response cannot be used for this organization due to Zero Data Retention.",
    "can1357/oh-my-pi#2341",
)
_ID_LENGTH: Final = Rule(
    "call-id-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "fitchmultz/pi-cursor-sdk#237",
)
_UNIQUE: Final = Rule(
    "item-ids-unique",
    "Duplicate item found with id {id}. Remove duplicate items from your input and try again.",
)
_STRING: Final = Rule(
    "string-length",
    "Invalid '{spot}': string too long. Expected a string with maximum length {limit}, but got "
    "a string with length {length} instead.",
    "VectorlyApp/bluebox#31",
)
_TOOLS: Final = Rule(
    "tools-max",
    "Invalid 'tools': array too long. Expected an array with maximum length {limit}, but got an "
    "array with length {length} instead.",
    "0x4m4/hexstrike-ai#29",
)
_NAME: Final = Rule(
    "tool-name",
    "Invalid '{spot}': string does not match pattern. Expected a string that matches the pattern "
    "'^[a-zA-Z0-9_-]+$'.",
)
_OUTPUT_MIN: Final = Rule(
    "output-tokens-min",
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {limit}, but "
    "got {found} instead.",
)
_OUTPUT: Final = Rule(
    "output-tokens-max",
    "max_output_tokens is too large: {found}. This model supports at most {limit} output tokens.",
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
)

RULES: Final = (
    *(_SHAPE, _UNICODE, _BODY, _ANSWERED, _CALLED, _FOLLOWED, _CALL_REASONED, _MESSAGE_REASONED),
    *(_VERIFIED, _OWN_ID, _NEEDS_ID, _STORED, _CHAIN, _ID_LENGTH, _UNIQUE, _STRING, _TOOLS),
    *(_NAME, _OUTPUT_MIN, _OUTPUT, *_PICTURES.rules),
)

_CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}
_OUTPUTS: Final = {output: call for call, output in _CALLS.items()}
_NAME_PATTERN: Final = lazy_pattern("[a-zA-Z0-9_-]+")


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request, whoever made it."""
    body = as_dict(request)
    items = list(dicts(body.get("input"), "input"))
    return [
        *judge_body(request, target.dialect, unicode=_UNICODE, too_large=_BODY, shape=_SHAPE),
        *_judge_shape(request),
        *_judge_limits(body, items, target),
        *_judge_pairs(body, items),
        *_judge_reasoning(body, items),
        *_judge_followers(items),
        *_judge_item_ids(items),
        *_PICTURES.judge(list(_pictures(items)), target.dialect),
    ]


def _judge_shape(request: object) -> Iterator[Violation]:
    if not isinstance(request, dict):
        yield _SHAPE.broken("", where="request", what="an object")
        return
    found = request.get("input")
    if not isinstance(found, str | list) or not found:
        yield _SHAPE.broken("input", what="a text or a non-empty array of input items")
    for index, item in enumerate(as_list(found)):
        where = f"input.{index}"
        if not isinstance(item, dict):
            yield _SHAPE.broken(where, what="an object")
        elif not isinstance(item.get("type", "message"), str):
            yield _SHAPE.broken(f"{where}.type", what="the name of an item's type")
        elif _kind(item) == "message" and item.get("content") in (None, "", []):
            yield _SHAPE.broken(f"{where}.content", what="a text or a non-empty array of objects")
    if request.get("previous_response_id"):
        yield _CHAIN.broken("previous_response_id")


def _kind(item: Json) -> str:
    return as_text(item.get("type", "message"))


def _judge_limits(body: Json, items: Items, target: Target) -> Iterator[Violation]:
    dialect = target.dialect
    tools = as_list(body.get("tools"))
    if dialect.tools_max and len(tools) > dialect.tools_max:
        yield _TOOLS.broken("tools", limit=dialect.tools_max, length=len(tools))
    functions = [(w, tool) for w, tool in dicts(tools, "tools") if tool.get("type") == "function"]
    calls = [(where, item) for where, item in items if _kind(item) == "function_call"]
    for where, one in (*functions, *calls):
        name = as_text(one.get("name"))
        if not _NAME_PATTERN.fullmatch(name) or len(name) > dialect.tool_name_chars:
            yield _NAME.broken(f"{where}.name", spot=bracketed(f"{where}.name"))
    for where, text in _texts(items):
        limit = dialect.string_chars
        if limit and len(text) > limit:
            yield _STRING.broken(where, spot=bracketed(where), limit=limit, length=len(text))
    found = as_number(body.get("max_output_tokens"))
    if found is not None and found < OUTPUT_TOKENS_MIN:
        yield _OUTPUT_MIN.broken("max_output_tokens", limit=OUTPUT_TOKENS_MIN, found=found)
    if found is not None and target.output_max and found > target.output_max:
        yield _OUTPUT.broken("max_output_tokens", limit=target.output_max, found=found)
    for where, item in items:
        call_id = as_text(item.get("call_id"))
        if len(call_id) > dialect.call_id_chars:
            place, limit = f"{where}.call_id", dialect.call_id_chars
            yield _ID_LENGTH.broken(place, spot=bracketed(place), limit=limit, length=len(call_id))


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
                yield _CALLED.broken(where, id=call_id)
    for where, item in items:
        kind, call_id = _kind(item), as_text(item.get("call_id"))
        if kind in _CALLS and (kind, call_id) not in answered:
            yield _ANSWERED.broken(where, id=call_id)


def _judge_reasoning(body: Json, items: Items) -> Iterator[Violation]:
    is_stored = body.get("store") is not False
    owners: dict[str, str] = {}
    for where, item in items:
        if _kind(item) != "reasoning":
            continue
        item_id, content = as_text(item.get("id")), item.get("encrypted_content")
        if not item_id and not is_stored:
            yield _NEEDS_ID.broken(where)
        if content is None:
            if not is_stored:
                yield _STORED.broken(where, id=item_id)
        elif not isinstance(content, str) or not content.strip():
            yield _VERIFIED.broken(where, content=repr(content)[:12])
        elif owners.setdefault(content, item_id) != item_id:
            yield _OWN_ID.broken(where)


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
                yield _FOLLOWED.broken(place, id=as_text(lonely.get("id")))
            waiting, has_reasoned = [], False
            continue
        waiting = []
        item_id = as_text(item.get("id"))
        if item_id.startswith("fc_") and not has_reasoned:
            yield _CALL_REASONED.broken(where, id=item_id)
        elif item_id.startswith("msg_") and not has_reasoned:
            yield _MESSAGE_REASONED.broken(where, id=item_id)


def _is_said(item: Json) -> bool:
    """Whether the model made an item."""
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind.endswith("_call")


def _judge_item_ids(items: Items) -> Iterator[Violation]:
    seen: set[str] = set()
    for where, item in items:
        item_id = as_text(item.get("id"))
        if item_id and item_id in seen:
            yield _UNIQUE.broken(where, id=item_id)
        seen.add(item_id)


def _pictures(items: Items) -> Iterator[Picture]:
    for where, item in items:
        for field in ("content", "output"):
            for place, part in dicts(item.get(field), f"{where}.{field}"):
                if part.get("type") == "input_image":
                    yield picture_of_uri(as_text(part.get("image_url")), place)
