"""Facts in a text: what a later reply can only know if it was in view.

They are defined here and not taken from the carry-over: a list of names must not be judged by its
own idea of a name.
"""

from __future__ import annotations

from typing import Final, Literal

from holdfast.core.text.lazy_pattern import lazy_pattern

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
"""An address of the web, with or without its scheme: its path is no file."""
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
