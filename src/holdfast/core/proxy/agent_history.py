"""The history that a client sends to an agent, and the place in the log that it goes on from.

The log has every version: a client that edits a message, asks for another reply or goes back to an
older one sends another history, which is known by its hash chain up to where it differs. A reply is
what the client was shown of a turn: the texts of all its calls, with secrets masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.dialects.common.digests import content_atoms, extend_chain, start_chain
from holdfast.core.log.records import Assistant, Header, Rewind, User, text_of
from holdfast.core.log.views import key_of
from holdfast.core.proxy.agent_request import SEPARATOR
from holdfast.core.proxy.branches import CHAIN_FIELD, chains_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.log.records import Record

Step = Literal["begin", "go-on", "edit", "regenerate", "repeat"]
"""`begin`: nothing of it is in the log. `go-on`: a new message behind all of it. `edit`: another
message where the log has one. `regenerate`: a message that was answered. `repeat`: one that was
not."""


class AgentPlace(msgspec.Struct):
    """A point of the conversation with an agent, in the log."""

    tip: str
    """The record that the next one follows."""
    chain: bytes
    """The chain of what is said up to here."""
    user: str = ""
    """The message that is answered here."""
    asked: bytes = b""
    """The chain with that message, and without its reply."""
    text: str = ""
    """The reply so far, as a client is shown it."""
    is_said: bool = False
    """True where a client may go on from here: behind a message of the user's, or a reply."""
    is_answered: bool = False
    """True where a whole reply follows."""
    is_continued: bool = False
    """True where something follows."""


class AgentHistory:
    """The places of one session. Takes one record at a time."""

    def __init__(self, show: Callable[[str], str]) -> None:
        """`show` masks the text of a reply, as it was masked for the client."""
        self._show = show
        self._at: dict[str, AgentPlace] = {}
        self._places: dict[bytes, AgentPlace] = {}
        self._replies: dict[str, bytes] = {}
        """The chain of each whole reply, by its record."""
        self._counts: dict[bytes, int] = {}
        self._keys: dict[bytes, str] = {}
        """The key of the newest message at each point."""
        self.head = ""
        self.newest: AgentPlace | None = None
        """The place at the head."""

    def add(self, record: Record) -> None:
        """Take the next record of the log."""
        before = record.to if isinstance(record, Rewind) else record.parent or self.head
        self.head = record.id
        found = self._at.get(before)
        place: AgentPlace | None
        match record:
            case Header():
                place = AgentPlace(record.id, start_chain(), is_said=True)
                self._places[place.chain] = place
            case User() if not record.extra.get("meta"):
                place = self._add_user(record, found)
            case Assistant():
                place = self._add_reply(record, found)
            case _:  # results, decisions and failures are on the way to what follows
                place = found
                if place is not None:
                    place = self._move(place, record.id)
        if place is not None:
            self._at[record.id] = place
            self.newest = place

    def _move(self, place: AgentPlace, tip: str) -> AgentPlace:
        """A place whose tip is a later record. One that others go on from stays where it is."""
        if place.is_continued:
            return msgspec.structs.replace(place, tip=tip)
        self._at.pop(place.tip, None)
        place.tip = tip
        return place

    def _add_user(self, record: User, before: AgentPlace | None) -> AgentPlace:
        stored = chains_of(record)
        chain = bytes.fromhex(stored[0]) if stored else _extend(before, "user", record.content)
        if before is not None:
            before.is_continued = True
        place = AgentPlace(record.id, chain, user=record.id, asked=chain, is_said=True)
        self._places[chain] = place
        self._counts[chain] = self._counts.get(chain, 0) + 1
        self._keys[chain] = key_of(record)
        return place

    def _add_reply(self, record: Assistant, before: AgentPlace | None) -> AgentPlace:
        said = self._show(text_of(record.content))
        user, asked = (before.user, before.asked) if before is not None else ("", start_chain())
        text = SEPARATOR.join(filter(None, (before.text if before is not None else "", said)))
        if before is not None:
            before.is_continued = True
        is_whole = not has_calls(record)
        stored = chains_of(record)
        chain = bytes.fromhex(stored[0]) if stored else _extend_text(asked, text)
        kept = "" if is_whole else text
        place = AgentPlace(record.id, chain, user, asked, kept, is_said=is_whole)
        if is_whole:
            self._places[chain] = place
            self._replies[record.id] = chain
            known = self._places.get(asked)
            if known is not None:
                known.is_answered = True
        return place

    def find(
        self, chains: Sequence[bytes], base: AgentPlace | None = None
    ) -> tuple[int, AgentPlace | None]:
        """Return the longest beginning of a conversation that is known: its length and place.

        `base` is the place before it; the beginning of the log where there is none."""
        for length in range(len(chains), 0, -1):
            place = self._places.get(chains[length - 1])
            if place is not None and place.is_said:
                return length, place
        return 0, base or self._places.get(start_chain())

    def find_reply(self, record: str) -> AgentPlace | None:
        """Return the place of a reply by its record; None where it is not a reply of this log."""
        chain = self._replies.get(record)
        return None if chain is None else self._places.get(chain)

    def count(self, chain: bytes) -> int:
        """Return how often a message stands at one point of the conversation."""
        return self._counts.get(chain, 0)

    def message_key(self, chain: bytes) -> str:
        """Return the key of the newest message at a point; empty where it has none."""
        return self._keys.get(chain, "")

    def __len__(self) -> int:
        return len(self._places)

    @property
    def is_empty(self) -> bool:
        """True where nothing was said yet."""
        return not self._counts


