"""Needs of the replies of a session: facts that they use, and sentences that have to stay.

A fact is what a later reply can only know if it was in view. Sentences are found word by word,
whatever line breaks and marks are between the words.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.checkpoint.actions import Work
from holdfast.core.checkpoint.state import State
from holdfast.core.extract.statements import own_sentences, same_words
from holdfast.core.extract.tasks import checkboxes, open_texts
from holdfast.core.log.records import Assistant, tool_calls
from holdfast.core.log.replay import assistant_text, user_text
from holdfast.core.narrative.digest import arguments_text
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record


_WORD: Final = lazy_pattern(r"\w+")
_WORDS_MAX: Final = 60
"""Of a longer phrase, the beginning is looked for: it bounds the work for each word of a text."""
_COVERED_SHARE: Final = 0.75
"""Of the words of a phrase, from which on a line says the same in other words."""
_TELLING_CHARS_MIN: Final = 3
"""Shorter words are in every sentence; scripts that need no more letters are matched exactly."""


def words_of(text: str) -> list[str]:
    """The words of a text in order, in small letters."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.casefold())


class PhraseIndex:
    """Numbered phrases as a tree of their words: a text is read once for all of them."""

    def __init__(self, phrases: Iterable[tuple[int, str]]) -> None:
        self._root: _Node = _Node()
        self._telling: dict[int, frozenset[str]] = {}
        for number, phrase in phrases:
            words = words_of(phrase)[:_WORDS_MAX]
            node = self._root
            for word in words:
                node = node.next.setdefault(word, _Node())
            if words:
                node.ends.append(number)
                self._telling[number] = frozenset(filter(_is_telling, words))

    def find(self, text: str) -> set[int]:
        """The phrases that a text contains."""
        first = self._root.next
        found: set[int] = set()
        if not first:
            return found
        words = words_of(text)
        for place, word in enumerate(words):
            node = first.get(word)
            at = place + 1
            while node is not None:
                found.update(node.ends)
                node = node.next.get(words[at]) if at < len(words) else None
                at += 1
        return found

    def find_paraphrases(self, text: str, among: Iterable[int]) -> set[int]:
        """The phrases of which a line of the text has most words: a summary says it in its own."""
        wanted = [(number, self._telling[number]) for number in among if self._telling.get(number)]
        return _match_lines(wanted, [set(words_of(line)) for line in text.splitlines()])


def _match_lines(wanted: Sequence[tuple[int, frozenset[str]]], lines: list[set[str]]) -> set[int]:
    by_word: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        for word in line:
            by_word.setdefault(word, []).append(place)
    found = set()
    for number, words in wanted:
        needed = _COVERED_SHARE * len(words)
        counts: dict[int, int] = {}
        for word in words:
            for place in by_word.get(word, ()):
                counts[place] = counts.get(place, 0) + 1
        if max(counts.values(), default=0) >= needed:
            found.add(number)
    return found


class _Node:
    """A word in its place, the words that may follow it, and the phrases that end with it."""

    __slots__ = ("ends", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.ends: list[int] = []


def _is_telling(word: str) -> bool:
    return len(word) >= _TELLING_CHARS_MIN


FactKind = Literal["file", "value", "name"]

_ENDINGS: Final = (
    r"\.(?:go|py|md|[jt]sx?|jsonl?|ya?ml|toml|sh|txt|rs|html|css|sql|lock|mod|sum|exs?"
    r"|svelte|rb|c|h|cpp|java)"
)
_ADDRESS: Final = (
    r"(?<![\w/.@+-])(?:"
    r"(?!file:)[a-z][a-z0-9+-]{1,20}://[^\s\"'`<>()\[\]{}]++"
    r"|(?:[\w-]{1,63}\.){1,4}(?:com|org|net|io|dev|ai|app|edu|gov|co)(?::\d{1,5})?/[^\s\"'`<>()\[\]{}]*+"
    r")"
)
"""An address of the web, with or without its scheme: its path is not a file."""
_WEB: Final = lazy_pattern(_ADDRESS)
_FACT: Final = lazy_pattern(
    rf"{_ADDRESS}"
    r"|\b[0-9a-f]{7,40}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b\d{4,}\b"
    r"|(?:~|\.{1,2})?(?:/[\w.@+-]+)+"
    r"|[\w@+-]{1,200}(?:/[\w.@+-]+)+"
    rf"|\b[\w-]{{1,200}}{_ENDINGS}\b"
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b"
    r"|\b[A-Za-z]{1,60}[a-z0-9]{1,60}(?:[A-Z][a-z0-9]*+)++\b"
    r"|\b\w+(?:\.\w+)+\b"
)
_QUOTED: Final = lazy_pattern(r"\"([^\"\n]{6,80})\"|`([^`\n]{4,80})`|'([^'\n]{6,80})'")
_BELOW: Final = lazy_pattern(r"(?m)^\(relative to (/[^\n]{1,400})\)\n((?:.++\n?)*+)")
"""A list of files whose folder is written once: each of them is in view with its whole path."""
_FACT_CHARS_MIN: Final = 4
"""Shorter ones are in nearly every text."""
_PATH: Final = lazy_pattern(r"~?[\w.@+/-]++")
_FILE: Final = lazy_pattern(rf"[\w.-]+{_ENDINGS}")
_SYMBOL: Final = lazy_pattern(r"[A-Za-z_][\w.:-]*+")
_HASH: Final = lazy_pattern(r"[0-9a-f]{7,40}|[0-9a-f-]{36}")


def facts_in(text: str) -> set[str]:
    """Paths, symbols, ids, numbers, and quoted strings, error messages among them."""
    found = {match.group().strip(".").rstrip(",;:!?/") for match in _FACT.finditer(text)}
    found.update(match[match.lastindex or 0] for match in _QUOTED.finditer(text))
    for folder, lines in _BELOW.findall(text):
        found.update(f"{folder}/{line}" for line in lines.splitlines() if line[0] != "/")
    return {fact for fact in found if len(fact) >= _FACT_CHARS_MIN}


def fact_kind(fact: str) -> FactKind:
    """Return `file` for a path, `name` for a symbol, else `value`: a number, an id, an address of
    the web or a quotation."""
    if _WEB.fullmatch(f"{fact}/"):
        return "value"
    if ("/" in fact and _PATH.fullmatch(fact)) or _FILE.fullmatch(fact):
        return "file"
    return "name" if _SYMBOL.fullmatch(fact) and not _HASH.fullmatch(fact) else "value"


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
