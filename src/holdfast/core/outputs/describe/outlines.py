"""Outlines: the headings of a document, the definitions of a source, the files of a diff."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core.outputs.describe.samples import entry, listed
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

_PART: Final = lazy_pattern(
    r"""
    (?: [ \t]* \d+ [→|:\t] [ ]? )?                   # tools that print files number their lines
    (?: (?P<fence> ``` )
      | (?P<diff> diff[ ]--git[ ].+ )
      | (?P<heading> \#{1,6}[ ]\S.* )
      | (?P<definition> \s*
          (?: (?: export | default | pub(?:\(\w+\))? | public | private | protected | internal
                | static | abstract | final | async | unsafe | declare | inline ) \s+ ){0,5}
          (?: def | defp | defmodule | defmacro | class | func | fn | function\*? | interface
            | struct | enum | trait | impl | module | namespace | type ) \s+ [^\s=] .* )
    )""",
    re.VERBOSE,
)
_PROSE: Final = lazy_pattern(r"\s*\w+\s+\w+[ ]\w+[ ]\w")
"""`type the word again` begins like a definition."""
_ENTRIES_MIN: Final = 2
_LINE_CHARS: Final = 300
"""How far a line is looked at."""


def outline_facts(sample: Sample, room: int) -> list[str]:
    """Where the parts of a text begin, by line; nothing where it has none."""
    for title, entries in _outlines(sample).items():
        if len(entries) >= _ENTRIES_MIN:
            heading = f"{sample.note}{title}, {len(entries):,} in all:"
            shown = listed(entries, room - len(heading) - 1)
            return [heading, *shown] if shown else []
    return []


def _outlines(sample: Sample) -> dict[str, list[str]]:
    diffs: list[str] = []
    headings: list[str] = []
    definitions: list[str] = []
    deeper, is_code = 0, False
    for place, line in enumerate(sample.lines):
        found = _PART.match(line, 0, _LINE_CHARS)
        if found is None:
            continue
        what = found[found.lastgroup or 0]
        if found.lastgroup == "fence":
            is_code = not is_code
        elif found.lastgroup == "diff":
            diffs.append(entry(sample.number(place), what))
        elif found.lastgroup == "definition" and not _PROSE.match(what):
            definitions.append(entry(sample.number(place), what))
        elif found.lastgroup == "heading" and not is_code:
            headings.append(entry(sample.number(place), what))
            deeper += what.startswith("##")
    # One `#` is a comment in many languages; two are a heading.
    is_document = deeper >= _ENTRIES_MIN
    return {
        "Files of the diff": diffs,
        "Headings": headings if is_document else [],
        "Definitions": definitions,
    }
