"""Needs of the replies of a session: facts that they use, and sentences that have to stay.

A reply needs a fact (a path, a value, a symbol) that is in its text or its tool calls and that had
come up before. What the user says is needed from the moment it is said, sentence by sentence and in
whatever language, and a task while it is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.checkpoint.actions import Work
from holdfast.core.checkpoint.state import State
from holdfast.core.evaluation.facts import fact_kind, facts_in
from holdfast.core.evaluation.phrase_index import PhraseIndex
from holdfast.core.extract.statements import own_sentences, same_words
from holdfast.core.extract.tasks import checkboxes, open_texts
from holdfast.core.log.records import Assistant, tool_calls
from holdfast.core.log.speakers import assistant_text, user_text
from holdfast.core.narrative.digest import arguments_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record

NeedKind = Literal["instruction", "task", "file", "value", "name"]
NEED_KINDS: Final[tuple[NeedKind, ...]] = (*("instruction", "task", "file", "value", "name"),)
LASTING: Final[frozenset[NeedKind]] = frozenset({"instruction", "task"})
"""The kinds that are sentences; the others are facts."""

_SENTENCES_MAX: Final = 2_000
"""Sentences of a session that are looked for: it bounds the work after each cut."""
_TEXT_CHARS: Final = 40_000
"""Of a longer text, the beginning and the end: what is between them was pasted."""


class Need(msgspec.Struct, frozen=True, gc=False):
    """Something that a reply needs."""

    kind: NeedKind
    text: str
    """The fact, or the sentence as it was said."""


class Standing(msgspec.Struct, frozen=True, gc=False):
    """The sentences that are needed from a call on, and those that no longer are."""

    begun: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()


class NeedCatalog:
    """Everything that the replies of a session need, each with a number."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.needs: list[Need] = []
        self.omitted = 0
        """Sentences beyond those that are looked for."""
        self.standing: list[Standing] = []
        """The changes before each reply."""
        self._sentences: dict[tuple[NeedKind, str], int] = {}
        self._used: dict[int, frozenset[int]] = {}
        self._facts = _number_facts(records)
        self.needs += [Need(fact_kind(fact), fact) for fact in self._facts]
        _Reading(self, records).read()
        facts = len(self._facts)
        self._index = PhraseIndex(
            (number, need.text) for number, need in enumerate(self.needs) if number >= facts
        )

    @property
    def names(self) -> list[str]:
        """The texts of the needs, by their number."""
        return [need.text for need in self.needs]

    def find(self, text: str) -> frozenset[int]:
        """The needs that a text contains."""
        return frozenset(self.fact_numbers(text) | self._index.find(text))

    def find_paraphrases(self, summary: str, among: Iterable[int]) -> set[int]:
        """The sentences that a summary says in other words."""
        return self._index.find_paraphrases(summary, among)

    def uses_of(self, record: Assistant) -> frozenset[int]:
        """The needs that a reply shows by using them."""
        return self._used.get(id(record), frozenset())

    def add_sentence(self, kind: NeedKind, text: str) -> int | None:
        """Return the number of a sentence; None where there are too many."""
        key = (kind, same_words(text))
        number = self._sentences.get(key)
        if number is None:
            if not key[1] or len(self._sentences) >= _SENTENCES_MAX:
                self.omitted += bool(key[1])
                return None
            number = self._sentences[key] = len(self.needs)
            self.needs.append(Need(kind, text))
        return number

    def note_use(self, record: Assistant) -> None:
        """Note the facts that a reply uses."""
        self._used[id(record)] = frozenset(self.fact_numbers(reply_text(record)))

    def fact_numbers(self, text: str) -> set[int]:
        """The facts in a text that some reply uses."""
        return {self._facts[fact] for fact in facts_in(text) if fact in self._facts}


class _Reading:
    """One way through the records: sentences, tasks and uses in their order."""

    def __init__(self, catalog: NeedCatalog, records: Sequence[Record]) -> None:
        self._catalog = catalog
        self._records = records
        self._work = Work(State())
        self._open: frozenset[int] = frozenset()
        self._begun: list[int] = []
        self._given: set[int] = set()

    def read(self) -> None:
        for record in self._records:
            if isinstance(record, Assistant):
                self._close_call(record)
                self._read_reply(assistant_text(record))
            elif said := user_text(record):
                self._read_request(said)
            self._work.feed(record)

    def _close_call(self, record: Assistant) -> None:
        now = frozenset(
            number
            for text in open_texts(self._work.tasks)
            if (number := self._catalog.add_sentence("task", text)) is not None
        )
        begun = (*self._begun, *sorted(now - self._open))
        self._catalog.standing.append(Standing(begun, tuple(sorted(self._open - now))))
        self._open, self._begun = now, []
        self._catalog.note_use(record)

    def _read_request(self, said: str) -> None:
        for sentence in own_sentences(_edges(said)):
            number = self._catalog.add_sentence("instruction", sentence)
            if number is not None and number not in self._given:
                self._given.add(number)
                self._begun.append(number)
        self._work.tell_tasks(checkboxes(_edges(said)))

    def _read_reply(self, text: str) -> None:
        self._work.tell_tasks(checkboxes(_edges(text)))


def reply_text(record: Assistant) -> str:
    """The words of a reply and every text in the arguments of its calls."""
    inputs = (call.get("input") for call in tool_calls(record.content))
    return "\n".join((assistant_text(record), *map(arguments_text, inputs)))


def _number_facts(records: Iterable[Record]) -> dict[str, int]:
    used: set[str] = set()
    for record in records:
        if isinstance(record, Assistant):
            used |= facts_in(reply_text(record))
    return {fact: number for number, fact in enumerate(sorted(used))}


def _edges(text: str) -> str:
    if len(text) <= _TEXT_CHARS:
        return text
    return text[: _TEXT_CHARS // 2] + "\n" + text[-_TEXT_CHARS // 2 :]
