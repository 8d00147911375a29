"""Replay a transcript call by call without a model: what would a policy send, pay, and lose?

    run = simulate(records, Holdfast(), window=64_000)

Every policy is sent through the same calls at the times they were made, with the same counts and
the same cache; a fact that a later call used and that was in no request is a fact lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.models.generation import traits_of
from holdfast.core.models.pace import Pace, PastCall, offer_of
from holdfast.core.models.window import budget_for, output_reserve
from holdfast.core.tokens.counting import Estimator
from holdfast.core.window import Window, as_window
from holdfast.engine.simulation.policies import Terms
from holdfast.engine.simulation.prompt_cache import CacheRules, SimulatedPromptCache
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import CannotFit
from holdfast.providers.known_models.lookup import default_price, price_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.pace import CacheOffer
    from holdfast.core.models.prices import CacheLifetime, Price
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import StatedWindow, Window
    from holdfast.engine.simulation.policies import Plays, PolicyRequest
    from holdfast.engine.simulation.transcripts import ReplayCall, TranscriptPiece

    Progress = Callable[[int, int], None]
    """(calls done, calls in all)"""
    OnLost = Callable[[Sequence[int]], None]
    """The numbers of the facts that a call used and its request did not have."""

STATIC_TOKENS = 18_000
"""A system prompt and tools of middling size."""
HOUR_SECONDS = 3_600.0


class FactRecall(msgspec.Struct, frozen=True):
    """Of the facts that calls used and that had come up before: how many were in the request."""

    used: int = 0
    seen: int = 0
    verbatim: int = 0
    """In a message as it was said, not in a list or summary."""
    far_used: int = 0
    far_seen: int = 0
    far_verbatim: int = 0
    incomplete: int = 0
    """Calls that used something which was in no message as it was said."""

    def __add__(self, other: FactRecall) -> FactRecall:
        return FactRecall(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    @property
    def lost(self) -> int:
        return self.used - self.seen

    @property
    def pooled_share(self) -> float:
        return _share(self.seen, self.used)

    @property
    def verbatim_share(self) -> float:
        return _share(self.verbatim, self.used)

    @property
    def far_share(self) -> float:
        return _share(self.far_seen, self.far_used)


class Run(msgspec.Struct, frozen=True):
    """One policy's way through one transcript, or through several added up."""

    policy: str
    """The name of the policy."""
    window: int
    """The window that was replayed."""
    requests: int = 0
    """Number of calls."""
    tokens_sent: int = 0
    """Of all requests."""
    tokens_read: int = 0
    """From the cache."""
    tokens_written: int = 0
    """Into the cache."""
    tokens_plain: int = 0
    """Neither read from the cache nor written to it."""
    cost: float = 0.0
    """Of the input, and of model calls that the policy made for itself; in the price's currency."""
    model_cost: float = 0.0
    """The part of it for those model calls."""
    breaks: int = 0
    """Number of changes to a prefix that was still warm."""
    cuts: int = 0
    """Compactions that the policy made."""
    prunes: int = 0
    """Times that it shortened results."""
    overflows: int = 0
    """Requests too large for the window, and refusals to send one."""
    invalid: int = 0
    """Requests that the provider would refuse for their shape."""
    recall: FactRecall = FactRecall()
    """Facts that calls used, and how many were in view."""
    said_chars: float = 0.0
    """Characters that the user had said, summed over the requests."""
    said_chars_seen: float = 0.0
    """Those of them that were in view."""
    said: int = 0
    """The user's messages, summed over the requests."""
    said_seen: int = 0
    """The user's messages that were there whole."""

    @property
    def read_share(self) -> float:
        """Of all input tokens, those read from the cache."""
        return _share(self.tokens_read, self.tokens_read + self.tokens_written + self.tokens_plain)

    @property
    def words_share(self) -> float:
        """Of the user's words, those in view, over all requests."""
        return _share(self.said_chars_seen, self.said_chars)

    @property
    def messages_share(self) -> float:
        return _share(self.said_seen, self.said)

    @property
    def facts_lost(self) -> int:
        return self.recall.lost

    def __add__(self, other: Run) -> Run:
        assert (self.policy, self.window) == (other.policy, other.window)
        mine, theirs = _values(self)[2:], _values(other)[2:]
        sums = (a + b for a, b in zip(mine, theirs, strict=True))
        return Run(self.policy, self.window, *sums)


