"""A store with the sessions and notes of two owners, and servers for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec
from mcp import Client

from holdfast import Assistant, Caller, SessionKey, ToolResult, User
from holdfast.core.history.page import cursor
from holdfast.core.log.records import Checkpoint, OutputRef, ToolUse
from holdfast.core.owners import owner_of
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.ports import ANY_HEAD
from holdfast.surfaces.mcp.server import McpClient, build_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.lowlevel.server import Server

    from holdfast.ports import SessionStore

T = TypeVar("T")

NEEDLE = "quokka"
"""A word that everything of both owners has, so that a search for it finds everything."""


class Owned(msgspec.Struct, frozen=True):
    """The names of what an owner has: a caller can guess them. Its words stand in the texts."""

    owner: str
    key: SessionKey
    records: tuple[str, ...]
    sha256: str
    note: str
    words: tuple[str, ...]
    """Words that nobody else may read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that can be asked for."""
        last = self.records[-1]
        return (
            *(str(self.key), self.key.session, self.sha256, self.sha256[:16], last, self.note),
            *(f"{self.note}#L1-L9", f"{self.key}#{last}", f"{self.key}/{self.sha256[:16]}"),
            *(f"{self.key}/{last}", cursor(self.key, last)),
        )


def plant(store: SessionStore, owner: str) -> Owned:
    """Give an owner a session with an output and a checkpoint, and notes."""
    words = tuple(f"{owner}-{place}" for place in ("label", "asked", "said", "output", "plan"))
    label, asked, said, output, plan = words
    key = SessionKey("main", f"of-{owner}")
    store.create(key, label=f"{NEEDLE} {label}", owner=owner_of(owner))
    text = f"{NEEDLE} {output} line\n" * 400
    sha256 = store.blobs.put(text.encode())
    ref = OutputRef(sha256=sha256, bytes=len(text), kind="text")
    call = {"type": "tool_use", "id": "c1", "name": "run", "input": {"command": asked}}
    ids = store.append(
        key,
        [
            User(content=f"{NEEDLE} {asked}"),
            Assistant(content=[{"type": "text", "text": f"{NEEDLE} {said}"}, call], model="gpt-5"),
            ToolUse(tool_use_id="c1", name="run", input={"command": asked}),
            ToolResult(tool_use_id="c1", content=f"a preview of {output}", output_ref=ref),
            Checkpoint(state={"version": 1, "current_objective": f"{NEEDLE} {plan}"}),
            User(content=f"{NEEDLE} {asked} again"),
            Assistant(content=f"{NEEDLE} {said} again", model="gpt-5"),
        ],
        expect=ANY_HEAD,
    ).ids
    note = f"{owner}-note"
    saved = store.notes("main", owner_of(owner)).append([f"{NEEDLE} {note} is on Tuesdays"]).saved
    return Owned(owner, key, tuple(ids), sha256, saved[0].path, (*words, note))


def server_for(store: SessionStore, owner: str, *, read_only: bool = False) -> Server[Any]:
    client = McpClient(Caller("main", None, owner=owner_of(owner), visibility="agent"), read_only)
    return build_server(lambda _request: client, lambda caller: CallerWorkspace(store, caller))


def ask(server: Server[Any], talk: Callable[[Client], Awaitable[T]], mode: str = "auto") -> T:
    """Talk to a server through the SDK's own client, in this process."""

    async def run() -> T:
        async with Client(server, mode=mode, cache=None) as client:
            return await talk(client)

    return anyio.run(run)
