"""A model that needs no key and no network, and does not pretend to be one that thinks.

It uses the tools that a message plainly asks for, tells what came back, quotes the conversation
where it is asked about it, and says that it does not know where it does not. Summaries and notes
are sentences that were said. The same request gives the same reply.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.compaction.summary_request import read_ask
from holdfast.core.extract.carryover import prose_of
from holdfast.core.log.records import text_of
from holdfast.core.memory.notes import NOTES_MAX, SILENT, ask_for_notes
from holdfast.core.models.dialects import CacheTime, Target, target
from holdfast.core.models.messages import Tool, read_tools
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.models.window import Window
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.offline.intents import Call, example, wanted
from holdfast.providers.offline.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.offline.quoting import Passage, best, sentences, terms
from holdfast.providers.offline.summaries import Entry, notes_from, read_transcript, summarise
from holdfast.providers.replies import keep_partial
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.tokens.counting import Counter
    from holdfast.ports import Hear

NAME: Final = "offline"
WINDOW_TOKENS: Final = 32_000
QUOTES_MAX: Final = 3
QUOTE_CHARS: Final = 300
LINES_SHOWN: Final = 5
LINE_CHARS: Final = 160
TOOLS_SHOWN: Final = 8
GREETING_CHARS: Final = 40
USER_WEIGHT: Final = 2.0
"""What a person's words count, beside those of files and other results."""

ABOUT: Final = (
    "I am Holdfast's offline model: no network, no key, and no understanding. "
    "I run the tools you name, quote this conversation, and say so when I find nothing."
)
QUOTING: Final = (
    "From this conversation, word for word (the offline model quotes, it does not think):"
)
NOTHING: Final = "I do not know: nothing that I can see of this conversation is about that."
NOTED: Final = "Noted. It is in the log, and I can quote it."
BACK: Final = "Back from "
_OWN: Final = (ABOUT, QUOTING, NOTHING, NOTED, BACK)
"""How this model's own messages begin: it does not quote itself."""

_NOTES: Final = ask_for_notes().partition("\n")[0].partition(":")[0]
_QUESTION: Final = lazy_pattern(
    r"\?\s*$|^\W*(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|"
    r"could|should|would|has|have|had|tell|explain|quote|recall|remind|summari[sz]e|describe|"
    r"say|answer|was|wer|wie|wo|wann|warum|welche\w*|qui|que|quoi|qué|cómo|dónde)\b",
    re.IGNORECASE,
)
_GREETING: Final = lazy_pattern(
    r"^\W*(?:hello|hi|hey|hallo|good (?:morning|evening|day)|help|who are you|what are you|"
    r"what can you do)\b",
    re.IGNORECASE,
)


_REMARK: Final = lazy_pattern(r"\[[^\]\n]*\]")
"""What the projection puts in for a user who has said nothing."""
_SUMMARY: Final = lazy_pattern(r"<conversation_so_far>\n(.*)\n</conversation_so_far>", re.DOTALL)
"""What stands in for messages that were cut."""


class OfflineModel:
    """Reads its own request and answers by rules. Refuses what is larger than its window."""

    def __init__(
        self, *, window: int | Window = WINDOW_TOKENS, cache: CacheTime = "5m", name: str = NAME
    ) -> None:
        self.target: Target = target("anthropic", provider="holdfast", model=name, cache=cache)
        self.window = window if isinstance(window, Window) else Window(window, "offline model")
        self._counter: Counter = counter_for(name)
        self._meter = Meter(self._counter, self.target)

    def send(self, request: Json, hear: Hear | None = None) -> Reply:
        tokens = count_request(request, self._counter)
        if tokens > self.window.tokens:
            raise PromptTooLong(tokens, self.window.tokens)
        content = _content(request, self._counter)
        is_tools = any(block["type"] == "tool_use" for block in content)
        reply = Reply(
            content=content,
            stop="tools" if is_tools else "end",
            stop_reason="tool_use" if is_tools else "end_turn",
            usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )
        reply = _within(reply, request, self._counter)
        return reply if hear is None else _told(reply, hear)

    def as_async(self) -> AsyncOfflineModel:
        """The same model for asynchronous callers."""
        return AsyncOfflineModel(self)


