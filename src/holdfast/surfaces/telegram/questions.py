"""Tool calls that wait for a person, as messages with buttons."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.operations.approvals import ApproveCall, DenyCall

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.engine.operations.approvals import WaitingCall

_ARGUMENTS_MAX: Final = 1_500
_REASON_MAX: Final = 300
"""Characters, of up to two UTF-16 units: a question and its outcome are one message."""
_DIGEST_CHARS: Final = 32
"""Of a key, in hexadecimal: 128 bits, which no one finds by trying."""
_DECISION: Final = lazy_pattern(rf"(?P<word>approve|deny):(?P<digest>[0-9a-f]{{{_DIGEST_CHARS}}})")
_TOO_LONG: Final = (
    "It cannot be approved here: its arguments are longer than a message. The console and "
    "`holdfast approvals list` show them in full."
)


def call_digest(key: str) -> str:
    """Return what a button has of the key of a call: Telegram takes 64 bytes, and a key may be
    longer."""
    return sha256(key.encode()).hexdigest()[:_DIGEST_CHARS]


def is_decision(data: str) -> bool:
    """Return whether the data of a button are those of a decision."""
    return _DECISION.fullmatch(data) is not None


def read_decision(data: str) -> tuple[type[ApproveCall | DenyCall], str]:
    """Return the operation that a button stands for, and the digest of its call."""
    word, _, digest = data.partition(":")
    return (ApproveCall if word == "approve" else DenyCall), digest


def decision_buttons(call: WaitingCall) -> list[list[Json]]:
    """Return the row of buttons below a question. What is not seen in full is not approved."""
    digest = call_digest(call.key)
    deny = {"text": "Deny", "callback_data": f"deny:{digest}"}
    approve = {"text": "Approve", "callback_data": f"approve:{digest}"}
    return [[deny] if _arguments_of(call)[1] else [approve, deny]]


def question_of(call: WaitingCall) -> str:
    """Return the words of a call that waits, with its arguments."""
    arguments, is_cut = _arguments_of(call)
    reason = cut(" ".join(call.reason.split()), _REASON_MAX).text
    tail = f"\n{_TOO_LONG}" if is_cut else ""
    return f"Approve {call.tool}? {reason}\n```json\n{arguments}\n```{tail}"


def _arguments_of(call: WaitingCall) -> tuple[str, bool]:
    text = json.dumps(call.arguments, ensure_ascii=False, indent=2)
    return cut(text, _ARGUMENTS_MAX).text, len(text) > _ARGUMENTS_MAX
