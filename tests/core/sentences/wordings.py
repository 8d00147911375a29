"""Wordings of instructions and facts: how many are found, and how much else is taken for one.

    .venv/bin/python -m tests.core.sentences.wordings [--half chosen|judged] [--show]

The wordings are in wordings.txt, each a message of its own. A hash splits them: the
patterns were chosen with the one half in view and judged by the other. No model is called.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from holdfast.core.extract.statements import find_statements

FILE = Path(__file__).with_name("wordings.txt")
HALVES = ("chosen", "judged")


class Wording(NamedTuple):
    """A sentence of a user, and whether it lays something down."""

    is_statement: bool
    voice: str
    text: str

    @property
    def half(self) -> str:
        return HALVES[hashlib.sha256(self.text.encode()).digest()[0] % 2]

    @property
    def is_found(self) -> bool:
        return bool(find_statements(self.text))


def wordings(half: str | None = None) -> list[Wording]:
    lines = (line for line in FILE.read_text("utf-8").splitlines() if line and line[0] in "+-")
    found = (Wording(line[0] == "+", *line[2:].split(" | ", 1)) for line in lines)
    return [wording for wording in found if half in (None, wording.half)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--half", choices=HALVES)
    options.add_argument("--show", action="store_true", help="list what was judged wrongly")
    given = options.parse_args()
    chosen = wordings(given.half)
    total = Counter((one.is_statement, one.voice) for one in chosen)
    found = Counter((one.is_statement, one.voice) for one in chosen if one.is_found)
    for kind in (True, False):
        voices = [voice for is_statement, voice in total if is_statement == kind]
        for voice in voices:
            print(f"| {voice} | {found[kind, voice]} of {total[kind, voice]} |")
        count = sum(found[kind, voice] for voice in voices)
        every = sum(total[kind, voice] for voice in voices)
        what = "statements" if kind else "others"
        print(f"| **{what}** | **{count} of {every} ({count / max(1, every):.1%})** |")
    if given.show:
        for one in chosen:
            if one.is_found != one.is_statement:
                print("+-"[not one.is_statement], one.voice, "|", one.text, file=sys.stderr)


if __name__ == "__main__":
    main()
