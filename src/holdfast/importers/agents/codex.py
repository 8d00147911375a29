"""Codex: rollout files of every generation.

Newer files wrap each line as `{timestamp, type, payload}`; the `response_item` payloads are what
the model saw, and the `event_msg` ones tell the screen the same things again. Older files hold the
bare items, after a first line with the session's id and instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import ModelChange
from holdfast.importers.apis.chat import tools_of
from holdfast.importers.apis.responses import ITEMS, ResponseReply
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    is_text,
    keep_users,
    mapping,
    mappings,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_WRAPPED: Final = frozenset(
    ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
)
_UNSEEN: Final = frozenset({"ghost_snapshot"})
_WHY_EVENT: Final = "told to the screen; what the model saw are the items"


def detect(source: Source) -> bool:
    return any(map(_is_ours, source.head))


def _is_ours(value: Json) -> bool:
    kind = value.get("type")
    if is_text(kind) and kind in _WRAPPED:
        return isinstance(value.get("payload"), dict)
    stamped = is_text(value.get("timestamp")) or is_text(value.get("created_at"))
    if kind is None and stamped and "instructions" in value:
        return is_text(value.get("id"))
    if "sessionId" in value or "session_id" in value or "uuid" in value:
        return False
    is_item = is_text(kind) and kind in ITEMS
    is_message = kind in (None, "message") and value.get("role") in ("user", "assistant")
    return stamped and (is_item or (is_message and ("content" in value or "message" in value)))


def read(source: Source) -> list[Imported]:
    reader = _Reader(has_items=any(_is_said(line.value) for line in source.lines))
    for line in source.lines:
        reader.line(line.value)
    reader.reply.end()
    return [reader.draft.finish(source, "codex", reader.session)]


def _is_said(value: Json) -> bool:
    return value.get("type") == "response_item" and mapping(value.get("payload")).get("role") in (
        "user",
        "assistant",
    )


class _Reader:
    """Goes through the lines of one file."""

    def __init__(self, *, has_items: bool) -> None:
        self.draft = Draft()
        self.reply = ResponseReply(self.draft)
        self.session = ""
        self._has_items = has_items
        self._window: int | None = None

    def line(self, value: Json) -> None:
        kind = value.get("type")
        ts = seconds(value.get("timestamp") or value.get("created_at"))
        payload = mapping(value.get("payload"))
        if kind == "session_meta":
            self._meta(payload)
        elif kind == "turn_context":
            self._context(payload, ts)
        elif kind == "response_item":
            self._item(payload, ts)
        elif kind == "event_msg":
            self._event(payload, ts)
        elif kind == "compacted":
            self._read_compaction(payload, ts)
        elif kind is None and "instructions" in value and "role" not in value:
            self._meta(value)
        elif kind is None and "role" not in value:
            self.draft.skip("state line", "the program's bookkeeping")
        elif payload:
            self.draft.skip(f"line `{kind}`", "no message")
        else:
            self._item(value, ts)

    def _meta(self, payload: Json) -> None:
        if self.session:
            self.draft.skip("session_meta", "the session has one already")
            return
        self.session = text_at(payload, "id", "session_id")
        base = mapping(payload.get("base_instructions")).get("text")
        self.draft.system = text_or_empty(base) or text_at(payload, "instructions")
        dynamic = payload.get("dynamic_tools")
        self.draft.tools = tools_of(dynamic if isinstance(dynamic, list) else [dynamic])

    def _context(self, payload: Json, ts: float) -> None:
        model = text_at(payload, "model") or None
        if model and model != self.reply.model:
            self.reply.end()
            if self.reply.model:
                self.draft.add(ModelChange(model=model, provider="openai", ts=ts))
            self.reply.model = model
        self.draft.skip("turn_context", "settings of a turn; the model is carried")

    def _item(self, item: Json, ts: float) -> None:
        if text_at(item, "type") in _UNSEEN:
            self.draft.skip(f"item `{item['type']}`", "no model saw it")
            return
        model = item.get("model")
        if is_text(model) and model:
            self.reply.model = model
        if item.get("type") == "agent_message":
            item = {**item, "role": "user", "type": "message"}  # what another agent sent
        self.reply.item(item, ts=ts)

    def _event(self, payload: Json, ts: float) -> None:
        kind = text_at(payload, "type")
        info = mapping(payload.get("info"))
        usage = mapping(info.get("last_token_usage"))
        if kind == "token_count" and usage:
            if self.reply.is_open:
                self.reply.end(usage)
            else:
                self._late_usage(usage)
        elif kind == "thread_name_updated":
            self.draft.label = text_at(payload, "thread_name") or self.draft.label
        elif kind == "user_message" and not self._has_items:
            self.reply.end()
            self.draft.user(text_at(payload, "message"), ts=ts)
        elif kind == "agent_message" and not self._has_items:
            said = blocks.text(text_at(payload, "message"))
            self.reply.item({"role": "assistant", "content": [said]}, ts=ts)
        else:
            self.draft.skip(f"event `{kind}`", _WHY_EVENT)

    def _late_usage(self, usage: Json) -> None:
        """A count that comes after the results of the reply it is about."""
        if not self.draft.give_usage(usage):
            self.draft.skip("event `token_count`", "there is no reply that it is about")

    def _read_compaction(self, payload: Json, ts: float) -> None:
        self.reply.end()
        history = mappings(payload.get("replacement_history"))
        summary = text_at(payload, "message")
        is_encrypted = any(
            item.get("type") in ("compaction", "compaction_summary") for item in history
        )
        if not summary.strip() and not is_encrypted:
            texts = [blocks.text_of(item) for item in history if item.get("role") == "user"]
            summary = next((text for text in reversed(texts) if text.strip()), "")
        if not summary.strip():
            self.draft.skip("compaction", "its summary is encrypted or empty")
            return
        # All words of the user are kept, beside a summary that is a user message as well.
        texts = [blocks.text_of(item) for item in history if item.get("role") == "user"]
        turn = keep_users(self.draft, [text for text in texts if not text.endswith(summary)])
        model = self.reply.model
        blocks.compaction(self.draft, summary, model=model, ts=ts, turn=turn)
        others = len(history) - len(turn or ())
        self.draft.skip("kept by a compaction", "it repeats messages of the log", others)


IMPORTER: Final = Importer(
    "codex", "Codex rollouts of every generation (~/.codex/sessions/…/*.jsonl)", detect, read
)
