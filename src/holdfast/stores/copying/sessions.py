"""Copies one session: its payloads, then its log byte for byte, then its running summary.

The target's log is always a beginning of the source's. So nothing has to be remembered between two
runs: a copy compares the two logs, goes on where the target's ends, and compares again what it has
written. A target's log that is no beginning of the source's was written to by another, and stays
as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.ids import positional_id
from holdfast.errors import (
    HoldfastError,
    LogGrown,
    NoSuchSession,
    SessionExists,
    StoreError,
    StoreUnavailable,
)
from holdfast.ports.copying import CopiedSession
from holdfast.stores.copying.pieces import LogPieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore
    from holdfast.ports.copying import CopyState
    from holdfast.stores.copying.payloads import Payloads

_TRIES: Final = 20
"""Comparisons of a log that another writes to at the same time, without making it longer."""


class Conflict(HoldfastError):
    """The target has something else than a beginning of the source's log."""


class SessionCopy:
    """Copies one session."""

    def __init__(
        self,
        source: SessionStore,
        target: SessionStore,
        key: SessionKey,
        payloads: Payloads,
        *,
        is_dry_run: bool = False,
        on_bytes: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._source, self._target, self._key = source, target, key
        self._payloads = payloads
        self._is_dry_run = is_dry_run
        self._on_bytes = on_bytes
        self._was_there: bool | None = None
        self._added = self._left_out = 0

    def run(self) -> CopiedSession:
        """Bring the target's log up to date. What goes wrong is told in the result, except that a
        store that cannot be reached raises `StoreUnavailable`."""
        stored, lost = self._payloads.stored, len(self._payloads.lost)
        result = CopiedSession(self._key, "failed")
        try:
            turn = self._source.leases.current(self._key)
            size = self._copy_log()
            self._copy_summary()
            state: CopyState = "same" if not self._added else "updated"
            state = state if self._was_there else "copied"
            names = self._payloads.lost[lost:]
            result = CopiedSession(
                self._key,
                state,
                bytes=size,
                added=self._added,
                left_out=self._left_out,
                turn=turn.holder if turn else "",
                detail=f"payloads that the source has not: {_some(names)}" if names else "",
            )
        except (Conflict, SessionExists) as error:
            result = CopiedSession(self._key, "conflict", detail=str(error))
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            result = CopiedSession(self._key, "failed", detail=str(error))
        return msgspec.structs.replace(result, payloads=self._payloads.stored - stored)

    def _copy_log(self) -> int:
        """Return the size of the target's log once it is what the source's is."""
        tries = found = 0
        while tries < _TRIES:
            try:
                size = self._compare()
            except LogGrown as error:  # another copy was faster: look again
                tries, found = (0 if error.found > found else tries + 1), error.found
                continue
            except SessionExists as error:
                if error.taken_by != self._key.session:
                    raise
                tries += 1
                continue
            if self._added and not self._is_dry_run:
                self._verify(size)
            return size
        raise StoreError(
            f"cannot copy session `{self._key}`: its log at the target changed {_TRIES} times "
            "meanwhile",
            hint="let one copy run at a time, and nobody write at the target",
        )

    def _compare(self) -> int:
        """Compare the logs, and write what the target lacks; returns the size it then has."""
        there = _Stream(self._target, self._key)
        self._was_there = there.is_there if self._was_there is None else self._was_there
        pieces = LogPieces(self._key, self._source.export(self._key))
        size = 0
        for piece in pieces:
            known = there.take(len(piece.data))
            if not piece.data.startswith(known):
                raise self._difference(piece.position, piece.data, known)
            self._payloads.copy(piece.data)
            size = piece.position + len(piece.data)
            if len(known) < len(piece.data):
                self._write(piece.data[len(known) :], at=piece.position + len(known))
            self._on_bytes(size)
        if extra := there.take(1):
            raise self._difference(size, b"", extra)
        if not there.is_there and size == 0 and not self._is_dry_run:
            self._target.create_log(self._key, [])
        self._left_out = pieces.left_out
        return size

    def _write(self, data: bytes, *, at: int) -> None:
        if not self._is_dry_run:
            self._refuse_running_turn()
            self._target.extend_log(self._key, data, at=at)
        self._added += len(data)

    def _refuse_running_turn(self) -> None:
        try:
            turn = self._target.leases.current(self._key)
        except NoSuchSession:
            return
        if turn is not None:
            raise Conflict(
                f"a turn of session `{self._key}` runs at the target: {turn.holder}",
                hint="stop what uses the session there",
            )

    def _verify(self, size: int) -> None:
        """Read what the target has now, and compare it with the source, line by line."""
        there = _Stream(self._target, self._key)
        for piece in LogPieces(self._key, self._source.export(self._key)):
            if piece.position >= size:
                break  # the source has grown since
            data = piece.data[: size - piece.position]
            if there.take(len(data)) != data:
                raise StoreError(
                    f"the copy of session `{self._key}` is not what was written, after byte "
                    f"{piece.position:,}",
                    hint="look for errors of the disk or the database at the target",
                )

    def _difference(self, position: int, data: bytes, known: bytes) -> Conflict:
        """Return the error that names the first line at the target that the source has not."""
        same = 0
        for ours, theirs in zip(data.split(b"\n"), known.split(b"\n"), strict=False):
            if ours != theirs:
                break
            same += len(ours) + 1
        at = position + min(same, len(known))
        return Conflict(
            f"session `{self._key}` at the target is another from record "
            f"`{positional_id(at)}` on: it was not touched",
            hint="keep the one you need: remove the other, or fork it under another id",
        )

    def _copy_summary(self) -> None:
        """Copy the running summary: a cache, made again where it is not there."""
        made = self._source.summaries.load(self._key)
        if made is None or self._is_dry_run or self._target.summaries.load(self._key) == made:
            return
        self._target.summaries.save(self._key, made)


class _Stream:
    """The bytes of a log, taken so many at a time; none where there is no session."""

    def __init__(self, store: SessionStore, key: SessionKey) -> None:
        self._blocks = store.export(key)
        self._held = bytearray()
        self.is_there = True
        try:
            self._held += next(self._blocks, b"")
        except NoSuchSession:
            self.is_there = False

    def take(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        while len(self._held) < size and (block := next(self._blocks, None)) is not None:
            self._held += block
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken


def _some(names: list[str]) -> str:
    shown = ", ".join(name[:12] for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
