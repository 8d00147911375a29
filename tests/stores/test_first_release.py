"""A store that the first release wrote opens, verifies and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Session
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.opening import open_store
from holdfast.testing.conformance.samples import texts_of

if TYPE_CHECKING:
    from holdfast.testing.servers import PostgresServer

COMMIT = "caf2051"
"""What the release was made of."""
REPOSITORY = Path(__file__).parents[2]
WRITE = textwrap.dedent(
    """
    import sys
    from holdfast import Session
    from holdfast.stores.opening import open_store
    from holdfast.ports import NewMessage

    with open_store(sys.argv[1]) as store:
        with Session.open("s", store=store, model="offline") as session:
            for text in ("one", "two", "three"):
                session.say(text)
            session.compact()
        store.notes("main").append("the gate is green")
        store.queues.put(NewMessage(queue="inbox", lane="s", key="k", body={"content": "hi"}))
        store.blobs.put(b"payload")
    """
)


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the first release, built from its commit and unpacked."""
    place = tmp_path_factory.mktemp("first")
    archive = ["git", "-C", str(REPOSITORY), "archive", "--output", str(place / "a.tar"), COMMIT]
    done = subprocess.run(archive, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: a store of the first release; no history: {done.stderr.strip()}")
    (place / "source").mkdir()
    subprocess.run(["tar", "-xf", str(place / "a.tar"), "-C", str(place / "source")], check=True)
    uv = shutil.which(REPOSITORY / ".tools" / "bin" / "uv") or shutil.which("uv")
    environment = {**os.environ, "UV_NATIVE_TLS": "1"}
    environment.pop("SSL_CERT_DIR", None)  # our tests' own, without certificates
    build = [uv or "uv", "build", "--wheel", "--quiet", "--out-dir", str(place)]
    built = subprocess.run(
        [*build, str(place / "source")] if uv else ["false"],
        capture_output=True,
        check=False,
        env=environment,
    )
    if built.returncode:  # without a network: the wheel has these files and no others
        return place / "source" / "src"
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, place / "package"], check=True)
    return place / "package"


def write_with(package: Path, address: str) -> None:
    """Write a store with the first release, in a process of its own."""
    code = f"import sys; sys.path.insert(0, {str(package)!r})\n{WRITE}\n"
    code += "import holdfast; assert holdfast.__file__.startswith(sys.path[0]), holdfast.__file__"
    subprocess.run([sys.executable, "-c", code, address], check=True)


def check_goes_on(address: str) -> None:
    """Open a store with the present code, verify it, and use everything in it."""
    key = SessionKey("main", "s")
    with open_store(address) as store:
        assert store.verify(key).is_sound
        assert texts_of(store.read(key)) == ["one", "two", "three"]
        with Session.open("s", store=store, model="offline") as session:
            assert session.say("four").text
        assert texts_of(store.read(key)) == ["one", "two", "three", "four"]
        assert store.verify(key).is_sound
        assert [note.text for note in store.notes("main").notes()] == ["the gate is green"]
        (message,) = store.queues.claim("inbox", "w", 60)
        assert (message.key, message.body) == ("k", {"content": "hi"})
        assert store.queues.finish(message, "answered")
        assert [store.blobs.get(sha256) for sha256 in store.blobs] == [b"payload"]
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [key]


def test_files_of_the_first_release_go_on(first_release: Path, tmp_path: Path) -> None:
    """Sessions, notes, queues and payloads in a folder."""
    address = str(tmp_path / "root")
    write_with(first_release, address)
    check_goes_on(address)


def test_tables_of_the_first_release_go_on(
    first_release: Path, postgres_server: PostgresServer
) -> None:
    """The same in PostgreSQL."""
    address = f"{postgres_server.address}&schema=first_release"
    write_with(first_release, address)
    check_goes_on(address)
