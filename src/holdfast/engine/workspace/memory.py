"""The notes of a caller, and the search in them and in the sessions that it may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.capped_json import largest, listing
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import RECALL_LIMIT
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.memory.search import Memory
from holdfast.engine.workspace.base import MAY_READ
from holdfast.errors import NoteChanged, PathRejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.memory.hits import Hit
    from holdfast.core.memory.note_types import NoteFile
    from holdfast.engine.memory.indexer import Scope
    from holdfast.engine.workspace.base import WorkspaceBase
    from holdfast.ports import Notes
    from holdfast.providers.embeddings import Embedder

_NO_PATH: Final = (
    "that is not the path of a file of notes; give a citation as a search shows it, or the name of "
    "a file such as MEMORY.md"
)
_TURNS: Final = ("turnBefore", "turnAfter")
"""The names that replies have for the turns beside a hit, spelled as their other names are."""


class WorkspaceMemory:
    """Searches, reads and adds notes."""

    def __init__(self, base: WorkspaceBase, embedder: Embedder | None = None) -> None:
        """Without an `embedder`, searches compare words alone."""
        self._base = base
        self._embedder = embedder

    def files(self) -> list[NoteFile]:
        """The caller's files of notes."""
        return self._notes().files()

    def search(self, query: str, *, scope: Scope = "all", limit: int = RECALL_LIMIT) -> str:
        """The passages of notes and sessions that answer a query, best first."""

        def give() -> GivenReply:
            memory = self._memory(self._embedder)
            hits = memory.search(query, scope=scope, limit=limit)
            reply: Json = {"scope": self._base.scope, "notice": NOTICE}
            if memory.notice:
                reply["searchNotice"] = memory.notice
            return GivenReply(_reply_with_hits(hits, reply, self._base.cap), MAY_READ)

        # No words of the query: the audit log outlives what an owner erases.
        return self._base.reply("search", scope, give, field="searched")

    def get(self, citation: str) -> str:
        """The text at a citation of a search, or of a whole file of notes."""

        def give() -> GivenReply:
            try:
                text = self._memory(None).get(citation, max_chars=self._base.cap)
            except PathRejected:
                raise RequestRefused("invalid", _NO_PATH) from None
            reply = {"citation": citation, "notice": NOTICE, "text": text}
            return GivenReply(self._base.encode(reply, "text"), MAY_READ)

        return self._base.reply("read", citation.partition("#")[0], give, field="citation")

    def add(self, text: str) -> str:
        """Save a note for the caller's agent and owner. Text that holds a secret is refused."""

        def give() -> GivenReply:
            kept = self._notes().append([text])
            for refused in kept.refused:
                raise RequestRefused(
                    "invalid", f"the note was not saved, because {refused.why}; leave that out"
                )
            saved = [{"path": note.path, "line": note.line} for note in kept.saved]
            reply = {"saved": saved, "isKnown": bool(kept.known)}
            return GivenReply(self._base.encode(reply), "Allowed: the caller's own notes.")

        return self._base.reply("note", "", give, field="text")

    def source(self, path: str) -> str | None:
        """Return a file of the caller's notes as it is, for an editor.

        None where it cannot be edited: it is no such file, it is no text, or it holds a secret,
        which is not shown and would be lost.
        """
        notes = self._notes()
        if path not in {file.path for file in notes.files()}:
            return None
        try:
            text = notes.data(path).decode()
        except UnicodeDecodeError:
            return None
        return text if self._base.redactor.text(text) == text else None

    def edit(self, path: str, before: str, after: str) -> str:
        """Write a file of the caller's notes that still is `before`."""

        def give() -> GivenReply:
            if self.source(path) is None:
                raise RequestRefused("not_found", "there is no such file of notes to edit")
            if self._base.redactor.text(after) != after:
                raise RequestRefused("invalid", "the text holds a secret; leave that out")
            try:
                self._notes().put(path, before.encode(), after.encode())
            except NoteChanged:
                raise RequestRefused(
                    "conflict", "the file was changed meanwhile; read it again"
                ) from None
            return GivenReply(self._base.encode({"path": path}), "Allowed: the caller's own notes.")

        return self._base.reply("note", path, give, field="path")

    def _notes(self) -> Notes:
        base = self._base
        return base.store.notes(base.agent, base.caller.owner, redactor=base.redactor)

    def _memory(self, embedder: Embedder | None) -> Memory:
        base = self._base
        return Memory(
            base.store,
            self._notes(),
            embedder=embedder,
            redactor=base.redactor,
            caller=base.caller,
        )


def _reply_with_hits(hits: Sequence[Hit], reply: Json, cap: int) -> str:
    """The hits in a reply; the turns beside them as long as they take the room of no hit."""
    rows = [_as_row(hit) for hit in hits]
    bare = [{name: row[name] for name in row if name not in _TURNS} for row in rows]

    def encode(whole: int) -> str:
        return listing([*rows[:whole], *bare[whole:]], reply, cap, field="hits")

    def count(whole: int) -> int:
        return int(msgspec.json.decode(encode(whole) or "{}").get("count", 0))

    least = count(0)
    return encode(largest(len(rows), lambda whole: count(whole) >= least))


def _as_row(hit: Hit) -> Json:
    row: Json = msgspec.to_builtins(hit)
    for name, field in zip(("turn_before", "turn_after"), _TURNS, strict=True):
        row[field] = row.pop(name)
    return {name: value for name, value in row.items() if value is not None}
