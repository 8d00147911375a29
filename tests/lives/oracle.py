"""The laws that a life is held to, judged by what its provider got and what its log says."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.log.records import Compaction, Prune

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.testing.loopback import Received

MARKS = ("cache_control", "prompt_cache_breakpoint")


def epoch_cause(record: Record) -> str | None:
    """Return why a record begins an epoch; None if it begins none. The only place that knows."""
    if isinstance(record, Compaction):
        return "cut"
    if isinstance(record, Prune):
        return "prune"
    if record.kind == "epoch":
        cause = getattr(record, "cause", None) or getattr(record, "extra", {}).get("cause")
        return str(cause or "reset")
    return None


def epochs_of(path: Iterable[Record]) -> tuple[str, ...]:
    """Return the records on a path that begin an epoch."""
    return tuple(record.id for record in path if epoch_cause(record) is not None)


class Sent(NamedTuple):
    """A request of a life."""

    received: Received
    epochs: tuple[str, ...]
    """The epochs of its branch when it was sent."""
    base: int | None
    """The request before it on its branch; None for the first."""
    is_side: bool
    """True if it is no part of the conversation, such as one for a summary."""
    step: str
    """The step of the life that led to it."""
    told: frozenset[str] = frozenset()
    """The marks of outcomes that the log had on its branch when it was sent."""
    foreign: frozenset[str] = frozenset()
    """The marks of outcomes that it had elsewhere, or nowhere."""


class Fault(NamedTuple):
    """A law that was broken."""

    law: str
    """By which faults are grouped."""
    detail: str


def judge(sent: Sequence[Sent]) -> list[Fault]:
    """Return every law that the requests of a life break."""
    faults = []
    by_number = {one.received.number: one for one in sent}
    for at, one in enumerate(sent):
        received, reasoning = one.received, one.received.reasoning
        where = f"request {at} ({one.step}, {received.model})"
        if reasoning.refused:
            words = f"refused for its reasoning: {reasoning.refused}"
            faults.append(Fault(words, f"{where}: {received.said}"))
        elif received.violations and not received.fault:
            rule = received.violations[0].rule
            faults.append(Fault(f"refused: {rule}", f"{where}: {received.said}"))
        faults += [
            Fault("dropped for its prefix", f"{where}: {item.path}")
            for item in reasoning.dropped
            if item.reason == "prefix_binding_mismatch"
        ]
        if one.is_side:
            continue
        for item in reasoning.withheld:
            made = by_number.get(item.number)
            if made is not None and made.epochs == one.epochs and not reasoning.refused:
                kind = "required" if item.is_required else "valid"
                words = f"{kind} reasoning was not sent back"
                faults.append(Fault(words, f"{where}: {item.path} of {item.number}"))
        faults += _judge_growth(sent, at, where)
    return faults


MARK = re.compile(r"(?:receipt|refused|export|alarm)\.[\w-]+\.end")
"""What becomes of each call that waits, and each timer, has a mark that nothing else has."""


def judge_outcomes(sent: Sequence[Sent]) -> list[Fault]:
    """Return where an outcome was not in the next request, was in one twice, or in a wrong one."""
    faults = []
    for at, one in enumerate(sent):
        if one.is_side or not one.received.body:
            continue
        where = f"request {at} ({one.step}, {one.received.model})"
        found = Counter(MARK.findall(str(one.received.body)))
        known = sent[one.base].told if one.base is not None else frozenset[str]()
        faults += [
            Fault("an outcome is not in the next request", f"{where}: {mark}")
            for mark in one.told - known
            if not found[mark]
        ]
        faults += [
            Fault("an outcome is there twice", f"{where}: {mark}")
            for mark, count in found.items()
            if count > 1 and mark in one.told | one.foreign  # a reset tells of what was before
        ]
        faults += [
            Fault("an outcome of elsewhere", f"{where}: {mark}")
            for mark in one.foreign
            if found[mark]
        ]
    return faults


def _judge_growth(sent: Sequence[Sent], at: int, where: str) -> list[Fault]:
    one = sent[at]
    if one.base is None:
        return []
    base = sent[one.base]
    if base.epochs != one.epochs[: len(base.epochs)]:
        return [Fault("an epoch was forgotten", f"{where}: {base.epochs} → {one.epochs}")]
    if base.epochs != one.epochs or not one.received.body or not base.received.body:
        return []
    before, after = base.received, one.received
    assert before.dialect is not None
    if before.dialect != after.dialect:
        return [Fault("another dialect without an epoch", where)]
    old_head, old = read_request(before.dialect, before.body)
    new_head, new = read_request(before.dialect, after.body)
    if before.model != after.model:  # a model takes no other's signatures, and may read no other's
        old, new = _unsigned(old), _unsigned(new)
    what = one.step.partition("(")[0]
    faults = [
        Fault(
            f"changed outside an epoch: {name} ({what})",
            f"{where}: {_differs(old_head[name], new_head[name])}",
        )
        for name in old_head
        if old_head[name] != new_head[name]
    ]
    return [*faults, *_judge_items(old, new, where, what)]


def _judge_items(old: list[Any], new: list[Any], where: str, what: str) -> list[Fault]:
    old = _with_the_operator_last(old, new)
    for place, item in enumerate(old):
        if place >= len(new):
            return [Fault("shrank outside an epoch", f"{where}: {len(old)} → {len(new)} items")]
        if item != new[place]:
            words = f"changed outside an epoch: {_kind(item)} ({what})"
            return [Fault(words, f"{where}: item {place}: {_differs(item, new[place])}")]
    return []


def _with_the_operator_last(old: list[Any], new: list[Any]) -> list[Any]:
    """Return the older request as it may go on: its provider has the operator speak after all that
    the user says, also after what is said once a call failed."""
    start = len(old)
    while start and isinstance(old[start - 1], list) and old[start - 1][0] == "system":
        start -= 1
    end = start
    while end < len(new) and isinstance(new[end], list) and new[end][0] == "user":
        end += 1
    return [*old[:start], *new[start:end], *old[start:]] if start < len(old) else old


def read_request(dialect: str, body: Json) -> tuple[Json, list[Any]]:
    """Return what stands before the conversation, and the conversation's smallest parts."""
    body = _unmarked(body)
    match dialect:
        case "anthropic":
            head = {"system": body.get("system"), "tools": body.get("tools")}
            return head, list(_blocks(body.get("messages"), "content"))
        case "openai-chat":
            return {"tools": body.get("tools")}, list(_said_parts(body.get("messages")))
        case "openai-responses":
            effort = (body.get("reasoning") or {}).get("effort")
            head = {name: body.get(name) for name in ("instructions", "tools", "text")}
            return {**head, "effort": effort}, list(_said_parts(body.get("input")))
        case "gemini":
            head = {name: body.get(name) for name in ("systemInstruction", "tools")}
            return head, list(_blocks(body.get("contents"), "parts"))
        case _:
            raise AssertionError(dialect)


