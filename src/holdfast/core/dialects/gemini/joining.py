"""Rounds of Gemini's generateContent as one response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.rounds import (
    NOTHING_SAID,
    SEPARATOR,
    ReplyJoiner,
    Rounds,
    add_usage,
    first_object,
    write_event,
)
from holdfast.core.dialects.common.values import as_dict, as_dicts

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import ToolCall


class GeminiJoiner:
    """Each event is a response with some parts; the last one says why it ended."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._identity: Json = {}
        self._is_first = True
        self._has_text = self._has_own_call = self._has_part = False
        self._is_text_due = False
        self._usage: Json = {}
        self._before: Json = {}
        self._held: list[tuple[Json, bytes]] = []
        self._is_ended = False
        """True once the end was passed: some hosts report the usage behind it."""

    def take(self, event: Json, raw: bytes) -> list[bytes]:
        if event.get("error"):
            return [raw]
        if self._is_first and "responseId" in event:
            self._identity = {"responseId": event["responseId"]}
        self._usage = as_dict(event.get("usageMetadata")) or self._usage
        candidate = as_dict((event.get("candidates") or [{}])[0])
        given = as_dict(candidate.get("content")).get("parts")
        parts = self._filter(given if isinstance(given, list) else [])
        is_changed = isinstance(given, list) and parts != given
        if is_changed:
            event, raw = _with_parts(event, candidate, parts), b""
        if (candidate.get("finishReason") or self._held) and not self._is_ended:
            self._held.append((event, raw))
            return []
        if is_changed and not parts:
            return []
        return [self._write(event, raw)]

    def _filter(self, parts: Sequence[Any]) -> list[Any]:
        kept = []
        for part in parts:
            known = as_dict(part)
            if _is_call(known, self._names):
                self._has_own_call = True
                continue
            text = known.get("text")
            if isinstance(text, str) and text and not known.get("thought"):
                if self._is_text_due:
                    part = {**known, "text": SEPARATOR + text}
                self._is_text_due, self._has_text = False, True
            self._has_part |= part != {"text": ""}
            kept.append(part)
        return kept

    def _write(self, event: Json, raw: bytes) -> bytes:
        written = {**event, **self._identity} if "responseId" in event else event
        if self._before and "usageMetadata" in event:
            total = add_usage(self._before, as_dict(event["usageMetadata"]))
            written = {**written, "usageMetadata": total}
        return raw if raw and written == event else write_event(written)

    def hold(self, raw: bytes) -> None:
        self._held.append(({}, raw))

    def end_round(self) -> list[bytes]:
        passed = [
            self._write(_without_end(event), b"") for event, _raw in self._held if _says(event)
        ]
        self._before = add_usage(self._before, self._usage)
        self._is_first = self._has_own_call = False
        self._is_text_due = self._has_text
        self._held, self._usage = [], {}
        return passed

    def finish(self) -> list[bytes]:
        self._is_ended = True
        held, self._held = self._held, []
        return [self._end(event, raw) for event, raw in held]

    def _end(self, event: Json, raw: bytes) -> bytes:
        if not event:
            return raw
        shown = _not_empty(event, self._missing_text())
        return self._write(shown, raw if shown is event else b"")

    def _missing_text(self) -> str:
        return NOTHING_SAID if self._has_own_call and not self._has_part else ""

    def join(self, bodies: Sequence[Json]) -> Json:
        last = bodies[-1]
        candidate = as_dict((last.get("candidates") or [{}])[0])
        parts: list[Any] = []
        count = 0
        usage: Any = None
        for body in bodies:
            found = as_dict((body.get("candidates") or [{}])[0])
            given = as_dict(found.get("content")).get("parts")
            count += len(given) if isinstance(given, list) else 0
            self._has_own_call = False
            parts += self._filter(given if isinstance(given, list) else [])
            self._is_text_due = self._has_text
            usage = add_usage(usage, body.get("usageMetadata"))
        if len(bodies) == 1 and len(parts) == count:
            return last
        joined = _not_empty(_with_parts(last, candidate, parts), self._missing_text())
        return {**joined, **({"usageMetadata": usage} if usage else {})}


def _is_call(part: Json, names: frozenset[str]) -> bool:
    call = part.get("functionCall", part.get("function_call"))
    return str(as_dict(call).get("name")) in names


def _with_parts(event: Json, candidate: Json, parts: list[Any]) -> Json:
    content = {**as_dict(candidate.get("content")), "parts": parts}
    return {**event, "candidates": [{**candidate, "content": content}]}


def _says(event: Json) -> bool:
    candidate = as_dict((event.get("candidates") or [{}])[0])
    return bool(as_dicts(as_dict(candidate.get("content")).get("parts")))


def _without_end(event: Json) -> Json:
    candidate = as_dict((event.get("candidates") or [{}])[0])
    kept = {n: v for n, v in candidate.items() if n not in ("finishReason", "finishMessage")}
    return {**event, "candidates": [kept]}


def _not_empty(event: Json, text: str) -> Json:
    """An event whose content has a part: some clients read the first one unasked."""
    candidate = as_dict((event.get("candidates") or [{}])[0])
    parts = as_dict(candidate.get("content")).get("parts")
    if parts != [] and not (text and parts == [{"text": ""}]):
        return event
    return _with_parts(event, candidate, [{"text": text}])


class GeminiRounds(Rounds):
    """A reply is a content, and so is a result. Calls are whole, and may have no ids."""

    def make_joiner(self, names: frozenset[str]) -> ReplyJoiner:
        return GeminiJoiner(names)

    def reply_items(
        self, body: Json, left_out: Container[str], *, is_stored: bool = True
    ) -> list[Json]:
        del left_out, is_stored
        parts = [part for part in _reply_parts(body) if part != {"text": ""}]
        return [{"role": "model", "parts": parts}] if parts else []

    def result_items(self, call: Json, text: str, *, is_error: bool) -> list[Json]:
        call_id = call.get("id")
        known = {"id": call_id} if call_id else {}
        response = {"error" if is_error else "output": text}
        answer = {**known, "name": call.get("name"), "response": response}
        return [{"role": "user", "parts": [{"functionResponse": answer}]}]

    def with_result_text(self, items: list[Json], text: str) -> list[Json]:
        item = items[0]
        (part,) = item["parts"]
        answer = part["functionResponse"]
        response = dict.fromkeys(answer["response"], text)
        return [{**item, "parts": [{"functionResponse": {**answer, "response": response}}]}]

    def calls_to_answer(
        self, calls: Sequence[ToolCall], body: Json, names: Container[str]
    ) -> list[Json]:
        del calls
        found = [as_dict(part.get("functionCall")) for part in _reply_parts(body)]
        return [call for call in found if str(call.get("name")) in names]

    def _calls_by_name(self, body: Json) -> list[Json]:
        del body
        return []


def _reply_parts(body: Json) -> list[Json]:
    return as_dicts(as_dict(first_object(body, "candidates").get("content")).get("parts"))
