"""The workload of benchmarks/overflow.py, and the one model that all systems are given.

Nothing here knows a framework. A side (`overflow_*.py`) hands the model its request in one common
shape, that of Anthropic's Messages API, whatever the framework itself speaks; so the same rule
counts, refuses and answers for all of them.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from holdfast.core.dialects.registry import validate_body
from holdfast.models import target
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

Json = dict[str, Any]
Purpose = Literal["answer", "summary"]

WINDOW = 25_000
OUTPUT = 2_000
"""What a reply may take: it counts towards the window, as `max_tokens` of the request."""
PAGE_TOKENS = 5_000
MESSAGE_TOKENS = 4
FACTS_CHARS = 3_000
HEADINGS_MAX = 8
INSTRUCTION_CHARS = 3_000
RUNAWAY = 200
"""So many calls without an answer in between are called endless."""
MODEL = "claude-sonnet-4-5"
"""Only a name: whose rules requests are judged by."""
SYSTEM = (
    "You are a careful assistant in a long-running project. Use the tools you are given. "
    "Say what you did and what is still open."
)
ANSWER = "Done. The figures agree with the last report, and nothing is open."


@dataclass(frozen=True, slots=True)
class Case:
    """One turn to take after one history."""

    name: str
    factor: float
    """The history's size, in windows."""
    window: int = WINDOW
    prompt_chars: int = 300
    """The size of the new user message."""
    past_chars: int = 0
    """The size of one user message in the history, three turns before its end."""
    rounds: int = 0
    """Tool rounds that the new turn takes, of 5,000 tokens each."""
    inflation: float = 1.0
    """What the model's provider counts for one token of o200k."""
    is_grown: bool = False
    """The history is not loaded but said, turn by turn, with a tool call in each."""


CASES = (
    Case("1.7×", 1.7),
    Case("4×", 4),
    Case("14×", 14),
    Case("100×", 100),
    Case("400k new", 0.4, prompt_chars=400_000),
    Case("400k past", 0.4, past_chars=400_000),
    Case("20 rounds", 0.4, rounds=20),
    Case("60 rounds", 0.1, window=100_000, rounds=60),
    Case("grown 10×", 10, is_grown=True),
    Case("4× dearer", 4, inflation=1.25),
)
QUICK = ("1.7×", "4×", "400k new", "20 rounds")


# The texts: English, rows and logs from a small seeded vocabulary

_VOCABULARY = """
the of to and a in is it you that he was for on are with as his they at be this have from or
one had by word but not what all were we when your can said there use an each which she do how
their if will up other about out many then them these so some her would make like him into time
has look two more write go see number no way could people my than first water been call who oil
its now find long down day did get come made may part report invoice export account server
table column release customer query index request answer window budget record module function
value folder change review branch deploy metric region storage schedule
"""
_WORDS = tuple(_VOCABULARY.split())
_THINGS = ("invoice export", "billing table", "staging server", "release branch", "nightly report")


@dataclass(frozen=True, slots=True)
class Turn:
    question: str
    path: str
    output: str
    answer: str
    call: str


@dataclass(frozen=True, slots=True)
class Workload:
    """A history, the new message, what the tool returns, and the facts users stated."""

    case: Case
    turns: tuple[Turn, ...]
    prompt: str
    facts: tuple[str, ...]
    pages: tuple[str, ...]
    tokens: int
    """Of the history, by the model's own rule."""

    @property
    def outputs(self) -> dict[str, str]:
        """What the tool returns, by its argument."""
        pages = {f"page {number}": page for number, page in enumerate(self.pages)}
        return {turn.path: turn.output for turn in self.turns} | pages

    def originals(self) -> Iterator[str]:
        """Every text that a system was given to keep."""
        for turn in self.turns:
            yield from (turn.question, turn.output, turn.answer)
        yield from (self.prompt, *self.pages)