def _said_parts(items: Any) -> Iterable[Any]:
    """Yield items, of the user's messages each part: what is said once a call failed goes on in
    the same message."""
    for item in items or ():
        content = item.get("content") if item.get("role") == "user" else None
        if isinstance(content, str):
            yield from (["user", {"type": "text", "text": text}] for text in content.split("\n\n"))
        elif isinstance(content, list):
            yield from (["user", part] for part in content)
        else:
            yield item


def _unsigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unsigned(item) for name, item in value.items() if name != "thoughtSignature"}
    if not isinstance(value, list):
        return value
    kept = (item for item in value if not _is_reasoning_item(item))
    return [_unsigned(item) for item in kept]


def _is_reasoning_item(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"


def _blocks(messages: Any, field: str) -> Iterable[Any]:
    for message in messages or ():
        content = message.get(field)
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content or ():
            yield [message.get("role"), block]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name not in MARKS}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _kind(item: Any) -> str:
    role, block = item if isinstance(item, list) else (item.get("role", ""), item)
    kind = block.get("type") or next(
        (name for name in ("functionCall", "functionResponse", "text") if name in block), ""
    )
    return f"{role} {kind}".strip()


def _differs(old: Any, new: Any) -> str:
    return f"{_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = re.sub(r"\s+", " ", str(value))
    return text if len(text) < 160 else f"{text[:100]} … {text[-50:]}"
