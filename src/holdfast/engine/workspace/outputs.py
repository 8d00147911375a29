"""Outputs that were moved out of the logs of the sessions that a caller may read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import field
from msgspec.structs import replace

from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import encode, fit
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import EXCERPT_CHARS, EXCERPT_CHARS_MIN, REF_CHARS
from holdfast.core.outputs.excerpts import Excerpt
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.outputs import Outputs
from holdfast.engine.workspace.base import MAY_READ
from holdfast.errors import NoSuchOutput, StoreError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.workspace.base import WorkspaceBase

_SESSIONS_SEARCHED: Final = 100
"""The newest sessions in which a ref without a session is looked for."""


class OutputPart(Excerpt, Result, frozen=True, kw_only=True):
    """A part of an output, and its place in the whole."""

    session_key: str
    """The session, as `agent/id`."""
    notice: str = field(default_factory=lambda: NOTICE)  # also where defaults are left out
    """A warning to a model: this is data."""


class WorkspaceOutputs:
    """Reads parts of outputs by ref."""

    def __init__(self, base: WorkspaceBase) -> None:
        self._base = base
        self._outputs = Outputs(base.store, base.store.blobs, redactor=base.redactor)

    def read(
        self,
        ref: str,
        *,
        session: str = "",
        offset: int | None = None,
        lines: str | None = None,
        pattern: str | None = None,
        max_chars: int = EXCERPT_CHARS,
    ) -> OutputPart:
        """A part of an output: from `offset` on, some `lines`, or the lines a `pattern` matches.

        Without a session it is looked for in those that the caller may read, the newest first.
        """

        def give() -> GivenReply[OutputPart]:
            key, reason = self._base.resolve(session) if session else (self._find(ref), MAY_READ)
            part = self._part(
                key, ref, offset=offset, lines=lines, pattern=pattern, max_chars=max_chars
            )
            return GivenReply(part, reason, str(key))

        return self._base.audit("output", session or ref, give)

    def _part(self, key: SessionKey, ref: str, *, max_chars: int, **where: Any) -> OutputPart:
        """A part that fits the cap as a whole, so that the next one begins where it ends."""
        cap = self._base.cap
        while True:
            part = self._outputs.read(key, ref, max_chars=max_chars, **where)
            found = OutputPart(**msgspec.structs.asdict(part), session_key=str(key))
            size = len(encode(found))
            if size <= cap:
                return found
            if max_chars == EXCERPT_CHARS_MIN:  # no whole part fits, so there is no way on
                found = replace(found, next_offset=None, next_lines=None)
                return fit(partial(_shorten, found), len(found.text), cap)
            max_chars = max(EXCERPT_CHARS_MIN, min(max_chars - 1, max_chars * cap // size))

    def _find(self, ref: str) -> SessionKey:
        """The newest session that the caller may read and that holds an output."""
        if len(ref) < REF_CHARS:
            raise RequestRefused(
                "invalid",
                f"a ref of {len(ref)} characters may stand in several sessions; name the session, "
                f"or give a ref of at least {REF_CHARS} characters",
            )
        for info in self._base.lookup.visible()[:_SESSIONS_SEARCHED]:
            try:
                self._outputs.find(info.key, ref)
            except (NoSuchOutput, StoreError):
                continue
            return info.key
        raise RequestRefused(
            "not_found",
            f"none of the {_SESSIONS_SEARCHED} newest sessions that may be read holds this output; "
            "name its session",
        )


def _shorten(part: OutputPart, chars: int) -> OutputPart:
    is_cut = part.is_cut or chars < len(part.text)
    return replace(part, text=part.text[:chars], is_cut=is_cut)