class _Writer:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def prose(self, chars: int) -> str:
        parts: list[str] = []
        size = 0
        while size < chars:
            words = [self._rng.choice(_WORDS) for _ in range(self._rng.randint(6, 16))]
            end = ".\n" if len(parts) % 6 == 5 else ". "
            parts.append(" ".join(words).capitalize() + end)
            size += len(parts[-1])
        return "".join(parts)[:chars].strip()

    def output(self, number: int, chars: int) -> str:
        """What a tool returns: prose, JSON rows and log lines in turn."""
        if number % 3 == 0:
            return self.prose(chars)
        line = self._row if number % 3 == 1 else self._log
        parts: list[str] = []
        size = 0
        while size < chars:
            parts.append(line())
            size += len(parts[-1]) + 1
        return "\n".join(parts)[:chars].strip()

    def code(self) -> str:
        return f"HF-{self._rng.randrange(10_000, 99_999)}{self._rng.choice('ABCDEFGHJKLMNP')}"

    def thing(self) -> str:
        return self._rng.choice(_THINGS)

    def _row(self) -> str:
        row = {
            "id": self._rng.randrange(10**9),
            "name": self._rng.choice(_WORDS),
            "amount": self._rng.randrange(10**6) / 100,
            "hash": f"{self._rng.getrandbits(64):016x}",
        }
        return json.dumps(row)

    def _log(self) -> str:
        rng = self._rng
        clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        where = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"
        return f"2026-03-14T{clock}Z {where} GET /v1/{rng.choice(_WORDS)} {rng.randrange(10**5)}us"


def workload(case: Case, seed: int = 20_261_115) -> Workload:
    writer = _Writer(seed)
    meter = Meter()
    turns: list[Turn] = []
    facts: list[str] = []
    tokens = 0
    while tokens < case.factor * case.window:
        number = len(turns)
        question = writer.prose(200)
        if number % 10 == 0:
            facts.append(writer.code())
            question = f"For the record: the ticket of the {writer.thing()} is {facts[-1]}. " + (
                question
            )
        turns.append(
            Turn(
                question,
                f"src/{writer.thing().replace(' ', '_')}_{number}.py",
                writer.output(number, 2_000),
                writer.prose(400),
                f"toolu_{number:020d}",
            )
        )
        tokens += sum(meter.message(one) for one in wire_of(turns[-1]))
    if case.past_chars:
        old = turns[-3]
        turns[-3] = Turn(writer.prose(case.past_chars), old.path, old.output, old.answer, old.call)
        tokens += meter.text(turns[-3].question)
    prompt = f"Please go on with ticket {writer.code()}. " + writer.prose(case.prompt_chars)
    prompt = prompt[: case.prompt_chars - 22].rstrip() + " That is all I know."
    pages = tuple(_page(writer, meter, number) for number in range(case.rounds))
    return Workload(case, tuple(turns), prompt, tuple(facts), pages, tokens)


