"""Runs of agents that a benchmark recorded: Inspect, tau-bench, tau2-bench, ToolBench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.apis.chat import carry_message, carry_messages, tools_of
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    finish,
    is_text,
    listing,
    mapping,
    mappings,
    names_for,
    text_or_empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json


# Inspect


def detect_inspect(source: Source) -> bool:
    value = mapping(source.value)
    return isinstance(value.get("eval"), dict) and isinstance(value.get("samples"), list)


def read_inspect(source: Source) -> list[Imported]:
    value = mapping(source.value)
    about = mapping(value.get("eval"))
    sessions: list[tuple[str, Draft]] = []
    for sample in mappings(value.get("samples")):
        draft = Draft()
        attached = mapping(sample.get("attachments"))
        messages = _with_attachments(mappings(sample.get("messages")), attached)
        output = mapping(sample.get("output"))
        for place, message in enumerate(messages):
            is_last = place == len(messages) - 1
            more = {"usage": output.get("usage")} if is_last else {}
            carry_message(draft, {**message, **more}, model=text_or_empty(about.get("model")))
        draft.skip(
            "event",
            "the program's own record of the same messages",
            len(listing(sample.get("events"))),
        )
        name = f"{text_or_empty(about.get('task')) or source.stem}-{sample.get('id')}"
        epoch = sample.get("epoch")
        sessions.append((name if epoch in (None, 1) else f"{name}-epoch-{epoch}", draft))
    return finish(source, "inspect", sessions)


def _with_attachments(value: Any, attached: Json, depth: int = 0) -> Any:
    """Inspect keeps long texts once and refers to them."""
    if isinstance(value, str) and value.startswith("attachment://"):
        return attached.get(value.removeprefix("attachment://"), value)
    if depth > 50:
        return value
    if isinstance(value, list):
        return [_with_attachments(item, attached, depth + 1) for item in value]
    if isinstance(value, dict):
        return {name: _with_attachments(item, attached, depth + 1) for name, item in value.items()}
    return value


INSPECT: Final = Importer(
    "inspect", "Inspect evaluation logs (*.json)", detect_inspect, read_inspect
)


# tau-bench


def detect_tau(source: Source) -> bool:
    found = mappings(source.value) if isinstance(source.value, list) else []
    return any("task_id" in item and isinstance(item.get("traj"), list) for item in found[:8])


def read_tau(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    for run in mappings(source.value):
        draft = Draft()
        carry_messages(draft, listing(run.get("traj")))
        sessions.append((f"{source.stem}-task{run.get('task_id')}-trial{run.get('trial')}", draft))
    return finish(source, "tau-bench", sessions)


TAU: Final = Importer(
    "tau-bench", "tau-bench results (many runs in one file)", detect_tau, read_tau
)


# tau2-bench: the simulated user has tools of its own, which the agent does not see.


def detect_tau2(source: Source) -> bool:
    runs = mappings(mapping(source.value).get("simulations"))
    return any(isinstance(run.get("messages"), list) for run in runs[:8])


def read_tau2(source: Source) -> list[Imported]:
    value = mapping(source.value)
    about = mapping(mapping(value.get("info")).get("agent_info"))
    model = text_or_empty(about.get("llm")) or None
    runs = mappings(value.get("simulations"))
    sessions: list[tuple[str, Draft]] = []
    for run, name in zip(runs, names_for(source.stem, len(runs)), strict=True):
        draft = Draft()
        for message in _tau2_messages(draft, mappings(run.get("messages"))):
            carry_message(draft, message, model=model)
        if "task_id" in run:
            name = f"{source.stem}-task{run['task_id']}-trial{run.get('trial', 0)}"
        sessions.append((name, draft))
    return finish(source, "tau2-bench", sessions)


def _tau2_messages(draft: Draft, messages: list[Json]) -> Iterator[Json]:
    for message in messages:
        if message.get("role") != "tool":
            calls = len(mappings(message.get("tool_calls")))
            if message.get("role") == "user" and calls:
                draft.skip("call of the simulated user", "the agent does not see it", calls)
            if message.get("role") != "user" or not calls or message.get("content"):
                yield message
            continue
        for result in mappings(message.get("tool_messages")) or [message]:
            if result.get("requestor") == "user":
                draft.skip("result for the simulated user", "the agent does not see it")
            else:
                rest = {name: item for name, item in result.items() if name != "id"}
                yield {**rest, "role": "tool", "tool_call_id": result.get("id")}


TAU2: Final = Importer(
    "tau2-bench", "tau2-bench results (`simulations` with `messages`)", detect_tau2, read_tau2
)


# ToolBench


def detect_toolbench(source: Source) -> bool:
    value = mapping(source.value)
    return isinstance(value.get("answer_generation"), dict) and "tree" in value


def read_toolbench(source: Source) -> list[Imported]:
    answer = mapping(mapping(source.value).get("answer_generation"))
    draft = Draft()
    draft.tools = tools_of(answer.get("function"))
    chains: list[list[Json]] = [mappings(item) for item in listing(answer.get("train_messages"))]
    longest = max(chains, key=len, default=[])
    if longest:
        carry_messages(draft, longest)
        draft.skip("shorter chain", "a prefix of the one that is carried", len(chains) - 1)
    elif is_text(answer.get("query")):
        draft.user(answer["query"])
    draft.skip("search tree", "attempts that were not chosen")
    return [draft.finish(source, "toolbench")]


TOOLBENCH: Final = Importer(
    "toolbench", "ToolBench answers (tree and train_messages)", detect_toolbench, read_toolbench
)

IMPORTERS: Final = (INSPECT, TAU, TAU2, TOOLBENCH)
