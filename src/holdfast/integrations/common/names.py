"""Names of other frameworks as session ids, without collision, and back.

A framework names a conversation by a thread, a user, a path: texts of any length and script, or
several of them. A session id is short, plain, and told from others without regard to case. So a
name becomes an id by a rule, and the header of the session keeps the name itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.ids import is_name
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.log.records import Header

PeerName = tuple[str, ...]
"""The texts that name a conversation in another framework: one or several."""

NAME_FIELD: Final = "peer_name"
"""The field of a header that holds the name."""
_WORDS_CHARS: Final = 40
"""Of a name in the id that is made from it; the digest alone makes it unique."""
_DIGEST_CHARS: Final = 32
"""128 bits: no two names that anybody will ever have share a digest."""
_MADE: Final = lazy_pattern(rf".*-[0-9a-f]{{{_DIGEST_CHARS}}}")


def session_id_for(name: PeerName) -> str:
    """Return the session id of a name: a plain lower-case one is its own id.

    Any other has an id of its words and a digest. A name that looks like such an id has one made
    too, so that two names never have the same id.
    """
    plain = name[0] if len(name) == 1 else ""
    if is_name(plain) and plain == plain.lower() and not _MADE.fullmatch(plain):
        return plain
    words = "-".join(re.findall("[A-Za-z0-9]+", " ".join(name)[:1000]))[:_WORDS_CHARS]
    digest = hashlib.sha256(spell_name(name).encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{words or 'session'}-{digest}"


def spell_name(name: PeerName) -> str:
    """Return a name as ASCII text that `read_name` reads back, whatever is in it."""
    return json.dumps(name, separators=(",", ":"))


def read_name(header: Header) -> PeerName | None:
    """Return the name under which a framework made a session; None where none did."""
    try:
        parts: Any = json.loads(header.extra[NAME_FIELD])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts)
