"""Labels, modes, checkpoints and resets, as flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.flow.arguments import check_flag, check_text, shorten
from holdfast.core.flow.effects import Append, FindMessage, Read, RunBlocking
from holdfast.core.log.records import Assistant, Checkpoint, Label, Mode, User
from holdfast.core.owners import owner_of
from holdfast.core.turn.calls import STARTED, WITHDRAWN, find_parked
from holdfast.core.turn.turn import pending_context
from holdfast.engine.session.checkpoints import checkpoint_record
from holdfast.engine.session.opening import follow_continuation, new_key
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.engine.session.state import SessionState


def rename(_state: SessionState, label: str) -> Flow[None]:
    check_text("label", label)
    yield Append((Label(label=label),))


def checkpoint(
    state: SessionState, trigger: str, fields: Mapping[str, Any] | None = None
) -> Flow[str]:
    """Store a checkpoint of the session; returns its record id."""
    check_text("trigger", trigger)
    taken = yield RunBlocking(lambda: state.side_files.state(trigger, fields))
    stored = yield Append((checkpoint_record(taken),))
    record: str = stored[0].id
    return record


def checkpoint_on_close(state: SessionState) -> Flow[None]:
    """Store a checkpoint, where one is wanted after each turn and something was said since the
    newest."""
    if state.run.options.checkpoints != "turns":
        return
    records: Sequence[Record] = yield Read(state.run.window)
    for record in reversed(records):
        if isinstance(record, Checkpoint):
            return
        if isinstance(record, User | Assistant):
            yield RunBlocking(lambda: state.save_checkpoint("close"))
            return


def set_mode(state: SessionState, mode: str) -> Flow[None]:
    if mode not in ("continue", "fresh"):
        raise BadSetting(f"`mode` cannot be {shorten(mode)}", hint='pass "continue" or "fresh"')
    if mode != state.mode:
        yield Append((Mode(mode=mode),))  # type: ignore[arg-type]
        state.run.is_fresh = mode == "fresh"


def reset(
    state: SessionState, label: str, *, moves_name: bool = False, carries: bool = True
) -> Flow[SessionKey]:
    """Create a session that continues this one from its checkpoint, or one that `carries` nothing
    of it; returns its key."""
    check_text("label", label)
    check_flag("moves_name", moves_name)
    check_flag("carries", carries)
    yield from checkpoint(state, "reset")
    taken = yield RunBlocking(lambda: state.side_files.state("reset"))
    new = new_key(state.key.agent)
    head = yield RunBlocking(
        lambda: state.store.create(
            new,
            label=label,
            parent_session=str(state.key) if carries else None,
            parent_record=state.log.head if carries else None,
            reason="reset" if carries else None,
            owner=owner_of(state.store.header(state.key).owner),  # raises where damage hides it
        )
    )
    records: Sequence[Record] = yield Read(state.run.window)
    waiting = [msgspec.structs.replace(rec, id="") for rec in pending_context(records)]
    seeds = state.run.boundary_records()
    if carries:
        seeds = [checkpoint_record(taken), *seeds, *waiting]
    masked = [state.vault.mask_record(record) for record in seeds]
    if masked:
        yield RunBlocking(lambda: state.store.append(new, masked, expect=head))
    left = [call for call in find_parked(records, state.run.home) if call.state != STARTED]
    withdrawn: list[Record] = [call.next(WITHDRAWN) for call in left]
    if moves_name:
        withdrawn.append(Mode(mode=state.mode, continued_in=new.session))
    if withdrawn:
        yield Append(withdrawn)
    return new


def renew(state: SessionState, message_key: str | None) -> Flow[SessionKey | None]:
    """In fresh mode, create the session for a message that follows a reply; None otherwise, and
    where the message is stored already."""
    if not state.is_settled:
        yield Read(state.run.window)
    if not state.run.is_fresh:
        return None
    if message_key and (yield FindMessage(message_key)) is not None:
        return None
    newest = yield RunBlocking(lambda: follow_continuation(state.store, state.key))
    if newest != state.key:
        following: SessionKey = newest  # another holder was faster
        return following
    records: Sequence[Record] = yield Read(state.run.window)
    if not any(isinstance(record, Assistant) for record in records):
        return None
    if find_parked(records, state.run.home):
        return None  # its turn is not over
    label = yield RunBlocking(state.label)
    return (yield from reset(state, label, moves_name=True))
