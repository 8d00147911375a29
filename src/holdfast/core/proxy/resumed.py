"""The evidence that two histories with other beginnings are one conversation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import text_of
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Assistant

_ID_CHARS_MIN: Final = 8
"""A shorter id of a call is a counter, which other conversations have, too."""
_REPLIES_MIN: Final = 3
_CHARS_MIN: Final = 200
"""So many equal replies, with so much text, tell a conversation where its calls have no ids."""
_PLAIN: Final = lazy_pattern(r"[^a-z0-9]+|functions?|tooluse|toolu|tool|call")


def is_one_conversation(logged: Sequence[Assistant], sent: Sequence[Assistant]) -> bool:
    """Return whether replies that begin alike are of one conversation. The ids of calls decide
    where both have some that no counter made."""
    ours, theirs = _call_ids(logged), _call_ids(sent)
    if ours and theirs:
        return not ours.isdisjoint(theirs)
    known = {_words(reply) for reply in logged}
    return _are_telling([words for reply in sent if (words := _words(reply)) in known])


def can_be_known(sent: Sequence[Assistant]) -> bool:
    """Return whether a conversation can be told by its replies: others need not be looked at."""
    return bool(_call_ids(sent)) or _are_telling([_words(reply) for reply in sent])


def _are_telling(words: Sequence[str]) -> bool:
    return len(words) >= _REPLIES_MIN and sum(map(len, set(words))) >= _CHARS_MIN


def _call_ids(replies: Iterable[Assistant]) -> set[str]:
    """The ids of calls, as far as every client spells them alike."""
    found = set[str]()
    for reply in replies:
        for block in reply.content if isinstance(reply.content, list) else ():
            given, name = block.get("id"), block.get("name")
            if block.get("type") == "tool_use" and isinstance(given, str):
                bare = _PLAIN.sub("", given.casefold())
                named = _PLAIN.sub("", name.casefold()) if isinstance(name, str) else ""
                bare = bare.replace(named, "") if named else bare
                if len(bare) >= _ID_CHARS_MIN:
                    found.add(bare)
    return found


def _words(reply: Assistant) -> str:
    return re.sub(r"\s+", " ", text_of(reply.content)).strip()
