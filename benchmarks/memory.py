"""How often memory finds the evidence for a question, beside plain BM25 and vectors alone.

    .venv/bin/python benchmarks/memory.py [--set realmem] [--embedder NAME] [--write PAGE]
    .venv/bin/python benchmarks/memory.py --speed          # query time as memory grows

The sets are looked for in ../shared/data or where HOLDFAST_DATA points: LongMemEval with the
sessions of all questions pooled, RealMem with the sessions before each query, QMSum with one
meeting at a time. No model answers anything: a question counts by the share of its evidence among
the first 5 or 10 that are found. Evidence is counted by session, by message (the turns that
LongMemEval marks, the turns that a used memory of RealMem was taken from, the spans of QMSum), and
by exchange: what a person said with the replies to it. By message there is also the share in view:
what stands in the block of 4,000 characters that a model gets. A message counts by the share of it
that is shown; 400 characters of a longer one are all. `any` is 1 where any evidence is found.

Every set is parted by a hash of the question's id. What has weights was tuned on the first half
alone, and is judged on the second; `--tuned` leaves the second unseen. Vectors take minutes of CPU;
they are kept in benchmarks/.cache.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import json
import math
import os
import platform
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import Assistant, Memory, SessionKey, User
from holdfast.core.limits import INJECTION_CHARS, RECALL_LIMIT, STANDING_CHARS_MAX
from holdfast.core.memory.hits import Hit, NeighbourTurn, injection, listing, passages
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.ports import IndexPassage, NewSource
from holdfast.providers.embedders import embedder
from holdfast.providers.embeddings import Vectors
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast import Record
    from holdfast.providers.embeddings import Embedder

PROJECT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HOLDFAST_DATA", PROJECT.parent / "shared" / "data"))
CACHE = PROJECT / "benchmarks" / ".cache" / "vectors.sqlite3"
DEPTHS = (5, 10)
HITS = 100
SIZES = (1_000, 10_000, 100_000)
DAY = 86_400.0
TURNS_BESIDE = 2
"""As many as a hit shows on either side; plain BM25 is given the same."""
MESSAGE_CHARS = 400
"""Of a longer message, these are all that can be shown."""

# The sets


@dataclass(frozen=True, slots=True)
class Talk:
    """A past session."""

    id: str
    ts: float
    messages: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    kind: str
    text: str
    evidence: frozenset[str]
    """Sessions; or spans of messages, as `first-last`."""
    before: float | None = None
    turns: frozenset[str] = frozenset()
    """The messages that hold the answer, as `session#place`, where the set names them."""
    now: float | None = None
    """The time of asking."""

    @property
    def is_for_tuning(self) -> bool:
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0


@dataclass(frozen=True)
class World:
    """Sessions that are searched together, and what is asked about them."""

    talks: list[Talk]
    questions: list[Question]
    by_message: bool = False
    """Evidence is a span of messages in the only session, not a session."""

    @cached_property
    def exchanges(self) -> dict[str, str]:
        """The message that each message's exchange begins with."""
        found = {}
        for talk in self.talks:
            first = 0
            for place, (role, _text) in enumerate(talk.messages):
                first = place if role == "user" else first
                found[f"{talk.id}#{place}"] = f"{talk.id}#{first}"
        return found

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The characters of each message."""
        return {
            f"{talk.id}#{place}": len(text.strip())
            for talk in self.talks
            for place, (_role, text) in enumerate(talk.messages)
        }


def _opened(path: str) -> Any:
    with gzip.open(DATA / "memory" / path, "rt") as file:
        return json.load(file)


def longmemeval() -> list[World]:
    """Questions that have no answer in the sessions (`_abs`) have no evidence to be found."""
    asked = _opened("longmemeval/longmemeval_oracle.shared.json.gz")
    talks: dict[str, Talk] = {}
    for one in asked:
        found = zip(
            one["haystack_session_ids"],
            one["haystack_dates"],
            one["haystack_sessions"],
            strict=True,
        )
        for name, date, turns in found:
            ts = _asked_at(date)
            talks[name] = Talk(name, ts, [(turn["role"], turn["content"]) for turn in turns])
    questions = [
        Question(
            one["question_id"],
            one["question_type"],
            one["question"],
            frozenset(one["answer_session_ids"]),
            turns=_marked(one),
            now=_asked_at(one["question_date"]),
        )
        for one in asked
        if not one["question_id"].endswith("_abs")
    ]
    return [World(sorted(talks.values(), key=lambda talk: talk.ts), questions)]


def _asked_at(date: str) -> float:
    return datetime.strptime(date, "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC).timestamp()


def _marked(question: Any) -> frozenset[str]:
    sessions = zip(question["haystack_session_ids"], question["haystack_sessions"], strict=True)
    return frozenset(
        f"{name}#{place}"
        for name, turns in sessions
        for place, turn in enumerate(turns)
        if turn.get("has_answer")
    )


def realmem() -> list[World]:
    return [_persona(path) for path in sorted((DATA / "memory" / "realmem").glob("*.json.gz"))]


def _persona(path: Path) -> World:
    talks, questions = [], []
    dialogues = _opened(f"realmem/{path.name}")["dialogues"]
    origins = _origins(dialogues)
    for place, one in enumerate(dialogues):
        turns = one["dialogue_turns"]
        # Dates repeat; the order is that of the file.
        ts = (place + 1) * DAY
        said = [(turn["speaker"].lower(), turn["content"]) for turn in turns]
        talks.append(Talk(one["session_uuid"], ts, said))
        for turn, reply in pairwise(turns):
            used = _listed(reply.get("memory_session_uuids"))
            if turn.get("is_query") is True and used:
                name = f"{path.name.partition('_dialogues')[0]}/{turn['query_id']}"
                kind = str(turn.get("category_name"))
                from_turns = frozenset(
                    origins[memory]
                    for item in _listed(reply.get("memory_used"))
                    if (memory := (item.get("session_uuid"), item.get("content"))) in origins
                )
                questions.append(
                    Question(name, kind, turn["content"], frozenset(used), ts, from_turns)
                )
    return World(talks, questions)


def _origins(dialogues: Any) -> dict[tuple[str, str], str]:
    """The turn that each memory was taken from, by its session and its words.

    Of 978 uses 73 name a memory that is in none of the lists; they are left out.
    """
    found: dict[tuple[str, str], str] = {}
    for one in dialogues:
        name = one["session_uuid"]
        places: dict[str, int] = {}
        for place, turn in enumerate(one["dialogue_turns"]):
            places.setdefault(turn["content"], place)
        for memory in one["extracted_memory"] or []:
            origin = places.get(memory.get("source_content_snapshot"))
            if origin is not None:
                found.setdefault((name, memory["content"]), f"{name}#{origin}")
    return found


def _listed(value: Any) -> Any:
    return ast.literal_eval(value) if isinstance(value, str) else value or []


def qmsum() -> list[World]:
    worlds = []
    with gzip.open(DATA / "memory" / "qmsum" / "val.jsonl.gz", "rt") as file:
        for number, line in enumerate(file):
            meeting = json.loads(line)
            turns = meeting["meeting_transcripts"]
            said = [("user", f"{turn['speaker']}: {turn['content']}") for turn in turns]
            questions = [
                Question(
                    f"qmsum/{number}/{place}",
                    "specific",
                    one["query"],
                    frozenset(f"{first}-{last}" for first, last in one["relevant_text_span"]),
                )
                for place, one in enumerate(meeting["specific_query_list"])
            ]
            worlds.append(World([Talk(f"meeting-{number}", DAY, said)], questions, by_message=True))
    return worlds


SETS: dict[str, Callable[[], list[World]]] = {
    "longmemeval": longmemeval,
    "realmem": realmem,
    "qmsum": qmsum,
}


# Vectors, kept


class Kept:
    """An embedder that keeps what it has made, so that a second run costs nothing."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, vector BLOB)")

    @property
    def name(self) -> str:
        return self._embedder.name

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        keys = [self.key(text) for text in texts]
        known = {key: self._known(key) for key in keys}
        new = {key: text for key, text in zip(keys, texts, strict=True) if known[key] is None}
        if new:
            made = self._embedder.embed(list(new.values()))
            rows = list(zip(new, made, strict=True))
            self._db.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", rows)
            known |= rows
        return [known[key] or b"" for key in keys]

    def key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.name}\n{text.strip()}".encode()).digest()[:16]

    def _known(self, key: bytes) -> bytes | None:
        found = self._db.execute("SELECT vector FROM kept WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None


# What is compared: each gives the sessions or messages of a world in the order it finds them


def plain_bm25(world: World, *, by_message: bool) -> Callable[[Question], list[str]]:
    """BM25 as in any textbook: k1 1.2, b 0.75, words in lower case, no stemming."""
    units = _units(world, by_message=by_message)
    counts = [Counter(_plain_words(text)) for _name, _ts, text in units]

    def order(question: Question) -> list[str]:
        inside = [
            place
            for place, (_name, ts, _text) in enumerate(units)
            if question.before is None or ts < question.before
        ]
        sizes = {place: counts[place].total() for place in inside}
        average = sum(sizes.values()) / max(1, len(sizes))
        words = _plain_words(question.text)
        holding = Counter(word for place in inside for word in set(words) if word in counts[place])
        worth = {
            word: math.log(1 + (len(inside) - held + 0.5) / (held + 0.5))
            for word, held in holding.items()
        }
        scores = {
            place: sum(
                worth[word] * found * 2.2 / (found + 1.2 * (0.25 + 0.75 * sizes[place] / average))
                for word in words
                if (found := counts[place][word])
            )
            for place in inside
        }
        best = sorted(inside, key=lambda place: (-scores[place], place))
        return [units[place][0] for place in best]

    return order


def vectors_alone(
    world: World, embedder: Embedder, *, by_message: bool
) -> Callable[[Question], list[str]]:
    """Each session or message by its passage that comes nearest to the question."""
    rows = [
        (name, ts, part)
        for talk in world.talks
        for place, (_role, text) in enumerate(talk.messages)
        for part in passages(text)
        for name, ts in [(f"{talk.id}#{place}" if by_message else talk.id, talk.ts)]
    ]
    made = embedder.embed([part for _name, _ts, part in rows])
    vectors = Vectors((id_, 1, vector) for id_, vector in enumerate(made))

    def order(question: Question) -> list[str]:
        (vector,) = embedder.embed([question.text])
        before = question.before
        asked = {id_ for id_, row in enumerate(rows) if before is None or row[1] < before}
        near = vectors.nearest(vector, len(rows), asked)
        return list(dict.fromkeys(rows[id_][0] for id_, _similarity in near))

    return order


def ours(world: World, embedder: Embedder | None) -> Callable[[Question], tuple[list[Hit], str]]:
    """`Memory`, with the sessions in a store as they would be: a hundred hits, and the block.

    Their citations are `session#place`.
    """
    memory, places = remembered(world, embedder)

    @cache
    def search(question: Question) -> tuple[list[Hit], str]:
        hits = memory.search(
            question.text,
            scope="sessions",
            limit=HITS,
            before=question.before,
            now=question.now,
            refresh=False,
        )
        assert not memory.notice, memory.notice
        block = memory.injection(hits[:RECALL_LIMIT])
        block = _HEAD.sub(lambda head: head[0].replace(head[1], places[head[1]]), block)
        return [msgspec.structs.replace(hit, citation=places[hit.citation]) for hit in hits], block

    return search


def remembered(world: World, embedder: Embedder | None) -> tuple[Memory, dict[str, str]]:
    """A memory of the world, and what each of its citations stands for."""
    store = MemoryStore()
    places: dict[str, str] = {}
    for number, talk in enumerate(world.talks):
        key = SessionKey("main", f"s{number}")
        store.create(key)
        records: list[Record] = [
            User(content=text, ts=talk.ts)
            if role == "user"
            else Assistant(content=text, ts=talk.ts)
            for role, text in talk.messages
        ]
        for start in range(0, len(records), 500):
            ids = store.append(key, records[start : start + 500], expect=None).ids
            for place, record in enumerate(ids, start):
                places[f"{key}#{record}"] = f"{talk.id}#{place}"
    memory = Memory(store, None, embedder=embedder)
    memory.refresh("sessions")
    memory.embed()
    return memory, places


def _units(world: World, *, by_message: bool) -> list[tuple[str, float, str]]:
    if by_message:
        return [
            (f"{talk.id}#{place}", talk.ts, text)
            for talk in world.talks
            for place, (_role, text) in enumerate(talk.messages)
        ]
    return [
        (talk.id, talk.ts, "\n".join(text for _role, text in talk.messages)) for talk in world.talks
    ]


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


# Judging

SESSIONS, EXCHANGES, MESSAGES = "by session", "by exchange", "by message"
_HEAD = re.compile(r"^\[(?:User|Assistant) (?P<citation>[^\s\],]+)[^\]\n]*\]$", re.MULTILINE)
"""The line above each part of a block, with its citation."""


@dataclass(slots=True)
class Result:
    """The recall of one system on one half of a set, for each depth and kind of question."""

    found: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    any_found: list[float] = field(default_factory=list)
    kinds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    in_view: list[float] = field(default_factory=list)
    """By message: the evidence that stands in the block for a prompt."""
    kinds_in_view: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def mean(self, depth: int) -> float:
        return statistics.fmean(self.found[depth])


Results = dict[str, dict[str, dict[str, Result]]]
"""Level → system → half."""


def _worth(question: Question, level: str, world: World, credits_: Mapping[str, float]) -> float:
    """The mean of what each piece of evidence counts; of a span, its best message."""
    if level == SESSIONS:
        return statistics.fmean(credits_.get(one, 0.0) for one in question.evidence)
    if question.turns:
        turns = question.turns
        wanted = {world.exchanges[turn] for turn in turns} if level == EXCHANGES else turns
        return statistics.fmean(credits_.get(one, 0.0) for one in wanted)
    (talk,) = world.talks
    spans = [tuple(map(int, span.split("-"))) for span in question.evidence]
    return statistics.fmean(
        max(credits_.get(f"{talk.id}#{place}", 0.0) for place in range(a, b + 1)) for a, b in spans
    )


def _shown(block: str) -> Counter[str]:
    """The characters that a block shows of each citation."""
    heads = list(_HEAD.finditer(block))
    shown: Counter[str] = Counter()
    for place, head in enumerate(heads, 1):
        end = heads[place].start() if place < len(heads) else block.rfind("\n</")
        shown[head["citation"]] += len(block[head.end() : end].strip())
    return shown


def _systems(
    world: World, embedder: Embedder | None, found: dict[str, Any]
) -> dict[str, Callable[[Question, str], tuple[list[str], Counter[str]]]]:
    """Each gives an order, and what its block shows; `found` has the hits of `Memory`."""
    texts = {
        f"{talk.id}#{place}": said
        for talk in world.talks
        for place, said in enumerate(talk.messages)
    }

    def bare(rank: int, message: str) -> Hit:
        """A message as the hit of a plain search, with the turns beside it. Its score leaves the
        order as it is."""
        name, _, place = message.rpartition("#")
        near = {step: f"{name}#{int(place) + step}" for step in (-2, -1, 1, 2)}
        turns = {
            step: NeighbourTurn(texts[one][0], one, texts[one][1][:MESSAGE_CHARS])
            for step, one in near.items()
            if one in texts
        }
        before = tuple(turns[step] for step in (-2, -1) if step in turns)
        after = tuple(turns[step] for step in (1, 2) if step in turns)
        role, text = texts[message]
        return Hit(0.5**rank, message, text[:1_000], role, turns_before=before, turns_after=after)

    def plain(make: Callable[[bool], Callable[[Question], list[str]]]) -> Any:
        of_sessions, of_messages = make(False), make(True)

        def give(question: Question, level: str) -> tuple[list[str], Counter[str]]:
            if level == SESSIONS:
                return of_sessions(question), Counter()
            order = of_messages(question)
            given = [bare(rank, message) for rank, message in enumerate(order[:RECALL_LIMIT])]
            view = _shown(injection(given, INJECTION_CHARS))
            return _at(level, order, world), view

        return give

    def of(search: Callable[[Question], tuple[list[Hit], str]]) -> Any:
        def give(question: Question, level: str) -> tuple[list[str], Counter[str]]:
            hits, block = search(question)
            return _at(level, [hit.citation for hit in hits], world), _shown(block)

        return give

    systems = {
        "plain BM25": plain(lambda by_message: plain_bm25(world, by_message=by_message)),
        "Holdfast, words": of(found["words"]),
    }
    if embedder is not None:
        systems["vectors alone"] = plain(
            lambda by_message: vectors_alone(world, embedder, by_message=by_message)
        )
        systems["Holdfast, words and vectors"] = of(found["vectors"])
    return systems


def _at(level: str, messages: list[str], world: World) -> list[str]:
    if level == SESSIONS:
        messages = [message.rpartition("#")[0] for message in messages]
    if level == EXCHANGES:
        messages = [world.exchanges[message] for message in messages]
    return list(dict.fromkeys(messages))


def judged(
    name: str, embedder: Embedder | None, *, tuned_only: bool, sample: int | None = None
) -> Results:
    """The results of a set at each level that it has evidence for."""
    results: Results = defaultdict(lambda: defaultdict(lambda: defaultdict(Result)))
    worlds = SETS[name]()
    asked = [question.id for world in worlds for question in world.questions]
    if sample is not None:
        asked = random.Random(20_261_119).sample(asked, min(sample, len(asked)))
    wanted = set(asked)
    for world in worlds:
        found = {"words": ours(world, None)}
        if embedder is not None:
            found["vectors"] = ours(world, embedder)
        systems = _systems(world, embedder, found)
        levels = (MESSAGES,) if world.by_message else (SESSIONS, EXCHANGES, MESSAGES)
        for level in levels:
            for system, give in systems.items():
                for question in world.questions:
                    has_evidence = bool(question.turns) or world.by_message or level == SESSIONS
                    is_asked = question.is_for_tuning or not tuned_only
                    if has_evidence and is_asked and question.id in wanted:
                        half = "tuned" if question.is_for_tuning else "judged"
                        order, view = give(question, level)
                        for part in (half, "all"):
                            _add(results[level][system][part], question, order, view, level, world)
    return results


def _add(
    result: Result,
    question: Question,
    order: Sequence[str],
    view: Counter[str],
    level: str,
    world: World,
) -> None:
    for depth in DEPTHS:
        credits_ = dict.fromkeys(order[:depth], 1.0)
        result.found[depth].append(_worth(question, level, world, credits_))
    result.kinds[question.kind].append(result.found[DEPTHS[0]][-1])
    result.any_found.append(float(result.found[DEPTHS[0]][-1] > 0))
    if level == MESSAGES:
        sizes = world.sizes
        credits_ = {
            one: min(1.0, count / max(1, min(MESSAGE_CHARS, sizes[one])))
            for one, count in view.items()
        }
        shown = _worth(question, level, world, credits_)
        result.in_view.append(shown)
        result.kinds_in_view[question.kind].append(shown)


# Standing words


@dataclass(frozen=True)
class Rule:
    """An instruction in force at the end of a dialogue, and a task to which it applies."""

    words: frozenset[str]
    value: str
    task: str
    outdated: frozenset[str]

    def held_by(self, line: str, value: str) -> bool:
        """A line says it where it has the value and half of the other words."""
        return value in line and 2 * len(self.words & set(terms(line))) >= len(self.words)


def memorycode() -> Iterator[tuple[str, World, list[Rule]]]:
    """The dialogues of MemoryCode: the mentor is the user, the mentee replies."""
    quoted = re.compile(r"'([^']+)'")
    for path in sorted((DATA / "memory" / "memorycode").glob("*.json*")):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
            dialogue = json.load(file)
        talks: list[Talk] = []
        rules: dict[str, Rule] = {}
        for number, session in enumerate(dialogue["sessions"]):
            messages: list[tuple[str, str]] = []
            for part in re.split(r"\n\s*\n", session["text"]):
                said = re.match(r"\s*([^:\n]{1,40}):\s*(.*)", part, re.DOTALL)
                if said:
                    is_mentor = said[1].strip() == dialogue["context"]["mentor"]
                    messages.append(("user" if is_mentor else "assistant", said[2].strip()))
                elif messages:  # a list, or another paragraph, of the same message
                    messages[-1] = (messages[-1][0], f"{messages[-1][1]}\n\n{part.strip()}")
            talks.append(Talk(f"{number}", (number + 1) * DAY, messages))
            kinds = zip(session["type"], session["topic"], strict=False)
            topics = [topic for kind, topic in kinds if kind.startswith("instruction")]
            for topic, task in zip(topics, session["session_eval_query"], strict=False):
                value = (quoted.findall(topic) or [""])[0]
                has_name = "decorator" in topic or "import" in topic
                frame = topic if has_name else quoted.sub("", topic)
                bare = re.sub(r"^(always|never) ", "", quoted.sub("", topic))
                words = frozenset(term for term in terms(bare) if not is_common(term))
                before = rules.get(frame)
                gone = before.outdated | {before.value} if before else frozenset[str]()
                rules[frame] = Rule(words, value, task, gone - {value})
        yield path.name.partition(".")[0], World(talks, []), list(rules.values())


def standing(*, tuned_only: bool) -> Iterator[tuple[str, str, int, float, float]]:
    """Half, system, rules, and the share that holds in 1,000 characters: by rule, by dialogue.

    A rule counts where a line of the block says it, and none says an outdated one.
    """
    by_dialogue: dict[tuple[str, str], list[list[bool]]] = defaultdict(list)
    for name, world, rules in memorycode():
        is_tuned = hashlib.sha256(name.rpartition("_")[2].encode()).digest()[0] % 2 == 0
        if tuned_only and not is_tuned:
            continue
        memory, _places = remembered(world, None)
        for system in ("hits alone", "standing"):
            held = []
            for rule in rules:
                stands = system == "standing"
                hits = memory.search(rule.task, scope="sessions", refresh=False, standing=stands)
                hits = [hit for hit in hits if hit.is_standing == stands]
                lines = listing(hits, STANDING_CHARS_MAX).splitlines()
                is_in = any(rule.held_by(line, rule.value) for line in lines)
                is_out = any(rule.held_by(line, old) for line in lines for old in rule.outdated)
                held.append(is_in and not is_out)
            by_dialogue["tuned" if is_tuned else "judged", system].append(held)
    for (half, system), dialogues in sorted(by_dialogue.items()):
        every = [float(one) for held in dialogues for one in held]
        by_one = statistics.fmean(statistics.fmean(map(float, held)) for held in dialogues)
        yield half, system, len(every), statistics.fmean(every), by_one


# Speed


def indexing() -> float:
    """CPU of the first search of 150 sessions, by that of a plain insert; the least of three."""
    talks = longmemeval()[0].talks[:150]
    store = MemoryStore()
    for place, talk in enumerate(talks):
        key = SessionKey("main", f"s{place}")
        store.create(key)
        said = [
            User(content=text) if role == "user" else Assistant(content=text, model="m")
            for role, text in talk.messages
        ]
        store.append(key, said, expect=None)

    def ours() -> float:
        store.search_index.forget([source.id for source in store.search_index.sources()])
        start = time.thread_time()
        Memory(store, None).refresh("sessions")
        return time.thread_time() - start

    def plain() -> float:
        database = sqlite3.connect(":memory:")
        database.execute("CREATE VIRTUAL TABLE messages USING fts5(text)")
        start = time.thread_time()
        for talk in talks:
            with database:
                database.executemany(
                    "INSERT INTO messages VALUES (?)", [(text,) for _role, text in talk.messages]
                )
        taken = time.thread_time() - start
        database.close()
        return taken

    return min(ours() for _ in range(3)) / min(plain() for _ in range(3))


def speed() -> Iterator[tuple[int, float, float]]:
    """Passages in the index, median and 95th percentile of a query's CPU in ms, words alone."""
    texts = [
        part
        for world in (*longmemeval(), *realmem())
        for talk in world.talks
        for _role, text in talk.messages
        for part in passages(text)
    ]
    questions = [
        question.text for world in (*longmemeval(), *realmem()) for question in world.questions
    ]
    chance = random.Random(20_261_116)
    asked = chance.sample(questions, 60)
    for size in SIZES:
        memory = _grown(texts, size, chance)
        taken = []
        for query in asked:
            start = time.thread_time()
            memory.search(query, scope="sessions", refresh=False)
            taken.append(1_000 * (time.thread_time() - start))
        taken.sort()
        yield size, statistics.median(taken), taken[int(0.95 * len(taken))]


def _grown(texts: Sequence[str], size: int, chance: random.Random) -> Memory:
    """A memory of so many passages, 40 to a session: real ones, then sentences of real ones."""
    sentences = [one for text in texts for one in re.split(r"(?<=[.!?])\s+", text) if one]
    store = MemoryStore()
    for start in range(0, size, 40):
        key = SessionKey("main", f"s{start}")
        store.create(key)
        parts = [
            texts[place] if place < len(texts) else " ".join(chance.sample(sentences, 6))
            for place in range(start, min(start + 40, size))
        ]
        made = [
            IndexPassage(part, terms(part), "user", record=str(start), ts=DAY) for part in parts
        ]
        store.search_index.replace([NewSource("session", str(key), "", "", made)])
    return Memory(store, None)


# The page


def page(
    sets: Sequence[str], embedder: Embedder | None, *, tuned_only: bool, sample: int | None
) -> str:
    lines = [
        "# Memory search, measured",
        "",
        "Made by `benchmarks/memory.py`; what is measured is in [`docs/memory.md`](../memory.md). "
        "Results that miss their goal are kept.",
        "",
        *(f"- {name}: {value}" for name, value in _about().items()),
    ]
    for name in sets:
        for level, results in judged(name, embedder, tuned_only=tuned_only, sample=sample).items():
            lines += ["", f"## {name}, {level}", "", *_table(results), "", *_kinds(results)]
    return "\n".join(lines) + "\n"


def _table(results: dict[str, dict[str, Result]]) -> Iterator[str]:
    floor = results["plain BM25"]
    halves = [half for half in ("judged", "tuned", "all") if half in floor]
    has_view = bool(floor[halves[0]].in_view)
    names = [f"{half} @{depth}" for half in halves for depth in DEPTHS]
    names += [f"{half} any @{DEPTHS[0]}" for half in halves]
    names += [f"{half} in view" for half in halves if has_view]
    yield "| | " + " | ".join(names) + " |"
    yield "| --- |" + " ---: |" * len(names)
    for system, found in results.items():
        cells = [f"{found[half].mean(depth):.3f}" for half in halves for depth in DEPTHS]
        cells += [f"{statistics.fmean(found[half].any_found):.3f}" for half in halves]
        cells += [f"{statistics.fmean(found[half].in_view):.3f}" for half in halves if has_view]
        yield f"| {system} | {' | '.join(cells)} |"
    counts = ", ".join(f"{len(floor[half].found[5])} {half}" for half in halves)
    gains = ", ".join(
        f"{system} {100 * (found[halves[0]].mean(5) - floor[halves[0]].mean(5)):+.1f}"
        for system, found in results.items()
        if system != "plain BM25"
    )
    yield ""
    yield f"Questions: {counts}. Points of recall@5 over BM25, {halves[0]}: {gains}."


def _kinds(results: dict[str, dict[str, Result]]) -> Iterator[str]:
    counts = {kind: len(found) for kind, found in results["plain BM25"]["all"].kinds.items()}
    if len(counts) < 2:
        return
    tables = {f"Recall@{DEPTHS[0]}": "kinds", "In view": "kinds_in_view"}
    for title, name in tables.items():
        if not getattr(results["plain BM25"]["all"], name):
            continue
        yield f"{title} by kind of question (how many), all halves above:"
        yield ""
        yield "| | " + " | ".join(f"{kind} ({counts[kind]})" for kind in sorted(counts)) + " |"
        yield "| --- |" + " ---: |" * len(counts)
        for system, found in results.items():
            of_kind = getattr(found["all"], name)
            cells = [f"{statistics.fmean(of_kind[kind]):.3f}" for kind in sorted(counts)]
            yield f"| {system} | {' | '.join(cells)} |"
        yield ""


@cache
def _about() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT, capture_output=True, text=True
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "command": f"python benchmarks/memory.py {' '.join(sys.argv[1:])}".strip(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--set", action="append", choices=list(SETS), help="only this one")
    parser.add_argument("--embedder", default="off", metavar="NAME", help="vectors as well")
    parser.add_argument("--tuned", action="store_true", help="only the half for tuning")
    parser.add_argument("--sample", type=int, metavar="N", help="N questions of each set")
    parser.add_argument("--standing", action="store_true", help="instructions of MemoryCode")
    parser.add_argument("--speed", action="store_true", help="query time as memory grows")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    args = parser.parse_args()
    if args.speed:
        print(f"indexing: {indexing():.1f} times a plain insert of the same messages into FTS5")
        for size, median, high in speed():
            print(f"{size:>8,} passages: median {median:.1f} ms, p95 {high:.1f} ms")
        return
    if args.standing:
        for half, system, count, by_rule, by_dialogue in standing(tuned_only=args.tuned):
            print(
                f"{half:7} {system:11} {count:4} rules {by_rule:.3f}, by dialogue {by_dialogue:.3f}"
            )
        return
    found = embedder(args.embedder)
    kept = Kept(found, CACHE) if found else None
    text = page(args.set or list(SETS), kept, tuned_only=args.tuned, sample=args.sample)
    print(text)
    if args.write:
        args.write.write_text(text)


if __name__ == "__main__":
    main()
