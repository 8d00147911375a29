"""The branches of a proxied session: which record a conversation was at, by its hash chain.

Records that the proxy logs have the chain of the conversation that ends with them. A request is
compared with these chains, so that its new part is found, and a history that the client rewrote
becomes a branch.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.digests import extend_chain
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Header,
    ModelChange,
    Prune,
    ToolResult,
    User,
)
from holdfast.core.models.usage import read_usage
from holdfast.core.models.window import window_in
from holdfast.core.refusals import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Record

CHAIN_FIELD: Final = "chain"
"""The field of a record that holds its chains, in hex. A reply has a second one, without the last
message before it: some clients end each request with a message that the next one does not have."""
TERMS_FIELD: Final = "terms"
"""The field of a `model` record that holds digests of the system prompt and the tools."""
RESPONSE_FIELD: Final = "response"
"""The field of a reply that holds the id by which the next request of the Responses API may name
it: the provider keeps the history then, and the request has no chain."""

WIRE_FIELD: Final = "wire"
"""The field of a reply and of a result that holds them as messages for the provider, where the
proxy answered a call of its own tools: the client's messages have nothing of that."""
ROUND_FIELD: Final = "round"
"""The field of a reply that the proxy answered itself, so that the client's reply goes on in the
next record. It has no chain: the last one has that of all rounds."""


class ChainPlace(msgspec.Struct):
    """A point of a conversation in the log."""

    tip: str
    """The record that the next one follows: the message, or a decision after it."""
    is_reply: bool = False
    is_answered: bool = False
    """True where a whole reply follows."""
    is_begun: bool = False
    """True where the path to here has a reply, or is one."""
    cut_window: int = 0
    """The largest window for which something on the path was cut; 0 where nothing was."""
    is_repaired: bool = False
    """True where something on the path was left out after a refusal."""
    tokens: int = 0
    """The size up to here as the provider measured it; 0 where it did not."""
    terms: dict[str, str] = {}
    """The digest of each term that holds here, as the path to it says."""
    asked: ChainPlace | None = None
    """The place that a reply answers which is not at its end here."""


class Branches:
    """The places of one session. Grows by one record at a time."""

    def __init__(self) -> None:
        self.head = ""
        self.root = ""
        self.terms: dict[str, str] = {}
        """The digest of each term that was logged last, on whichever branch."""
        self.windows: dict[str, int] = {}
        """Windows that providers stated, by model."""
        self.responses: dict[str, str] = {}
        """The record of each response that a later request may name."""
        self.openings: list[str] = []
        """The chains of what was said before the first reply, in each spelling."""
        self._places: dict[str, ChainPlace] = {}
        self._at_tip: dict[str, ChainPlace] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def is_empty(self) -> bool:
        return not self._places

    def add(self, record: Record, parent: str = "") -> None:
        """Take a record that was appended after `parent`, or after the record before it."""
        before = record.parent or parent or self.head
        self.head = record.id
        place = self._at_tip.get(before)
        match record:
            case Header():
                self.root = record.id
                self._at_tip[record.id] = ChainPlace(record.id)
            case User() | Assistant():
                self._add_message(record, place)
            case ToolResult() if WIRE_FIELD not in record.extra:
                self._add_message(record, place)
            case _:  # decisions, terms, failures and results of ours stand on the way
                if isinstance(record, ModelChange):
                    self._add_terms(record)
                # The record is on the way to what follows, so it is the new tip.
                if place is not None:
                    del self._at_tip[before]
                    place.tip = record.id
                    self._at_tip[record.id] = place
                    place.terms = {**place.terms, **_terms_of(record)}
                    if isinstance(record, Compaction | Prune):
                        place.cut_window = max(place.cut_window, record.window or 0)
                    elif isinstance(record, Epoch) and record.cause == REFUSED:
                        place.is_repaired = True

    def _add_message(
        self, record: User | Assistant | ToolResult, before: ChainPlace | None
    ) -> None:
        place = ChainPlace(record.id, is_reply=isinstance(record, Assistant))
        if before is not None:
            place.cut_window, place.terms = before.cut_window, before.terms
            place.is_repaired = before.is_repaired
        place.is_begun = place.is_reply or (before is not None and before.is_begun)
        usage = None
        if isinstance(record, Assistant):
            usage = read_usage(record.usage, record.provider or "")
            asked = before if before is None or before.asked is None else before.asked
            if record.extra.get(ROUND_FIELD):
                place.asked = asked
            elif asked is not None and not record.extra.get("cause"):
                asked.is_answered = True
        if usage is not None:
            place.tokens = usage.prompt + (usage.output or 0)
        self._at_tip[record.id] = place
        response = record.extra.get(RESPONSE_FIELD)
        if isinstance(response, str):
            self.responses[response] = record.id
        for chain in chains_of(record):
            self._places[chain] = place
            if not place.is_begun:
                self.openings.append(chain)

    def _add_terms(self, record: ModelChange) -> None:
        self.terms.update(_terms_of(record))
        window = window_in([record], record.model)
        if window is None:
            self.windows.pop(record.model, None)
        else:
            self.windows[record.model] = window.tokens

    def find(self, chains: Sequence[bytes]) -> tuple[int, ChainPlace]:
        """The longest prefix that is known: its length, and its place. The root is that of none."""
        for length in range(len(chains), 0, -1):
            place = self._places.get(chains[length - 1].hex())
            if place is not None:
                return length, place
        return 0, self._at_tip.get(self.root) or ChainPlace(self.root)

    def find_resumed(self, atoms: Sequence[Atom]) -> tuple[int, ChainPlace] | None:
        """The longest part of a conversation that is known from its first reply on, whatever was
        said before: the number of its atoms, with those before, and its place."""
        first = next((n for n, atom in enumerate(atoms) if atom.kind == "assistant"), len(atoms))
        rest = itertools.takewhile(lambda atom: atom.kind == "assistant", atoms[first:])
        reply = sum(1 for _ in rest)
        best: tuple[int, ChainPlace] | None = None
        for opening in self.openings:
            chain, found = bytes.fromhex(opening), None
            for number, atom in enumerate(atoms[first:], 1):
                chain = extend_chain(chain, (atom.digest,))
                place = self._places.get(chain.hex())
                if place is not None and place.is_begun:
                    found = first + number, place
                elif number >= reply and found is None:
                    break
            if found is not None and (best is None or found[0] > best[0]):
                best = found
        return best

    def place_at(self, tip: str) -> ChainPlace:
        """The place whose tip is a record; a new one where others went on from it already."""
        return self._at_tip.get(tip) or ChainPlace(tip, terms=dict(self.terms))

    @property
    def chains(self) -> Iterable[str]:
        return self._places


def _terms_of(record: Record) -> dict[str, str]:
    terms = record.extra.get(TERMS_FIELD)
    return {name: str(terms[name]) for name in terms} if isinstance(terms, dict) else {}


def chains_of(record: Record) -> list[str]:
    """The chains that a record was logged with."""
    found = record.extra.get(CHAIN_FIELD)
    return [chain for chain in found if isinstance(chain, str)] if isinstance(found, list) else []
