"""A model provider on this machine, which keeps the rules of the real ones and fails on request."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, RLock
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import msgspec

from holdfast.core.dialects import Name, target
from holdfast.core.messages import Thinking, ToolCall
from holdfast.core.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.tokens import count_block
from holdfast.errors import BadSetting
from holdfast.providers.requests import validate
from holdfast.providers.rules import Violation
from holdfast.providers.tokenizers import counter_for
from holdfast.testing.disk import FOREVER
from holdfast.testing.loopback import outgoing
from holdfast.testing.loopback.anthropic_wire import AnthropicWire
from holdfast.testing.loopback.asking import Answer, Asked, Call, Scripted, echo
from holdfast.testing.loopback.caching import Cached, Caches
from holdfast.testing.loopback.chat_wire import ChatWire
from holdfast.testing.loopback.connections import Server
from holdfast.testing.loopback.faults import Counts, Failure, Fault, Sizes
from holdfast.testing.loopback.outgoing import Outgoing, Wait
from holdfast.testing.loopback.reading import Heard, hear
from holdfast.testing.loopback.responses_wire import ResponsesWire
from holdfast.testing.loopback.speaking import Event, Spoken, Wire, is_signed_here, sign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.tokens import Counter
    from holdfast.engine.prompt_cache import CacheRules
    from holdfast.ports import Clock
    from holdfast.testing.loopback.asking import Brain, Line

LIMIT: Final = 200_000
_PATHS: Final[dict[str, tuple[Name, bool]]] = {
    "/messages": ("anthropic", False),
    "/messages/count_tokens": ("anthropic", True),
    "/chat/completions": ("openai-chat", False),
    "/responses": ("openai-responses", False),
    "/responses/input_tokens": ("openai-responses", True),
}
"""How an address ends → its dialect, and whether it only counts."""
_NO_JSON: Final = "The request body is not valid JSON: {why}"

When: TypeAlias = Callable[[Asked], bool]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request, what was found in it and what was answered."""

    number: int
    """From 1, in the order of arrival."""
    dialect: Name | None
    """None for an address that nobody serves."""
    path: str
    headers: dict[str, str]
    """With small names."""
    body: Json
    """Empty where it was no JSON object."""
    bytes: int
    model: str = ""
    is_streamed: bool = False
    only_counts: bool = False
    tokens: int = 0
    """All input, as the loopback counts it."""
    output_max: int = 0
    """What was asked for the reply; 0 where nothing was."""
    limit: int = 0
    cached: Cached = Cached()
    violations: tuple[Violation, ...] = ()
    fault: str = ""
    """The name of the fault that struck it."""
    answer: Answer | None = None
    """What the brain said, as it was sent."""
    status: int = 0
    """0 where the connection was reset before a reply."""
    said: str = ""
    """The error that was answered."""

    @property
    def is_over(self) -> bool:
        """Whether it asks for more than the window, the room for the reply included."""
        return not self.only_counts and self.tokens + self.output_max > self.limit

    @property
    def is_answered(self) -> bool:
        """Whether the brain's answer went out, whole or not."""
        return self.answer is not None


class _Told(msgspec.Struct, frozen=True):
    when: When
    fault: Fault
    left: list[int]


