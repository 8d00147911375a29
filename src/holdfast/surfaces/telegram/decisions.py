"""Presses of the buttons below a call that waits: decisions by the people of the settings.

A press goes through the operation of every other door, in the name of the one who pressed. The
first decision counts, so that a press may be dealt with again after a kill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.history.access import OPERATOR
from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.core.text.cut import cut, ellipsis
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.approvals import calls_of, show_call
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.waiting_list import search_entry
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.surfaces.formatting import call_outcome
from holdfast.surfaces.telegram.replies import (
    call_digest,
    question_of,
    read_decision,
)

if TYPE_CHECKING:
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.operations.approvals import ApproveCall, DenyCall, WaitingCall
    from holdfast.ports import QueuedMessage
    from holdfast.surfaces.telegram.settings import TelegramSettings
    from holdfast.surfaces.telegram.updates import IncomingUpdate

_ANSWER_MAX: Final = 90
"""Characters, of up to two UTF-16 units: Telegram shows 200 to the one who pressed a button."""
_NOT_NAMED: Final = "You are not among those who may decide here. Nothing was done."
_UNKNOWN: Final = "This call no longer waits. Nothing was done."


class PressOutcome(NamedTuple):
    """The answer to the one who pressed a button, and the text of its message from then on."""

    answer: str
    text: str = ""
    """Empty where the message stays as it is, with its buttons."""


class PressedDecisions:
    """Carries out the decisions of people who press buttons."""

    def __init__(self, gateway: Gateway, settings: TelegramSettings, masks: Redactor) -> None:
        self._gateway = gateway
        self._settings = settings
        self._masks = masks

    async def decide(self, update: IncomingUpdate) -> PressOutcome:
        """Decide as the button says. What is refused changes nothing."""
        person = self._settings.approvers.get(update.place.user)
        if person is None:
            return PressOutcome(_NOT_NAMED)
        kind, digest = read_decision(update.text)
        entry = await run_in_thread(self._find, digest)
        if entry is None:
            return PressOutcome(_UNKNOWN)
        refusal = await self._run(kind(session_key=entry.session, key=entry.key), person)
        if refusal is not None and refusal.status == "not_allowed":
            return PressOutcome(_short(refusal.found))
        call = await run_in_thread(self._look, entry)
        outcome = call_outcome(call, self._gateway.now()) if call is not None else ""
        answer = refusal.found if refusal is not None else outcome
        text = f"{question_of(call)}\n{outcome}" if call is not None and outcome else ""
        return PressOutcome(_short(answer), text)

    async def _run(self, asked: ApproveCall | DenyCall, person: str) -> RequestRefused | None:
        """Carry out a decision; returns the refusal. A failure of ours is raised, to be tried
        again."""
        gateway = self._gateway
        workspace = CallerWorkspace(
            gateway.store, OPERATOR, redactor=self._masks, clock=gateway.now
        )
        workspace.person = person
        try:
            await asked.run(workspace, gateway)
        except RequestRefused as refusal:
            if refusal.status == "error":
                raise refusal.cause or refusal from None
            return refusal
        return None

    def _find(self, digest: str) -> QueuedMessage | None:
        """Return the entry of a call that waits, or waited, in a chat of this bot."""
        found = search_entry(
            self._gateway.store, ANY_OWNER, lambda entry: call_digest(entry.key) == digest
        )
        about = found.body.get("about") or {} if found is not None else {}
        return found if about.get("bot") == self._settings.bot else None

    def _look(self, entry: QueuedMessage) -> WaitingCall | None:
        key = session_key(entry)
        call = calls_of(self._gateway.store, key).find(entry.key)
        return show_call(key, owner_of(entry.owner), call) if call is not None else None


def _short(text: str) -> str:
    return cut(text, _ANSWER_MAX, keep="head", marker=ellipsis).text
