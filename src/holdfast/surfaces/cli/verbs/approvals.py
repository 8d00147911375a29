"""`approvals`: calls that wait for a person."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from holdfast.core.owners import owner_text
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.operations.approvals import (
    ApproveCall,
    DenyCall,
    ListWaitingCalls,
    WaitingCall,
    WaitingCalls,
    show_waiting,
)
from holdfast.engine.operations.links import (
    LINK_PATH,
    LinkCall,
    RevokedLinks,
    RevokeLinks,
    RotateLinkKey,
    SignedKey,
)
from holdfast.engine.session.waiting_list import find_entry
from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import Command, ResultCommand, option, place, takes
from holdfast.surfaces.formatting import local_time

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.surfaces.cli.app import App


def _read_arguments(text: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(
            "`--arguments` is not a JSON object",
            hint="write it as '{\"amount\": 40}'",
        )
    return found


class _List(ResultCommand, frozen=True, kw_only=True):
    """List what waits, the newest first."""

    asked: Annotated[
        ListWaitingCalls,
        takes(
            *("session_key", "limit", "before"),
            session_key=option("", "SESSION", "--session"),
        ),
    ]

    def run(self, app: App) -> WaitingCalls:
        asked = self.asked
        if not asked.session_key:
            return asked.page(app.store, app.owner, lambda _key: True)
        return WaitingCalls(calls=show_waiting(app.store, app.session(asked.session_key)))

    def show(self, found: WaitingCalls, app: App) -> None:
        if not found.calls:
            app.out.note("no call waits for approval")
        for call in found.calls:
            until = f", until {local_time(call.until)}" if call.until is not None else ""
            whom = " or ".join(call.approvers) or "anyone who may use the session"
            app.out.line(call.key)
            app.out.line(f"  {call.tool} {json.dumps(call.arguments, ensure_ascii=False)}")
            app.out.note(f"  {call.reason}; waits for {whom}")
            app.out.note(f"  session {call.session}, since {local_time(call.since)}{until}")
        if found.next_before is not None:
            app.out.note(f"more with --before {found.next_before}")


class _Decide(ResultCommand, frozen=True, kw_only=True):
    """Decides about a call."""

    by: Annotated[
        str, option("who decides, for the log (default: the owner, or operator)", "NAME")
    ] = ""

    def settle(self, asked: ApproveCall | DenyCall, app: App) -> WaitingCall:
        entry = find_entry(app.store, app.owner, asked.key)
        by = self.by or owner_text(app.owner_of_new) or "operator"
        return asked.settle(app.store, session_key(entry), by)

    def show(self, found: WaitingCall, app: App) -> None:
        app.out.line(f"{found.tool}: {found.state} by {found.by}")
        app.out.note(f"session {found.session} goes on with it: by a gateway, or its next message")


class _Approve(_Decide, frozen=True, kw_only=True):
    """Approve a call; the first decision counts."""

    asked: Annotated[
        ApproveCall,
        takes(
            *("key", "arguments", "always"),
            arguments=option("", "JSON", read=_read_arguments),
        ),
    ]

    def run(self, app: App) -> WaitingCall:
        return self.settle(self.asked, app)


class _Deny(_Decide, frozen=True, kw_only=True):
    """Deny a call, with words for the model; the first decision counts."""

    asked: Annotated[DenyCall, takes("key", words=place("", "WORDS"))]

    def run(self, app: App) -> WaitingCall:
        return self.settle(self.asked, app)


class _Link(Command, frozen=True, kw_only=True):
    """Make a link by which a person without a token decides, once."""

    asked: Annotated[
        LinkCall,
        takes(
            *("key", "by", "allows", "seconds", "address"),
            by=option("", "NAME"),
            address=option("", "URL"),
        ),
    ]

    def run(self, app: App) -> None:
        entry = find_entry(app.store, app.owner, self.asked.key)
        found = self.asked.make(app.store, session_key(entry), time.time())
        line = msgspec.json.encode(found) if app.out.is_json else found.link.encode()
        with app.out.binary() as stream:  # it is shown once; masked, it would open nothing
            stream.write(line + b"\n")
        until = local_time(found.expires)
        app.out.note(f"anyone who has it decides as {found.by}, once, until {until}")
        if found.link.startswith(LINK_PATH):
            app.out.note("write the address of `holdfast serve` before it, or pass --address")


class _Revoke(ResultCommand, frozen=True, kw_only=True):
    """Revoke the links to a call."""

    asked: Annotated[RevokeLinks, takes("key")]

    def run(self, app: App) -> RevokedLinks:
        entry = find_entry(app.store, app.owner, self.asked.key)
        return self.asked.revoke(app.store, session_key(entry))

    def show(self, found: RevokedLinks, app: App) -> None:
        app.out.line(f"revoked: {found.revoked}")


class _RotateKey(ResultCommand, frozen=True, kw_only=True):
    """Sign links with a new key; those made before are not valid any more."""

    asked: Annotated[RotateLinkKey, takes()]

    def run(self, app: App) -> SignedKey:
        return self.asked.rotate(app.store)

    def show(self, _found: SignedKey, app: App) -> None:
        app.out.line("a new key signs links; those made before are not valid any more")


class ApprovalsCommand(Command, frozen=True, kw_only=True):
    """Holds the commands on calls that wait for a person."""

    example = """examples:
  holdfast approvals list
  holdfast approvals approve KEY --arguments '{"amount": 40}'
  holdfast approvals deny KEY "Ask her first" --by ann
  holdfast approvals link KEY --by ann --address https://agents.example"""
    verbs: ClassVar[dict[str, type[Command]]] = {
        "list": _List,
        "approve": _Approve,
        "deny": _Deny,
        "link": _Link,
        "revoke": _Revoke,
        "rotate-key": _RotateKey,
    }
