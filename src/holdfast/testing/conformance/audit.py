"""An audit log returns every access in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.history.access import Access
from holdfast.core.limits import AUDIT_FIELD_CHARS_MAX

if TYPE_CHECKING:
    from holdfast.ports import Audit


def accesses_come_back_in_order(audit: Audit) -> None:
    """Every access, allowed or refused, comes back as it was noted, the newest last."""
    assert audit.entries() == ((), 0)
    assert [access for page in audit.pages() for access in page.accesses] == []
    noted = [_access(number) for number in range(5)]
    for access in noted:
        audit.note(access)
    assert audit.entries() == (tuple(noted), 0)


def the_newest_accesses_are_the_end_of_all(audit: Audit) -> None:
    """`entries(n)` are the last n, for every n from 0 to past the beginning."""
    noted = [_access(number) for number in range(5)]
    for access in noted:
        audit.note(access)
    for count in range(7):
        assert audit.entries(count).accesses == tuple(noted[max(0, 5 - count) :])


def texts_in_an_audit_log_are_bounded(audit: Audit) -> None:
    """However long a name someone asks for, the log grows by a bounded line, on one line."""
    name = "so long\n a name\ud800" * 100_000
    audit.note(msgspec.structs.replace(_access(1), target=name, reason=name, owner=name))
    (access,) = audit.entries().accesses
    for text in (access.target, access.reason, access.owner):
        assert text.startswith("so long\n a name\ufffd")
        assert len(text) <= AUDIT_FIELD_CHARS_MAX
    assert access.is_allowed == _access(1).is_allowed


def names_can_be_taken_out_of_accesses(audit: Audit) -> None:
    """`reduce` changes the accesses it is asked to, and no other; later ones follow them."""
    noted = [_access(number) for number in range(5)]
    for access in noted:
        audit.note(access)

    def change(access: Access) -> Access:
        is_gone = access.target == "main/3"
        return msgspec.structs.replace(access, target="", reason="") if is_gone else access

    assert audit.reduce(change, ["main/3"]) == 1
    assert audit.reduce(change, ["main/3"]) == 0
    noted[3] = msgspec.structs.replace(noted[3], target="", reason="")
    audit.note(_access(7))
    assert audit.entries() == ((*noted, _access(7)), 0)
    assert audit.entries(2).accesses == (noted[4], _access(7))


def _access(number: int) -> Access:
    return Access(
        ts=1_000.5 + number,
        action="read",
        agent="main",
        session="asking" if number % 2 else None,
        owner="ann",
        target=f"main/{number}",
        is_allowed=number % 2 == 0,
        reason="because",
        bytes=number,
    )


def many_accesses_are_noted_at_once(audit: Audit) -> None:
    """They come after those noted before, in their order, and as bounded as if noted singly."""
    noted = [_access(number) for number in range(2_500)]
    audit.note(noted[0])
    audit.note_all(iter(noted[1:]))
    audit.note_all([])
    assert audit.entries() == (tuple(noted), 0)
    assert [access for page in audit.pages() for access in page.accesses] == noted
    audit.note_all([msgspec.structs.replace(noted[0], target="x" * 100_000)])
    assert len(audit.entries(1).accesses[0].target) <= AUDIT_FIELD_CHARS_MAX
