"""Sessions in files, deleted for good.

A session that is being erased is in the trash as `<agent>.<session>.<milliseconds>.erasing`: no
listing shows it and nothing restores it. The file is deleted last, so an erasure that was cut off
can be finished.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.views import opening
from holdfast.core.owners import ANY_OWNER, UNKNOWN_OWNER, filter_text, is_wanted, owner_of
from holdfast.errors import NoSuchSession
from holdfast.ports.sessions import SessionEraser, copies_among, describe_logs
from holdfast.stores.files import explaining, explaining_read, hold_lock, open_file, open_folder
from holdfast.stores.jsonl.catalogue import FileCatalogue
from holdfast.stores.jsonl.folders import SUFFIX, TRASH, names_in, sessions_of
from holdfast.stores.jsonl.log import FileLog, hashes_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.core.owners import OwnerFilter
    from holdfast.ports.sessions import ErasableSession, SessionInfo
    from holdfast.stores.jsonl.index import RemovedLog
    from holdfast.stores.search.sqlite import SqliteSearchIndex

_ERASING: Final = ".erasing"


class FileEraser(FileCatalogue, SessionEraser):
    """A `SessionEraser` of files."""

    def erasable(self, key: SessionKey, *, owner: OwnerFilter) -> ErasableSession:
        with explaining_read(f"session `{key.session}`"):
            found = describe_logs(key, self._logs_of(key, owner))
        if not found.logs:
            raise NoSuchSession(str(key), [known.session for known in self.keys()])
        return found

    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        for key in keys:
            with suppress(NoSuchSession), self.open_log(key) as log:
                if _is_of(log, owner):
                    self.remove(key)
        with explaining(f"erase {', '.join(f'`{key.session}`' for key in keys)}"):
            self._condemn(keys, owner)
            for agent in {key.agent for key in keys}:
                self._delete_side_files(agent, keys)

    def erasures(self) -> list[SessionKey]:
        found = (_key_in_trash(name) for name, _status in self._folders.listing(TRASH))
        return sorted({key for key, suffix in filter(None, found) if suffix == _ERASING})

    def finish_erasure(self, *keys: SessionKey) -> None:
        wanted = {(key, _ERASING) for key in keys}
        for name in names_in(self.root, TRASH, suffix=_ERASING):
            if _key_in_trash(name) in wanted:
                self._folders.unlink(TRASH, name)

    def trash_keys(
        self, *, owner: OwnerFilter, repaired_from: Collection[str] | None = None
    ) -> set[SessionKey]:
        from holdfast.stores.jsonl.index import digest_of

        names = filter_text(owner)
        whose = None if names is None else digest_of("owner", names)
        origins = {digest_of("session", name) for name in repaired_from or ()}
        files = [
            (name, status, found[0])
            for name, status in self._folders.listing(TRASH)
            if (found := _key_in_trash(name)) is not None and stat.S_ISREG(status.st_mode)
        ]
        logs = self._index.trash_rows(
            [file[:2] for file in files], partial(_read_removed, self.root)
        )
        return {
            key
            for (_name, _status, key), log in zip(files, logs, strict=True)
            if whose in (None, log.owner)
            and (repaired_from is None or log.repaired_from in origins)
        }

    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterator[str]:
        def is_wanted(parts: tuple[str, ...], name: str) -> bool:
            key, suffix = _owner_of_file(parts, name)
            if of is not None:
                return key == of
            return suffix != _ERASING and (besides is None or key != besides)

        for fd in self._folders.logs(is_wanted):
            with explaining_read("the logs"):
                yield from hashes_in(fd)

    def possible_copies(self, names: Collection[str]) -> list[SessionInfo]:
        from holdfast.stores.jsonl.index import PageQuery

        page = self._page_of(PageQuery(None, ANY_OWNER, None, None, None, parents=names))
        return copies_among(self.sessions(owner=ANY_OWNER), names) if page is None else page

    def agents(self) -> list[str]:
        return self._folders.agents()

    def erase_from_indexes(
        self, sessions: Sequence[SessionKey], scopes: Sequence[str] = ()
    ) -> None:
        if sessions:
            self._index.erase(sessions, living=self._files.at(sessions))
        # The index that searches use is in memory once its file did not work, and has words there.
        self._close_search_index()
        index = self._open_search_index()
        try:
            index.erase([str(key) for key in sessions], scopes)
        finally:
            index.close()

    @cached_property
    def search_index(self) -> SqliteSearchIndex:
        return self._open_search_index()

    def _close_search_index(self) -> None:
        if "search_index" in vars(self):
            self.search_index.close()

    def _open_search_index(self) -> SqliteSearchIndex:
        from holdfast.stores.search.sqlite import FILE_NAME, SqliteSearchIndex

        return SqliteSearchIndex(os.path.join(self.root, FILE_NAME))

    def _logs_of(self, key: SessionKey, owner: OwnerFilter) -> Iterator[FileLog]:
        """Yield the logs of a key: the session, the removed ones and those being erased."""
        for parts, name in _log_names(self.root, key):
            with (
                explaining_read(f"session `{key.session}`"),
                suppress(FileNotFoundError),
                _open_in(self.root, parts, name) as fd,
            ):
                log = FileLog(key, fd, os.fstat(fd).st_size)
                if _is_of(log, owner):
                    yield log

    def _condemn(self, keys: Collection[SessionKey], owner: OwnerFilter) -> None:
        """Rename the removed logs of some keys, so that none of them can be restored."""
        wanted = {(key, SUFFIX): key for key in keys}
        try:
            trash = open_folder(self.root, TRASH)
        except FileNotFoundError:
            return
        try:
            with hold_lock(trash, wait_seconds=LOCK_WAIT_SECONDS):
                for name in os.listdir(trash):
                    found = _key_in_trash(name)
                    key = wanted.get(found) if found else None
                    if key is None:
                        continue
                    fd = open_file(trash, name, os.O_RDONLY)
                    try:
                        is_ours = _is_of(FileLog(key, fd, os.fstat(fd).st_size), owner)
                    finally:
                        os.close(fd)
                    if is_ours:
                        new = name.removesuffix(SUFFIX) + _ERASING
                        os.rename(name, new, src_dir_fd=trash, dst_dir_fd=trash)
                self._disk.sync_folder(trash)
        finally:
            os.close(trash)

    def _delete_side_files(self, agent: str, keys: Iterable[SessionKey]) -> None:
        """Delete what stands beside logs that are gone: summary, writer, quarantine, leftovers."""
        parts = sessions_of(agent)
        starts = [f"{dot}{key.session}." for key in keys if key.agent == agent for dot in ("", ".")]
        names = names_in(self.root, parts, *starts)
        # An id can be in use again, by another owner.
        gone = {key for key in keys if key.session + SUFFIX not in names}
        for name in names:
            if _owner_of_file(parts, name)[0] in gone:
                self._folders.unlink(parts, name)


def _log_names(root: str, key: SessionKey) -> Iterator[tuple[tuple[str, ...], str]]:
    yield sessions_of(key.agent), key.session + SUFFIX
    for name in names_in(root, TRASH, _prefix(key)):
        found = _key_in_trash(name)
        if found is not None and found[0] == key:
            yield TRASH, name


def _read_removed(root: str, name: str) -> RemovedLog:
    """Read the header of a log in the trash."""
    from holdfast.stores.jsonl.index import RemovedLog, digest_of

    found, first = _key_in_trash(name), None
    assert found is not None
    with (
        explaining_read(f"`{name}`"),
        suppress(FileNotFoundError),  # moved meanwhile
        _open_in(root, TRASH, name) as fd,
    ):
        first = opening(FileLog(found[0], fd, os.fstat(fd).st_size))
    if first is None:
        return RemovedLog(None, None)
    origin = first.parent_session if first.reason == "repair" else None
    return RemovedLog(
        None if first.owner is None else digest_of("owner", first.owner),
        digest_of("session", origin) if origin else None,
    )


@contextmanager
def _open_in(root: str, parts: tuple[str, ...], name: str) -> Iterator[int]:
    """Open a file. Raises `FileNotFoundError` where it was moved meanwhile."""
    folder = open_folder(root, parts)
    try:
        fd = open_file(folder, name, os.O_RDONLY)
    finally:
        os.close(folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_of(log: FileLog, owner: OwnerFilter) -> bool:
    first = opening(log)
    return is_wanted(owner_of(first.owner) if first else UNKNOWN_OWNER, owner)


def _prefix(key: SessionKey) -> str:
    """Return how the names of a session's logs in the trash begin."""
    return f"{key.agent}.{key.session}."


def _key_in_trash(name: str) -> tuple[SessionKey, str] | None:
    """Return the key in the name of a file in the trash, and its suffix."""
    agent, _, rest = name.partition(".")
    session, _, rest = rest.partition(".")
    stamp, dot, suffix = rest.partition(".")
    if not (stamp.isdecimal() and is_name(agent) and is_name(session)):
        return None
    return SessionKey(agent, session), dot + suffix


def _owner_of_file(parts: tuple[str, ...], name: str) -> tuple[SessionKey | None, str]:
    """Return the session that a file belongs to, and the suffix of its name.

    Temporary files are named after the file that they become, with a dot before.
    """
    if parts == TRASH:
        return _key_in_trash(name) or (None, "")
    session, dot, suffix = name.removeprefix(".").partition(".")
    key = SessionKey(parts[1], session) if session and is_name(session) else None
    return key, dot + suffix
