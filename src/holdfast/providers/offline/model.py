"""A model that needs no key and no network, and does not pretend to be one that thinks.

It runs the calls that a message spells out, reports what came back, quotes the conversation when
it is asked about it, and says so when it does not know. Summaries and notes
are sentences that were said. The same request gives the same reply.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.compaction.summary_request import read_ask
from holdfast.core.dialects.registry import target
from holdfast.core.memory.notes import NOTES_MAX, SILENT, ask_for_notes
from holdfast.core.models.messages import Tool, read_tools
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.narrative.carryover import prose_of
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.window import as_window
from holdfast.providers.offline.calls import ToolOrder, example, read_orders
from holdfast.providers.offline.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.offline.quoting import Sentence, find_quotes, has_terms, sentences
from holdfast.providers.offline.reading import (
    ShownResult,
    asked_before,
    blocks_of,
    calls_by_id,
    find_summary,
    last_order,
    newest_results,
    newest_words,
    read_entries,
    read_result,
    shorten,
)
from holdfast.providers.offline.summaries import (
    TranscriptEntry,
    notes_from,
    read_narrative,
    summarise,
)
from holdfast.providers.replies import keep_partial
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import CacheTime, Target
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import StatedWindow
    from holdfast.ports import OnDelta

NAME: Final = "offline"
WINDOW_TOKENS: Final = 32_000
"""Small enough to watch a session outgrow it."""
QUOTES_MAX: Final = 3
QUOTE_CHARS: Final = 300
LINES_SHOWN: Final = 5
LINE_CHARS: Final = 160
TOOLS_SHOWN: Final = 8
"""Together these keep an answer on one screen."""
GREETING_CHARS: Final = 40
"""A longer message that opens with a greeting has something to say."""

ABOUT: Final = (
    "I am Holdfast's offline model: no network, no key, and no understanding. "
    "I run calls written as name(argument='value'), quote this conversation, and say so when I "
    "find nothing."
)
QUOTING: Final = (
    "From this conversation, word for word (the offline model quotes, it does not think):"
)
NOTHING: Final = "I do not know: nothing that I can see of this conversation is about that."
NOTED: Final = "Noted. It is in the log, and I can quote it."
BACK: Final = "Back from "
_OWN: Final = (ABOUT, QUOTING, NOTHING, NOTED, BACK)
"""Openings of this model's own messages: it does not quote itself."""

_NOTES: Final = ask_for_notes().partition("\n")[0].partition(":")[0]
_QUESTION: Final = lazy_pattern(
    r"\?\s*+$|^\W*+(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|"
    r"could|should|would|has|have|had|tell|explain|quote|recall|remind|summari[sz]e|describe|"
    r"say|answer|was|wer|wie|wo|wann|warum|welche\w*|qui|que|quoi|qué|cómo|dónde)\b",
    re.IGNORECASE,
)
_GREETING: Final = lazy_pattern(
    r"^\W*(?:hello|hi|hey|hallo|good (?:morning|evening|day)|help|who are you|what are you|"
    r"what can you do)\b",
    re.IGNORECASE,
)


_JOINT: Final = lazy_pattern(r"^\W*(?:and|then)\b", re.IGNORECASE)
"""The words that join a call and the rest of a message."""
_REMARK: Final = lazy_pattern(r"\[[^\]\n]*\]")
"""The projection's stand-in for a missing user message."""


class OfflineModel:
    """Reads its own request and answers by rules. Refuses what is larger than its window."""

    def __init__(
        self, *, window: StatedWindow = WINDOW_TOKENS, cache: CacheTime = "auto", name: str = NAME
    ) -> None:
        self.target: Target = target("anthropic", provider="holdfast", model=name, cache=cache)
        self.window = as_window(window, "offline model")
        self._counter: Counter = counter_for(name)
        self._meter = Meter(self._counter, self.target)

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        tokens = count_request(request, self._counter)
        if tokens > self.window.tokens:
            raise PromptTooLong(tokens, self.window.tokens)
        content = _content(request, self._counter)
        is_tools = any(block["type"] == "tool_use" for block in content)
        reply = Reply(
            content=content,
            stop="tools" if is_tools else "end",
            stop_reason="tool_use" if is_tools else "end_turn",
            raw_usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )
        reply = _within(reply, request, self._counter)
        return reply if on_delta is None else _stream_reply(reply, on_delta)

    def as_async(self) -> AsyncOfflineModel:
        """The same model for asynchronous callers."""
        return AsyncOfflineModel(self)


