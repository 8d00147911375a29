"""`HoldfastSessionStore`: transcripts of the Claude Agent SDK as sessions.

Each line is one or more records, and comes back as it was. A line with a `uuid` is stored once,
however often it is appended. The SDK's summaries are records too, written with the lines they sum
up, so that two processes never disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.errors import NoSuchSession, UsageError
from holdfast.integrations.claude_agent.transcripts import Transcripts
from holdfast.integrations.common.blocking import read_in_thread, write_in_thread
from holdfast.integrations.common.home import PeerHome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.integrations.common.home import Delete
    from holdfast.integrations.common.names import PeerName
    from holdfast.ports import SessionStore


class HoldfastSessionStore:
    """A `SessionStore` of the SDK, over any store of Holdfast.

    `root` is the address of a store, `store` an open one. `delete` says what the SDK's
    `delete_session_via_store` does: a session in the trash can be restored, an erased one not.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        delete: Delete = "trash",
    ) -> None:
        require("claude_agent")
        self._home = PeerHome(
            type(self).__name__, root=root, store=store, agent=agent, owner=owner, delete=delete
        )
        self._transcripts = Transcripts(self._home)

    def key_for(self, key: Mapping[str, str]) -> SessionKey:
        """Return the key in our store of a key of the SDK."""
        return self._home.key_for(_name_of(key))

    async def append(self, key: Mapping[str, str], entries: Sequence[Any]) -> None:
        """Store the lines that are new, durably and together."""
        name = _name_of(key)
        if entries:
            await write_in_thread(lambda: self._transcripts.append(name, entries))

    async def load(self, key: Mapping[str, str]) -> list[Any] | None:
        """Return all lines in the order they were stored; None where there are none."""
        name = _name_of(key)
        return await read_in_thread(lambda: self._load(name))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return the sessions of a project, with the time of the newest line in milliseconds."""
        return await read_in_thread(lambda: list(self._list(project_key)))

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return the SDK's summary of every session of a project."""
        return await read_in_thread(lambda: list(self._summaries(project_key)))

    async def delete(self, key: Mapping[str, str]) -> None:
        """Delete a transcript; a session goes with the transcripts of its subagents."""
        name = _name_of(key)
        await write_in_thread(lambda: self._delete(name))

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """Return the subpaths of a session that have a transcript."""
        name = _name_of(key)[:2]
        return await read_in_thread(
            lambda: [found[2] for found, _key in self._home.names() if _is_below(found, name)]
        )

    def close(self) -> None:
        """Release the store. Using it afterwards is a `RuntimeError`."""
        self._home.close()

    def _load(self, name: PeerName) -> list[Any] | None:
        key = self._home.key_for(name)
        if not self._home.exists(key, is_read_whole=True):
            return None
        return self._transcripts.entries(key, name[1]) or None

    def _list(self, project: str) -> Iterator[dict[str, Any]]:
        for name, key in self._mains(project):
            try:
                changed = self._home.store.info(key).last_active
            except NoSuchSession:
                continue  # deleted meanwhile
            yield {"session_id": name[1], "mtime": _milliseconds(changed)}

    def _summaries(self, project: str) -> Iterator[dict[str, Any]]:
        for name, key in self._mains(project):
            try:
                changed = self._home.store.info(key).last_active
                data = self._transcripts.summary(key)
            except NoSuchSession:
                continue  # deleted meanwhile
            if data is not None:
                yield {"session_id": name[1], "mtime": _milliseconds(changed), "data": data}

    def _mains(self, project: str) -> Iterator[tuple[PeerName, SessionKey]]:
        for name, key in self._home.names():
            if len(name) == 2 and name[0] == project:
                yield name, key

    def _delete(self, name: PeerName) -> None:
        keys = [self._home.key_for(name)]
        if len(name) == 2:
            keys += [key for found, key in self._home.names() if _is_below(found, name)]
        for key in keys:
            self._transcripts.forget(key)
            self._home.remove(key)


def _name_of(key: Mapping[str, str]) -> PeerName:
    """Return the parts of a key of the SDK."""
    try:
        name = (key["project_key"], key["session_id"])
        subpath = key.get("subpath")
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{key!r:.80} is no key of a transcript",
            hint="pass a dictionary with `project_key`, `session_id` and perhaps `subpath`",
        ) from error
    return (*name, subpath) if subpath else name


def _is_below(name: PeerName, main: PeerName) -> bool:
    return len(name) == 3 and name[:2] == main


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
