"""Writes the contexts of benchmarks/story.py as text, for people and model readers.

    .venv/bin/python benchmarks/story_contexts.py FOLDER [--data FOLDER] [--only NAME | --blind]

`FOLDER/readers/SESSION/` gets a file for each context of the eight sessions that have questions,
the questions, and the answers; `FOLDER/pairs/NN/` the request after a cut and the real summary of
ten sessions as `a.txt` and `b.txt`, and `FOLDER/key.json` which is which. `--only NAME` writes one
file a session, the request at 200k as the code at hand makes it (for an older version). `--blind`
writes both narratives of the eight sessions for readers who must not know which is which:
`FOLDER/contexts/NN/context.txt` and `questions.json`, shuffled, and for the graders
`FOLDER/graders/key.json` and `answers-SESSION.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import story
from benchmarks.policies import data_folders

from holdfast import Assistant, ToolResult, User
from holdfast.core.models.messages import Text, Thinking, ToolAnswer
from holdfast.engine.simulation.transcripts import text_in
from holdfast.models import ToolCall
from holdfast.records import Compaction, text_of, tool_calls
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.story import Cut

    from holdfast import Record
    from holdfast.core.models.messages import Message

PAIRS = 10
WIDE = 200_000
NARROW = 64_000
SHUFFLE = "2026-11"
"""Another text gives another order."""


def rendered(messages: Iterable[Message]) -> str:
    """A request as text, with the roles and the names of tools that its messages have."""
    return "\n\n".join(_block(one.role, block) for one in messages for block in one.blocks)


def _block(role: str, block: Any) -> str:
    match block:
        case ToolCall():
            return f"[{role} calls {block.name}]\n{text_in(block)}"
        case ToolAnswer():
            return f"[result of {block.name or 'a tool'}]\n{text_in(block)}"
        case Thinking():
            return f"[{role} thinks]\n{text_in(block)}"
        case Text():
            return f"[{role}]\n{text_in(block)}"
        case _:
            return f"[{role}: {type(block).__name__}]"


def past_with_roles(records: Iterable[Record]) -> list[str]:
    """The past message by message, as `rendered` writes a request."""
    found = []
    for record in records:
        if isinstance(record, Compaction):
            found.append(f"[summary]\n{record.summary}")
        elif isinstance(record, User):
            found.append(f"[user]\n{text_of(record.content)}")
        elif isinstance(record, ToolResult):
            found.append(f"[result of {record.name or 'a tool'}]\n{text_of(record.content)}")
        elif isinstance(record, Assistant):
            found += _reply(record)
    return found


def _reply(record: Assistant) -> list[str]:
    blocks = record.content if isinstance(record.content, list) else []
    texts = [f"[assistant]\n{text}"] if (text := text_of(record.content)) else []
    thoughts = [f"[assistant thinks]\n{block['thinking']}" for block in blocks if _thinks(block)]
    calls = [
        f"[assistant calls {call.get('name', '')}]\n{story._strings(call.get('input'))}"
        for call in tool_calls(record.content)
    ]
    return [*thoughts, *texts, *calls]


def _thinks(block: Any) -> bool:
    return isinstance(block, dict) and bool(block.get("thinking"))


def contexts(cut: Cut, caps: dict[str, int]) -> dict[str, str]:
    """The contexts that a reader is given, by name."""
    wide = caps.get(f"{cut.name} {WIDE} 1")
    narrow = caps.get(f"{cut.name} 64000 1")
    ours = rendered(story.request_after(cut, WIDE, 1, cap=wide).messages)
    size = counter_for("claude").count(ours)
    return {
        "narrative200": ours,
        "narrative64": rendered(story.request_after(cut, 64_000, 1, cap=narrow).messages),
        "newest200": story.newest(past_with_roles(cut.past), size),
        "summary": cut.summary,
    }


def write_readers(folder: Path, cuts: Iterable[Cut], caps: dict[str, int]) -> None:
    """Every context of each session with questions, its questions and their answers."""
    for cut in cuts:
        if not cut.questions:
            continue
        place = folder / "readers" / cut.name.partition(":")[0]
        place.mkdir(parents=True, exist_ok=True)
        for name, text in contexts(cut, caps).items():
            (place / f"{name}.txt").write_text(text)
        for name, fields in (
            ("questions", ("id", "question")),
            ("answers", ("id", "answer", "evidence")),
        ):
            _write_questions(place / f"{name}.json", cut, fields)


def write_blind(folder: Path, cuts: Iterable[Cut], caps: dict[str, int]) -> None:
    """Write the narratives of each session with questions under numbers that say nothing."""
    asked = [
        (cut, window, hashlib.sha256(f"{cut.name} {window} {SHUFFLE}".encode()).hexdigest())
        for cut in cuts
        if cut.questions
        for window in (WIDE, NARROW)
    ]
    graders = folder / "graders"
    graders.mkdir(parents=True, exist_ok=True)
    key = {}
    for number, (cut, window, _order) in enumerate(sorted(asked, key=lambda one: one[2]), 1):
        place = folder / "contexts" / f"{number:02}"
        place.mkdir(parents=True, exist_ok=True)
        made = story.request_after(cut, window, 1, cap=caps[f"{cut.name} {window} 1"])
        (place / "context.txt").write_text(rendered(made.messages))
        session = cut.name.partition(":")[0]
        _write_questions(place / "questions.json", cut, ("id", "question"))
        _write_questions(
            graders / f"answers-{session}.json", cut, ("id", "question", "answer", "evidence")
        )
        key[f"{number:02}"] = {"session": session, "window": window, "tokens": made.tokens}
    (graders / "key.json").write_text(json.dumps(key, indent=1))


def _write_questions(path: Path, cut: Cut, fields: tuple[str, ...]) -> None:
    rows = [{key: item[key] for key in fields} for item in cut.questions]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False))


def write_pairs(folder: Path, cuts: list[Cut], caps: dict[str, int]) -> None:
    """Requests after a cut beside the real summaries, unlabelled and in no order."""

    def order(cut: Cut) -> str:
        return hashlib.sha256(cut.name.encode()).hexdigest()

    key = {}
    for number, cut in enumerate(sorted(cuts, key=order)[:PAIRS], 1):
        place = folder / "pairs" / f"{number:02}"
        place.mkdir(parents=True, exist_ok=True)
        texts = {"summary": cut.summary, "narrative": contexts(cut, caps)["narrative200"]}
        names = list(texts) if int(order(cut)[-1], 16) % 2 else list(texts)[::-1]
        for letter, name in zip("ab", names, strict=True):
            (place / f"{letter}.txt").write_text(texts[name])
        key[f"{number:02}"] = {"session": cut.name, "a": names[0], "b": names[1]}
    (folder / "key.json").write_text(json.dumps(key, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data")
    parser.add_argument("--only")
    parser.add_argument("--blind", action="store_true")
    arguments = parser.parse_args()
    root = data_folders(arguments.data, ["claude-code"])[0].parents[1]
    cuts = story.read_cuts(root)
    if arguments.only:
        for cut in cuts:
            if cut.questions:
                place = arguments.folder / "readers" / cut.name.partition(":")[0]
                place.mkdir(parents=True, exist_ok=True)
                text = rendered(story.request_after(cut, WIDE, 1).messages)
                (place / f"{arguments.only}.txt").write_text(text)
        return
    caps = story.caps()
    if arguments.blind:
        write_blind(arguments.folder, cuts, caps)
        return
    write_readers(arguments.folder, cuts, caps)
    write_pairs(arguments.folder, cuts, caps)


if __name__ == "__main__":
    main()