class AsyncOfflineModel:
    """The same, awaited. It reads its request in a thread: the event loop serves others."""

    def __init__(self, model: OfflineModel) -> None:
        self._model = model
        self.target = model.target
        self.window = model.window

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        import asyncio  # here: a blocking session needs no event loop

        reply = await asyncio.to_thread(self._model.send, request)
        return reply if on_delta is None else _stream_reply(reply, on_delta)


def _content(request: Json, counter: Counter) -> list[Json]:
    messages: list[Json] = request.get("messages") or []
    tools = read_tools(request.get("tools") or [])
    order, before = last_order(messages)
    summary = read_ask(order)
    if summary is not None:
        entries = read_narrative(summary.narrative) or read_entries(before)
        earlier = [find_summary(entry.text) for entry in entries if entry.kind == "note"]
        text = summarise(
            [entry for entry in entries if not _is_chatter(entry)],
            cap_tokens=summary.cap_tokens,
            counter=counter,
            previous=summary.previous or prose_of("\n".join(earlier)),
            focus=summary.focus,
        )
        return _text_content(text or NOTHING)
    if order.startswith(_NOTES):
        return _text_content(_notes(order, before))
    asked = newest_words(messages)
    results = newest_results(messages)
    if results and not asked:
        return _text_content(_report(results, messages, tools))
    return _answer(asked, messages, tools)


def _is_chatter(entry: TranscriptEntry) -> bool:
    """Return whether an entry is a greeting, or this model's own words."""
    if entry.kind == "user":
        is_greeting = bool(_GREETING.match(entry.text)) and len(entry.text) < GREETING_CHARS
        return is_greeting or _REMARK.fullmatch(entry.text.strip()) is not None
    return entry.kind == "assistant" and entry.text.startswith(_OWN)


def _answer(asked: str, messages: Sequence[Json], tools: Sequence[Tool]) -> list[Json]:
    """A reply to a message: calls where it asks for tools, else words."""
    found = read_orders(asked, tools)
    if found.calls:
        doubts = _text_content(" ".join(found.doubts))
        return [*doubts, *_calls(found.calls, messages)]
    if found.doubts:
        return _text_content(" ".join(found.doubts))
    if _GREETING.match(asked) or not has_terms(asked):
        return _text_content(f"{ABOUT}{_offer(tools)}")
    if not _is_question(asked):
        return _text_content(NOTED)
    quotes = _quotes(asked, _said_before(_known_messages(messages), tools))
    return _text_content(quotes or f"{NOTHING} {ABOUT}{_offer(tools)}")


def _known_messages(messages: Sequence[Json]) -> list[Json]:
    """Return the messages before the question; a leading summary stands in the same message."""
    last = messages[-1]
    given = [block for block in blocks_of(last) if find_summary(str(block.get("text", "")))]
    return [*messages[:-1], *([{**last, "content": given}] if given else [])]


def _is_question(asked: str) -> bool:
    return any(_QUESTION.search(sentence) for sentence in sentences(asked))


def _calls(calls: Sequence[ToolOrder], messages: Sequence[Json]) -> list[Json]:
    # An id that no other request of the session gets: it depends on all that was said.
    seed = hashlib.sha256(msgspec.json.encode([len(messages), messages[-1:]])).hexdigest()[:12]
    made = _count_calls(messages)
    return [
        {
            "type": "tool_use",
            "id": f"call_{seed}_{made + number}",
            "name": call.name,
            "input": call.arguments,
        }
        for number, call in enumerate(calls)
    ]


def _count_calls(messages: Sequence[Json]) -> int:
    return sum(
        block.get("type") == "tool_use" for message in messages for block in blocks_of(message)
    )


def _offer(tools: Sequence[Tool]) -> str:
    if not tools:
        return ""
    shown = ", ".join(f"`{example(tool)}`" for tool in tools[:TOOLS_SHOWN])
    more = f" and {len(tools) - TOOLS_SHOWN} more" if len(tools) > TOOLS_SHOWN else ""
    return f" Tools: {shown}{more}."


# What it says


def _notes(asked: str, before: Sequence[Json]) -> str:
    entries = read_narrative(_between("narrative", asked)) or read_entries(before)
    listed = _between("known_notes", asked).splitlines()
    known = [line.removeprefix("- ") for line in listed if line.startswith("- ")]
    found = notes_from(entries, known, NOTES_MAX)
    return "\n".join(f"- {' '.join(note.split())}" for note in found) or SILENT


def _between(tag: str, text: str) -> str:
    _before, _opened, rest = text.partition(f"<{tag}>\n")
    return rest.partition(f"\n</{tag}>")[0]


