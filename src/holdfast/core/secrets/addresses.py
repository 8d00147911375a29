"""Addresses of stores and blobs: which kind they are, and how they are shown.

An address is `memory:`, `SCHEME://…`, or else the path of a folder. It may hold a password, so
nothing shows it except by `describe_address`.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

FOLDER: Final = "folder"
MEMORY: Final = "memory"

_KNOWN: Final = frozenset({MEMORY, "postgresql", "postgres", "s3"})
"""Words before a colon that are meant as a kind of address, even where the rest is none."""
_SHOWS_USER: Final = frozenset({"postgresql", "postgres"})
"""The kinds whose user is a name. Elsewhere it may be a token or a key."""
_SCHEME: Final = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WORD: Final = lazy_pattern(r"([A-Za-z][A-Za-z0-9]*):")
_PLAIN: Final = lazy_pattern(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[^\s:@/?#]*)(?::[^\s@/?#]*)?@)?"
    r"(?P<host>[A-Za-z0-9._\[\]:,-]*?)(?P<port>:\d{1,5})?"
    r"(?P<path>/[^\s@?#:]*)?"
    r"(?P<query>\?[^\s@#]*)?"
)
"""An address of which every part is certain. A password may hold any character that a person
forgot to escape; then no part is certain, and none is shown."""
_HOST: Final = lazy_pattern(r"[A-Za-z0-9._,-]*|\[[0-9A-Fa-f:.]*\]")


def address_kind(address: str) -> str:
    """Return `folder`, `memory`, or the scheme of an address in lower case.

    Folders may have a colon in their names. A word that means a store needs a path before it, as
    in `./memory:`.
    """
    text = address.strip()
    found = _SCHEME.match(text) or _WORD.match(text)
    word = found[1].lower() if found is not None else ""
    if found is not None and (found[0].endswith("//") or word in _KNOWN):
        return word
    return FOLDER


def describe_address(address: str) -> str:
    """Return an address for people: without password, parameters, and whatever may be one."""
    text = address.strip()
    kind = address_kind(text)
    if kind == FOLDER:
        return address
    if text.lower() == f"{MEMORY}:":
        return f"{MEMORY}:"
    found = _PLAIN.fullmatch(text)
    if found is None or not _HOST.fullmatch(found["host"]):
        return f"{kind}://…" if _SCHEME.match(text) else f"{kind}:…"
    user = f"{found['user']}@" if found["user"] and kind in _SHOWS_USER else ""
    query = "?…" if found["query"] else ""
    return f"{kind}://{user}{found['host']}{found['port'] or ''}{found['path'] or ''}{query}"
