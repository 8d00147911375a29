"""Rounds of Chat Completions as one completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

_FIELDS: Final = (
    *("role", "content", "refusal", "tool_calls", "name"),
    *("reasoning_content", "reasoning_details"),
)
"""Fields of a completion's message that hosts accept back."""
_CALL_REASONS: Final = ("tool_calls", "function_call")
_IDENTITY: Final = ("id", "created", "model", "system_fingerprint")
"""Fields that are the same in all chunks of a completion."""
_THOUGHTS: Final = ("reasoning_content", "reasoning")


class _Call:
    """A call of a stream, of which the name may still be incomplete."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.place: int | None = None
        """The client's number of it; None while it is undecided, or ours."""
        self.is_own = False
        self.held: list[Json] = []


class ChatJoiner:
    """Chunks of all rounds have one identity, one text and one numbering of calls."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._identity: Json = {}
        self._is_first = True
        self._has_role = False
        self._has_text = False
        self._is_text_due = False
        """True where the next text stands behind one of an earlier round."""
        self._calls: dict[int, _Call] = {}
        self._next = 0
        self._has_call = self._has_own_call = False
        self._usage: Json = {}
        self._before: Json = {}
        self._held: list[tuple[Json, bytes]] = []

    def take(self, event: Json, raw: bytes) -> list[bytes]:
        choices = event.get("choices")
        if not isinstance(choices, list) or event.get("error"):
            return [raw]
        if not self._identity:
            self._identity = {name: event[name] for name in _IDENTITY if name in event}
        self._usage = as_dict(event.get("usage")) or self._usage
        choice = as_dict(choices[0]) if choices else {}
        delta = as_dict(choice.get("delta"))
        seen = self._filter(delta, is_end=bool(choice.get("finish_reason")))
        if not (choice.get("finish_reason") or not choices or self._held):
            if seen == delta and self._is_first:
                return [raw]
            is_silent = not seen or (seen != delta and not any(seen.values()))
            return [] if is_silent else [self._write(event, choice, seen)]
        passed = []
        if any(seen.values()):
            bare = {name: value for name, value in event.items() if name != "usage"}
            passed.append(self._write(bare, {**choice, "finish_reason": None}, seen))
            event = {**event, "choices": [{**choice, "delta": {}}]}
            raw = b""
        elif seen != delta:
            event = {**event, "choices": [{**choice, "delta": seen}]}
            raw = b""
        self._held.append((event, raw))
        return passed

    def _write(self, event: Json, choice: Json, delta: Json) -> bytes:
        written = {**event, **self._identity, "choices": [{**choice, "delta": delta}]}
        if event.get("usage"):
            written["usage"] = add_usage(self._before, event["usage"])
        return write_event(written)

    def _filter(self, delta: Json, *, is_end: bool) -> Json:
        """A delta as the client gets it: one role, one text, and its own calls."""
        seen = dict(delta)
        if "role" in seen:
            if self._has_role:
                del seen["role"]
            self._has_role = True
        text = seen.get("content")
        if isinstance(text, str) and text:
            if self._is_text_due:
                seen["content"] = SEPARATOR + text
            self._is_text_due, self._has_text = False, True
        pieces = self._pieces(as_dicts(delta.get("tool_calls")), is_end=is_end)
        if pieces:
            seen["tool_calls"] = pieces
        elif delta.get("tool_calls"):
            del seen["tool_calls"]
        return seen

    def _pieces(self, pieces: list[Json], *, is_end: bool) -> list[Json]:
        passed: list[Json] = []
        for piece in pieces:
            call = self._call_of(piece)
            call.held.append(piece)
            passed += self._decide(call, is_whole=bool(_function(piece).get("arguments")))
        if is_end:
            for call in self._calls.values():
                passed += self._decide(call, is_whole=True)
        return passed

    def _call_of(self, piece: Json) -> _Call:
        index = piece.get("index")
        place = index if isinstance(index, int) else len(self._calls) - (not piece.get("id"))
        call = self._calls.get(place)
        given, name = piece.get("id"), _function(piece).get("name")
        is_another = call is not None and call.id and given and given != call.id and name
        if call is None or is_another:
            place = place if call is None else max(self._calls) + 1
            call = self._calls[place] = _Call()
        call.id = call.id or (given if isinstance(given, str) else "")
        call.name += name if isinstance(name, str) else ""
        return call

    def _decide(self, call: _Call, *, is_whole: bool) -> list[Json]:
        """The pieces that go to the client, once it is known whose call this is."""
        if not call.is_own and call.place is None:
            if call.name in self._names:
                call.is_own = self._has_own_call = True
            elif is_whole or not any(name.startswith(call.name) for name in self._names):
                call.place = self._next
                self._next += 1
                self._has_call = True
        held = call.held
        if call.is_own or call.place is not None:
            call.held = []
        if call.place is None:
            return []
        return [
            piece if piece.get("index") == call.place else {**piece, "index": call.place}
            for piece in held
        ]

    def hold(self, raw: bytes) -> None:
        self._held.append(({}, raw))

    def end_round(self) -> list[bytes]:
        self._before = add_usage(self._before, self._usage)
        self._is_first = False
        self._is_text_due = self._has_text
        self._calls, self._held, self._usage = {}, [], {}
        self._has_call = self._has_own_call = False
        return []

    def finish(self) -> list[bytes]:
        ended = [self._end(event, raw) for event, raw in self._held]
        self._held = []
        return ended

    def _end(self, event: Json, raw: bytes) -> bytes:
        if not event:
            return raw
        ended = {**event, **self._identity}
        choice = as_dict((event.get("choices") or [{}])[0])
        is_silent = self._has_own_call and not self._has_call
        if is_silent and choice.get("finish_reason") in _CALL_REASONS:
            text = "" if self._has_text else NOTHING_SAID
            delta = {"content": text, **as_dict(choice.get("delta"))}
            ended["choices"] = [{**choice, "delta": delta, "finish_reason": "stop"}]
        if event.get("usage"):
            ended["usage"] = add_usage(self._before, self._usage)
        return raw if raw and ended == event else write_event(ended)

    def join(self, bodies: Sequence[Json]) -> Json:
        last = bodies[-1]
        choice = as_dict((last.get("choices") or [{}])[0])
        messages = [as_dict(as_dict((b.get("choices") or [{}])[0]).get("message")) for b in bodies]
        message = dict(messages[-1])
        calls = as_dicts(message.get("tool_calls"))
        kept = [call for call in calls if _function(call).get("name") not in self._names]
        if len(bodies) == 1 and len(kept) == len(calls):
            return last
        for name in ("content", *_THOUGHTS):
            texts = [found[name] for found in messages if found.get(name)]
            if texts and all(isinstance(text, str) for text in texts):
                message[name] = SEPARATOR.join(texts)
        if kept:
            message["tool_calls"] = kept
        else:
            message.pop("tool_calls", None)
            message["content"] = message.get("content") or (NOTHING_SAID if calls else "")
        reason = choice.get("finish_reason")
        if calls and not kept and reason in _CALL_REASONS:
            reason = "stop"
        usage: Any = None
        for body in bodies:
            usage = add_usage(usage, body.get("usage"))
        choice = {**choice, "message": message, "finish_reason": reason}
        return {**last, "choices": [choice], **({"usage": usage} if usage else {})}


def _function(call: Json) -> Json:
    return as_dict(call.get("function")) or as_dict(call.get("custom"))


class ChatRounds(Rounds):
    """A reply is one message, and so is each result."""

    def make_joiner(self, names: frozenset[str]) -> ReplyJoiner:
        return ChatJoiner(names)

    def reply_items(
        self, body: Json, left_out: Container[str], *, is_stored: bool = True
    ) -> list[Json]:
        del is_stored
        known = as_dict(first_object(body, "choices").get("message"))
        kept = {name: known[name] for name in _FIELDS if known.get(name)}
        calls = as_dicts(known.get("tool_calls"))
        calls = [call for call in calls if call.get("id") not in left_out]
        if calls:
            kept["tool_calls"] = calls
        else:
            kept.pop("tool_calls", None)
        is_said = any(kept.get(name) for name in ("content", "refusal", "tool_calls"))
        item = {"role": "assistant", "content": None, **kept}
        return [item] if is_said else []

    def result_items(self, call: Json, text: str, *, is_error: bool) -> list[Json]:
        del is_error
        return [{"role": "tool", "tool_call_id": call.get("id"), "content": text}]

    def with_result_text(self, items: list[Json], text: str) -> list[Json]:
        return [{**items[0], "content": text}]

    def _calls_by_name(self, body: Json) -> list[Json]:
        message = as_dict(first_object(body, "choices").get("message"))
        return [
            {**as_dict(call.get("function")), "id": call.get("id")}
            for call in as_dicts(message.get("tool_calls"))
        ]
