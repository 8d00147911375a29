"""Reads a table of patterns: named vocabularies that refer to each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMENT: Final = lazy_pattern(r"^ *# .*\n", re.MULTILINE)
_ENTRY: Final = lazy_pattern(r"^([a-z_]+):(.*\n(?:    .*\n)*)", re.MULTILINE)
_REFERENCE: Final = lazy_pattern(r"\{([a-z_]+)\}")


def read_table(table: str) -> dict[str, str]:
    """Return the pattern of each entry of a table.

    An entry is `name:` and its alternatives, on the same line or on indented lines, of which each
    holds one or more. A line that ends in a backslash goes on in the next. `{name}` stands for an
    earlier entry.
    """
    found: dict[str, str] = {}
    for name, lines in _ENTRY.findall(_COMMENT.sub("", table)):
        parts = (line.strip() for line in lines.replace("\\\n        ", "").splitlines())
        found[name] = expand("(?:" + "|".join(filter(None, parts)) + ")", found)
    return found


def expand(pattern: str, known: Mapping[str, str]) -> str:
    """Return a pattern with the entries of a table in the place of their names."""
    return _REFERENCE.sub(lambda match: known[match[1]], pattern)