def simulate(
    records: Iterable[Record] | Transcript,
    policy: Plays,
    *,
    window: StatedWindow,
    static: int = STATIC_TOKENS,
    output: int | None = None,
    ttl_seconds: float | None = 300.0,
    idle_seconds: float | None = None,
    price: Price | None = None,
    rules: CacheRules | None = None,
    offer: CacheOffer | None = None,
    budget: int | None = None,
    counter: Counter | None = None,
    progress: Progress | None = None,
    on_lost: OnLost | None = None,
) -> Run:
    """Replay one session under one policy.

    `output` is what a reply may take, `static` what the system prompt and the tools do.
    `idle_seconds` is the time between two calls, instead of the times of the transcript. `rules`
    replaces the cache that `ttl_seconds` and `price` describe; with an `offer` (`offer_for`) its
    lifetime is chosen call by call, as a session chooses it. Several policies are quicker with
    a `Transcript` that they share.
    """
    transcript = (
        records if isinstance(records, Transcript) else Transcript(records, counter or Estimator())
    )
    price = price or price_of(transcript.target.model) or default_price()
    rules = rules or rules_for(price, ttl_seconds)
    whole = as_window(window, "simulated")
    terms = terms_for(whole, static, output, price, rules, budget)
    return PolicyReplay(transcript, policy, terms, price, idle_seconds, offer).run(
        progress, on_lost
    )


def offer_for(model: str, price: Price | None = None) -> CacheOffer:
    """The lifetimes that a model's host sells, those included that no request can name yet."""
    price = price or price_of(model)
    return offer_of(traits_of("", model), price, is_simulated=True)


def terms_for(
    window: Window,
    static: int,
    output: int | None,
    price: Price,
    rules: CacheRules,
    budget: int | None = None,
) -> Terms:
    """The conditions of a replay. Raises `CannotFit` where they leave no room for messages."""
    try:
        left = budget or budget_for(window, system=static, output=output, floor=0).tokens
    except CannotFit as error:
        raise CannotFit(
            str(error),
            parts=error.parts,
            hint=f"the system prompt and tools count as {static:,} tokens: say how many they have "
            "(`--static N`), or use a larger window (`--window N`)",
        ) from None
    reply = output_reserve(window) if output is None else output
    return Terms(
        window=window,
        static=static,
        output=output,
        budget=left,
        limit=max(left, window.tokens - static - reply),
        rules=rules,
        output_price=price.output / price.input,
    )


def rules_for(price: Price, ttl_seconds: float | None) -> CacheRules:
    """The cache that a price list and a lifetime make; for ever is priced like minutes."""
    write = price.cache_write
    if ttl_seconds is not None and ttl_seconds >= HOUR_SECONDS and price.cache_write_hour:
        write = price.cache_write_hour
    return CacheRules(
        ttl_seconds=ttl_seconds,
        read=price.cache_read / price.input,
        write=write / price.input,
        step_tokens=price.tiers[0].above if price.tiers else None,
    )


def _rules_with(rules: CacheRules, lifetime: CacheLifetime) -> CacheRules:
    return msgspec.structs.replace(
        rules,
        ttl_seconds=lifetime.seconds,
        write=lifetime.write,
        marks=0 if lifetime.request == "none" else rules.marks,
    )


