"""What a reader of the request after a cut can still tell, on real sessions that were compacted.

    .venv/bin/python benchmarks/story.py [--data FOLDER] [--half tuned|judged|all] [--json FILE]

No model is called. Each shared session that its own tool compacted is cut at that place, at once
and in three and ten steps: by code alone, with prose of a stand-in for a model
(`holdfast.providers.offline`), and from what the proxy stores of the same messages.
The request after the cut is compared with the newest tokens of the same size, the summary that
the tool's model wrote, and the whole past, by six measures: questions with their evidence
(`../shared/probes`), statements of the real summary, names that the next 30 calls use, the user's
messages, the user's words in refusals, and size. Figures: docs/benchmarks/story.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from bisect import bisect_right
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.policies import data_folders

from holdfast import Assistant, Policy, ToolResult, User, Window, importers
from holdfast.context import ProjectionRequest
from holdfast.core.compaction import summary_request
from holdfast.core.compaction.summary_check import judge
from holdfast.core.evaluation.needs import facts_in
from holdfast.core.models.replies import Reply
from holdfast.core.narrative.carryover import prose_cap
from holdfast.core.narrative.digest import digest_record
from holdfast.core.projection.project import project
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.compact import records_covered_by
from holdfast.core.turn.run import cut_in
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.request import ClientRequest
from holdfast.engine.simulation.transcripts import text_in
from holdfast.models import target
from holdfast.providers.offline import summaries
from holdfast.records import Compaction, text_of, tool_calls
from holdfast.stores import MemoryStore
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast import Record
    from holdfast.context import Plan
    from holdfast.core.models.messages import Message
    from holdfast.core.projection.request import Pressure

HERE = Path(__file__).resolve().parent
V010 = HERE / "story_v0.1.0.json"
"""Tokens of the request after each cut as v0.1.0 made it: the cap, session by session."""
WINDOWS = (32_000, 64_000, 200_000)
CUTS = (1, 3, 10)
MODEL = "claude-sonnet-4-5"
SUMMARY_INPUT = 60_000
"""Tokens of the narrative that the stand-in for a model reads."""
NEXT_CALLS = 30
TRIES = 8
TAIL_SHARE = 0.25
"""Of a capped request: what stays whole of the newest part."""
SECTIONS = re.compile(r"request|error|problem|pending|current|next", re.IGNORECASE)
HEADING = re.compile(r"^(?:#{1,4} *)?\**\d+\. \**([A-Z][^:\n]{3,60}):?\**:?\s*$")
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n")
WORD = re.compile(r"[^\W_]+(?:['’][a-z]+)?")
NAME_LISTS = re.compile(
    r"^## (?:Names that came up|Files changed|Files read|Exact names)[^\n]*\n(?:(?!## |</).+\n?)*",
    re.MULTILINE,
)
"""Sections of ours that are lists of names or files: a statement cannot stand in them. They end
with an empty line or the fence around the carry-over; what stays whole begins behind it."""
EPILOGUE = "\nIf you need specific details from before compaction"
"""What the tool adds behind every summary says nothing about the session."""
REFUSED = "the user said:\n"
"""How the tool of these sessions words a refusal with a reason."""
STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a about above after again all also am an and any are as at be because been before
        being below between both but by can could did do does doing done down during each
        few for from further had has have having he her here hers him his how i if in into
        is it its itself just let like made make me more most my need needed needs new no
        nor not now of off on once only or other our out over own same she should so some
        still such than that the their them then there these they this those through to too
        under until up use used user using very was we were what when where which while who
        why will with would you your
        """,
    )
)
CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The conversation is summarized below:\nSummary:\n"
)
"""What the tool of these sessions writes before the summary that it goes on from."""
NONSENSE = ("glorp", "vexit", "quandle", "zibbet", "morfin", "trazzle", "plimsy", "wuddle")
KINDS = ("code", "prose", "proxy")
"""How the cuts are made: by code, with a stand-in's prose, and of what the proxy has stored."""
PROSE: dict[tuple[str, str, str, int], str] = {}
"""What the stand-in wrote about so many records."""
WAYS = ("ours", "newest tokens", "real summary", "whole past")


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a real session was compacted."""

    name: str
    past: list[Record]
    after: list[Record]
    summary: str
    questions: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Made:
    """The request after a cut."""

    messages: tuple[Message, ...] = ()
    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    """CPU of the last cut."""
    prose: int = 0
    """Tokens of the stand-in's prose in it."""


@dataclass(slots=True)
class Score:
    """Hits of how many, for each measure."""

    hits: dict[str, list[int]] = field(default_factory=dict)
    tokens: int = 0

    def add(self, measure: str, hits: int, of: int) -> None:
        row = self.hits.setdefault(measure, [0, 0])
        row[0] += hits
        row[1] += of

    def merge(self, other: Score) -> None:
        for measure, (hits, of) in other.hits.items():
            self.add(measure, hits, of)
        self.tokens += other.tokens


# Reading the sessions


def caps() -> dict[str, int]:
    """The tokens that each request may have, by session, window and number of cuts."""
    return json.loads(V010.read_text()) if V010.exists() else {}


def read_cuts(root: Path) -> list[Cut]:
    """Every compaction of the shared sessions, with what came before and after it."""
    probes = json.loads((root.parent / "probes" / "probes.json").read_text())
    asked = {(probe["session"], probe["cut_line"]): probe["questions"] for probe in probes}
    found = []
    for path in sorted((root / "agents" / "claude-code").glob("*/*.jsonl.gz")):
        lines = gzip.decompress(path.read_bytes()).split(b"\n")
        for place, line in enumerate(lines):
            if b'"compact_boundary"' not in line:
                continue
            if json.loads(line).get("subtype") != "compact_boundary":
                continue
            name = path.relative_to(root).as_posix()
            past = _records(lines[:place], path.name)
            summary = json.loads(lines[place + 1])["message"]["content"]
            summary = summary if isinstance(summary, str) else text_of(summary)
            after = _records(lines[place + 2 :], path.name)
            questions = asked.get((name, place), [])
            found.append(Cut(f"{path.stem[:8]}:{place}", past, after, summary, questions))
    return found


def _records(lines: list[bytes], name: str) -> list[Record]:
    sessions = list(importers.read_transcript(b"\n".join(lines), name))
    return list(max(sessions, key=lambda one: len(one.records)).records) if sessions else []


def renamed(cut: Cut) -> Cut:
    """The same past with every tool under a name that nobody has heard of."""
    names: dict[str, str] = {}

    def other(name: str) -> str:
        if name not in names:
            names[name] = (
                f"{NONSENSE[len(names) % len(NONSENSE)]}{len(names) // len(NONSENSE) or ''}"
            )
        return names[name]

    past: list[Record] = []
    for record in cut.past:
        if isinstance(record, Assistant) and isinstance(record.content, list):
            blocks = [
                {**block, "name": other(block["name"])}
                if block.get("type") == "tool_use"
                else block
                for block in record.content
            ]
            past.append(msgspec.structs.replace(record, content=blocks))
        elif isinstance(record, ToolResult) and record.name:
            past.append(msgspec.structs.replace(record, name=other(record.name)))
        else:
            past.append(record)
    return replace(cut, past=past)


def calls_told(cut: Cut, context: str) -> tuple[int, int]:
    """Of the calls before the cut, how many the narrative tells or the kept part holds."""
    calls = sum(len(tool_calls(one.content)) for one in cut.past if isinstance(one, Assistant))
    lines = [line for line in context.splitlines() if line.startswith("• ")]
    repeats = [re.search(r" ×(\d+)(?: → |$)", line) for line in lines]
    told = sum(int(found[1]) if found else 1 for found in repeats)
    return min(calls, told), calls


def half_of(name: str) -> str:
    """Every second session is judged; the others may be looked at while tuning."""
    return "judged" if int(name[:8], 16) // 16 % 2 else "tuned"


# The contexts


def request_after(
    cut: Cut,
    window: int,
    count: int,
    *,
    cap: int | None = None,
    tail: float = TAIL_SHARE,
    with_prose: bool = False,
) -> Made:
    """The request after `count` cuts.

    With a `cap` it is the largest of a few tries that are within it: a projection counts as the
    provider would, and the cap is in tokens of the text.
    """
    if cap is None:
        return _cut_at(cut, window, count, Policy(), with_prose=with_prose)
    carry, found, before = cap - int(cap * tail), Made(), 0
    for _try in range(TRIES):
        policy = _capped(cap, carry, window, tail)
        made = _cut_at(cut, window, count, policy, cap=cap, with_prose=with_prose)
        if found.tokens < made.tokens <= cap:
            found = made
        if 0.98 * cap <= made.tokens <= cap:
            break
        missing = int(0.99 * cap) - made.tokens
        if missing > 0 and made.tokens - before < missing / 4:
            # All that there is to tell is told: the newest part gets the rest, as in a real cut.
            tail += missing / cap
        else:
            carry = max(100, carry + missing)
        before = made.tokens
    return found


def _cut_at(
    cut: Cut,
    window: int,
    count: int,
    policy: Policy,
    *,
    cap: int = 0,
    with_prose: bool = False,
) -> Made:
    counter = counter_for("claude")
    log: list[Record] = []
    bare = [_bare(record) for record in cut.past]
    places = [len(bare) * n // count for n in range(1, count + 1)]
    seconds, prose = 0.0, ""
    for first, last in zip([0, *places], places, strict=False):
        log += bare[first:last]
        start = time.process_time()
        plan = _project(log, window, counter, policy, "cut")
        seconds = time.process_time() - start
        if with_prose and (made := cut_in(plan)) is not None:
            covered = records_covered_by(made, log) or log
            room = prose_cap(cap or policy.carry_cap(window))
            prose = stand_in(covered, prose, room, counter)
            plan = _project(log, window, counter, policy, "cut", prose)
        log += [
            msgspec.structs.replace(made, id=f"decision-{len(log)}-{n}")
            for n, made in enumerate(plan.decisions)
        ]
    plan = _project(log, window, counter, policy, "hold")
    text = "\n".join(_shown(block) for one in plan.prompt.messages for block in one.blocks)
    return Made(
        tuple(plan.prompt.messages), text, counter.count(text), seconds, counter.count(prose)
    )


def stand_in(covered: list[Record], before: str, cap: int, counter: Any) -> str:
    """The prose of a stand-in for a model: sentences that were said, under the headings that a
    model is asked for, verified as a model's are; empty where that fails."""
    asked = (covered[0].id, covered[-1].id, before, cap)
    if asked not in PROSE:  # a cut with a cap is tried a few times
        PROSE[asked] = _summary_of(covered, before, cap, counter)
    return PROSE[asked]


def _summary_of(covered: list[Record], before: str, cap: int, counter: Any) -> str:
    digests = [found for record in covered if (found := digest_record(record)) is not None]
    narrative = "\n".join(summary_request.parts(digests, SUMMARY_INPUT, 1, counter))
    text = summaries.summarise(
        summaries.read_narrative(narrative), cap_tokens=cap, counter=counter, previous=before
    )
    reply = Reply(content=[{"type": "text", "text": text}])
    return (
        judge(reply, covered=covered, previous=before, cap_tokens=cap, counter=counter).text or ""
    )


def behind_proxy(cut: Cut) -> Cut:
    """The same past as the proxy stores it: each request holds all messages so far, as the client
    sends them, and each reply comes through it."""
    store = MemoryStore()
    keeper = ProxyKeeper(store, mode="observe", window=Window(10**9))
    messages: list[dict[str, Any]] = []
    for record in cut.past:
        message = _sent_by_client(record)
        if isinstance(record, Assistant):
            exchange = keeper.begin(_client_request(messages))
            exchange.open("application/json", "")
            reply = {"id": record.id, "type": "message", "model": MODEL, **message}
            exchange.take(json.dumps({**reply, "stop_reason": record.stop_reason}).encode())
            exchange.finish()
            messages.append(message)
        elif isinstance(record, Compaction):
            messages = [message]
        elif message and messages and messages[-1]["role"] == "user":
            messages[-1] = {
                "role": "user",
                "content": [*messages[-1]["content"], *message["content"]],
            }
        elif message:
            messages.append(message)
    if messages[-1]["role"] == "user":
        keeper.begin(_client_request(messages))
    (key,) = store.keys()
    return replace(cut, past=list(store.read_branch(key, list(store.read(key))[-1].id)))


def _client_request(messages: list[dict[str, Any]]) -> ClientRequest:
    body = {"model": MODEL, "max_tokens": 8_000, "messages": messages}
    return ClientRequest(
        dialect="anthropic",
        upstream="anthropic",
        headers={"x-session-id": "one"},
        data=json.dumps(body).encode(),
    )


def _sent_by_client(record: Record) -> dict[str, Any]:
    """A record as the tool of these sessions sends it; empty for what it does not send."""
    if isinstance(record, Compaction):
        return {"role": "user", "content": _blocks(f"{CONTINUED}{record.summary}")}
    if isinstance(record, Assistant):
        return {"role": "assistant", "content": _blocks(record.content)}
    if isinstance(record, User):
        return {"role": "user", "content": _blocks(record.content)}
    if isinstance(record, ToolResult):
        result = {"type": "tool_result", "tool_use_id": record.tool_use_id}
        error = {"is_error": True} if record.is_error else {}
        return {"role": "user", "content": [{**result, "content": record.content, **error}]}
    return {}


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


class _Capped(Policy, frozen=True):
    """A policy whose cut leaves so many tokens of carry-over, and so many of the newest part."""

    carry_tokens: int = 0
    tail_tokens: int = 0

    def carry_cap(self, budget: int) -> int:
        del budget
        return self.carry_tokens

    def keeps(self, budget: int) -> int:
        del budget
        return self.carry_tokens + self.tail_tokens


def _capped(cap: int, carry: int, window: int, tail: float) -> Policy:
    """A policy whose cut keeps a share of `cap`, and carries over `carry` tokens."""
    del window
    return _Capped(carry_tokens=carry, tail_tokens=max(1_000, int(cap * tail)), protected_steps=1)


def _bare(record: Record) -> Record:
    """A record without reported usage, which would set the scale of the counts."""
    if isinstance(record, Assistant):
        return msgspec.structs.replace(record, usage=None)
    return record


def _project(
    log: list[Record], window: int, counter: Any, policy: Policy, how: Pressure, prose: str = ""
) -> Plan:
    request = ProjectionRequest(
        log,
        Window(window, "simulated"),
        target("anthropic", provider="anthropic", model=MODEL),
        policy=policy,
        floor=0,
        pressure=how,
        prose=prose,
    )
    return project(request, ProjectionCache(Scale(counter)))


def _shown(block: Any) -> str:
    name = getattr(block, "name", "")
    return f"{name} {text_in(block)}" if name else text_in(block)


def texts_of(records: Iterable[Record]) -> list[str]:
    """Everything that a model could have read in the past, message by message."""
    found = []
    for record in records:
        if isinstance(record, Compaction):
            found.append(record.summary)
        elif isinstance(record, (User, ToolResult)):
            found.append(text_of(record.content))
        elif isinstance(record, Assistant):
            blocks = record.content if isinstance(record.content, list) else []
            texts = [
                block.get("text") or block.get("thinking") or _call_text(block) for block in blocks
            ]
            found.append(text_of(record.content) if not blocks else "\n".join(texts))
    return found


def _call_text(block: Any) -> str:
    return f"{block.get('name', '')} {_strings(block.get('input'))}"


def _strings(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(filter(None, map(_strings, value.values())))
    if isinstance(value, list):
        return "\n".join(filter(None, map(_strings, value)))
    return value if isinstance(value, str) else "" if value is None else str(value)


def newest(texts: Sequence[str], tokens: int) -> str:
    """The newest texts that fit, the first of them in part."""
    counter, kept = counter_for("claude"), []
    for text in reversed(texts):
        size = counter.count(text)
        if size > tokens:
            kept.append(text[-int(len(text) * tokens / size) :] if tokens > 0 else "")
            break
        kept.append(text)
        tokens -= size
    return "\n".join(reversed(kept))


# The measures


def statements(summary: str) -> list[frozenset[str]]:
    """The stems of each line of the telling sections with at least five distinct content words."""
    found, is_telling = [], False
    for line in summary.partition(EPILOGUE)[0].splitlines():
        if match := HEADING.match(line):
            is_telling = bool(SECTIONS.search(match[1]))
        elif is_telling:
            words = stems(line)
            if len(words) >= 5:
                found.append(words)
    return found


def stems(text: str) -> frozenset[str]:
    """The content words of a text, stemmed."""
    words = (word.lower() for word in WORD.findall(text))
    return frozenset(_stem(word) for word in words if word not in STOP and len(word) > 1)


def _stem(word: str) -> str:
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def statements_kept(context: str, wanted: Sequence[frozenset[str]]) -> int:
    """Statements half of whose words stand within three neighbouring lines or sentences."""
    lines = [stems(line) for line in SENTENCE.split(NAME_LISTS.sub("", context)) if line.strip()]
    places: dict[str, list[int]] = {}
    for number, words in enumerate(lines):
        for word in words:
            places.setdefault(word, []).append(number)
    return sum(_is_kept(words, places) for words in wanted)


def _is_kept(words: frozenset[str], places: dict[str, list[int]]) -> bool:
    counts: dict[int, int] = {}
    for word in words:
        near = {number - back for number in places.get(word, ()) for back in range(3)}
        for start in near:
            counts[start] = counts.get(start, 0) + 1
    return max(counts.values(), default=0) * 2 >= len(words)


def together(text: str, groups: list[list[str]], within: int = 600) -> bool:
    """Return whether one string of each group stands within so many characters of the others."""
    spots = [
        sorted(m.start() for words in group for m in re.finditer(re.escape(words.lower()), text))
        for group in groups
    ]
    if not all(spots):
        return False
    for first in sorted(place for group in spots for place in group):
        ends = [bisect_right(group, first - 1) for group in spots]
        if all(
            end < len(group) and group[end] - first < within
            for end, group in zip(ends, spots, strict=True)
        ):
            return True
    return False


def names_needed(cut: Cut) -> set[str]:
    """Names of the past that the next calls use."""
    seen = facts_in("\n".join(texts_of(cut.past)))
    used: set[str] = set()
    calls = 0
    for record in cut.after:
        for call in tool_calls(record.content) if isinstance(record, Assistant) else ():
            calls += 1
            if calls <= NEXT_CALLS:
                used |= facts_in(_strings(call.get("input")))
    return used & seen


def user_messages(cut: Cut) -> list[str]:
    """The user's own words, message by message."""
    found = []
    for record in cut.past:
        if isinstance(record, User) and record.extra.get("meta") is not True:
            said = record.extra.get("original_prompt")
            found.append(said if isinstance(said, str) else text_of(record.content))
    return [text for text in found if text.strip()]


def refusals(cut: Cut) -> list[str]:
    """The words that the user gave with a refusal."""
    texts = (text_of(one.content) for one in cut.past if isinstance(one, ToolResult))
    return [text.split(REFUSED, 1)[1].strip() for text in texts if REFUSED in text[:400]]


def measure(cut: Cut, context: str) -> Score:
    """Every measure of one context."""
    score = Score(tokens=counter_for("claude").count(context))
    low = context.lower()
    asked = [question["must"] for question in cut.questions]
    score.add("probes", sum(together(low, groups) for groups in asked), len(asked))
    wanted = statements(cut.summary)
    score.add("statements", statements_kept(context, wanted), len(wanted))
    needed, there = names_needed(cut), facts_in(context)
    score.add("names", len(needed & there), len(needed))
    flat = re.sub(r"^> ?", "", context, flags=re.MULTILINE)
    flat = " ".join(flat.split())
    said = [" ".join(text.split()) for text in user_messages(cut)]
    score.add("user messages", sum(text in flat for text in said), len(said))
    words = [" ".join(text.split()) for text in refusals(cut)]
    score.add("refusals", sum(text[:300] in flat for text in words), len(words))
    return score


# All of it


def run_one(job: tuple[Cut, int, int, int | None, float, str]) -> dict[str, Any]:
    """One session at one window after so many cuts of a kind."""
    cut, window, count, cap, tail, kind = job
    told = behind_proxy(cut) if kind == "proxy" else cut
    made = request_after(told, window, count, cap=cap, tail=tail, with_prose=kind == "prose")
    past = texts_of(cut.past)
    rows = {"ours": measure(cut, made.text)}
    rows["ours"].add("calls told", *calls_told(cut, made.text))
    if (count, kind) == (1, "code"):
        rows["newest tokens"] = measure(cut, newest(past, made.tokens))
        rows["real summary"] = measure(cut, cut.summary)
        rows["whole past"] = measure(cut, "\n".join(past))
    return {
        "cut": cut.name,
        "window": window,
        "cuts": count,
        "kind": kind,
        "prose": made.prose,
        "tokens": made.tokens,
        "seconds": made.seconds,
        "rows": {name: [row.hits, row.tokens] for name, row in rows.items()},
    }


def total(results: Iterable[dict[str, Any]], way: str) -> Score:
    """The sum over all sessions."""
    score = Score()
    for result in results:
        if way in result["rows"]:
            hits, tokens = result["rows"][way]
            score.merge(Score({key: list(value) for key, value in hits.items()}, tokens))
    return score


def table(results: list[dict[str, Any]]) -> str:
    """The figures as a table in Markdown."""
    measures = ("probes", "statements", "names", "user messages", "refusals", "calls told")
    lines = [f"| window | cuts | | {' | '.join(measures)} | tokens |", "|--:|--:|---|" + "--:|" * 7]
    groups: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for one in results:
        place = (one["window"], one["cuts"], KINDS.index(one["kind"]))
        groups.setdefault(place, []).append(one)
    for (window, count, kind), rows in sorted(groups.items()):
        for way in WAYS:
            score = total(rows, way)
            if not score.hits:
                continue
            cells = [_percent(score.hits.get(name, [0, 0])) for name in measures]
            cells.append(f"{score.tokens // len(rows):,}")
            name = f"ours, {KINDS[kind]}" if way == WAYS[0] else way
            lines.append(f"| {window:,} | {count} | {name} | {' | '.join(cells)} |")
    seconds = [one["seconds"] for one in results if (one["cuts"], one["kind"]) == (1, "code")]
    mean = 1_000 * sum(seconds) / max(1, len(seconds))
    lines += ["", f"CPU of a cut, mean of {len(seconds)}: {mean:.0f} ms"]
    return "\n".join(lines)


def _percent(row: list[int]) -> str:
    return f"{100 * row[0] / row[1]:.1f}" if row[1] else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--half", choices=("tuned", "judged", "all"), default="all")
    parser.add_argument("--windows", type=int, nargs="*", default=WINDOWS)
    parser.add_argument("--cuts", type=int, nargs="*", default=CUTS)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--tail", type=float, default=TAIL_SHARE)
    parser.add_argument("--free", action="store_true", help="as the product does it, not capped")
    parser.add_argument("--rename", action="store_true", help="tools under unknown names")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write-caps", action="store_true")
    arguments = parser.parse_args()
    root = data_folders(arguments.data, ["claude-code"])[0].parents[1]
    cuts = [cut for cut in read_cuts(root) if arguments.half in ("all", half_of(cut.name))]
    if arguments.rename:
        cuts = [renamed(cut) for cut in cuts]
    sizes = {} if arguments.free else caps()
    jobs = [
        (cut, window, count, sizes.get(f"{cut.name} {window} {count}"), arguments.tail, kind)
        for window in arguments.windows
        for count in arguments.cuts
        for kind in arguments.kinds
        for cut in cuts
    ]
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        results = list(pool.map(run_one, jobs))
    print(table(results))
    if arguments.write_caps:
        made = {
            f"{r['cut']} {r['window']} {r['cuts']}": r["tokens"]
            for r in results
            if r["kind"] == "code"
        }
        V010.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
