"""The answers of the offline model: calls that a message spells out, reports, quotes, summaries."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.compaction.summary_request import read_ask
from holdfast.core.memory.notes import NOTES_MAX, SILENT, ask_for_notes
from holdfast.core.models.messages import Tool, read_tools
from holdfast.core.narrative.carryover import prose_of
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.offline.calls import ToolOrder, example, read_orders
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.tokens.counting import Counter

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


def answer_request(request: Json, counter: Counter) -> list[Json]:
    """Return the content of the reply to a request."""
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
        return text_content(text or NOTHING)
    if order.startswith(_NOTES):
        return text_content(_notes(order, before))
    asked = newest_words(messages)
    results = newest_results(messages)
    if results and not asked:
        return text_content(_report(results, messages, tools))
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
        doubts = text_content(" ".join(found.doubts))
        return [*doubts, *_calls(found.calls, messages)]
    if found.doubts:
        return text_content(" ".join(found.doubts))
    if _GREETING.match(asked) or not has_terms(asked):
        return text_content(f"{ABOUT}{_offer(tools)}")
    if not _is_question(asked):
        return text_content(NOTED)
    quotes = _quotes(asked, _said_before(_known_messages(messages), tools))
    return text_content(quotes or f"{NOTHING} {ABOUT}{_offer(tools)}")


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


def text_content(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []
