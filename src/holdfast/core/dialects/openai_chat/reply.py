"""Replies of Chat Completions: read whole or as a stream, and written for an agent that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.reading import (
    ReplyFailed,
    call_block,
    is_whole,
    settle_stop,
    text_block,
    thinking_block,
)
from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.dialects.openai_chat.variants import DETAILS
from holdfast.core.models.messages import MESSAGE_FIELDS
from holdfast.core.models.replies import Delta, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.reading import TokenCounts
    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Stop


_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end",
    "eos": "end",
    "stop_sequence": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "max_tokens": "length",
    "model_length": "window",
    "content_filter": "refusal",
}
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Fields in which hosts put a model's reasoning; the first is DeepSeek's and Kimi's."""
_KNOWN: Final = frozenset(
    {
        *("role", "content", "refusal", "tool_calls", "function_call"),
        *("reasoning_content", "reasoning", DETAILS),
    }
)
"""Fields of a message that are stored as blocks."""
_GROWING: Final = frozenset({"text", "summary", "data", "signature"})
"""Fields of a detail that come in pieces; the others are said again with each."""


def is_reply(body: Json) -> bool:
    return "choices" in body or "error" in body


def read(body: Json, target: Target) -> Reply:
    """A reply from the JSON of a completion; of several choices, the first."""
    choices = as_dicts(body.get("choices"))
    if not choices and body.get("error"):
        raise ReplyFailed("the provider answered with an error", body=body)
    choice = choices[0] if choices else {}
    if as_dict(choice.get("error")) and not choice.get("message"):
        raise ReplyFailed("the provider answered with an error", body=choice)
    message = as_dict(choice.get("message"))
    reason = as_text(choice.get("finish_reason"))
    refused = as_text(message.get("refusal"))
    content = [
        *_thinking(message),
        *_text_blocks(message.get("content")),
        *text_block(refused),
        *_calls(message, is_cut=reason in ("length", "max_tokens", "model_length")),
    ]
    content += _other_fields(message) if content else []
    stop = "refusal" if refused else _STOPS.get(reason, "other" if reason else "end")
    return Reply(
        content=content,
        stop=settle_stop(stop, content),
        stop_reason=reason,
        raw_usage=as_dict(body.get("usage")) or None,
        provider=target.provider,
        model=target.model or as_text(body.get("model")),
    )


def _thinking(message: Json) -> list[Json]:
    """A message's reasoning, with the details by which its host takes it back."""
    text, details = _reasoning_of(message), as_dicts(message.get(DETAILS))
    if not details:
        return thinking_block(text)
    return [{"type": "thinking", "thinking": text, DETAILS: details}]


def _other_fields(message: Json) -> list[Json]:
    """The unknown fields, as a block; those without a value say nothing."""
    others = {name: value for name, value in message.items() if name not in _KNOWN and value}
    return [{"type": MESSAGE_FIELDS, "fields": others}] if others else []


def _reasoning_of(message: Json) -> str:
    return next(
        (as_text(message.get(name)) for name in _THOUGHTS if as_text(message.get(name))), ""
    )


def _text_blocks(content: object) -> list[Json]:
    """A message's words; some hosts answer in parts."""
    if isinstance(content, str):
        return text_block(content)
    return [block for part in as_dicts(content) for block in _part(part)]


def _part(part: Json) -> list[Json]:
    match part.get("type"):
        case "text" | "output_text":
            return text_block(as_text(part.get("text")))
        case "refusal":
            return text_block(as_text(part.get("refusal")))
        case "thinking":  # Mistral's is a list of parts
            given = part.get("thinking")
            pieces = [as_text(piece.get("text")) for piece in as_dicts(given)]
            return thinking_block(as_text(given) or "".join(pieces))
        case _:
            return [part]


def _calls(message: Json, *, is_cut: bool) -> list[Json]:
    calls = as_dicts(message.get("tool_calls"))
    legacy = as_dict(message.get("function_call"))
    if legacy and not calls:
        calls = [{"id": "", "function": legacy}]
    if is_cut and calls and not is_whole(_function(calls[-1]).get("arguments")):
        calls = calls[:-1]
    return [_call(call) for call in calls]