class _Refused(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Loopback:
    """Speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses on 127.0.0.1.

    Use it as a context manager, and give its address to the real SDK or to anything else:

        with Loopback(limit=25_000) as loopback:
            client = anthropic.Anthropic(base_url=loopback.url, api_key="any")
    """

    def __init__(
        self,
        brain: Brain | Sequence[Line] = echo,
        *,
        limit: int = LIMIT,
        limits: Mapping[str, int] | None = None,
        output_max: int = 0,
        body_bytes: int | None = None,
        flavours: Mapping[Name, str] | None = None,
        counter: Counter | None = None,
        factor: float = 1.0,
        cache: CacheRules | None = None,
        clock: Clock = time.time,
        api_key: str = "",
        checks_foreign_signatures: bool = False,
    ) -> None:
        """A provider that answers as `brain` says: a function, or the lines of a script.

        `limit`: the window in tokens, input and reply together; `limits` has those of single
        models. `output_max`: the most a reply may ask for; 0 is no limit. `body_bytes`: instead of
        the dialect's own. `flavours`: whose manners a dialect has, such as
        `{"openai-chat": "mistral"}`. `counter` and `factor`: how it counts; with 1.3, it finds 30 %
        more tokens than the counter does. `clock`: by which cached prefixes grow old. `api_key`:
        the only one it takes, where it is not empty. `checks_foreign_signatures`: whether thinking
        that it has not signed itself is refused.
        """
        if limit < 1 or factor <= 0:
            raise BadSetting(
                f"a window of {limit} tokens, counted by a factor of {factor}, makes no sense",
                hint="give a `limit` of at least 1 and a `factor` above 0",
            )
        self.brain: Brain = brain if callable(brain) else Scripted(brain)
        self.limit = limit
        self.limits = dict(limits or {})
        self.output_max = output_max
        self.body_bytes = body_bytes
        self.flavours = dict(flavours or {})
        self.factor = factor
        self.api_key = api_key
        self.checks_foreign_signatures = checks_foreign_signatures
        self.caches = Caches(clock, cache)
        self.errors: list[Exception] = []
        """What the brain raised. The first is raised again when the context ends."""
        self._counter = counter
        self._clock = clock
        self._lock = RLock()
        self._arrived = Condition(self._lock)
        self._received: list[Received] = []
        self._number = 0
        self._queue: deque[Fault | None] = deque()
        self._told: list[_Told] = []
        self._totals = Counts(0)
        self._server = Server(self._answer)

    # The address

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_about: object) -> None:
        self._server.stop()
        if kind is None and self.errors:
            raise self.errors[0]

    @property
    def url(self) -> str:
        """The address for Anthropic's SDK."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """The address for OpenAI's SDK, which adds no version."""
        return f"{self.url}/v1"

    # What it is told

    def fail_next(self, *faults: Fault | None) -> None:
        """Let the next requests fail, one by one; None stands for one that does not.

        A fault that spoils a reply waits until there is one to spoil: a request that is refused
        anyway does not use it up. Requests that only count are never struck.
        """
        with self._lock:
            self._queue.extend(faults)

    def fail_when(self, when: When, fault: Fault, *, times: int = FOREVER) -> None:
        """Let requests fail of which `when` says so. What was queued goes first."""
        with self._lock:
            self._told.append(_Told(when, fault, [times]))

    def heal(self) -> None:
        """Forget all faults that are still to come."""
        with self._lock:
            self._queue.clear()
            self._told.clear()

    # What it has seen

    @property
    def requests(self) -> tuple[Received, ...]:
        """Every request so far, in the order of arrival."""
        with self._lock:
            return tuple(sorted(self._received, key=lambda one: one.number))

    @property
    def over_limit(self) -> tuple[Received, ...]:
        """Every request that asked for more than the window, whatever was answered."""
        return tuple(one for one in self.requests if one.is_over)

    @property
    def invalid(self) -> tuple[Received, ...]:
        """Every request that broke a rule, whatever was answered."""
        return tuple(one for one in self.requests if one.violations)

    @property
    def answered(self) -> tuple[Received, ...]:
        """Every request that the brain answered."""
        return tuple(one for one in self.requests if one.is_answered)

    def wait_for(self, count: int, *, seconds: float = 10.0) -> bool:
        """Wait until that many requests have come in; False where they do not come."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self._received) >= count, seconds)

    def count(self, dialect: Name, body: Json) -> int:
        """How many tokens it finds in a request."""
        heard = hear(dialect, body)
        return self._weigh(heard)[-1] if heard.pieces else 0

    def limit_for(self, model: str) -> int:
        return self.limits.get(model, self.limit)

    # How it answers

    def _answer(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Outgoing:
        with self._lock:
            self._number += 1
            number = self._number
        exchange = _Exchange(self, number, path, headers, raw)
        reply = exchange.answer(method)
        with self._arrived:
            self._received.append(exchange.received(reply.status))
            self._arrived.notify_all()
        return reply

    def _weigh(self, heard: Heard) -> list[int]:
        return heard.weigh(self.counter_for(heard.model), self.factor)

    def counter_for(self, model: str) -> Counter:
        return self._counter or counter_for(model)

    def now(self) -> float:
        return self._clock()

    def next_fault(self, asked: Asked) -> Fault | None:
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            for one in self._told:
                if one.left[0] > 0 and one.when(asked):
                    one.left[0] -= 1
                    return one.fault
            return None

    def put_back(self, fault: Fault) -> None:
        with self._lock:
            self._queue.appendleft(fault)

    def add_up(self, counts: Counts) -> Counts:
        """Remember what an answer took; give what the earlier ones took."""
        with self._lock:
            before = self._totals
            self._totals = Counts(
                before.prompt + counts.prompt, output=before.output + counts.output
            )
            return before

    def note(self, error: Exception) -> None:
        with self._lock:
            self.errors.append(error)


def _served(path: str) -> tuple[Name | None, bool]:
    """The dialect of an address, whatever stands before its ending."""
    for ending, (dialect, only_counts) in _PATHS.items():
        if path.rstrip("/").endswith(ending):
            return dialect, only_counts
    return None, False


def _wire(dialect: Name | None, flavour: str) -> Wire:
    match dialect:
        case "anthropic":
            return AnthropicWire()
        case "openai-responses":
            return ResponsesWire()
        case _:
            return ChatWire(flavour)


class _Exchange:
    """One request on its way to a reply."""

    def __init__(
        self, loopback: Loopback, number: int, path: str, headers: dict[str, str], raw: bytes
    ) -> None:
        self.loopback = loopback
        self.number = number
        self.path = path
        self.headers = headers
        self.raw = raw
        self.dialect, self.only_counts = _served(path)
        flavour = loopback.flavours.get(self.dialect, "") if self.dialect else ""
        self.wire = _wire(self.dialect, flavour)
        self.body: Json = {}
        self.heard: Heard | None = None
        self.sums: list[int] = []
        self.violations: tuple[Violation, ...] = ()
        self.fault: Fault | None = None
        self.cached = Cached()
        self.said: Answer | None = None
        self.failure: Failure | None = None

    def received(self, status: int) -> Received:
        heard = self.heard
        return Received(
            number=self.number,
            dialect=self.dialect,
            path=self.path,
            headers=self.headers,
            body=self.body,
            bytes=len(self.raw),
            model=heard.model if heard else "",
            is_streamed=heard.is_streamed if heard else False,
            only_counts=self.only_counts,
            tokens=self.tokens,
            output_max=heard.output_max if heard else 0,
            limit=self.limit,
            cached=self.cached,
            violations=self.violations,
            fault=self.fault.name if self.fault else "",
            answer=self.said,
            status=status,
            said=self.failure.message if self.failure else "",
        )

    @property
    def tokens(self) -> int:
        return self.sums[-1] if self.sums else 0

    @property
    def limit(self) -> int:
        return self.loopback.limit_for(self.heard.model if self.heard else "")

    @property
    def id(self) -> str:
        chain = self.heard.chain() if self.heard else []
        return f"{self.number:06d}{(chain[-1] if chain else b'').hex()[:14]}"

    @property
    def reply_headers(self) -> dict[str, str]:
        name = "request-id" if self.dialect == "anthropic" else "x-request-id"
        return {name: f"req_{self.number:06d}", "server": "holdfast-loopback"}

    def answer(self, method: str) -> Outgoing:
        try:
            return self._answer(method)
        except _Refused as refused:
            return self._fail(refused.failure)
        except Exception as error:  # a brain's mistake must reach the test, not vanish in a thread
            self.loopback.note(error)
            return self._fail(Failure(f"the brain failed: {type(error).__name__}: {error}", 500))

    def _answer(self, method: str) -> Outgoing:
        if self.dialect is None or method != "POST":
            raise _Refused(Failure(f"{method} {self.path}: nothing is served here", 404))
        heard = self._read()
        if self.only_counts:
            self._judge(heard)
            return self._counted()
        asked = self._asked(heard)
        self.fault = self.loopback.next_fault(asked)
        fault = self.fault
        if fault and fault.is_reply:
            self._look(heard)
            return self._struck(fault)
        try:
            self._judge(heard)
            if not (fault and fault.takes_any_size):
                self._check_size(heard)
        except _Refused:
            if fault:
                self.loopback.put_back(fault)
                self.fault = None
            raise
        return self._speak(heard, asked)

    # Reading and judging

    def _read(self) -> Heard:
        assert self.dialect is not None
        try:
            body = json.loads(self.raw, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            message = _NO_JSON.format(why=error)
            self.violations = (Violation("request-shape", message, ""),)
            raise _Refused(Failure(message)) from None
        self.body = body if isinstance(body, dict) else {}
        self.heard = heard = hear(self.dialect, self.body)
        self.sums = self.loopback._weigh(heard)
        self._check_key()
        self._check_bytes()
        if not isinstance(body, dict):
            self.violations = (Violation("request-shape", "the body is no object", ""),)
            raise _Refused(Failure("the body is no object"))
        return heard

    def _check_key(self) -> None:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        given = self.headers.get("x-api-key") or bearer
        if self.loopback.api_key and given != self.loopback.api_key:
            raise _Refused(Failure("invalid x-api-key", 401, code="invalid_api_key"))

    def _check_bytes(self) -> None:
        limit = self.loopback.body_bytes
        if limit is None:
            limit = self._target().dialect.body_bytes
        if limit and len(self.raw) > limit:
            quote = f"{len(self.raw)} > {limit} bytes"
            self.violations = (Violation("body-bytes", quote, ""),)
            raise _Refused(self.wire.too_large())

    def _target(self) -> Any:
        assert self.dialect is not None
        heard = self.heard
        return target(
            self.dialect,
            self.loopback.flavours.get(self.dialect, ""),
            model=heard.model if heard else "",
            thinking=heard.thinks if heard else False,
        )

    def _look(self, heard: Heard) -> None:
        """What breaks a rule; requests that only count need not say how long the reply may be."""
        found = [
            one
            for one in (*validate(self.body, self._target()), *self._forged(heard))
            if one.rule != "body-bytes"
            and not (self.only_counts and one.rule == "max-tokens-required")
        ]
        if not heard.model:
            found.append(Violation("model-required", "model: Field required", "model"))
        self.violations = tuple(found)

    def _judge(self, heard: Heard) -> None:
        self._look(heard)
        if self.violations:
            raise _Refused(self.wire.refused(self.violations[0]))

    def _forged(self, heard: Heard) -> Iterable[Violation]:
        """Thinking that was changed after it was signed, or signed for another model."""
        if heard.dialect != "anthropic":
            return
        for at, piece in enumerate(heard.pieces):
            for block in piece.blocks:
                if not isinstance(block, Thinking) or block.redacted:
                    continue
                is_ours = is_signed_here(block.signature)
                if block.signature == sign(heard.model, block.text):
                    continue
                if is_ours or self.loopback.checks_foreign_signatures:
                    quote = f"messages: Invalid `signature` in `thinking` block (piece {at})"
                    yield Violation("thinking-signature", quote, "messages")

    def _check_size(self, heard: Heard) -> None:
        most = self.loopback.output_max
        if most and heard.output_max > most:
            raise _Refused(self.wire.over_output(heard.output_max, most, heard.model))
        if self.tokens + heard.output_max > self.limit:
            raise _Refused(self.wire.over_limit(self.tokens, heard.output_max, self.limit))

    def _asked(self, heard: Heard) -> Asked:
        return Asked(
            number=self.number,
            dialect=heard.dialect,
            model=heard.model,
            prompt=heard.prompt,
            body=self.body,
            tokens=self.tokens,
            output_max=heard.output_max,
            is_streamed=heard.is_streamed,
            thinks=heard.thinks,
        )

    # Faults instead of a reply

    def _struck(self, fault: Fault) -> Outgoing:
        if fault.resets:
            return outgoing.reset(fault.seconds)
        headers = {**self.reply_headers, **fault.headers}
        if fault.body is not None:
            return outgoing.whole(fault.status, headers, fault.body, wait=fault.seconds)
        assert fault.failure is not None
        failure = self._told(fault.failure)
        data = self._error(failure)
        return outgoing.whole(fault.status or failure.status, headers, data, wait=fault.seconds)

    def _told(self, failure: Failure) -> Failure:
        """A failure in the provider's words where it has none, with the numbers of the request."""
        output = self.heard.output_max if self.heard else 0
        total, claimed = self.tokens + output, self.fault.claims if self.fault else 0
        # Who says that a request is too large names a window that is too small for it.
        limit = claimed or (self.limit if total > self.limit else max(1, total - 1))
        if not failure.message and failure.status == 413:
            failure = self.wire.too_large()
        elif not failure.message:
            failure = self.wire.over_limit(self.tokens, output, limit)
        self.failure = failure.told(Sizes(self.tokens, output, limit))
        return self.failure

    def _fail(self, failure: Failure) -> Outgoing:
        self.failure = failure
        return outgoing.whole(failure.status, self.reply_headers, self._error(failure))

    def _error(self, failure: Failure) -> bytes:
        return msgspec.json.encode(self.wire.error(failure, f"req_{self.number:06d}"))

    def _counted(self) -> Outgoing:
        data: Json = {"input_tokens": self.tokens}
        if self.dialect == "openai-responses":
            data["object"] = "response.input_tokens"
        return outgoing.whole(200, self.reply_headers, msgspec.json.encode(data))

    # A reply, and what a fault makes of it

    def _speak(self, heard: Heard, asked: Asked) -> Outgoing:
        fault = self.fault or Fault(name="")
        answer = self.loopback.brain(asked)
        if fault.change:
            answer = fault.change(answer)
        answer = _with_stage(answer, fault, asked)
        self.said = answer = self._within(answer, heard)
        self.cached = self.loopback.caches.request(heard, self.sums)
        spoken = self._spoken(answer, heard, fault)
        wait = answer.delay + (0.0 if fault.hangs_after and heard.is_streamed else fault.seconds)
        if heard.is_streamed:
            return self._stream(spoken, answer, fault, wait)
        if fault.breaks and fault.breaks.ending == "error" and fault.failure:
            failure = self._told(fault.failure)
            return outgoing.whole(
                failure.status, self.reply_headers, self._error(failure), wait=wait
            )
        data = msgspec.json.encode(self.wire.reply(spoken))
        headers = {**self.reply_headers, **fault.headers}
        if fault.cuts_gzip:
            return outgoing.cut_gzip(200, headers, data, wait=wait)
        if fault.breaks:
            return outgoing.broken(200, headers, data, fault)
        return outgoing.whole(200, headers, data, wait=wait)

    def _stream(self, spoken: Spoken, answer: Answer, fault: Fault, wait: float) -> Outgoing:
        headers = {"content-type": outgoing.STREAM_TYPE, **self.reply_headers, **fault.headers}
        events = list(self.wire.events(spoken))
        if fault.cuts_gzip:
            data = b"".join(event.data for event in events)
            return outgoing.cut_gzip(200, headers, data, wait=wait)
        parts: list[bytes | Wait]
        ending: outgoing.Ending = "end"
        if fault.breaks:
            sent = outgoing.amid(events, fault.breaks.after)
            events = events[:sent]
            if fault.breaks.ending == "error" and fault.failure:
                data = self.wire.error_event(self._told(fault.failure), spoken, sent)
                events.append(Event("other", data))
            elif fault.breaks.ending in ("drop", "reset"):
                ending = "drop" if fault.breaks.ending == "drop" else "reset"
        parts = list(outgoing.paced(events, answer.pause))
        if fault.hangs_after:
            done = outgoing.amid(events, fault.hangs_after) * (2 if answer.pause else 1)
            parts.insert(done, Wait(fault.seconds))
        return Outgoing(status=200, headers=headers, parts=tuple(parts), ending=ending, wait=wait)

    def _spoken(self, answer: Answer, heard: Heard, fault: Fault) -> Spoken:
        counter, factor = self.loopback.counter_for(heard.model), self.loopback.factor
        thinking = answer.thinking if self._shows_thinking(heard) else ""
        calls = tuple(self._with_id(call, at) for at, call in enumerate(answer.calls))
        thought = math.ceil(counter.count(thinking) * factor)
        output = thought + math.ceil(_tokens(answer, counter) * factor)
        counts: Counts | None = Counts(
            self.tokens,
            self.cached.read,
            self.cached.written,
            self.cached.written_1h,
            max(1, output),
            thought,
        )
        assert counts is not None
        before = self.loopback.add_up(counts)
        if fault.recount:
            sizes = Sizes(self.tokens, heard.output_max, self.limit, before.prompt, before.output)
            counts = fault.recount(counts, sizes)
        return Spoken(
            id=self.id,
            model=heard.model,
            created=int(self.loopback.now()),
            stop=answer.stop or ("tools" if calls else "end"),
            thinking=thinking,
            text=answer.text,
            calls=calls,
            counts=counts,
            body=self.body,
        )

    def _shows_thinking(self, heard: Heard) -> bool:
        if heard.dialect == "openai-chat":
            return bool(self._target().dialect.replays_thinking)
        return heard.thinks

    def _with_id(self, call: Call, at: int) -> Call:
        if call.id:
            return call
        assert self.heard is not None
        chain = self.heard.chain()[-1]
        digest = hashlib.sha256(chain + str(at).encode()).hexdigest()
        if self._target().flavour == "mistral":
            made = digest[:9]
        else:
            made = f"{'toolu' if self.dialect == 'anthropic' else 'call'}_{digest[:24]}"
        return msgspec.structs.replace(call, id=made)

    def _within(self, answer: Answer, heard: Heard) -> Answer:
        """The answer as far as the request gives it room."""
        counter, factor = self.loopback.counter_for(heard.model), self.loopback.factor
        room = heard.output_max or max(1, self.limit - self.tokens)
        if math.ceil(_tokens(answer, counter) * factor) <= room:
            return answer
        fewer: tuple[Call, ...] = answer.calls
        while fewer:
            fewer = fewer[:-1]
            shorter = msgspec.structs.replace(answer, calls=fewer, stop="length")
            if math.ceil(_tokens(shorter, counter) * factor) <= room:
                return shorter
        text = _cut_to(answer.text, int(room / factor), counter)
        return msgspec.structs.replace(answer, text=text, calls=(), stop="length")


def _tokens(answer: Answer, counter: Counter) -> int:
    """What an answer takes of the output, without its thinking."""
    calls = (ToolCall(call.id, call.name, call.arguments) for call in answer.calls)
    return counter.count(answer.text) + sum(count_block(call, counter) for call in calls)


def _cut_to(text: str, tokens: int, counter: Counter) -> str:
    """The longest beginning of a text that has no more than so many tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _with_stage(answer: Answer, fault: Fault, asked: Asked) -> Answer:
    """The answer with what the fault needs to strike: some text, or a call."""
    after = fault.hangs_after or (fault.breaks.after if fault.breaks else None)
    if after == "text" and len(answer.text) < 2:
        return msgspec.structs.replace(answer, text="Let me see what there is.")
    if after == "call" and not answer.calls:
        name = asked.tools[0].name if asked.tools else "read_file"
        call = Call(name, {"path": "src/holdfast/core/projection.py", "lines": [1, 205]})
        return msgspec.structs.replace(answer, calls=(call,))
    return answer


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
