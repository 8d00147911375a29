"""Ways to keep a conversation inside its window, for the simulator to compare.

Each policy starts a course through one transcript; the course says, call by call, what would be
sent. Only `Holdfast` is the real thing: it runs the projection that a session runs. The others are
what people do without it, as well as that can be done.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.dialects.registry import render_body, validate_body
from holdfast.core.log.records import Assistant, Compaction
from holdfast.core.models.messages import Text
from holdfast.core.projection.policy import POLICIES, Policy, policy_of
from holdfast.core.projection.project import project
from holdfast.core.projection.prune import can_clear, clear
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.units import ContextUnit
from holdfast.core.projection.view import ProjectionCache, turns_of
from holdfast.core.text.fences import SUMMARY_LABEL
from holdfast.core.text.typed import convert_typed
from holdfast.engine.simulation.transcripts import TranscriptPiece
from holdfast.errors import BadSetting, CannotFit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Message
    from holdfast.core.projection.project import Plan
    from holdfast.core.window import Window
    from holdfast.engine.simulation.prompt_cache import CacheRules
    from holdfast.engine.simulation.transcripts import ReplayCall, Transcript


def read_policy(path: str) -> Policy:
    """Return the policy of a TOML or JSON file, or by its name where there is no such file. Raises
    `UsageError` or `BadSetting`."""
    if path in POLICIES and not Path(path).exists():
        return POLICIES[path]
    try:
        text = Path(path).read_text("utf-8")
        given: Any = msgspec.json.decode(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read the policy `{path}`: {error.strerror}",
            hint=f"pass a file that is there, or a name: {', '.join(POLICIES)}",
        ) from error
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the policy `{path}` cannot be read: {error}",
            hint='write thresholds as TOML, or as JSON in a file that ends with ".json"',
        ) from error
    if not isinstance(given, dict):
        raise UsageError(f"the policy `{path}` is not a table", hint="write `compact = 0.9`")
    return policy_from(given)


def policy_from(given: Json | str, base: Policy | None = None) -> Policy:
    """Return a policy by its name, or with some thresholds other than those of `base`; a `name`
    among them names another base. Raises `BadSetting`."""
    if isinstance(given, str):
        return policy_of(given)
    known = ("name", *Policy.__struct_fields__)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise BadSetting(
            f"a policy has no threshold `{unknown[0]}`", hint=f"thresholds: {', '.join(known)}"
        )
    changed = dict(given)
    base = policy_of(changed.pop("name")) if "name" in changed else base or Policy()
    try:
        return convert_typed({**msgspec.structs.asdict(base), **changed}, Policy)
    except msgspec.ValidationError as error:
        raise BadSetting(f"the policy cannot be used: {error}") from error


class Terms(msgspec.Struct, frozen=True):
    """The conditions that all policies of a comparison work under."""

    window: Window
    """The model's window."""
    static: int
    """Tokens of the system prompt and the tools."""
    output: int | None
    """Tokens that the reply may take; None for the default share of the window."""
    budget: int
    """Tokens left for messages, with our margins."""
    limit: int
    """Tokens of messages that the provider takes beside the static part and the reply."""
    rules: CacheRules
    """The behaviour and the prices of the prompt cache."""
    output_price: float
    """Of a token that a model writes, in plain input tokens."""


class PolicyRequest(msgspec.Struct, frozen=True):
    """The request that a policy would send."""

    pieces: Sequence[TranscriptPiece]
    """The blocks of its messages, in order."""
    injected: str = ""
    """Text that the policy put in front; the first piece, if any."""
    model_cost: float = 0.0
    """Of model calls that the policy made for itself, in plain input tokens."""
    is_valid: bool = True
    """True if a provider would take it."""
    is_refused: bool = False
    """The policy found that nothing would fit, and said so."""
    cuts: int = 0
    """Compactions that were made for it."""
    prunes: int = 0
    """Times that results were shortened for it."""
    decisions: Sequence[Record] = ()
    """The compactions and prunes that the request is the first to follow."""


