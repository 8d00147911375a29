"""Outputs that were moved out of the logs of the sessions that a caller may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.history.page import NOTICE
from holdfast.core.limits import EXCERPT_CHARS, EXCERPT_CHARS_MIN, REF_CHARS
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.outputs import Outputs
from holdfast.engine.workspace.base import MAY_READ, camel
from holdfast.errors import NoSuchOutput, StoreError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.workspace.base import WorkspaceBase

_SESSIONS_SEARCHED: Final = 100
"""The newest sessions in which a ref without a session is looked for."""

_OWN_BYTES: Final = 400
"""Room for the fields beside the part: scope, length, masks."""


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
    ) -> str:
        """A part of an output: from `offset` on, some `lines`, or the lines a `pattern` matches.

        Without a session it is looked for in those that the caller may read, the newest first.
        """

        def give() -> GivenReply:
            key, reason = self._base.resolve(session) if session else (self._find(ref), MAY_READ)
            text = self._part(
                key, ref, offset=offset, lines=lines, pattern=pattern, max_chars=max_chars
            )
            return GivenReply(text, reason, str(key))

        return self._base.reply("output", session or ref, give, field="ref")

    def _part(self, key: SessionKey, ref: str, *, max_chars: int, **where: Any) -> str:
        """A part that fits the cap as a whole, so that the next one begins where it ends."""
        cap = self._base.cap - _OWN_BYTES
        while True:
            part = self._outputs.read(key, ref, max_chars=max_chars, **where)
            fields = camel(msgspec.to_builtins(part))
            reply = {"sessionKey": str(key), "notice": NOTICE, **fields, "text": part.text}
            reply["truncated"] = reply.pop("isCut", False)
            reply.pop("bytes", None)  # those of the reply; the output's are in its note
            size = len(msgspec.json.encode(reply))
            if size <= cap:
                return self._base.encode(reply, "text")
            if max_chars == EXCERPT_CHARS_MIN:  # no whole part fits, so there is no way on
                reply |= {"nextOffset": None, "nextLines": None}
                return self._base.encode(reply, "text")
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
