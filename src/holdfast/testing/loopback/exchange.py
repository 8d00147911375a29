"""One request on its way to a reply: read, judged, answered, and what a fault makes of it."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.rule import Violation
from holdfast.core.dialects.registry import IMITATED, validate_body
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.testing.loopback import outgoing
from holdfast.testing.loopback.anthropic_wire import AnthropicWire
from holdfast.testing.loopback.asking import Answer, Asked, Call
from holdfast.testing.loopback.binding import (
    Judged,
    Ledger,
    Reasoning,
    Replying,
    Request,
    Thought,
    find_binding,
)
from holdfast.testing.loopback.binding.judging import REASONING_RULES
from holdfast.testing.loopback.caching import Cached
from holdfast.testing.loopback.chat_wire import ChatWire
from holdfast.testing.loopback.faults import Counts, Fault, Sizes, WireFailure
from holdfast.testing.loopback.gemini_wire import GeminiWire
from holdfast.testing.loopback.outgoing import Outgoing, Wait
from holdfast.testing.loopback.reading import Heard, read_request
from holdfast.testing.loopback.responses_wire import ResponsesWire
from holdfast.testing.loopback.speaking import Event, Spoken, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.ports import Clock
    from holdfast.testing.loopback.asking import Brain
    from holdfast.testing.loopback.caching import Caches
    from holdfast.testing.loopback.rules import Faults, Rules


_PATHS: Final[dict[str, tuple[str, bool]]] = {
    "/messages": ("anthropic", False),
    "/messages/count_tokens": ("anthropic", True),
    "/chat/completions": ("openai-chat", False),
    "/responses": ("openai-responses", False),
    "/responses/input_tokens": ("openai-responses", True),
    "/responses/compact": ("openai-responses", False),
    ":generateContent": ("gemini", False),
    ":streamGenerateContent": ("gemini", False),
    ":countTokens": ("gemini", True),
}
"""Address endings → dialect, and whether the call only counts."""


def find_dialect(path: str) -> tuple[str | None, bool]:
    """The dialect of an address, whatever stands before its ending."""
    for ending, (dialect, only_counts) in _PATHS.items():
        if path.rstrip("/").endswith(ending):
            return dialect, only_counts
    return None, False


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request, what was found in it and what was answered."""

    number: int
    """From 1, in the order of arrival."""
    dialect: str | None
    """None for an address that no one serves."""
    path: str
    """The path of the address."""
    headers: dict[str, str]
    """With small names."""
    body: Json
    """Empty where it was not a JSON object."""
    bytes: int
    """The size of the body."""
    model: str = ""
    """The model that it names."""
    is_streamed: bool = False
    """True if the reply was to be streamed."""
    only_counts: bool = False
    """True if it asks for a count of tokens alone."""
    tokens: int = 0
    """All input, as the loopback counts it."""
    output_max: int = 0
    """Tokens asked for the reply; 0 if none were."""
    reserved: int = 0
    """Tokens of it that the loopback reserves: all, unless told otherwise."""
    limit: int = 0
    """The window that the loopback held it to, in tokens."""
    cached: Cached = Cached()
    """Tokens that the cache gave and took."""
    reasoning: Reasoning = Reasoning()
    """Reasoning of earlier replies in it, and what the provider made of that."""
    violations: tuple[Violation, ...] = ()
    """Rules of the provider that it breaks."""
    fault: str = ""
    """The name of the fault that struck it."""
    answer: Answer | None = None
    """The brain's answer, as sent."""
    status: int = 0
    """0 where the connection was reset before a reply."""
    said: str = ""
    """The error that was answered, amid a stream too."""

    @property
    def is_over(self) -> bool:
        """Return whether it asks for more than the window, the room for the reply included."""
        return not self.only_counts and self.tokens + self.reserved > self.limit

    @property
    def is_answered(self) -> bool:
        """Return whether the brain's answer went out, whole or not."""
        return self.answer is not None


_NO_FAULT: Final = Fault(name="")
_FILLER: Final = "Let me see what there is."


