"""Aider's chat history: Markdown in which the beginning of a line says who wrote it.

`#### ` is the user, `> ` the program, everything else the model. Aider ends the lines of the first
two with two spaces, which tells them from headings and quotations in a reply.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.importers.common.base import Draft, Imported, Importer, Source, finish
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_START: Final = lazy_pattern(r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$", re.M)


def detect(source: Source) -> bool:
    return _START.search(source.data[:16_384].decode(errors="replace"), 0, 4_096) is not None


def read(source: Source) -> list[Imported]:
    starts = list(_START.finditer(source.text))
    sessions: list[tuple[str, Draft]] = []
    silent = 0
    for place, start in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(source.text)
        draft = _read_chat(source.text[start.end() : end], seconds(start[1]))
        if draft.records:
            sessions.append((f"aider-{re.sub('[^0-9]+', '-', start[1])}", draft))
        else:
            silent += 1
    sessions = sessions or [(source.stem, Draft())]
    sessions[0][1].skip("chat without messages", "started and left", silent)
    return finish(source, "aider", sessions)


def _read_chat(text: str, ts: float) -> Draft:
    draft = Draft()
    for who, said in _speeches(text):
        if who == "program":
            draft.skip("output of the program", "no model saw it")
        elif who == "user" and said.startswith(("/", "!")):
            draft.skip("command to the program", "no model saw it as it is")
        elif who == "user":
            draft.user(said, ts=ts)
        else:
            draft.assistant(said, ts=ts)
    return draft


def _speeches(text: str) -> Iterator[tuple[str, str]]:
    """Who said what, in order; lines of one voice are one speech."""
    voice, lines = "model", list[str]()
    for line in text.split("\n"):
        who, words = _voice(line)
        if who != voice or (who == "user" and words.startswith("/")):
            yield from _speech(voice, lines)
            voice, lines = who, []
        lines.append(words)
    yield from _speech(voice, lines)


def _speech(voice: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    said = "\n".join(lines).strip()
    if said:
        yield voice, said


def _voice(line: str) -> tuple[str, str]:
    if line.endswith("  ") or line.rstrip() in ("####", ">"):
        if line.startswith("####"):
            return "user", line[4:].strip()
        if line.startswith(">"):
            return "program", line[1:].strip()
    return "model", line


IMPORTER: Final = Importer("aider", "Aider chat history (.aider.chat.history.md)", detect, read)
