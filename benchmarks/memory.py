"""How often memory finds the evidence for a question, beside plain BM25 and vectors alone.

    .venv/bin/python benchmarks/memory.py [--set realmem] [--no-vectors] [--write PAGE] [--json]
    .venv/bin/python benchmarks/memory.py --speed          # query time as memory grows

The sets are looked for in ../shared/data or where HOLDFAST_DATA points: LongMemEval with the
sessions of all questions pooled, RealMem with the sessions before each query, QMSum with one
meeting at a time. No model answers anything: a question counts by the share of its evidence
(sessions; for QMSum the spans of the meeting) among the first 5 or 10 that are found.

Every set is parted by a hash of the question's id. What has weights was tuned on the first half
alone, and is judged on the second. Vectors take minutes of CPU; they are kept in benchmarks/.cache.
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
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import Assistant, Memory, SessionKey, User
from holdfast.memory import Vectors, find_embedder, passages, terms
from holdfast.stores import IndexPassage, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast import Record
    from holdfast.memory import Embedder

PROJECT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HOLDFAST_DATA", PROJECT.parent / "shared" / "data"))
CACHE = PROJECT / "benchmarks" / ".cache" / "vectors.sqlite3"
DEPTHS = (5, 10)
HITS = 100
SIZES = (1_000, 10_000, 100_000)
DAY = 86_400.0
GOALS = {"longmemeval": 0.09, "realmem": 0.08}
"""How far ahead of plain BM25, in recall@5, with vectors."""


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

    @property
    def is_for_tuning(self) -> bool:
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0


@dataclass(frozen=True, slots=True)
class World:
    """Sessions that are searched together, and what is asked about them."""

    talks: list[Talk]
    questions: list[Question]
    by_message: bool = False
    """Evidence is a span of messages in the only session, not a session."""


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
            ts = datetime.strptime(date, "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC).timestamp()
            talks[name] = Talk(name, ts, [(turn["role"], turn["content"]) for turn in turns])
    questions = [
        Question(
            one["question_id"],
            one["question_type"],
            one["question"],
            frozenset(one["answer_session_ids"]),
        )
        for one in asked
        if not one["question_id"].endswith("_abs")
    ]
    return [World(sorted(talks.values(), key=lambda talk: talk.ts), questions)]


def realmem() -> list[World]:
    return [_persona(path) for path in sorted((DATA / "memory" / "realmem").glob("*.json.gz"))]


def _persona(path: Path) -> World:
    talks, questions = [], []
    for place, one in enumerate(_opened(f"realmem/{path.name}")["dialogues"]):
        turns = one["dialogue_turns"]
        # Dates repeat; the order is that of the file.
        ts = (place + 1) * DAY
        said = [(turn["speaker"].lower(), turn["content"]) for turn in turns]
        talks.append(Talk(one["session_uuid"], ts, said))
        for turn, reply in pairwise(turns):
            used = reply.get("memory_session_uuids") or []
            used = ast.literal_eval(used) if isinstance(used, str) else used
            if turn.get("is_query") is True and used:
                name = f"{path.name.partition('_dialogues')[0]}/{turn['query_id']}"
                kind = str(turn.get("category_name"))
                questions.append(Question(name, kind, turn["content"], frozenset(used), ts))
    return World(talks, questions)


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


# What is compared: each gives the sessions (or messages) of a world in the order it finds them


def plain_bm25(world: World) -> Callable[[Question], list[str]]:
    """BM25 as in any textbook: k1 1.2, b 0.75, words in lower case, no stemming, whole sessions."""
    units = _units(world)
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


def vectors_alone(world: World, embedder: Embedder) -> Callable[[Question], list[str]]:
    """Each session by its passage that comes nearest to the question."""
    rows = [
        (name, ts, part)
        for talk in world.talks
        for place, (_role, text) in enumerate(talk.messages)
        for part in passages(text)
        for name, ts in [(str(place) if world.by_message else talk.id, talk.ts)]
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


def ours(world: World, embedder: Embedder | None) -> Callable[[Question], list[str]]:
    """`Memory`, with the sessions in a store as they would be, asked for a hundred hits."""
    memory, places = remembered(world, embedder)

    def order(question: Question) -> list[str]:
        hits = memory.search(
            question.text, scope="sessions", limit=HITS, before=question.before, refresh=False
        )
        assert not memory.notice, memory.notice
        return list(dict.fromkeys(places[hit.citation] for hit in hits))

    return order


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
                places[f"{key}#{record}"] = str(place) if world.by_message else talk.id
    memory = Memory(store, None, embedder=embedder)
    memory.refresh("sessions")
    memory.embed()
    return memory, places


def _units(world: World) -> list[tuple[str, float, str]]:
    if world.by_message:
        (talk,) = world.talks
        return [(str(place), talk.ts, text) for place, (_role, text) in enumerate(talk.messages)]
    return [
        (talk.id, talk.ts, "\n".join(text for _role, text in talk.messages)) for talk in world.talks
    ]


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


# Judging


@dataclass(slots=True)
class Result:
    """The recall of one system on one half of a set, for each depth and kind of question."""

    found: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    kinds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, question: Question, order: Sequence[str], *, by_message: bool) -> None:
        for depth in DEPTHS:
            self.found[depth].append(_recall(question, order[:depth], by_message=by_message))
        self.kinds[question.kind].append(self.found[DEPTHS[0]][-1])

    def mean(self, depth: int) -> float:
        return statistics.fmean(self.found[depth])


def _recall(question: Question, found: Iterable[str], *, by_message: bool) -> float:
    if not by_message:
        return len(question.evidence & set(found)) / len(question.evidence)
    places = [int(one) for one in found]
    spans = [tuple(map(int, span.split("-"))) for span in question.evidence]
    return statistics.fmean(any(a <= place <= b for place in places) for a, b in spans)


def judged(name: str, embedder: Embedder | None) -> dict[str, dict[str, Result]]:
    """System → half → result."""
    results: dict[str, dict[str, Result]] = defaultdict(lambda: defaultdict(Result))
    for world in SETS[name]():
        systems: dict[str, Callable[[Question], list[str]]] = {
            "plain BM25": plain_bm25(world),
            "Holdfast, words": ours(world, None),
        }
        if embedder is not None:
            systems["vectors alone"] = vectors_alone(world, embedder)
            systems["Holdfast, words and vectors"] = ours(world, embedder)
        for system, order in systems.items():
            for question in world.questions:
                half = "tuned" if question.is_for_tuning else "judged"
                found = order(question)
                for one in (half, "all"):
                    results[system][one].add(question, found, by_message=world.by_message)
    return results


# Speed


def speed() -> Iterator[tuple[int, float, float]]:
    """Passages in the index, median and 95th percentile of a query's milliseconds, words alone."""
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
            start = time.perf_counter()
            memory.search(query, scope="sessions", refresh=False)
            taken.append(1_000 * (time.perf_counter() - start))
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
        store.search_index.replace("session", str(key), stamp="", head="", passages=made)
    return Memory(store, None)


