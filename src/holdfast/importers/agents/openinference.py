"""OpenInference spans: every call to a model holds its whole request again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.importers.apis.chat import carry_message
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    finish,
    mapping,
    mappings,
    names_for,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import parse, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json


_CALL_ID: Final = lazy_pattern(r"Call id: (\S+)\n")


def detect_spans(source: Source) -> bool:
    return any(_is_span(span) for span in mappings(mapping(source.value).get("spans")))


def _is_span(span: Json) -> bool:
    return isinstance(span.get("span_attributes"), dict) and "span_id" in span


def read_spans(source: Source) -> list[Imported]:
    value = mapping(source.value)
    runs: dict[str, list[Json]] = {}
    draft_of_none = Draft()
    others = 0
    for agent, span in _walk(mappings(value.get("spans")), "", 0):
        if span["span_attributes"].get("openinference.span.kind") == "LLM":
            runs.setdefault(agent, []).append(span)
        else:
            others += 1
    base = text_at(value, "trace_id") or source.stem
    sessions = [
        (name, _read_run(spans))
        for spans, name in zip(runs.values(), names_for(base, len(runs)), strict=True)
    ]
    sessions = sessions or [(base, draft_of_none)]
    sessions[0][1].skip("span that is not a call to a model", "its text is in the calls", others)
    return finish(source, "openinference", sessions)


def _walk(spans: list[Json], agent: str, depth: int) -> Iterator[tuple[str, Json]]:
    """Every span with the agent it ran under; each agent has a conversation of its own."""
    for span in spans:
        if not _is_span(span) or depth > 200:
            continue
        yield agent, span
        is_agent = span["span_attributes"].get("openinference.span.kind") == "AGENT"
        inner = text_or_empty(span["span_id"]) if is_agent else agent
        yield from _walk(mappings(span.get("child_spans")), inner, depth + 1)


def _read_run(spans: list[Json]) -> Draft:
    """The longest request of a run, and the replies it led to."""
    spans = sorted(spans, key=lambda span: seconds(span.get("timestamp")))
    replies = [_reply(span) for span in spans]
    requests = [_request(span) for span in spans]
    last = max(range(len(spans)), key=lambda place: (len(requests[place]), place))
    waiting = {blocks.text_of(reply): reply for reply in replies[:last]}
    draft = Draft()
    draft.skip("request that a later one repeats", "it is there whole in the last", last)
    for message in _join_messages(requests[last]):
        said = waiting.get(blocks.text_of(message)) if message.get("role") == "assistant" else None
        about = {name: said[name] for name in ("usage", "timestamp", "model")} if said else {}
        carry_message(draft, {**message, **about})
    for reply in replies[last:]:
        carry_message(draft, reply)
    draft.skip(
        "request that cannot be read",
        "cut off in the source: the reply is carried, what the tools answered is not there",
        len(spans) - 1 - last,
    )
    return draft


def _request(span: Json) -> list[Json]:
    given = parse(text_or_empty(span["span_attributes"].get("input.value")))
    return mappings(mapping(given).get("messages"))


def _reply(span: Json) -> Json:
    attributes = span["span_attributes"]
    said = parse(text_at(attributes, "output.value"))
    message = mapping(said) or {"content": attributes.get("llm.output_messages.0.message.content")}
    counts = {
        "prompt_tokens": _number(attributes.get("llm.token_count.prompt")),
        "completion_tokens": _number(attributes.get("llm.token_count.completion")),
    }
    return {
        "role": "assistant",
        "content": message.get("content"),
        "tool_calls": message.get("tool_calls"),
        "usage": {name: count for name, count in counts.items() if count is not None},
        "timestamp": span.get("timestamp"),
        "model": text_at(attributes, "llm.model_name"),
    }


def _join_messages(messages: list[Json]) -> list[Json]:
    """smolagents writes calls and results as messages of their own; they go where they belong."""
    joined: list[Json] = []
    for message in messages:
        role, text = message.get("role"), blocks.text_of(message)
        calls = _read_written_calls(text) if role == "tool-call" else []
        if calls and joined and joined[-1].get("role") == "assistant":
            joined[-1] = {**joined[-1], "tool_calls": calls}
        elif role == "tool-call":
            said: Json = {"role": "assistant", "content": None if calls else text}
            joined.append({**said, "tool_calls": calls})
        elif role == "tool-response":
            found = _CALL_ID.match(text)
            result = {"role": "tool", "tool_call_id": found[1]} if found else {"role": "user"}
            joined.append({**result, "content": text[found.end() :] if found else text})
        else:
            joined.append(message)
    return joined


def _read_written_calls(text: str) -> list[Json]:
    """Calls as Python wrote them into a text."""
    _words, _colon, written = text.partition("Calling tools:")
    try:
        return mappings(ast.literal_eval(written.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 18 else None


IMPORTER: Final = Importer(
    "openinference", "OpenInference span trees (TRAIL, Phoenix)", detect_spans, read_spans
)