class AsyncOfflineModel:
    """The same, awaited; it never waits for anything."""

    def __init__(self, model: OfflineModel) -> None:
        self._model = model
        self.target = model.target
        self.window = model.window

    async def send(self, request: Json, hear: Hear | None = None) -> Reply:
        return self._model.send(request, hear)


def _content(request: Json, counter: Counter) -> list[Json]:
    messages: list[Json] = request.get("messages") or []
    tools = read_tools(request.get("tools") or [])
    order, before = _last_order(messages)
    summary = read_ask(order)
    if summary is not None:
        entries = read_transcript(summary.transcript) or _entries(before)
        earlier = [_summary_in(one.text) for one in entries if one.kind == "note"]
        text = summarise(
            [entry for entry in entries if not _is_chatter(entry)],
            cap_tokens=summary.cap_tokens,
            counter=counter,
            previous=summary.previous or prose_of("\n".join(earlier)),
            focus=summary.focus,
        )
        return _said(text or NOTHING)
    if order.startswith(_NOTES):
        return _said(_notes(order, before))
    asked = _newest_words(messages)
    results = _results(messages)
    if results and not asked:
        return _said(_report(results, messages, tools))
    return _answer(asked, messages, tools)


def _summary_in(text: str) -> str:
    """The summary that a message opens with, without its fence; empty where there is none."""
    found = _SUMMARY.search(text)
    return found[1] if found else ""


def _is_chatter(entry: Entry) -> bool:
    """What is no matter for a summary: greetings, and what this model said itself."""
    if entry.kind == "user":
        is_greeting = bool(_GREETING.match(entry.text)) and len(entry.text) < GREETING_CHARS
        return is_greeting or _REMARK.fullmatch(entry.text.strip()) is not None
    return entry.kind == "assistant" and entry.text.startswith(_OWN)


def _answer(asked: str, messages: Sequence[Json], tools: Sequence[Tool]) -> list[Json]:
    """A reply to a message: calls where it asks for tools, else words."""
    found = wanted(asked, tools)
    if found.calls:
        doubts = _said(" ".join(found.doubts))
        return [*doubts, *_calls(found.calls, messages)]
    if found.doubts:
        return _said(" ".join(found.doubts))
    if _GREETING.match(asked) or not terms(asked):
        return _said(f"{ABOUT}{_offer(tools)}")
    if not _is_question(asked):
        return _said(NOTED)
    quotes = _quotes(asked, _passages(_known(messages), tools))
    return _said(quotes or f"{NOTHING} {ABOUT}{_offer(tools)}")


def _known(messages: Sequence[Json]) -> list[Json]:
    """What was there before the question: where a session begins with a summary, that stands in
    the same message."""
    last = messages[-1]
    given = [one for one in _blocks(last) if _summary_in(str(one.get("text", "")))]
    return [*messages[:-1], *([{**last, "content": given}] if given else [])]


def _is_question(asked: str) -> bool:
    return any(_QUESTION.search(sentence) for sentence in sentences(asked))


def _calls(calls: Sequence[Call], messages: Sequence[Json]) -> list[Json]:
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
    return sum(block.get("type") == "tool_use" for one in messages for block in _blocks(one))


def _offer(tools: Sequence[Tool]) -> str:
    if not tools:
        return ""
    shown = ", ".join(f"`{example(tool)}`" for tool in tools[:TOOLS_SHOWN])
    more = f" and {len(tools) - TOOLS_SHOWN} more" if len(tools) > TOOLS_SHOWN else ""
    return f" Tools to name: {shown}{more}."