class Course(Protocol):
    """One policy on its way through one transcript."""

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        """Build the request for a call; `idle` is the time since the one before."""


class Plays(Protocol):
    """A policy that can be simulated."""

    @property
    def name(self) -> str:
        """For tables."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        """Begin at the first call."""


class DoNothing(msgspec.Struct, frozen=True):
    """Send everything."""

    name: str = "do nothing"
    """The name of the policy in a table."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        del terms
        return _Suffix(transcript, lambda _call: 0)


class KeepTurns(msgspec.Struct, frozen=True):
    """Send the newest turns, by number."""

    turns: int = 20
    """Number of units that are sent."""
    unit: str = "turns"
    """`turns`, or `steps` where a turn may be taken apart."""

    @property
    def name(self) -> str:
        return f"keep the last {self.turns} {self.unit}"

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        del terms

        def first(call: ReplayCall) -> int:
            if self.unit == "turns":
                starts = turns_of(call.units)
            else:
                starts = [i for i, unit in enumerate(call.units) if not unit.is_user]
            return starts[-self.turns] if len(starts) > self.turns else 0

        return _Suffix(transcript, first)


class TrimTokens(msgspec.Struct, frozen=True):
    """Send the newest messages that fit, at every call again."""

    name: str = "token trim"
    """The name of the policy in a table."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        def first(call: ReplayCall) -> int:
            return _tail(transcript, call.units, terms.budget)

        return _Suffix(transcript, first)


class ClearResults(msgspec.Struct, frozen=True):
    """Clear all old tool results at once when the view is nearly full; drop what is oldest behind.

    Decisions stay, and the next batch comes when the view is full again.
    """

    engage: float = 0.9
    """The share of the budget at which it clears."""
    older_than: int = 8
    """Number of newest units whose results stay."""
    low: float = 0.6
    """The level at which dropping ends, when clearing was not enough."""
    name: str = "clear tool results"
    """The name of the policy in a table."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        return _Clearing(transcript, terms, self)


