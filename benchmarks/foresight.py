"""A bound: a policy that knows what later calls will use, and keeps that when it cuts.

It cuts when Holdfast does, and keeps as much: half of it the newest steps, and of everything before
those the blocks with the most later uses for their tokens. Requests with single blocks are none
that a provider takes; only what they cost and hold is looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from holdfast import Policy
from holdfast.context import POLICIES
from holdfast.simulation import PolicyRequest, TranscriptPiece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.simulation import ReplayCall, Terms, Transcript

AHEAD = 40
"""Calls that it looks ahead."""


class Foresight(msgspec.Struct, frozen=True):
    """Keep what will be used."""

    keep_tokens: int
    name: str = "foresight"

    def start(self, transcript: Transcript, terms: Terms) -> Foreseen:
        return Foreseen(transcript, terms, self.keep_tokens)


class Foreseen:
    """Foresight on its way through one transcript."""

    def __init__(self, transcript: Transcript, terms: Terms, keep: int) -> None:
        self._transcript = transcript
        self._terms = terms
        self._keep = keep
        policy = Policy()
        self._forced = policy.full_at(terms.budget)
        self._cold = POLICIES["thrifty"].cold_cut * terms.budget
        self._carry_tokens = policy.carry_cap(terms.budget)
        self._calls = self._cuts = self._first = 0
        self._chosen: list[TranscriptPiece] = []
        self._carry: list[TranscriptPiece] = []

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        transcript, ttl = self._transcript, self._terms.rules.ttl_seconds
        newest = transcript.pieces(call.units[self._first :])
        total = sum(piece.tokens for piece in (*self._carry, *self._chosen, *newest))
        is_cold = idle is not None and ttl is not None and idle > ttl
        is_due = total > self._forced or (is_cold and total > self._cold)
        if is_due:
            self._cut(call)
            newest = transcript.pieces(call.units[self._first :])
        self._calls += 1
        pieces = [*self._carry, *self._chosen, *newest]
        return PolicyRequest(pieces, injected="carry" if self._carry else "", cuts=int(is_due))

    def _cut(self, call: ReplayCall) -> None:
        transcript, room = self._transcript, self._keep
        units = call.units[self._first :]
        start = len(units) - 1
        room -= transcript.tokens(units[start:])
        while start > 0 and room - transcript.tokens([units[start - 1]]) >= self._keep // 2:
            start -= 1
            room -= transcript.tokens([units[start]])
        held = {fact for piece in transcript.pieces(units[start:]) for fact in piece.facts}
        older = [*self._chosen, *transcript.pieces(units[:start])]
        self._chosen = _best(older, self._later_uses(), held, room)
        self._first += start
        self._cuts += 1
        key = b"carry %d" % self._cuts
        self._carry = [TranscriptPiece(key, self._carry_tokens, frozenset(), is_original=False)]

    def _later_uses(self) -> Counter[int]:
        """The uses of each fact by the next calls, until it comes up anew."""
        uses: Counter[int] = Counter()
        anew: set[int] = set()
        for call in self._transcript.calls[self._calls : self._calls + AHEAD]:
            uses.update(use.fact for use in call.uses if use.fact not in anew)
            for _record, facts in call.arrived if call.records else ():
                anew |= facts
        return uses


def _best(
    pieces: Sequence[TranscriptPiece], uses: Counter[int], held: set[int], room: int
) -> list[TranscriptPiece]:
    """The pieces with the most uses for their tokens, one after the other, in their order."""
    chosen: set[int] = set()
    while True:
        worth = {
            place: sum(uses[fact] for fact in piece.facts - held) / max(1, piece.tokens)
            for place, piece in enumerate(pieces)
            if place not in chosen and piece.tokens <= room
        }
        best = max(worth, key=lambda place: worth[place], default=None)
        if best is None or not worth[best]:
            return [pieces[place] for place in sorted(chosen)]
        chosen.add(best)
        room -= pieces[best].tokens
        held |= pieces[best].facts
