"""Messages beside the messages that an importer reads, found whatever their format is called.

An importer knows the lists of its format. A newer version of the tool, or a format that looks
alike, may have another one beside them: what was said there must not be lost without a word.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.importers.common.base import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.importers.common.base import Imported

_SPEAKERS: Final = ("role", "from", "sender", "speaker", "author", "type")
_SAYINGS: Final = ("content", "text", "parts", "message", "value")
_ITEMS: Final = 8
"""Of a list, from both ends: they tell whether it was read."""
_CHARS: Final = 60
_CHARS_MIN: Final = 8
"""A shorter text is found in any session."""


def list_siblings(document: Any, sessions: Sequence[Imported]) -> list[Skipped]:
    """Return the lists of messages in a document of which no word came into a session, where the
    object that has them has another list of messages, too."""
    beside = list(_lists_of_messages(document))
    if not beside:
        return []
    known = "".join(
        _bare(text)
        for session in sessions
        for record in session.records
        for text in _texts(msgspec.to_builtins(record))
    )
    known += "".join(
        _bare(text) for session in sessions for text in (session.system, *_texts(session.tools))
    )
    lost: Counter[str] = Counter()
    for name, messages in beside:
        asked = [
            text
            for message in (*messages[:_ITEMS], *messages[-_ITEMS:])
            for text in _telling(message)
        ]
        if asked and not any(text in known for text in asked):
            lost[name] += len(messages)
    why = "messages beside the messages; they are not read"
    return [Skipped(f"field `{name[:60]}`", why, count) for name, count in lost.items()]


def _lists_of_messages(document: Any) -> Iterator[tuple[str, list[Json]]]:
    """Yield every list of messages that stands beside another one, with its name."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += [item for item in value if isinstance(item, dict | list)]
        elif isinstance(value, dict):
            found = {name: item for name, item in value.items() if holds_messages(item)}
            if len(found) > 1:
                yield from found.items()
            waiting += [item for item in value.values() if isinstance(item, dict | list)]


def holds_messages(value: object) -> bool:
    """Return whether a value is a list of messages, or of the blocks of one."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and any(isinstance(value.get(name), str) for name in _SPEAKERS)
        and any(value.get(name) for name in _SAYINGS)
    )


def _telling(message: Json) -> list[str]:
    """The beginning of the longest text that a message says."""
    said = [_bare(text) for name in _SAYINGS for text in _texts(message.get(name))]
    longest = max(said, key=len, default="")[:_CHARS]
    return [longest] if len(longest) >= _CHARS_MIN else []


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _bare(text: str) -> str:
    return "".join(char for char in text if char.isalnum())
