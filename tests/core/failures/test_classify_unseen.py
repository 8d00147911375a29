"""Overflows of a provider that the vocabulary has never heard: leave one out at a time.

For each provider of the catalogue, every alternative of the vocabulary that matches its overflows,
and those of no other provider, is removed. What is left then names its errors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tests.core.failures.test_classify import catalogue, of_entry

from holdfast.core.failures import classify as classifying
from holdfast.core.failures.normalise import plain, squeeze, unwrap
from holdfast.core.failures.patterns import _TABLE, expand, read_table
from holdfast.core.failures.rules import _PATTERNS, _ROWS, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

VOCABULARY: Final = frozenset(
    (
        *("overflow", "loose_overflow", "overflow_code", "overflow_number", "context_cap"),
        *("window", "over", "input", "tokens", "shorten", "sent"),
        *("chinese_overflow", "other_tongues"),
    )
)
MISSED_MAX: Final = 0.05
Entry = dict[str, Any]
Alternative = tuple[str, str]


def split_alternatives(line: str) -> list[str]:
    """The alternatives of a pattern that stand outside of any bracket."""
    found, depth = [""], 0
    for piece in re.findall(r"\\.|.", line):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece, 0)
        if piece == "|" and not depth:
            found.append("")
        else:
            found[-1] += piece
    return found


def entries() -> Iterator[tuple[str, list[str]]]:
    text = re.sub(r"^ *# .*\n", "", _TABLE, flags=re.MULTILINE).replace("\\\n        ", "")
    for name, body in re.findall(r"^([a-z_]+):(.*\n(?:    .*\n)*)", text, re.MULTILINE):
        yield name, [line.strip() for line in body.splitlines() if line.strip()]


def rules_without(removed: set[Alternative]) -> tuple[Rule, ...]:
    table = ""
    for name, lines in entries():
        kept = [part for line in lines for part in split_alternatives(line)]
        kept = [part for part in kept if (name, part) not in removed] or ["(?!)"]
        table += f"{name}:\n" + "".join(f"    {part}\n" for part in kept)
    known = read_table(table)
    return tuple(
        msgspec.structs.replace(
            row, **{name: expand(getattr(row, name), known) for name in _PATTERNS}
        )
        for row in _ROWS
    )


def find_matches(overflows: list[Entry]) -> dict[Alternative, set[str]]:
    """The providers that each alternative matches."""
    known = read_table(_TABLE)
    texts = []
    for entry in overflows:
        inner = unwrap(entry["message"])
        marks = squeeze((str(entry["code"] or ""), entry["type"] or "", *inner.marks))
        texts.append((entry["provider"], plain(inner.text).replace("\n", " "), marks))
    found: dict[Alternative, set[str]] = {}
    for name, lines in entries():
        if name not in VOCABULARY:
            continue
        place = 2 if name.endswith(("_code", "_number")) else 1
        for part in (part for line in lines for part in split_alternatives(line)):
            pattern = re.compile(expand(part, known), re.DOTALL | re.MULTILINE)
            found[name, part] = {each[0] for each in texts if pattern.search(each[place])}
    return found


def test_an_unseen_provider_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    overflows = [
        entry
        for entry in catalogue()
        if entry["class"] == "context_overflow" and entry["status"] != 200
    ]
    matches = find_matches(overflows)
    missed = []
    for provider in sorted({entry["provider"] for entry in overflows}):
        rules = rules_without({part for part, found in matches.items() if found == {provider}})
        monkeypatch.setattr(classifying, "built_in_rules", lambda rules=rules: rules)
        missed += [
            (provider, entry["message"])
            for entry in overflows
            if entry["provider"] == provider
            and classifying.classify(of_entry(entry, entry["status"])).kind != "context_overflow"
        ]
    assert len(missed) <= MISSED_MAX * len(overflows), missed