def _extend(before: AgentPlace | None, kind: Literal["user"], content: object) -> bytes:
    digests = [atom.digest for atom in content_atoms(kind, content, 0)]
    return extend_chain(before.chain if before is not None else start_chain(), digests)


def _extend_text(chain: bytes, text: str) -> bytes:
    return extend_chain(chain, [atom.digest for atom in content_atoms("assistant", text, 0)])


def has_calls(record: Assistant) -> bool:
    """True where a reply asks for tools, so that its turn goes on."""
    blocks = record.content if isinstance(record.content, list) else ()
    return any(block.get("type") == "tool_use" for block in blocks)


class NextStep(msgspec.Struct, frozen=True):
    """The step of a request: what it is, and where it stands."""

    kind: Step
    known: int
    """Of the atoms before the last message: those that the log has."""
    after: str
    """The record that what is new follows; empty where the log has none."""
    attempt: int
    """The number of times that the log has this message at this point."""


def decide_step(
    history: AgentHistory,
    chains: Sequence[bytes],
    last: int,
    base: AgentPlace | None = None,
) -> NextStep:
    """Return the step of a conversation whose last message begins with the atom `last`.

    `base` is the place before the first atom, where a client sends only what is new."""
    whole, there = history.find(chains, base)
    known, before = history.find(chains[:last], base)
    after = before.tip if before is not None else ""
    attempt = history.count(chains[-1])
    if whole == len(chains) and there is not None and attempt:
        kind: Step = "regenerate" if there.is_answered else "repeat"
    elif not known and base is None and (last or history.is_empty):
        kind = "begin"
    else:
        is_behind = before is not None and before is history.newest and not before.is_continued
        kind = "go-on" if known == last and is_behind else "edit"
    return NextStep(kind, known, after, attempt)


def chain_field(chain: bytes) -> Mapping[str, list[str]]:
    """Return the field of a record that holds its chain."""
    return {CHAIN_FIELD: [chain.hex()]}


def turn_of(records: Iterable[Record], user: str, reply: str) -> list[Assistant]:
    """Return the replies of one turn, in order: from the message of the user to the last."""
    on_path: dict[str, list[Assistant]] = {user: []}
    before = user
    for record in records:
        parent = record.to if isinstance(record, Rewind) else record.parent or before
        before = record.id
        path = on_path.get(parent)
        if path is not None:
            on_path[record.id] = [*path, record] if isinstance(record, Assistant) else path
        if record.id == reply:
            return on_path.get(reply, [])
    return []