# What the request holds


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _newest_words(messages: Sequence[Json]) -> str:
    """What the user said since the last results; empty where those are the newest."""
    blocks = _blocks(messages[-1]) if messages else []
    last = max(
        (at for at, one in enumerate(blocks) if one.get("type") == "tool_result"), default=-1
    )
    said = [one for one in blocks[last + 1 :] if not _summary_in(str(one.get("text", "")))]
    return text_of(said).strip()


def _last_order(messages: Sequence[Json]) -> tuple[str, list[Json]]:
    """The last text of the last message, and everything before it."""
    if not messages:
        return "", []
    *blocks, last = _blocks(messages[-1]) or [{}]
    order = last.get("text") if last.get("type") == "text" else ""
    return str(order or "").strip(), [*messages[:-1], {**messages[-1], "content": blocks}]


class _Result(msgspec.Struct, frozen=True):
    call: str
    """What was called, as a person would write it."""
    name: str
    text: str
    is_error: bool
    pictures: int = 0


def _results(messages: Sequence[Json]) -> list[_Result]:
    """The results in the newest message."""
    named = _called(messages)
    return [
        _result(block, named)
        for block in (_blocks(messages[-1]) if messages else [])
        if block.get("type") == "tool_result"
    ]


def _result(block: Json, named: dict[str, tuple[str, str]]) -> _Result:
    call, name = named.get(block.get("tool_use_id", ""), ("a tool", "a tool"))
    content = block.get("content")
    pieces = content if isinstance(content, list) else []
    text = content if isinstance(content, str) else text_of(pieces)
    pictures = sum(piece.get("type") == "image" for piece in pieces)
    return _Result(call, name, text, bool(block.get("is_error")), pictures)


def _called(messages: Sequence[Json]) -> dict[str, tuple[str, str]]:
    found = {}
    for message in messages:
        for block in _blocks(message):
            if block.get("type") == "tool_use":
                given = ", ".join(
                    f"{name}={_short(value)}" for name, value in (block.get("input") or {}).items()
                )
                found[block["id"]] = (f"{block['name']}({given})", block["name"])
    return found


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _first(" ".join(text.split()), 60)


def _entries(messages: Sequence[Json]) -> list[Entry]:
    """The conversation itself as entries, for a summary asked for at its end."""
    named = _called(messages)
    found = []
    for message in messages:
        for block in _blocks(message):
            match block.get("type"):
                case "text" if message.get("role") == "assistant":
                    found.append(Entry("assistant", block["text"]))
                case "text" if _summary_in(block["text"]):
                    found.append(Entry("note", block["text"]))
                case "text":
                    found.append(Entry("user", block["text"]))
                case "tool_use":
                    call, name = named[block["id"]]
                    found.append(Entry("call", call.removeprefix(name), f"called {name}"))
                case "tool_result":
                    result = _result(block, named)
                    label = f"of {result.name}" + (", failed" if result.is_error else "")
                    found.append(Entry("result", result.text, label))
    return found


# What it says


def _notes(asked: str, before: Sequence[Json]) -> str:
    entries = read_transcript(_between("transcript", asked)) or _entries(before)
    listed = _between("known_notes", asked).splitlines()
    known = [line.removeprefix("- ") for line in listed if line.startswith("- ")]
    found = notes_from(entries, known, NOTES_MAX)
    return "\n".join(f"- {' '.join(note.split())}" for note in found) or SILENT


def _between(tag: str, text: str) -> str:
    _before, _opened, rest = text.partition(f"<{tag}>\n")
    return rest.partition(f"\n</{tag}>")[0]


def _report(results: Sequence[_Result], messages: Sequence[Json], tools: Sequence[Tool]) -> str:
    """What came back, and what of it answers the rest of what was asked."""
    told = [_told_result(result) for result in results]
    question = wanted(_asked_before(messages), tools).rest
    if question and _is_question(question) and terms(question):
        passages = [
            Passage(sentence, result.call, place)
            for place, result in enumerate(results)
            for sentence in sentences(result.text)
        ]
        found = _quotes(question, passages)
        told.append(found or "Nothing in it matches the rest of what you asked.")
    return "\n\n".join(told)