class Refused(Exception):
    """The request is not answered, and this is why."""

    def __init__(self, failure: WireFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Services(msgspec.Struct, frozen=True):
    """Services shared by all exchanges of a loopback."""

    brain: Brain
    rules: Rules
    caches: Caches
    faults: Faults
    clock: Clock
    add_up: Callable[[Counts], Counts]
    """Remembers what an answer took and gives what the earlier ones took."""
    ledger: Ledger
    """The replies with reasoning so far."""


class Exchange:
    """One request on its way to a reply."""

    def __init__(
        self, shared: Services, number: int, path: str, headers: dict[str, str], raw: bytes
    ) -> None:
        self.shared = shared
        self.rules = shared.rules
        self.number = number
        self.path = path
        self.headers = headers
        self.raw = raw
        self.dialect, self.only_counts = find_dialect(path)
        self.wire = _wire(self.dialect, self.rules)
        self.body: Json = {}
        self.heard: Heard | None = None
        self.sums: list[int] = []
        self.binding = find_binding(self.dialect) if self.dialect else None
        self.judged = Judged()
        self.violations: tuple[Violation, ...] = ()
        self.fault = _NO_FAULT
        self.cached = Cached()
        self.said: Answer | None = None
        self.instead: Json | None = None
        self.failure: WireFailure | None = None

    def record(self, status: int) -> Received:
        """Return the record of the exchange."""
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
            output_max=self.output_max,
            reserved=self.reply_reserve,
            limit=self.limit,
            cached=self.cached,
            reasoning=self._reasoning(),
            violations=self.violations,
            fault=self.fault.name,
            answer=self.said,
            status=status,
            said=self.failure.message if self.failure else "",
        )

    def _reasoning(self) -> Reasoning:
        """Return what became of the reasoning in the request."""
        judged, is_refused = self.judged, self.failure is not None and not self.fault.name
        rules = [item.rule for item in self.violations if item.rule in REASONING_RULES]
        refused = rules[0] if is_refused and rules else ""
        return Reasoning(
            refused=refused,
            valid=() if refused else judged.valid,
            dropped=() if refused else judged.dropped,
            allowed=() if refused else judged.allowed,
            withheld=judged.withheld,
        )

    @property
    def tokens(self) -> int:
        return self.sums[-1] if self.sums else 0

    @functools.cached_property
    def digests(self) -> list[bytes]:
        """Made once: they cost more than anything else here."""
        return self.heard.chain() if self.heard else []

    @property
    def output_max(self) -> int:
        return self.heard.output_max if self.heard else 0

    @property
    def reply_reserve(self) -> int:
        """Return the tokens that the reply reserves in the window. Gemini limits only its input."""
        return self.output_max if self.rules.reserves_output and self.wire.reserves_output else 0

    @property
    def limit(self) -> int:
        return self.rules.limit_for(self.heard.model if self.heard else "")

    @property
    def reply_headers(self) -> dict[str, str]:
        return {self.wire.request_header: self.request_id, **self.fault.headers}

    @property
    def request_id(self) -> str:
        return f"req_{self.number:06d}"

    def answer(self, method: str) -> Outgoing:
        """The reply. What the brain raises is raised on."""
        try:
            return self._answer(method)
        except Refused as refused:
            return self.fail(refused.failure)

    def fail(self, failure: WireFailure) -> Outgoing:
        self.failure = failure
        return outgoing.whole(failure.status, self.reply_headers, self._error(failure))

    def _answer(self, method: str) -> Outgoing:
        if self.dialect is None or method != "POST":
            raise Refused(WireFailure(f"{method} {self.path}: nothing is served here", 404))
        heard = self._read(self.dialect)
        self._look(heard)
        if self.only_counts:
            self._refuse_violations()
            data = msgspec.json.encode(self.wire.count(self.tokens))
            return outgoing.whole(200, self.reply_headers, data)
        asked = self._question(heard)
        fault = self.shared.faults.take(asked)
        self.fault = fault or _NO_FAULT
        if self.fault.is_reply:
            return self._fail()
        try:
            self._refuse_violations()
            if not self.fault.takes_any_size:
                self._check_size(heard)
        except Refused:
            if fault:
                self.shared.faults.put_back(fault)
            self.fault = _NO_FAULT
            raise
        return self._speak(heard, asked)

    # Reading and judging

    def _read(self, dialect: str) -> Heard:
        if self.rules.api_key and self.key != self.rules.api_key:
            raise Refused(WireFailure("invalid x-api-key", 401, code="invalid_api_key"))
        body = self._json()
        self.body = body if isinstance(body, dict) else {}
        assert self.binding is not None
        self.heard = read_request(dialect, self.binding.expand(self.body), self.path)
        self.sums = self.rules.sums(self.heard)
        limit = self.rules.bytes_for(dialect)
        if limit and len(self.raw) > limit:
            self._break("body-bytes", f"{len(self.raw)} > {limit} bytes")
            raise Refused(self.wire.too_large())
        if not isinstance(body, dict):
            raise Refused(self._break("request-shape", "the body is not an object"))
        return self.heard

    def _json(self) -> object:
        try:
            return json.loads(self.raw, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            said = f"The request body is not valid JSON: {error}"
            raise Refused(self._break("request-shape", said)) from None

    def _break(self, rule: str, quote: str) -> WireFailure:
        self.violations = (*self.violations, Violation(rule, quote, ""))
        return WireFailure(quote)

    def _look(self, heard: Heard) -> None:
        """Everything that breaks a rule."""
        passed = {"body-bytes"}  # judged already, by our own limit and by what really came in
        if self.only_counts:
            passed.add("max-tokens-required")
        assert self.binding is not None
        passed |= self.binding.judges
        found = validate_body(heard.body, self.rules.target(heard))
        self.judged = self.binding.judge(self.asking, self.shared.ledger)
        self.violations = (
            *(item for item in found if item.rule not in passed),
            *(item.violation for item in self.judged.broken),
        )
        if not heard.model:
            self._break("model-required", "model: Field required")

    def _refuse_violations(self) -> None:
        if not self.violations:
            return
        first = self.violations[0]
        for item in self.judged.broken:
            if item.violation == first:
                raise Refused(item.failure)
        raise Refused(self.wire.refusal(first))

    @property
    def key(self) -> str:
        """Return the API key of the request."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        keys = (self.headers.get(name) for name in ("x-api-key", "x-goog-api-key"))
        return next(filter(None, keys), bearer)

    @property
    def asking(self) -> Request:
        """Return what the rules about reasoning look at."""
        assert self.dialect is not None
        return Request(
            number=self.number,
            model=self.heard.model if self.heard else "",
            body=self.body,
            headers=self.headers,
            key=self.key,
            account=self.rules.accounts.get(self.key, self.key),
            variant=self.rules.dialect(self.dialect).variant,
            tokens=self.tokens,
            is_old_account=self.rules.is_old_account,
            checks_foreign=self.rules.checks_foreign_signatures,
            path=self.path.rstrip("/"),
        )

    def _check_size(self, heard: Heard) -> None:
        most = self.rules.output_max
        if most and heard.output_max > most:
            raise Refused(self.wire.over_output(heard.output_max, most, heard.model))
        if self.tokens + self.reply_reserve > self.limit:
            raise Refused(self.wire.over_limit(self.tokens, heard.output_max, self.limit))

    def _question(self, heard: Heard) -> Asked:
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

    def _fail(self) -> Outgoing:
        fault = self.fault
        if fault.resets:
            return outgoing.reset(fault.seconds)
        if fault.body is not None:
            status, data = fault.status, fault.body
        else:
            failure = self._failure()
            status, data = fault.status or failure.status, self._error(failure)
        return outgoing.whole(status, self.reply_headers, data, wait=fault.seconds)

    def _failure(self) -> WireFailure:
        """Return the failure of the fault, by default in the provider's own words."""
        failure, output = self.fault.failure, self.output_max
        assert failure is not None
        total, claims = self.tokens + output, self.fault.claims
        # Who says that a request is too large names a window that is too small for it.
        limit = claims or (self.limit if total > self.limit else max(1, total - 1))
        match failure.about:
            case "bytes":
                failure = self.wire.too_large()
            case "window":
                failure = self.wire.over_limit(self.tokens, output, limit)
            case "output":
                model = self.heard.model if self.heard else ""
                failure = self.wire.over_output(output, claims or max(1, output // 2), model)
        self.failure = failure.with_sizes(Sizes(self.tokens, output, limit))
        return self.failure

    def _error(self, failure: WireFailure) -> bytes:
        return msgspec.json.encode(self.wire.error(failure, self.request_id))

    # A reply, and what a fault makes of it

    def _speak(self, heard: Heard, asked: Asked) -> Outgoing:
        fault = self.fault
        self.said, thought = self._answer_of(self.shared.brain(asked), heard, asked)
        self.cached = self.shared.caches.request(heard, self.sums, self.digests)
        spoken = self._speak_answer(self.said, heard, thought)
        if self.instead is not None:
            return outgoing.whole(200, self.reply_headers, msgspec.json.encode(self.instead))
        hangs_first = not (fault.hangs_after and heard.is_streamed)
        wait = self.said.delay + (fault.seconds if hangs_first else 0.0)
        if heard.is_streamed:
            return self._stream(spoken, self.said, wait)
        ending = fault.breaks.ending if fault.breaks else "end"
        if ending == "error":
            failure = self._failure()
            data = self._error(failure)
            return outgoing.whole(failure.status, self.reply_headers, data, wait=wait)
        data = msgspec.json.encode(self.wire.reply(spoken))
        if fault.cuts_gzip:
            return outgoing.cut_gzip(self.reply_headers, data[: len(data) // 2], wait=wait)
        if fault.breaks:
            return outgoing.cut_short(self.reply_headers, data, ending, wait=wait)
        return outgoing.whole(200, self.reply_headers, data, wait=wait)

    def _answer_of(self, answer: Answer, heard: Heard, asked: Asked) -> tuple[Answer, Thought]:
        """Return the brain's answer with the fault's changes, as far as it fits."""
        if self.fault.change:
            answer = self.fault.change(answer)
        answer = _with_stage(answer, self.fault, asked)
        assert self.binding is not None
        thought = self.binding.think(answer, self.asking)
        calls = tuple(self._with_id(call, at, heard) for at, call in enumerate(answer.calls))
        answer = msgspec.structs.replace(answer, calls=calls, thinking=thought.text)
        left = max(1, self.limit - self.tokens)
        if self.fault.takes_any_size:
            left = max(left, heard.output_max)
        return self.rules.within(answer, heard.output_max, left, heard.model), thought

    def _with_id(self, call: Call, at: int, heard: Heard) -> Call:
        if call.id:
            return call
        digest = hashlib.sha256(self.digests[-1] + str(at).encode()).hexdigest()
        if self.rules.dialect(heard.dialect).variant == "mistral":
            made = digest[:9]
        else:
            made = f"{self.wire.call_prefix}_{digest[:24]}"
        return msgspec.structs.replace(call, id=made)

    def _speak_answer(self, answer: Answer, heard: Heard, thought: Thought) -> Spoken:
        counts = Counts(
            self.tokens,
            self.cached.read,
            self.cached.written,
            self.cached.written_1h,
            max(1, self.rules.answer_tokens(answer, heard.model)),
            self.rules.text_tokens(answer.thinking, heard.model),
        )
        before = self.shared.add_up(counts)
        told: Counts | None = counts
        if self.fault.recount:
            sizes = Sizes(self.tokens, heard.output_max, self.limit, before.prompt, before.output)
            told = self.fault.recount(counts, sizes)
        reply_id = f"{self.number:06d}{self.digests[-1].hex()[:14]}"
        assert self.binding is not None
        replying = Replying(
            request=self.asking,
            judged=self.judged,
            thought=thought,
            reply_id=reply_id,
            ledger=self.shared.ledger,
            is_lost=bool(self.fault.breaks or self.fault.cuts_gzip),
        )
        composed = self.binding.compose(answer, replying)
        self.instead = composed.instead
        return Spoken(
            id=reply_id,
            model=heard.model,
            created=int(self.shared.clock()),
            stop=answer.stop or ("tools" if answer.calls else "end"),
            thinking=answer.thinking,
            text="" if composed.is_all else answer.text,
            calls=() if composed.is_all else answer.calls,
            counts=told,
            body=self.body,
            thoughts=composed.thoughts,
            notes=composed.notes,
            signature=composed.signature,
            report=composed.report,
        )

    def _stream(self, spoken: Spoken, answer: Answer, wait: float) -> Outgoing:
        fault, breaks = self.fault, self.fault.breaks
        headers = {"content-type": outgoing.STREAM_TYPE, **self.reply_headers}
        events = list(self.wire.events(spoken))
        if fault.cuts_gzip:
            begun = events[: outgoing.amid(events, "text")]
            data = b"".join(event.data for event in begun)
            return outgoing.cut_gzip(headers, data, wait=wait)
        ending: outgoing.Ending = "end"
        if breaks:
            events = events[: outgoing.amid(events, breaks.after)]
            if breaks.ending == "error":
                data = self.wire.error_event(self._failure(), spoken, len(events))
                events.append(Event("other", data))
            else:
                ending = breaks.ending
        parts: list[bytes | Wait] = list(outgoing.pace(events, answer.pause))
        if fault.hangs_after:
            done = outgoing.amid(events, fault.hangs_after) * (2 if answer.pause else 1)
            parts.insert(done, Wait(fault.seconds))
        return Outgoing(status=200, headers=headers, parts=tuple(parts), ending=ending, wait=wait)


_WIRES: Final[Mapping[str, Callable[[str], Wire]]] = {
    "anthropic": lambda _variant: AnthropicWire(),
    "openai-chat": ChatWire,
    "openai-responses": lambda _variant: ResponsesWire(),
    "gemini": lambda _variant: GeminiWire(),
}


def _wire(dialect: str | None, rules: Rules) -> Wire:
    """Return who writes the replies of a dialect; an unknown path is answered as most servers
    would."""
    name = dialect or IMITATED
    return _WIRES[name](rules.dialect(name).variant)


def _with_stage(answer: Answer, fault: Fault, asked: Asked) -> Answer:
    """The answer with what the fault needs to strike: some text, or a call."""
    after = fault.hangs_after or (fault.breaks.after if fault.breaks else None)
    if after == "text" and len(answer.text) < 2:
        return msgspec.structs.replace(answer, text=_FILLER)
    if after == "call" and not answer.calls:
        name = asked.tools[0].name if asked.tools else "read_file"
        call = Call(name, {"path": "notes/what-was-decided.md", "first_line": 1})
        return msgspec.structs.replace(answer, calls=(call,))
    return answer


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