# The page


def page(sets: Sequence[str], embedder: Embedder | None) -> str:
    lines = [
        "# Memory search, measured",
        "",
        "Made by `benchmarks/memory.py`; what is measured is in [`docs/memory.md`](../memory.md). "
        "Results that miss their goal are kept.",
        "",
        *(f"- {name}: {value}" for name, value in _about().items()),
    ]
    for name in sets:
        results = judged(name, embedder)
        lines += ["", f"## {name}", "", *_table(name, results), "", *_kinds(results)]
    return "\n".join(lines) + "\n"


def _table(name: str, results: dict[str, dict[str, Result]]) -> Iterator[str]:
    halves = ("judged", "tuned", "all")
    yield "| | " + " | ".join(f"{half} @{depth}" for half in halves for depth in DEPTHS) + " |"
    yield "| --- |" + " ---: |" * (len(halves) * len(DEPTHS))
    for system, found in results.items():
        cells = [f"{found[half].mean(depth):.3f}" for half in halves for depth in DEPTHS]
        yield f"| {system} | {' | '.join(cells)} |"
    counts = {half: len(results["plain BM25"][half].found[5]) for half in halves}
    yield ""
    yield (
        f"Recall of the evidence among the first 5 and 10; {counts['judged']} questions judged, "
        f"{counts['tuned']} tuned on. {_verdict(name, results)}"
    )


def _verdict(name: str, results: dict[str, dict[str, Result]]) -> str:
    floor = results["plain BM25"]["judged"].mean(5)
    best = results.get("Holdfast, words and vectors")
    words = results["Holdfast, words"]["judged"].mean(5) - floor
    said = f"Words alone: {100 * words:+.1f} points over BM25 (goal: ahead)"
    if best is not None:
        gain = best["judged"].mean(5) - floor
        over = best["judged"].mean(5) - results["vectors alone"]["judged"].mean(5)
        goal = f"goal {100 * GOALS[name]:+.0f}" if name in GOALS else "goal: ahead"
        said += (
            f"; with vectors: {100 * gain:+.1f} ({goal}), and {100 * over:+.1f} over vectors alone"
        )
    return f"{said}."


def _kinds(results: dict[str, dict[str, Result]]) -> Iterator[str]:
    kinds = sorted(results["plain BM25"]["all"].kinds)
    if len(kinds) < 2:
        return
    yield "Recall@5 by kind of question, both halves:"
    yield ""
    yield "| | " + " | ".join(kinds) + " |"
    yield "| --- |" + " ---: |" * len(kinds)
    for system, found in results.items():
        cells = [f"{statistics.fmean(found['all'].kinds[kind]):.3f}" for kind in kinds]
        yield f"| {system} | {' | '.join(cells)} |"


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
    parser.add_argument("--no-vectors", action="store_true")
    parser.add_argument("--speed", action="store_true", help="query time as memory grows")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    args = parser.parse_args()
    if args.speed:
        for size, median, high in speed():
            print(f"{size:>8,} passages: median {median:.1f} ms, p95 {high:.1f} ms")
        return
    found = None if args.no_vectors else find_embedder()
    text = page(args.set or list(SETS), Kept(found, CACHE) if found else None)
    print(text)
    if args.write:
        args.write.write_text(text)


if __name__ == "__main__":
    main()