def _page(writer: _Writer, meter: Meter, number: int) -> str:
    text = writer.output(number, 30_000)
    return text[: len(text) * PAGE_TOKENS // meter.text(text)]


def wire_of(turn: Turn) -> list[Json]:
    """A turn as Anthropic's API takes it."""
    call = {"type": "tool_use", "id": turn.call, "name": "fetch", "input": {"path": turn.path}}
    result = {"type": "tool_result", "tool_use_id": turn.call, "content": turn.output}
    return [
        {"role": "user", "content": [{"type": "text", "text": turn.question}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": turn.answer}]},
    ]


# The model

_HEADING = re.compile(r"^#{1,4} \S.*$", re.MULTILINE)
_PHRASE = re.compile(r"\b[A-Z]?[a-z][a-z ]{24,150}[a-z]\b\.?")


class Meter:
    """True o200k tokens of a request in the common shape."""

    def __init__(self) -> None:
        self._counter = counter_for("gpt-4o")
        if self._counter.name != "o200k_base":
            raise SystemExit("this benchmark needs true counts: pip install 'splintr-rs>=0.22'")
        self._known: dict[str, int] = {}

    def text(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._counter.count(text)
        return self._known[text]

    def message(self, message: Json) -> int:
        return MESSAGE_TOKENS + sum(map(self._block, _blocks(message)))

    def request(self, wire: Json) -> int:
        """What a provider counts as input: system, tools and messages."""
        system = wire.get("system") or ""
        texts = [system] if isinstance(system, str) else [block["text"] for block in system]
        tools = [json.dumps(tool, sort_keys=True) for tool in wire.get("tools") or ()]
        return sum(map(self.text, (*texts, *tools))) + sum(map(self.message, wire["messages"]))

    def _block(self, block: Json) -> int:
        return sum(map(self.text, _texts(block)))


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(block: Json) -> list[str]:
    match block["type"]:
        case "text":
            return [block["text"]]
        case "tool_use":
            return [block["name"], json.dumps(block["input"])]
        case "tool_result":
            content = block.get("content") or ""
            return [content] if isinstance(content, str) else [one["text"] for one in content]
    return [json.dumps(block)]


def text_of(wire: Json) -> str:
    """All that a request says, for searching."""
    system = wire.get("system") or ""
    parts = [system] if isinstance(system, str) else [block["text"] for block in system]
    for message in wire["messages"]:
        for block in _blocks(message):
            parts.extend(_texts(block))
    return "\n".join(parts)


class TooLong(Exception):
    """The model refuses a request, in its provider's words; a side raises its own kind from it."""

    status_code = 400


class Runaway(Exception):
    """A system calls again and again without end."""


@dataclass(frozen=True, slots=True)
class Call:
    purpose: Purpose
    tokens: int
    """Of the request, with the room for its reply."""
    input: int
    is_over: bool
    faults: tuple[str, ...]
    """Rules of the API that the request breaks, over or not."""


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    path: str
    """What it asks the tool for, instead of a text."""
    call: str
    """The id of that call."""
    input_tokens: int
    output_tokens: int


@dataclass(slots=True)
class OneModel:
    """Refuses what is too long, calls the tool as planned, then answers; summarises when asked."""

    work: Workload
    holds: int = 25
    """Of a hundred facts that a summary request shows, so many are in the summary."""
    meter: Meter = field(default_factory=Meter)
    calls: list[Call] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    """What the running turn still asks the tool for."""
    reply: str = ""
    made: int = 0
    last: Json | None = None
    """The newest answered request that was no summary."""

    def begin(self, paths: Iterable[str], reply: str) -> None:
        """The next turn: these tool calls, one after the other, then this reply."""
        self.planned, self.reply = list(paths), reply

    def send(self, wire: Json, purpose: Purpose) -> Answer:
        output = int(wire["max_tokens"])
        taken = round(self.work.case.inflation * self.meter.request(wire))
        tokens = taken + output
        window = self.work.case.window
        faults = validate_body(wire, target("anthropic", model=MODEL))
        rules = tuple(sorted({fault.rule for fault in faults}))
        self.calls.append(Call(purpose, tokens, taken, tokens > window, rules))
        if self._idle() > RUNAWAY:
            raise Runaway(f"{RUNAWAY} calls and no answer")
        if tokens > window:
            raise TooLong(_refusal(taken, output, window))
        return self._answer(wire, purpose, taken)

    def _idle(self) -> int:
        idle = 0
        for call in reversed(self.calls):
            if call.purpose == "answer" and not call.is_over:
                break
            idle += 1
        return idle

    def _answer(self, wire: Json, purpose: Purpose, tokens: int) -> Answer:
        if purpose == "summary":
            text = self._summary(wire)
            return Answer(text, "", "", tokens, self.meter.text(text))
        self.last = wire
        if self.planned:
            self.made += 1
            return Answer("", self.planned.pop(0), f"toolu_made_{self.made:06d}", tokens, 30)
        return Answer(self.reply, "", "", tokens, self.meter.text(self.reply))

    def _summary(self, wire: Json) -> str:
        """Phrases of what is shown under the headings asked for, and some of the facts."""
        shown = text_of(wire)
        seen = [fact for fact in self.work.facts if fact in shown]
        held = [fact for fact in seen if _lot(fact) < self.holds]
        facts = "\n".join(f"- The user named the ticket {fact}." for fact in held)[-FACTS_CHARS:]
        headings = _asked(shown)
        said = text_of({"messages": wire["messages"]})
        phrases = _PHRASE.findall(said)
        step = max(1, len(phrases) // (2 * len(headings)))
        picked = phrases[::step]
        parts = []
        for number, heading in enumerate(headings):
            below = " ".join(picked[2 * number : 2 * number + 2])
            parts.append(f"{heading}\n{below or 'As before.'}")
        place = next((at for at, one in enumerate(headings) if "ident" in one.lower()), 0)
        parts[place] += "\n" + facts
        return "\n\n".join(parts)


def _asked(shown: str) -> list[str]:
    """The headings of the instructions: at the end where they stand there, else at the start."""
    found = _HEADING.findall(shown[-INSTRUCTION_CHARS:]) or _HEADING.findall(shown)
    return list(dict.fromkeys(found))[:HEADINGS_MAX] or ["## Summary"]


def _lot(fact: str) -> int:
    """The same facts are held each time."""
    return hashlib.sha256(fact.encode()).digest()[0] * 100 // 256


def _refusal(taken: int, output: int, window: int) -> str:
    if taken > window:
        return f"prompt is too long: {taken} tokens > {window} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {taken} + {output} > "
        f"{window}, decrease input length or `max_tokens` and try again"
    )


# What is measured


class Side(Protocol):
    """One system, made for one case."""

    def load(self, turns: Sequence[Turn]) -> None:
        """Begin with this history."""

    def say(self, text: str) -> str:
        """Take a turn and return the reply's text."""

    def kept(self) -> Iterable[str]:
        """Texts that the system can still give back afterwards, by its own means."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one system made of one case."""

    system: str
    case: str
    versions: str
    is_answered: bool
    error: str
    calls: int
    recovery: int
    """Calls that brought no answer: refused ones and summaries."""
    worst: int
    """The most of them before one answer."""
    summaries: int
    over: int
    largest: int
    window: int
    sent: int
    """Tokens of all requests, without the room for replies."""
    newest: str
    facts: int
    facts_of: int
    kept: int
    kept_of: int
    invalid: int
    rules: dict[str, int]
    history: int
    seconds: float


def take(model: OneModel, side: Side) -> str:
    """The whole of a case; returns why it ended early, or nothing."""
    work = model.work
    grown = work.turns if work.case.is_grown else ()
    said = 0
    try:
        side.load(() if grown else work.turns)
        for turn in grown:
            model.begin([turn.path], turn.answer)
            _expect(side.say(turn.question), turn.answer)
            said += 1
        model.begin((f"page {page}" for page in range(work.case.rounds)), ANSWER)
        _expect(side.say(work.prompt), ANSWER)
    except Exception as failure:
        where = f"turn {said + 1} of {len(grown) + 1}: " if grown else ""
        return where + short(failure)
    return ""


def _expect(found: str, wanted: str) -> None:
    if wanted not in found:
        raise ValueError(f"another reply than the model's: {found[:80]!r}")


def measure(
    system: str, versions: str, model: OneModel, side: Side, error: str, seconds: float
) -> Result:
    work = model.work
    calls = model.calls
    last = text_of(model.last) if model.last else ""
    fits = [call for call in calls if call.purpose == "answer" and not call.is_over]
    originals = list(work.originals())
    is_answered = not error
    return Result(
        system=system,
        case=work.case.name,
        versions=versions,
        is_answered=is_answered,
        error=error,
        calls=len(calls),
        recovery=len(calls) - len(fits),
        worst=_worst(calls),
        summaries=sum(call.purpose == "summary" for call in calls),
        over=sum(call.is_over for call in calls),
        largest=max((call.tokens for call in calls), default=0),
        window=work.case.window,
        sent=sum(call.input for call in calls),
        newest=presence(work.prompt, last) if is_answered else "",
        facts=sum(fact in last for fact in work.facts) if is_answered else 0,
        facts_of=len(work.facts),
        kept=_count_kept(originals, side.kept()),
        kept_of=len(originals),
        invalid=sum(bool(call.faults) for call in calls),
        rules=dict(Counter(rule for call in calls for rule in call.faults)),
        history=work.tokens,
        seconds=seconds,
    )


def _worst(calls: list[Call]) -> int:
    worst = idle = 0
    for call in calls:
        is_answer = call.purpose == "answer" and not call.is_over
        idle = 0 if is_answer else idle + 1
        worst = max(worst, idle)
    return worst


def presence(text: str, request: str) -> str:
    """How much of the newest user message is in a request."""
    if text in request:
        return "whole"
    has_head, has_tail = text[:200] in request, text[-200:] in request
    return {(True, True): "head + tail", (True, False): "head", (False, True): "tail"}.get(
        (has_head, has_tail), "gone"
    )


def _count_kept(originals: list[str], kept: Iterable[str]) -> int:
    texts = set(kept)
    rest = [text for text in originals if text not in texts]
    joined = "\n".join(text for text in texts if len(text) > 200)
    return len(originals) - sum(text not in joined for text in rest)


def as_json(result: Result) -> str:
    return json.dumps(asdict(result))


def from_json(line: str) -> Result:
    return Result(**json.loads(line))


def short(error: BaseException) -> str:
    """An exception in one line."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:200]


def folder(path: Path, name: str) -> Path:
    made = path / name
    made.mkdir()
    return made
