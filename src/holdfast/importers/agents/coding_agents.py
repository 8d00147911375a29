"""Agents that solve programming tasks for a benchmark: mini-swe-agent, SWE-agent, OpenHands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import User
from holdfast.core.log.replay import META
from holdfast.importers.apis.chat import carry_message, tools_of
from holdfast.importers.common import blocks
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
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


# mini-swe-agent


def detect_mini(source: Source) -> bool:
    value = mapping(source.value)
    version = value.get("trajectory_format")
    is_named = is_text(version) and version.startswith("mini-swe-agent")
    return is_named or "mini_version" in mapping(value.get("info"))


def read_mini(source: Source) -> list[Imported]:
    value = mapping(source.value)
    draft = Draft()
    about = mapping(mapping(mapping(value.get("info")).get("config")).get("model"))
    for message in mappings(value.get("messages")):
        reply = mapping(mapping(message.get("extra")).get("response"))
        stamped = {"timestamp": reply.get("created"), **message}
        model = text_or_empty(reply.get("model") or about.get("model_name")) or None
        provider = text_at(reply, "provider").lower() or None
        carry_message(draft, stamped, provider=provider, model=model)
        if reply:
            draft.skip("extra.response", "the provider's own copy of a message; usage is carried")
    said = [(at, record) for at, record in enumerate(draft.records) if isinstance(record, User)]
    for at, record in said[1:]:  # the first is the task; the others are output of commands
        extra = {**record.extra, META: True}
        draft.records[at] = msgspec.structs.replace(record, extra=extra)
    name = text_at(value, "instance_id") or source.stem
    return [draft.finish(source, "mini-swe-agent", name)]


MINI: Final = Importer(
    "mini-swe-agent", "mini-swe-agent trajectories (*.traj.json)", detect_mini, read_mini
)


# SWE-agent


def detect_swe(source: Source) -> bool:
    value = mapping(source.value)
    return isinstance(value.get("trajectory"), list) and isinstance(value.get("history"), list)


def read_swe(source: Source) -> list[Imported]:
    value = mapping(source.value)
    draft = Draft()
    for message in mappings(value.get("history")):
        carry_message(draft, message)
    steps = len(listing(value.get("trajectory")))
    draft.skip("trajectory step", "it repeats the history", steps)
    return [draft.finish(source, "swe-agent", source.stem)]


SWE: Final = Importer("swe-agent", "SWE-agent trajectories (*.traj)", detect_swe, read_swe)


# OpenHands

_QUIET: Final = frozenset({"recall", "change_agent_state", "agent_state_changed", "null"})


def detect_openhands(source: Source) -> bool:
    return any(map(_has_events, _openhands_runs(source, is_head=True)))


def _openhands_runs(source: Source, *, is_head: bool = False) -> list[Json]:
    value = source.value
    if isinstance(value, list):
        return [{"history": value}] if any(map(_is_event, mappings(value)[:8])) else mappings(value)
    if isinstance(value, dict):
        return [value]
    return source.head if is_head else [line.value for line in source.lines]


def _has_events(run: Json) -> bool:
    return any(map(_is_event, mappings(run.get("history"))[:8]))


def _is_event(event: Json) -> bool:
    return is_text(event.get("action")) or (
        is_text(event.get("observation")) and ("content" in event or "extras" in event)
    )


def read_openhands(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    runs = _openhands_runs(source)
    for run, name in zip(runs, names_for(source.stem, len(runs)), strict=True):
        model = mapping(mapping(run.get("metadata")).get("llm_config")).get("model")
        reader = _Events(Draft(), text_or_empty(model) or None)
        for event in mappings(run.get("history")):
            reader.event(event)
        reader.draft.label = text_at(mapping(run.get("issue")), "title")
        sessions.append((text_at(run, "instance_id") or name, reader.draft))
    return finish(source, "openhands", sessions)


class _Events:
    """Actions and observations in the order they happened."""

    def __init__(self, draft: Draft, model: str | None) -> None:
        self.draft = draft
        self._model = model
        self._replies: set[str] = set()

    def event(self, event: Json) -> None:
        about: dict[str, Any] = {"ts": seconds(event.get("timestamp"))}
        action, seen = event.get("action"), event.get("observation")
        name = text_or_empty(action) or text_or_empty(seen)
        if name in _QUIET:
            self.draft.skip(f"event `{name}`", "the program's own; no message")
        elif is_text(action):
            self._action(event, action, about)
        elif is_text(seen):
            self._observation(event, seen, about)
        else:
            self.draft.skip("event", "neither an action nor an observation")

    def _action(self, event: Json, action: str, about: dict[str, Any]) -> None:
        arguments = mapping(event.get("args")) or event
        said = text_at(arguments, "content")
        if action == "system":
            self.draft.system = said
            self.draft.tools = tools_of(arguments.get("tools"))
        elif action == "condensation":
            self._condensation(arguments, about)
        elif event.get("tool_call_metadata"):
            self._reply(mapping(event["tool_call_metadata"]), about)
        elif action == "message" and self._is_user(event):
            pictures = listing(arguments.get("image_urls") or arguments.get("images_urls"))
            images = [blocks.image_at(picture) for picture in pictures if is_text(picture)]
            self.draft.user([blocks.text(said), *images] if images else said, **about)
        elif action == "message":
            self.draft.assistant(said, model=self._model, **about)
        else:
            self._plain_action(action, arguments, about)

    def _is_user(self, event: Json) -> bool:
        source = event.get("source")
        return source == "user" or (source is None and not self.draft.records)

    def _reply(self, about_call: Json, about: dict[str, Any]) -> None:
        """A call that keeps the whole reply it was in; other calls of that reply have it too."""
        reply = mapping(about_call.get("model_response"))
        reply_id = text_at(reply, "id")
        if reply_id and reply_id in self._replies:
            return
        self._replies.add(reply_id)
        choice = next(iter(mappings(reply.get("choices"))), {})
        carry_message(
            self.draft,
            {
                **mapping(choice.get("message")),
                "role": "assistant",
                "usage": reply.get("usage"),
                "finish_reason": choice.get("finish_reason"),
                "timestamp": about["ts"],
            },
            model=text_at(reply, "model") or self._model,
        )

    def _plain_action(self, action: str, given: Json, about: dict[str, Any]) -> None:
        hidden = ("action", "thought", "action_risk", "is_confirmed", "keep_prompt", "outputs")
        thought = text_at(given, "thought")
        said = [blocks.text(thought)] if thought.strip() else []
        if action != "finish":
            arguments = {name: value for name, value in given.items() if name not in hidden}
            said.append(blocks.call(self.draft.call_id(), action, arguments))
        self.draft.assistant(said, model=self._model, **about)

    def _observation(self, event: Json, seen: str, about: dict[str, Any]) -> None:
        about_call = mapping(event.get("tool_call_metadata"))
        call_id = self.draft.answer_id(about_call.get("tool_call_id"), "" if about_call else seen)
        content = text_at(event, "content")
        if not about_call and not call_id:
            self.draft.user(content, extra={"role": "environment", "meta": True}, **about)
            return
        code = event.get("exit_code", mapping(event.get("extras")).get("exit_code"))
        is_error = seen == "error" or (isinstance(code, int) and code > 0)
        name = text_at(about_call, "function_name")
        self.draft.result(call_id, content, name=name, is_error=is_error, **about)

    def _condensation(self, arguments: Json, about: dict[str, Any]) -> None:
        summary = text_at(arguments, "summary")
        if summary.strip():
            blocks.compaction(self.draft, summary, **about)
        else:
            self.draft.skip("condensation", "it left no summary; the messages are here")


OPENHANDS: Final = Importer(
    "openhands", "OpenHands output.jsonl and event histories", detect_openhands, read_openhands
)