def _asked_before(messages: Sequence[Json]) -> str:
    """The user's words that the calls came from."""
    for message in reversed(messages[:-1]):
        words = text_of([one for one in _blocks(message) if one.get("type") == "text"])
        if message.get("role") == "user" and words.strip():
            return _newest_words([message])
    return ""


def _told_result(result: _Result) -> str:
    opening = f"{BACK}`{result.call}`: "
    lines = [line for line in result.text.splitlines() if line.strip()]
    if result.is_error:
        said = _first(lines[-1] if lines else "no reason given", QUOTE_CHARS)
        return f"{opening}it failed: {said}"
    pictures = f", {result.pictures} picture{'s' if result.pictures > 1 else ''}"
    size = f"{_shape(result.text, len(lines))}{pictures if result.pictures else ''}"
    shown = [f"  {_first(line, LINE_CHARS)}" for line in lines[:LINES_SHOWN]]
    more = [f"  … and {len(lines) - LINES_SHOWN:,} more lines"] * (len(lines) > LINES_SHOWN)
    return "\n".join((f"{opening}{size}", *shown, *more))


def _first(text: str, chars: int) -> str:
    return cut(text, chars, keep="head", marker=ellipsis).text


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


def _passages(messages: Sequence[Json], tools: Sequence[Tool]) -> list[Passage]:
    """Every sentence of the conversation with its place; requests and own words are none."""
    named = _called(messages)
    found: list[Passage] = []
    for place, message in enumerate(messages):
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                result = _result(block, named)
                source = f"result of {result.call}"
                found += [Passage(one, source, place) for one in sentences(result.text)]
            elif block.get("type") != "text":
                continue
            elif message.get("role") == "user":
                found += _words_of_user(block["text"], place, tools)
            elif not block["text"].startswith(_OWN):
                source = f"the assistant, message {place + 1}"
                found += [Passage(one, source, place) for one in sentences(block["text"])]
    return found


def _words_of_user(text: str, place: int, tools: Sequence[Tool]) -> Iterator[Passage]:
    """What a person said counts for more than what a file says; what they asked tells nothing."""
    summary = _summary_in(text)
    source = "the summary of what came before" if summary else f"you, message {place + 1}"
    for sentence in sentences(summary or text):
        said = sentence.lstrip("-*> ")
        is_request = len(said) <= QUOTE_CHARS and wanted(said, tools).calls
        if not said.endswith("?") and not is_request:
            yield Passage(said, source, place, weight=USER_WEIGHT)


def _quotes(question: str, passages: Sequence[Passage]) -> str:
    found = best(question, passages, QUOTES_MAX)
    if not found:
        return ""
    least = found[0].score / 2
    lines = [
        f"“{_first(one.passage.text, QUOTE_CHARS)}” ({one.passage.source})"
        for one in found
        if one.score >= least
    ]
    return "\n".join((QUOTING, *(f"- {line}" for line in lines)))


def _said(text: str) -> list[Json]:
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
        reply, content=_said(text), stop="length", stop_reason="max_tokens"
    )


def _told(reply: Reply, hear: Hear) -> Reply:
    told: list[Json] = []
    try:
        for block in reply.content:
            if block["type"] == "tool_use":
                hear(Delta("call", block["name"]))
                told.append(block)
                continue
            told.append({"type": "text", "text": ""})
            for piece in _words(block["text"]):
                told[-1] = {"type": "text", "text": told[-1]["text"] + piece}
                hear(Delta("text", piece))
    except BaseException as error:
        keep_partial(error, msgspec.structs.replace(reply, content=told, stop="other"))
        raise
    return reply


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"\s*\S+\s*$|\s*\S+", text))