def _function(call: Json) -> Json:
    """Return the function of a call; a `custom` tool takes text instead of an object."""
    custom = as_dict(call.get("custom"))
    if custom:
        return {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
    return as_dict(call.get("function"))


def _call(call: Json) -> Json:
    function = _function(call)
    return call_block(call.get("id"), function.get("name"), function.get("arguments"))


class ChatStream:
    """Puts a streamed completion together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._about: Json = {}
        self._words: dict[str, list[str]] = {}
        self._parts: list[Json] = []
        self._details: list[Json] = []
        self._others: Json = {}
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._reason = ""

    def take(self, event: Json) -> list[Delta]:
        if "chunk" in event and "choices" not in event:
            event = as_dict(event["chunk"])  # an event of the SDK's own streaming helper
        if event.get("error"):
            raise ReplyFailed("the provider broke the stream off with an error", body=event)
        for name in ("id", "model", "usage"):
            if event.get(name):
                self._about[name] = event[name]
        heard: list[Delta] = []
        for choice in as_dicts(event.get("choices")):
            if choice.get("index", 0) == 0:
                heard += self._choose(choice)
        # The counts come last, and not all hosts say why they stopped.
        self.is_complete = bool(self._reason) or (self.is_complete or bool(event.get("usage")))
        return heard

    def _choose(self, choice: Json) -> list[Delta]:
        if as_dict(choice.get("error")):
            raise ReplyFailed("the provider broke the stream off with an error", body=choice)
        self._reason = as_text(choice.get("finish_reason")) or self._reason
        usage = as_dict(choice.get("usage"))  # where Kimi puts it
        if usage:
            self._about.setdefault("usage", usage)
        delta = as_dict(choice.get("delta"))
        heard: list[Delta] = []
        thought = next((name for name in _THOUGHTS if as_text(delta.get(name))), "")
        if thought:
            heard += self._hear(thought, delta[thought], is_thought=True)
        if isinstance(delta.get("content"), list):
            heard += self._take_parts(as_dicts(delta["content"]))
        else:
            heard += self._hear("content", delta.get("content"))
        heard += self._hear("refusal", delta.get("refusal"))
        for detail in as_dicts(delta.get(DETAILS)):
            self._take_detail(detail)
        for name in delta.keys() - _KNOWN:
            self._others[name] = _join_pieces(self._others.get(name), delta[name])
        pieces = as_dicts(delta.get("tool_calls"))
        legacy = as_dict(delta.get("function_call"))
        for piece in pieces or ([{"index": 0, "function": legacy}] if legacy else []):
            heard += self._call(piece)
        return heard

    def _take_detail(self, piece: Json) -> None:
        """A piece of a detail goes on from the newest one, if it is of its kind and place."""
        last = self._details[-1] if self._details else {}
        if any(last.get(name) != piece.get(name) for name in ("type", "index")):
            self._details.append(dict(piece))
            return
        for name, value in piece.items():
            before = last.get(name)
            grows = name in _GROWING and isinstance(before, str) and isinstance(value, str)
            last[name] = before + value if grows else value if value is not None else before

    def _hear(self, name: str, said: object, *, is_thought: bool = False) -> list[Delta]:
        piece = as_text(said)
        if not piece:
            return []
        self._words.setdefault(name, []).append(piece)
        return [Delta("thinking" if is_thought else "text", piece)]

    def _take_parts(self, parts: list[Json]) -> list[Delta]:
        heard: list[Delta] = []
        for part in parts:
            for block in _part(part):
                if block["type"] == "text":
                    heard += self._hear("content", block.get("text"))
                elif block["type"] == "thinking":
                    heard += self._hear(_THOUGHTS[0], block.get("thinking"), is_thought=True)
                else:
                    self._parts.append(block)
        return heard

    def _call(self, piece: Json) -> list[Delta]:
        index = piece.get("index")
        place = index if isinstance(index, int) else len(self._calls) - (not piece.get("id"))
        call = self._at.get(place)
        if call is None or call.is_another(piece):
            call = self._at[place] = _Call()
            self._calls.append(call)
        return call.add(piece)

    def body(self) -> Json:
        calls = [call.json() for call in self._calls]
        if not self._reason and calls:
            calls = calls[:-1]  # no one said that it was all of it
        words: Json = {name: "".join(pieces) for name, pieces in self._words.items()}
        if self._parts:
            said = words.get("content", "")
            words["content"] = [*([{"type": "text", "text": said}] if said else []), *self._parts]
        more = {**self._others, **({DETAILS: self._details} if self._details else {})}
        message = {"role": "assistant", **more, **words, **({"tool_calls": calls} if calls else {})}
        reason = self._reason or None
        return {
            **self._about,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        }


def _join_pieces(before: Any, piece: Any) -> Any:
    """A field of a message after another piece of it: texts and lists go on."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, list) and isinstance(piece, list):
        return [*before, *piece]
    if isinstance(before, dict) and isinstance(piece, dict):
        return {**before, **{name: _join_pieces(before.get(name), piece[name]) for name in piece}}
    return before if piece is None else piece


class _Call:
    """A call while it comes in."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._arguments: list[str] = []
        self._object: Any = None

    def is_another(self, piece: Json) -> bool:
        """Return whether a piece begins a new call: hosts without an index give a new id and
        name."""
        given = as_text(piece.get("id"))
        return bool(self._id and given and given != self._id and _function(piece).get("name"))

    def add(self, piece: Json) -> list[Delta]:
        function = _function(piece)
        self._id = self._id or as_text(piece.get("id"))
        given = function.get("arguments")
        if isinstance(given, str):
            self._arguments.append(given)
        elif given is not None:
            self._object = given
        name = as_text(function.get("name"))
        if not name or self._name:
            return []
        self._name = name
        return [Delta("call", name)]

    def json(self) -> Json:
        given = self._object if self._object is not None else "".join(self._arguments)
        return {
            "id": self._id,
            "type": "function",
            "function": {"name": self._name, "arguments": given},
        }


def report_usage(counts: TokenCounts) -> Json:
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.output,
        "total_tokens": counts.prompt + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.read},
    }


_STOP_REASONS: Final[Mapping[str, str]] = {"length": "length", "window": "length"}
_DONE: Final = b"data: [DONE]\n\n"


class ChatAgentApi(AgentApi):
    """A completion with one choice."""

    fields = frozenset(
        ("model", "messages", "stream", "stream_options", "metadata", "user", "safety_identifier")
    )
    tuning_fields = frozenset(
        (
            *("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "store"),
            *("frequency_penalty", "presence_penalty", "logit_bias", "reasoning_effort"),
            *("verbosity", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
        )
    )
    plain_values: Mapping[str, object] = {
        "n": 1,
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "modalities": ["text"],
    }

    def write(self, reply: AgentReply) -> Json:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _stop_reason(reply),
        }
        usage = report_usage(reply.counts)
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": usage}

    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        asked = as_dict(body.get("stream_options")).get("include_usage") is True
        return _CompletionStream(reply, has_usage=asked)

    def write_model(self, model: ListedModel) -> Json:
        return write_openai_model(model)

    def list_models(self, models: Sequence[ListedModel]) -> Json:
        return list_openai_models(models)


class _CompletionStream:
    def __init__(self, reply: AgentReply, *, has_usage: bool) -> None:
        self._head = _head(reply, "chat.completion.chunk")
        self._has_usage = has_usage

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def say(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def end(self, reply: AgentReply) -> bytes:
        usage = b""
        if self._has_usage:
            usage = write_event({**self._head, "choices": [], "usage": report_usage(reply.counts)})
        return self._chunk({}, _stop_reason(reply)) + usage + _DONE

    def _chunk(self, delta: Json, stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return write_event({**self._head, "choices": [choice]})


def write_openai_model(model: ListedModel) -> Json:
    """Return a model as both APIs of OpenAI have it."""
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": "holdfast"}


def list_openai_models(models: Sequence[ListedModel]) -> Json:
    """Return a list of models as both APIs of OpenAI have it."""
    return {"object": "list", "data": [write_openai_model(model) for model in models]}


def _head(reply: AgentReply, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": kind,
        "created": reply.created,
        "model": reply.model,
    }


def _stop_reason(reply: AgentReply) -> str:
    if reply.stop == "refusal":  # a filter leaves no words
        return "stop" if reply.text else "content_filter"
    return _STOP_REASONS.get(reply.stop, "stop")