class Compact(msgspec.Struct, frozen=True):
    """Full history, and a model's summary of all but the newest when it is nearly full.

    The summary call rides the cached prefix: it reads what is there and pays for what it writes.
    A summary holds a share of the facts that were cut; which ones is decided by a hash, so that a
    fact once held stays held. Real summaries held 19 to 28 % of the facts that later calls used.
    """

    engage: float = 0.85
    """Of the window, with the static part."""
    summary_tokens: int = 4_000
    """The size of a summary."""
    keep_tokens: int = 20_000
    """The size of the newest part that stays whole."""
    keep_share: float = 0.4
    """Of the budget, where that is less."""
    holds: float = 0.25
    """The share of facts that a summary holds."""
    pays_output: bool = True
    """True if the tokens of the summary are paid for."""
    name: str = "compact with a summary"
    """The name of the policy in a table."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        return _Compacting(transcript, terms, self)


class Holdfast(msgspec.Struct, frozen=True):
    """The policy of a Holdfast session: the projection itself, with decisions written to a log."""

    policy: Policy = Policy()
    """The thresholds of the projection."""
    is_judged: bool = True
    """True if every request is rendered and judged by the provider's rules."""
    reports_usage: bool = True
    """True if every reply reports the size of its request, as providers do."""
    name: str = "holdfast"
    """The name of the policy in a table."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        return _Projecting(transcript, terms, self)


class _Suffix:
    """Policies that send the units from some index on, without repairing anything."""

    def __init__(self, transcript: Transcript, first: _First) -> None:
        self._transcript = transcript
        self._first = first

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        del idle
        units = call.units[self._first(call) :]
        pieces = self._transcript.pieces(units)
        return PolicyRequest(pieces, is_valid=_is_valid(units, call))


class _First(Protocol):
    def __call__(self, call: ReplayCall, /) -> int: ...


class _Clearing:
    def __init__(self, transcript: Transcript, terms: Terms, policy: ClearResults) -> None:
        self._transcript = transcript
        self._terms = terms
        self._policy = policy
        self._cleared = 0
        self._dropped = 0
        self._forms: dict[int, tuple[ContextUnit, ContextUnit]] = {}

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        del idle
        budget, prunes, cuts = self._terms.budget, 0, 0
        total = self._transcript.tokens(self._clear_units(call.units))
        if total > self._policy.engage * budget:
            before = self._cleared
            self._cleared = max(before, len(call.units) - self._policy.older_than)
            prunes = int(self._cleared > before)
            shown = self._clear_units(call.units)
            if self._transcript.tokens(shown) > self._policy.engage * budget:
                room = int(self._policy.low * budget)
                self._dropped += _tail(self._transcript, shown, room)
                cuts = 1
        units = self._clear_units(call.units)
        is_valid = _is_valid(units, call)
        pieces = self._transcript.pieces(units)
        return PolicyRequest(pieces, is_valid=is_valid, prunes=prunes, cuts=cuts)

    def _clear_units(self, units: Sequence[ContextUnit]) -> list[ContextUnit]:
        old = [self._clear(unit) for unit in units[self._dropped : self._cleared]]
        return [*old, *units[max(self._dropped, self._cleared) :]]

    def _clear(self, unit: ContextUnit) -> ContextUnit:
        found = self._forms.get(id(unit))
        if found is None:
            parts = tuple(clear(part) if can_clear(part) else part for part in unit.parts)
            found = self._forms[id(unit)] = (unit, ContextUnit(parts))
        return found[1]


class _Compacting:
    def __init__(self, transcript: Transcript, terms: Terms, policy: Compact) -> None:
        self._transcript = transcript
        self._terms = terms
        self._policy = policy
        self._first = 0
        self._summary: TranscriptPiece | None = None

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        transcript, terms, policy = self._transcript, self._terms, self._policy
        units = call.units[self._first :]
        total = transcript.tokens(units) + (self._summary.tokens if self._summary else 0)
        cost, cuts = 0.0, 0
        if total > min(int(policy.engage * terms.window.tokens) - terms.static, terms.limit):
            keep = min(policy.keep_tokens, int(policy.keep_share * terms.budget))
            gone = _tail(transcript, units, keep)
            if gone:
                self._first += gone
                self._summary = self._summarise(call.units[: self._first])
                cost, cuts = self._cost(total, idle, call.rules or terms.rules), 1
        pieces = transcript.pieces(call.units[self._first :])
        if self._summary is None:
            return PolicyRequest(pieces, is_valid=_is_valid(call.units, call))
        is_valid = _is_valid(call.units[self._first :], call, has_opening=True)
        return PolicyRequest(
            [self._summary, *pieces],
            injected="summary",
            model_cost=cost,
            is_valid=is_valid,
            cuts=cuts,
        )

    def _summarise(self, units: Sequence[ContextUnit]) -> TranscriptPiece:
        held: set[int] = set()
        for piece in self._transcript.pieces(units):
            held |= piece.facts
        names = self._transcript.fact_names
        kept = frozenset(fact for fact in held if _luck(names[fact]) < self._policy.holds)
        key = b"summary %d" % self._first
        return TranscriptPiece(key, self._policy.summary_tokens, kept, is_original=False)

    def _cost(self, total: int, idle: float | None, rules: CacheRules) -> float:
        static = self._terms.static
        is_warm = idle is not None and (rules.ttl_seconds is None or idle <= rules.ttl_seconds)
        if is_warm:
            read = (total + static) * rules.read
        else:
            # It writes everything, and the request after it finds the static part in the cache:
            # what the replay charges for that a second time is given back here.
            read = (total + static) * rules.write - static * (rules.write - rules.read)
        written = self._policy.summary_tokens * self._terms.output_price
        return read + (written if self._policy.pays_output else 0.0)


class _Projecting:
    def __init__(self, transcript: Transcript, terms: Terms, policy: Holdfast) -> None:
        self._transcript = transcript
        self._terms = terms
        self._policy = policy
        self._cache = ProjectionCache(Scale(transcript.counter))
        self._system = filler(transcript, terms.static)
        self._log: list[Record] = []
        self._read = 0
        self._decided = 0
        self._sent = 0

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        fresh = self._transcript.records[self._read : call.records]
        self._log += report_usage(fresh, self._sent if self._policy.reports_usage else 0)
        self._read, self._sent = call.records, 0
        rules, terms = call.rules or self._terms.rules, self._terms
        request = ProjectionRequest(
            self._log,
            terms.window,
            self._transcript.target,
            system=self._system,
            output_tokens=terms.output,
            policy=self._policy.policy,
            prompt_cache=rules.state(idle),
            floor=0,
        )
        try:
            plan = project(request, self._cache)
        except CannotFit:
            return PolicyRequest([], is_refused=True)
        for decision in plan.decisions:
            self._decided += 1
            named = msgspec.structs.replace(decision, id=f"decision-{self._decided}", ts=call.at)
            self._log.append(named)
        made = request_of_plan(
            plan, self._transcript, plan.decisions, is_judged=self._policy.is_judged
        )
        self._sent = size_sent(made, terms)
        return made


def size_sent(request: PolicyRequest, terms: Terms) -> int:
    """Return the size of a request as the provider measures it."""
    return terms.static + sum(piece.tokens for piece in request.pieces)


def report_usage(records: Sequence[Record], prompt: int) -> list[Record]:
    """The records that came after a request; the reply, which is the first, reports its size.

    A `prompt` of 0 is a request that no one measured.
    """
    found = list(records)
    if prompt and found and isinstance(found[0], Assistant):
        found[0] = msgspec.structs.replace(found[0], usage={"input_tokens": prompt})
    return found


def request_of_plan(
    plan: Plan, transcript: Transcript, decisions: Sequence[Record], *, is_judged: bool = True
) -> PolicyRequest:
    """The request of a plan; one that is not judged counts as valid."""
    cuts = sum(isinstance(item, Compaction) for item in decisions)
    return PolicyRequest(
        [transcript.piece(b) for message in plan.prompt.messages for b in message.blocks],
        injected=injected_text(plan.prompt.messages),
        is_valid=not is_judged
        or not validate_body(render_body(plan.prompt, plan.target), plan.target),
        cuts=cuts,
        prunes=len(decisions) - cuts,
        decisions=decisions,
    )


_WORD: Final = "word "


def filler(transcript: Transcript, tokens: int) -> str:
    """A system prompt of about so many tokens."""
    each = max(1, transcript.tokens_of_text(_WORD * 1_000)) / 1_000
    return _WORD * int(tokens / each)


def injected_text(messages: Sequence[Message]) -> str:
    """The summary or carry-over that a request begins with; empty where there is none."""
    first = messages[0].blocks[0] if messages else None
    is_ours = isinstance(first, Text) and first.text.startswith(SUMMARY_LABEL)
    return first.text if is_ours and isinstance(first, Text) else ""


def _tail(transcript: Transcript, units: Sequence[ContextUnit], room: int) -> int:
    """The index of the first unit of the newest that fit; at least the last one is among them."""
    start = len(units)
    while start > 0:
        size = transcript.tokens(units[start - 1 : start])
        if size > room and start < len(units):
            break
        room -= size
        start -= 1
    return start


def _is_valid(units: Sequence[ContextUnit], call: ReplayCall, *, has_opening: bool = False) -> bool:
    """Return whether a provider would take units that no one repaired."""
    if not units or not (has_opening or units[0].is_user):
        return False
    if not call.broken:
        return True
    return not any(part.record in call.broken for unit in units for part in unit.parts)


def _luck(name: str) -> float:
    """A number from 0 to 1 that is always the same for the same name."""
    digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32
