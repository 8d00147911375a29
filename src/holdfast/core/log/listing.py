"""The small facts about a session that a listing shows, gathered while its log is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import LABEL_CHARS_MAX, TITLE_CHARS_MAX
from holdfast.core.log.ids import positional_id
from holdfast.core.log.records import MESSAGES, Header, Label, User
from holdfast.core.log.replay import user_text
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.tree import Stands


class Facts(msgspec.Struct):
    """Grows by one record at a time, so that a log that grew need not be read again."""

    label: str = ""
    title: str = ""
    created: float = 0.0
    last_active: float = 0.0
    records: int = 0
    messages: int = 0
    damaged: int = 0
    head: str = ""
    parent_session: str | None = None
    reason: str | None = None
    owner: str | None = None
    """As a row of an index holds it: the text of the header that the log begins with, and so known
    to the one who opens it, not counted here. None where the beginning is damaged."""

    def add(self, position: int, item: Stands) -> None:
        """Count the next record."""
        self.records += 1
        self.messages += item.kind in MESSAGES
        self.created = self.created or item.ts
        if item.ts > self.last_active:
            self.last_active = item.ts
        self.head = item.id or positional_id(position)
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(item) is User:
            self.title = self.title or title_of(user_text(item))
        elif type(item) is Label:
            self.label = item.label if item.target is None else self.label
        elif type(item) is Header and self.records == 1:
            self.label, self.parent_session = item.label, item.parent_session
            self.reason = item.reason


def title_of(text: str) -> str:
    """The first words of a message, on one line and safe to print."""
    words = " ".join(text[:1_000].split())
    printable = words if words.isprintable() else "".join(filter(str.isprintable, words))
    return cut(printable, TITLE_CHARS_MAX, keep="head", marker=ellipsis).text


def check_label(label: str) -> str:
    """A label on one line; one that is too long is refused."""
    label = " ".join(label.split())
    if len(label) > LABEL_CHARS_MAX:
        raise UsageError(
            f"a label of {len(label)} characters is too long", hint=f"at most {LABEL_CHARS_MAX}"
        )
    return label