class PolicyReplay:
    """The requests of one run, with what the provider charges for them."""

    def __init__(
        self,
        transcript: Transcript,
        policy: Plays,
        terms: Terms,
        price: Price,
        idle_seconds: float | None = None,
        offer: CacheOffer | None = None,
    ) -> None:
        self._transcript = transcript
        self._pace = None if offer is None else Pace(offer)
        self._asked = terms.rules
        self._idle_seconds = idle_seconds
        self._terms = terms
        self._price = price
        self._course = policy.start(transcript, terms)
        self._cache = SimulatedPromptCache(terms.rules)
        self._sent: list[bytes] = []
        self._sums: list[int] = [0, terms.static]
        self._name = policy.name

    def run(self, progress: Progress | None, on_lost: OnLost | None = None) -> Run:
        """Play every call, with what its request shows of what it used."""
        total = Run(self._name, self._terms.window.tokens)
        in_view = _InView(self._transcript)
        for call, request, charged, known in self.play(progress):
            if not request.is_refused:
                in_view.show(request.pieces, known)
                said = in_view.words(call, request.injected)
                if on_lost is not None:
                    on_lost(in_view.find_lost(call))
                charged = msgspec.structs.replace(
                    charged,
                    recall=in_view.recall(call),
                    said_chars=said[0],
                    said_chars_seen=said[1],
                    said=said[2],
                    said_seen=said[3],
                )
            total += charged
        return total

    def play(
        self, progress: Progress | None = None
    ) -> Iterator[tuple[ReplayCall, PolicyRequest, Run, int]]:
        """Yield each call with its request, its charge, and the number of its pieces that are as
        in the request before; 0 where that was changed."""
        before: float | None = None
        calls = self._transcript.calls
        for done, call in enumerate(calls, 1):
            if self._idle_seconds is not None:
                call = msgspec.structs.replace(call, at=done * self._idle_seconds)
            idle = None if before is None else max(0.0, call.at - before)
            if self._pace is not None:
                call = msgspec.structs.replace(call, rules=self._asked)
                lifetime = self._pace.choose(call.at)
                if lifetime is not None:
                    self._asked = _rules_with(self._terms.rules, lifetime)
            request = self._course.request(call, idle=idle)
            yield call, request, *self._charge(call, request)
            if self._pace is not None and not request.is_refused:
                self._pace.add(PastCall(call.at, self._sums[-1]))
            before = call.at
            if progress is not None:
                progress(done, len(calls))

    def _charge(self, call: ReplayCall, request: PolicyRequest) -> tuple[Run, int]:
        if request.is_refused:
            return Run(self._name, self._terms.window.tokens, requests=1, overflows=1), 0
        has_broken, known = self._put(request, call.at)
        charge = self._cache.request(
            self._sums, call.at, opening=2 if request.injected else 1, rules=self._asked
        )
        size = self._sums[-1]
        # A step in the price raises input, reads and writes alike.
        dollars = self._price.rates(size).input / 1_000_000
        run = Run(
            policy=self._name,
            window=self._terms.window.tokens,
            requests=1,
            tokens_sent=size,
            tokens_read=charge.read,
            tokens_written=charge.written,
            tokens_plain=charge.plain,
            cost=(charge.cost(self._asked) + request.model_cost) * dollars,
            model_cost=request.model_cost * dollars,
            breaks=has_broken,
            cuts=request.cuts,
            prunes=request.prunes,
            overflows=size - self._terms.static > self._terms.limit,
            invalid=not request.is_valid,
        )
        return run, known

    def _put(self, request: PolicyRequest, now: float) -> tuple[bool, int]:
        """Make `request` what is sent now. Returns whether that changed a prefix which was warm,
        and the number of pieces that are as before."""
        pieces = request.pieces
        keys = [piece.key for piece in pieces]
        same = len(self._sent)
        if keys[:same] != self._sent:
            same = _common(keys, self._sent)
        has_broken = False
        known = same if same == len(self._sent) else 0
        if same < len(self._sent):
            has_broken = self._cache.is_warm(same + 1, now)
            self._cache.change_after(same + 1)
            del self._sums[same + 2 :]
        for piece in pieces[same:]:
            self._sums.append(self._sums[-1] + piece.tokens)
        self._sent = keys
        return has_broken, known


class _InView:
    """Which facts and which of the user's words a request shows."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._seen: set[int] = set()
        self._verbatim: set[int] = set()
        self._keys: set[bytes] = set()
        self._quoted: dict[str, list[int]] = {}

    def show(self, pieces: Sequence[TranscriptPiece], known: int) -> None:
        """The pieces of a request, of which the first `known` were shown before."""
        if not known:
            self._seen, self._verbatim, self._keys = set(), set(), set()
        for piece in pieces[known:]:
            self._seen |= piece.facts
            self._keys.add(piece.key)
            if piece.is_original:
                self._verbatim |= piece.facts

    def recall(self, call: ReplayCall) -> FactRecall:
        seen, verbatim = self._seen, self._verbatim
        near = [use.fact for use in call.uses]
        far = [use.fact for use in call.uses if use.is_far]
        return FactRecall(
            *(len(near), sum(f in seen for f in near), sum(f in verbatim for f in near)),
            *(len(far), sum(f in seen for f in far), sum(f in verbatim for f in far)),
            any(f not in verbatim for f in near),
        )

    def find_lost(self, call: ReplayCall) -> list[int]:
        """The facts that the call used and that are not in view."""
        return [use.fact for use in call.uses if use.fact not in self._seen]

    def words(self, call: ReplayCall, injected: str) -> tuple[int, int, int, int]:
        """Characters said and seen, messages said and seen whole."""
        sayings = self._transcript.sayings[: call.said]
        chars = seen = whole = 0
        for place, one in enumerate(sayings):
            chars += one.chars
            if all(key in self._keys for key in one.keys):
                seen += one.chars
                whole += 1
            elif injected:
                shown = self._count_shown(injected, place)
                seen += shown
                whole += shown >= one.chars
        return chars, seen, len(sayings), whole

    def _count_shown(self, injected: str, place: int) -> int:
        """Count the characters of a statement that are in a text, by whole lines."""
        known = self._quoted.setdefault(injected, [])
        while len(known) <= place:
            one = self._transcript.sayings[len(known)]
            known.append(sum(len(line) for line in one.lines if line in injected))
        return known[place]


def _common(these: Sequence[bytes], those: Sequence[bytes]) -> int:
    """Count the keys that two requests share from the start."""
    for place, (a, b) in enumerate(zip(these, those, strict=False)):
        if a != b:
            return place
    return min(len(these), len(those))


def _values(struct: msgspec.Struct) -> tuple[Any, ...]:
    return tuple(getattr(struct, name) for name in struct.__struct_fields__)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
