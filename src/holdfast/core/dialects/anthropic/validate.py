"""Judge a request to the Messages API by its rules."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.anthropic import rules
from holdfast.core.dialects.common.rule import Picture, Violation, dicts
from holdfast.core.dialects.common.values import as_dict, as_list, as_number, as_text, is_blank
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.models.generation import traits_of
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.dialects import Target

_ID_PATTERN: Final = lazy_pattern("[a-zA-Z0-9_-]+")
_SIGNATURE_PATTERN: Final = lazy_pattern("[a-zA-Z0-9+/=_-]+")
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_ROLES: Final = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "server_tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}


class _Part(msgspec.Struct, frozen=True):
    """Messages of one role in a row; the API reads them as one."""

    index: int
    """Of the first of them."""
    role: str
    blocks: list[tuple[str, Json]]

    def of_kind(self, kind: str) -> list[tuple[str, Json]]:
        return [(where, block) for where, block in self.blocks if block.get("type") == kind]


def validate(request: object, target: Target) -> list[Violation]:
    """Everything the API would refuse in a request of any origin."""
    body = as_dict(request)
    parts = _parts(body)
    merged = _merge_roles(parts)
    return [
        *rules.COMMON.judge(request, target.dialect, "messages", "a list of at least one message"),
        *_judge_shape(body, target),
        *_judge_roles(parts, body, target),
        *_judge_empties(body),
        *_judge_blocks(parts, target),
        *_judge_pairs(merged, body, target),
        *_judge_server_tools(merged),
        *_judge_thinking(merged, body, target),
        *_judge_marks(body, target),
        *rules.COMMON.pictures.judge(list(_pictures(parts)), target.dialect),
        *_judge_tools(body, target),
    ]


def _parts(body: Json) -> list[_Part]:
    return [
        _Part(index, as_text(message.get("role")), list(_blocks(message, f"messages.{index}")))
        for index, message in enumerate(as_list(body.get("messages")))
        if isinstance(message, dict)
    ]


def _blocks(message: Json, where: str) -> Iterator[tuple[str, Json]]:
    content = message.get("content")
    if isinstance(content, str):
        yield f"{where}.content", {"type": "text", "text": content}
    yield from dicts(content, f"{where}.content")


def _merge_roles(parts: list[_Part]) -> list[_Part]:
    """The direct API joins neighbours of one role before it looks at pairs."""
    merged: list[_Part] = []
    for part in parts:
        if merged and merged[-1].role == part.role:
            before = merged.pop()
            part = _Part(before.index, before.role, [*before.blocks, *part.blocks])
        merged.append(part)
    return merged


def _judge_shape(body: Json, target: Target) -> Iterator[Violation]:
    if as_number(body.get("max_tokens")) is None:
        yield rules.MAX_TOKENS.broken("max_tokens")
    roles: tuple[str, ...] = ("user", "assistant")
    if traits_of(target.provider, as_text(body.get("model")) or target.model).mid_system_messages:
        roles = (*roles, "system")
    for where, message in dicts(body.get("messages"), "messages"):
        if message.get("role") not in roles:
            what = " or ".join(f"'{role}'" for role in roles)
            yield rules.COMMON.shape.broken(f"{where}.role", what=what)
        content = message.get("content")
        if not isinstance(content, str | list):
            yield rules.COMMON.shape.broken(f"{where}.content", what="a valid list")
        for at, block in enumerate(as_list(content)):
            if not isinstance(as_dict(block).get("type"), str):
                place = f"{where}.content.{at}"
                yield rules.COMMON.shape.broken(place, what="an object with a `type`")


def _judge_roles(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    if not parts:
        return
    if parts[0].role != "user":
        yield rules.FIRST.broken(f"messages.{parts[0].index}")
    if target.variant == "bedrock":
        for before, part in pairwise(parts):
            if before.role == part.role:
                yield rules.ALTERNATE.broken(f"messages.{part.index}")
    last = parts[-1]
    if last.role == "assistant":
        where = f"messages.{last.index}"
        model = as_text(body.get("model")) or target.model
        if rules.is_adaptive(model) or _thinking_type(body) in ("enabled", "adaptive"):
            yield rules.ENDS.broken(where)
        elif last.blocks:
            text = as_text(last.blocks[-1][1].get("text"))
            if text and text != text.rstrip():
                yield rules.TRAILING.broken(last.blocks[-1][0])


def _judge_empties(body: Json) -> Iterator[Violation]:
    messages = as_list(body.get("messages"))
    for index, message in enumerate(messages):
        content = as_dict(message).get("content")
        is_final = index == len(messages) - 1 and as_dict(message).get("role") == "assistant"
        if content in ("", []) and not is_final:
            yield rules.EMPTY.broken(f"messages.{index}", index=index)
        elif isinstance(content, str) and not content.strip() and not is_final:
            yield rules.EMPTY_TEXT.broken(f"messages.{index}.content")
        yield from _empty_texts(content, f"messages.{index}.content")
    yield from _empty_texts(body.get("system"), "system")


def _empty_texts(content: object, where: str) -> Iterator[Violation]:
    for place, block in dicts(content, where):
        if block.get("type") == "text" and is_blank(block.get("text")):
            yield rules.EMPTY_TEXT.broken(place)
        elif block.get("type") == "tool_result":
            yield from _empty_texts(block.get("content"), f"{place}.content")


def _judge_blocks(parts: list[_Part], target: Target) -> Iterator[Violation]:
    limit = target.dialect.call_id_chars
    for part in parts:
        for where, block in part.blocks:
            kind = as_text(block.get("type"))
            role = _ROLES.get(kind, part.role)
            if role != part.role:
                yield rules.BLOCK_ROLE.broken(where, kind=kind, role=role)
            field = {"tool_use": "id", "tool_result": "tool_use_id"}.get(kind)
            if field is None:
                continue
            found, place = block.get(field), f"{where}.{kind}.{field}"
            if not isinstance(found, str) or not _ID_PATTERN.fullmatch(found):
                yield rules.ID.broken(place)
            elif len(found) > limit:
                yield rules.ID_LENGTH.broken(place, limit=limit)


def _judge_pairs(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    is_bedrock = target.variant == "bedrock"
    seen: set[str] = set()
    nobody = _Part(-1, "user", [])
    uses_tools = False
    for before, part in pairwise([nobody, *parts, nobody]):
        called = [(w, as_text(b.get("id"))) for w, b in before.of_kind("tool_use")]
        answers = [(w, as_text(b.get("tool_use_id"))) for w, b in part.of_kind("tool_result")]
        uses_tools = uses_tools or bool(called or answers)
        yield from _judge_answers(before, part, called, answers, is_bedrock=is_bedrock)
        for where, call_id in called:
            if call_id in seen and is_bedrock:
                yield rules.BEDROCK_UNIQUE.broken(where, index=before.index, ids=call_id)
            elif call_id in seen:
                yield rules.UNIQUE.broken(where)
            seen.add(call_id)
    if is_bedrock and uses_tools and not as_list(body.get("tools")):
        yield rules.DECLARED.broken("tools")


def _judge_answers(
    before: _Part,
    part: _Part,
    called: list[tuple[str, str]],
    answers: list[tuple[str, str]],
    *,
    is_bedrock: bool,
) -> Iterator[Violation]:
    """The results of one message against the calls of the one before it."""
    wanted = dict.fromkeys(call_id for _where, call_id in called)
    given = [call_id for _where, call_id in answers]
    missing = [call_id for call_id in wanted if call_id not in given]
    where = f"messages.{before.index}"
    if missing and is_bedrock:
        at = part.index if part.index >= 0 else before.index + 1
        yield rules.BEDROCK_MISSING.broken(where, index=at, ids=", ".join(missing))
    elif missing:
        yield rules.ANSWERED.broken(where, index=before.index, ids=", ".join(missing))
    elif called:
        leading = 0
        for _place, block in part.blocks:
            if block.get("type") != "tool_result":
                break
            leading += 1
        if leading < len(wanted):
            count = len(wanted) - leading
            yield rules.RESULTS_FIRST.broken(f"messages.{part.index}", count=count)
    done: set[str] = set()
    for place, call_id in answers:
        if call_id not in wanted:
            if is_bedrock:
                yield rules.BEDROCK_EXCESS.broken(place, index=part.index)
            else:
                yield rules.EXPECTED.broken(place, id=call_id)
        elif call_id in done:
            yield rules.SINGLE.broken(place, id=call_id)
        done.add(call_id)


def _judge_server_tools(parts: list[_Part]) -> Iterator[Violation]:
    for part in parts:
        called: dict[str, tuple[str, str]] = {}
        for where, block in part.blocks:
            kind = as_text(block.get("type"))
            if kind in ("server_tool_use", "mcp_tool_use"):
                called[as_text(block.get("id"))] = where, as_text(block.get("name"))
            elif kind.endswith("_tool_result"):
                call_id = as_text(block.get("tool_use_id"))
                if call_id not in called:
                    yield rules.SERVED.broken(where, kind=kind, id=call_id)
        answered = {as_text(block.get("tool_use_id")) for _where, block in part.blocks}
        if part is parts[-1]:
            continue  # a pause: the server goes on from here
        for call_id, (where, name) in called.items():
            if call_id not in answered:
                yield rules.UNSERVED.broken(where, name=name, id=call_id)


def _judge_thinking(parts: list[_Part], body: Json, target: Target) -> Iterator[Violation]:
    mode = _thinking_type(body)
    yield from _judge_budget(body)
    for part in parts:
        for where, block in part.of_kind("thinking"):
            signature = block.get("signature")
            if not isinstance(signature, str) or not _SIGNATURE_PATTERN.fullmatch(signature):
                yield rules.SIGNATURE.broken(where)
    last = next((part for part in reversed(parts) if part.role == "assistant"), None)
    if last is None or not last.blocks:
        return
    where, first = last.blocks[0]
    thoughts = [(at, block) for at, block in last.blocks if as_text(block.get("type")) in _THINKING]
    if (
        mode == "enabled"
        and last.of_kind("tool_use")
        and as_text(first.get("type")) not in _THINKING
    ):
        yield rules.THINKING_FIRST.broken(where, kind=first.get("type"))
    model = as_text(body.get("model")) or target.model
    if thoughts and (mode == "disabled" or (mode == "" and not rules.is_adaptive(model))):
        yield rules.THINKING_OFF.broken(thoughts[0][0])
    yield from _judge_thoughts(thoughts, body, may_omit=rules.is_adaptive(model))


def _judge_thoughts(
    thoughts: list[tuple[str, Json]], body: Json, *, may_omit: bool
) -> Iterator[Violation]:
    """Signs that thinking was changed: emptied, or repeated. Newer models omit its text."""
    display = as_dict(body.get("thinking")).get("display")
    may_be_empty = display == "omitted" or (may_omit and display is None)
    seen: set[str] = set()
    for where, block in thoughts:
        sealed = as_text(block.get("signature")) or as_text(block.get("data"))
        is_emptied = block.get("type") == "thinking" and not as_text(block.get("thinking"))
        is_hollow = block.get("type") == "redacted_thinking" and not sealed
        if (is_emptied and not may_be_empty) or is_hollow or (sealed and sealed in seen):
            yield rules.MODIFIED.broken(where)
        seen.add(sealed)


def _judge_budget(body: Json) -> Iterator[Violation]:
    budget = as_number(as_dict(body.get("thinking")).get("budget_tokens"))
    limit = as_number(body.get("max_tokens"))
    if _thinking_type(body) != "enabled":
        return
    if budget is None or budget < rules.THINKING_TOKENS_MIN:
        yield rules.BUDGET_MIN.broken("thinking.budget_tokens")
    if budget is not None and limit is not None and limit <= budget:
        yield rules.BUDGET.broken("max_tokens")


def _thinking_type(body: Json) -> str:
    return as_text(as_dict(body.get("thinking")).get("type"))


def _judge_marks(body: Json, target: Target) -> Iterator[Violation]:
    marked = [where for where, block in _markable(body) if block.get("cache_control")]
    limit = target.dialect.cache_marks
    if len(marked) > limit:
        yield rules.MARKS.broken(marked[limit], limit=limit, count=len(marked))


def _markable(body: Json) -> Iterator[tuple[str, Json]]:
    """Every place that can be marked; a schema or an argument of that name is none."""
    yield "", {"cache_control": body.get("cache_control")}
    yield from dicts(body.get("tools"), "tools")
    yield from dicts(body.get("system"), "system")
    for where, message in dicts(body.get("messages"), "messages"):
        for place, block in dicts(message.get("content"), f"{where}.content"):
            yield place, block
            yield from dicts(block.get("content"), f"{place}.content")
            source = as_dict(block.get("source"))
            yield from dicts(source.get("content"), f"{place}.source.content")


def _pictures(parts: list[_Part]) -> Iterator[Picture]:
    for part in parts:
        for where, block in part.blocks:
            inner = dicts(block.get("content"), f"{where}.content")
            for place, found in ((where, block), *inner):
                if found.get("type") == "image":
                    source = as_dict(found.get("source"))
                    kind = as_text(source.get("media_type"))
                    yield Picture(place, as_text(source.get("data")), kind)


def _judge_tools(body: Json, target: Target) -> Iterator[Violation]:
    seen: set[str] = set()
    for where, tool in dicts(body.get("tools"), "tools"):
        name = as_text(tool.get("name"))
        yield from rules.COMMON.judge_name(name, where, target.dialect)
        if name in seen:
            yield rules.TOOL_NAMES.broken(where)
        seen.add(name)