def _report(results: Sequence[ShownResult], messages: Sequence[Json], tools: Sequence[Tool]) -> str:
    """Report the results, and the passages that answer the question."""
    told = [_describe_result(result) for result in results]
    question = _JOINT.sub("", read_orders(asked_before(messages), tools).rest)
    if _is_question(question) and has_terms(question):
        passages = [
            Sentence(sentence, result.call, place)
            for place, result in enumerate(results)
            for sentence in sentences(result.text)
        ]
        found = _quotes(question, passages)
        told.append(found or "Nothing in it matches the rest of what you asked.")
    return "\n\n".join(told)


def _describe_result(result: ShownResult) -> str:
    opening = f"{BACK}`{result.call}`: "
    lines = [line for line in result.text.splitlines() if line.strip()]
    if result.is_error:
        said = shorten(lines[-1] if lines else "no reason given", QUOTE_CHARS)
        return f"{opening}it failed: {said}"
    pictures = f", {result.pictures} picture{'s' if result.pictures > 1 else ''}"
    size = f"{_shape(result.text, len(lines))}{pictures if result.pictures else ''}"
    shown = [f"  {shorten(line, LINE_CHARS)}" for line in lines[:LINES_SHOWN]]
    more = [f"  … and {len(lines) - LINES_SHOWN:,} more lines"] * (len(lines) > LINES_SHOWN)
    return "\n".join((f"{opening}{size}", *shown, *more))


def _shape(text: str, lines: int) -> str:
    try:
        value = msgspec.json.decode(text) if text.strip()[:1] in ("{", "[") else None
    except (msgspec.DecodeError, UnicodeEncodeError):
        value = None
    if isinstance(value, list):
        return f"a list of {len(value):,} (JSON)"
    if isinstance(value, dict):
        names = ", ".join(f"`{name}`" for name in list(value)[:6])
        return f"an object with {names} (JSON)" if names else "an empty object (JSON)"
    return f"{lines:,} line{'s' if lines != 1 else ''}, {len(text):,} characters"


def _said_before(messages: Sequence[Json], tools: Sequence[Tool]) -> list[Sentence]:
    """Every sentence of the conversation with its place; requests and own words are none."""
    named = calls_by_id(messages)
    found: list[Sentence] = []
    for place, message in enumerate(messages):
        for block in blocks_of(message):
            if block.get("type") == "tool_result":
                result = read_result(block, named)
                source = f"result of {result.call}"
                found += [Sentence(line, source, place) for line in sentences(result.text)]
            elif block.get("type") != "text":
                continue
            elif message.get("role") == "user":
                found += _words_of_user(block["text"], place, tools)
            elif not block["text"].startswith(_OWN):
                source = f"the assistant, message {place + 1}"
                found += [Sentence(line, source, place) for line in sentences(block["text"])]
    return found


def _words_of_user(text: str, place: int, tools: Sequence[Tool]) -> Iterator[Sentence]:
    """Yield the user's statements as passages; they count more than files, questions not at all."""
    summary = find_summary(text)
    source = "the summary of the earlier messages" if summary else f"you, message {place + 1}"
    for sentence in sentences(summary or text):
        said = sentence.lstrip("-*> ")
        if not said.endswith("?") and not read_orders(said, tools).calls:
            yield Sentence(said, source, place, is_user=True)


def _quotes(question: str, known: Sequence[Sentence]) -> str:
    lines = [
        f"- “{shorten(quote.text, QUOTE_CHARS)}” ({quote.source})"
        for quote in find_quotes(question, known, QUOTES_MAX)
    ]
    return "\n".join((QUOTING, *lines)) if lines else ""


def _text_content(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []


def _within(reply: Reply, request: Json, counter: Counter) -> Reply:
    """The reply within its output cap: like a model, it stops in the middle of a word."""
    limit = request.get("max_tokens")
    text = reply.text
    if not isinstance(limit, int) or reply.stop == "tools" or counter.count(text) <= limit:
        return reply
    while text and counter.count(text) > limit:
        text = text[: len(text) * 9 // 10]
    return msgspec.structs.replace(
        reply, content=_text_content(text), stop="length", stop_reason="max_tokens"
    )


def _stream_reply(reply: Reply, on_delta: OnDelta) -> Reply:
    told: list[Json] = []
    try:
        for block in reply.content:
            if block["type"] == "tool_use":
                on_delta(Delta("call", block["name"]))
                told.append(block)
                continue
            told.append({"type": "text", "text": ""})
            for piece in _words(block["text"]):
                told[-1] = {"type": "text", "text": told[-1]["text"] + piece}
                on_delta(Delta("text", piece))
    except BaseException as error:
        keep_partial(error, msgspec.structs.replace(reply, content=told, stop="other"))
        raise
    return reply


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"(?<!\s)\s*+\S++(?:\s*+$)?", text))
