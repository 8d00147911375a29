"""Attacks on reading back: each is refused with a reason, nothing is read, and nothing hangs.

Three ways in: the blob store by hash, `Outputs` by ref, and the command line.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.stores.opens import watched

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import OutputRef, ToolResult, User
from holdfast.engine.outputs import Outputs
from holdfast.errors import (
    BlobDamaged,
    BlobMissing,
    HoldfastError,
    NoSuchOutput,
    PathRejected,
    StoreError,
    UsageError,
)
from holdfast.ports import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.files import open_file, open_folder
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.cli import main

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.files_only("it attacks payloads in files")

KEY = SessionKey("main", "work")
OTHER = SessionKey("main", "other")
SECRET = "what only the owner may read\n"
PAYLOAD = b"line after line of an output\n" * 40


class Scene(NamedTuple):
    """A root with one session that holds one output, and something outside the root."""

    root: Path
    store: JsonlStore
    blobs: FileBlobs
    outputs: Outputs
    sha256: str
    outside: Path

    @property
    def path(self) -> Path:
        return path_of(self.root, self.sha256)


def path_of(root: Path, sha256: str) -> Path:
    return root / "blobs" / sha256[:2] / f"{sha256}.zst"


def hold(store: JsonlStore, key: SessionKey, sha256: str, size: int) -> str:
    ref = OutputRef(sha256=sha256, bytes=size, kind="text")
    result = ToolResult(tool_use_id="t", content="[preview]", output_ref=ref)
    return store.append(key, [result], expect=ANY_HEAD).head


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    blobs = FileBlobs(root)
    sha256 = blobs.put(PAYLOAD)
    with JsonlStore(root) as store:
        store.create(KEY)
        store.create(OTHER)
        hold(store, KEY, sha256, len(PAYLOAD))
        yield Scene(root, store, blobs, Outputs(store, blobs), sha256, outside)


def by_hash(scene: Scene) -> object:
    return scene.blobs.get(scene.sha256)


def by_ref(scene: Scene) -> object:
    return scene.outputs.read(KEY, scene.sha256[:16])


def by_ref_in_full(scene: Scene) -> object:
    return b"".join(scene.outputs.payload(KEY, scene.sha256))


def by_pattern(scene: Scene) -> object:
    return scene.outputs.read(KEY, scene.sha256[:16], pattern="line")


WAYS: tuple[Callable[[Scene], object], ...] = (by_hash, by_ref, by_ref_in_full, by_pattern)


def assert_refused(
    scene: Scene, error: type[HoldfastError], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every way in says no, with a reason and without a byte of what is there."""
    for way in WAYS:
        with pytest.raises(error) as refused:
            way(scene)
        assert str(refused.value)
        assert refused.value.hint
        assert SECRET.strip() not in f"{refused.value} {refused.value.hint}"
    for more in ([], ["-o", str(scene.root / "copy")], ["-o", "-"], ["--raw"]):
        assert output(scene, scene.sha256[:16], *more) != 0
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "error:" in shown.err
        assert SECRET.strip() not in shown.err
        assert not (scene.root / "copy").exists()


def output(scene: Scene, ref: str, *more: str) -> int:
    return main(["--root", str(scene.root), "output", ref, "--session", KEY.session, *more])


def test_scene_is_sound(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an attack every way in leads to the payload: a refusal means something."""
    assert by_hash(scene) == by_ref_in_full(scene) == PAYLOAD
    assert scene.outputs.read(KEY, scene.sha256[:16]).text.encode() == PAYLOAD
    assert output(scene, scene.sha256[:16], "--raw") == 0
    assert capsys.readouterr().out.encode() == PAYLOAD


# Names


NAMES = (
    "../",
    "../outside/secret",
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "%2e%2e%2fetc%2fpasswd",
    "..%2f..%2fetc%2fpasswd",
    "%252e%252e%252f",
    "..\\..\\secret",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "$HOME",
    "`id`",
    "{sha}\0",
    "{sha}\0.txt",
    "{sha}\n",
    "\n{sha}",
    " {sha}",
    "{sha}/../../secret",
    "blobs/{two}/{sha}",
    "{sha}.zst",
    "{upper}",
    "{wide}",
    "{arabic}",
    "{sha}\u200b",
    "*",
    "{eleven}",
    "{sha}0",
    "",
    " ",
    "-",
    "@",
    "\ud800",
    "a" * 4_096,
)
"""Paths, encodings, look-alikes and near misses in place of a ref."""


def spelled(name: str, sha256: str) -> str:
    wide = "".join(chr(ord(one) + 0xFEE0) for one in sha256)
    arabic = "".join(chr(0x0660 + int(one)) if one.isdigit() else one for one in sha256)
    values = {"sha": sha256, "upper": sha256.upper(), "two": sha256[:2], "eleven": sha256[:11]}
    for key, value in {**values, "wide": wide, "arabic": arabic}.items():
        name = name.replace(f"{{{key}}}", value)
    return name


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_refs_are_refused_unopened(
    scene: Scene, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither below the root nor outside is a blob, or anything by that name, opened."""
    ref = spelled(name, scene.sha256)
    with watched() as seen:
        with pytest.raises(NoSuchOutput) as refused:
            scene.outputs.read(KEY, ref)
        with pytest.raises(NoSuchOutput):
            scene.outputs.payload(KEY, ref)
    assert refused.value.hint
    touched = [touch.name for touch in seen]
    assert not [one for one in touched if one.endswith((".zst", "passwd", "secret"))]
    assert not [one for one in touched if one in ("blobs", scene.sha256[:2])]
    if not ref.startswith("-") and "\0" not in ref and ref.isprintable():
        assert output(scene, ref) == 2
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_hashes_are_refused_by_the_blob_store(scene: Scene, name: str) -> None:
    """The store of blobs does not rely on who asks it."""
    ref = spelled(name, scene.sha256)
    with watched() as seen, pytest.raises(UsageError):
        scene.blobs.get(ref)
    assert not seen


# Whose it is


def test_refs_of_another_session_are_refused(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """The payload is in the same store, but not in this session's log."""
    foreign = scene.blobs.put(SECRET.encode())
    record = hold(scene.store, OTHER, foreign, len(SECRET))
    for ref in (foreign, foreign[:16], record):
        with watched() as seen, pytest.raises(NoSuchOutput, match="none of its records"):
            scene.outputs.read(KEY, ref)
        assert not [touch for touch in seen if touch.name.endswith(".zst")]
        assert output(scene, ref) == 2
        assert SECRET.strip() not in capsys.readouterr().out


def test_refs_that_are_only_mentioned_are_refused(scene: Scene) -> None:
    """A hash in a text, in arguments, or in fields of another shape is not a ref."""
    foreign = scene.blobs.put(SECRET.encode())
    shape = {"sha256": foreign, "bytes": len(SECRET), "kind": "text"}
    mentions = (
        User(content=f"please read {foreign}"),
        User(content=[{"type": "text", "text": foreign, "output_ref": shape}]),
        User(content="hi", extra={"output_ref": shape}),
        ToolResult(tool_use_id="t", content=f'{{"output_ref": {{"sha256": "{foreign}"}}}}'),
        ToolResult(tool_use_id="t", content="x", details={"nested": {"output_ref": shape}}),
        ToolResult(tool_use_id="t", content="x", details=[shape]),
    )
    scene.store.append(KEY, mentions, expect=ANY_HEAD)
    with pytest.raises(NoSuchOutput):
        scene.outputs.read(KEY, foreign[:16])


def test_refs_whose_hash_is_a_path_open_nothing(scene: Scene) -> None:
    """A log that somebody edited can hold any text as a hash; it is still not opened."""
    path = "0123456789abcdef/../../../outside/secret"
    hold(scene.store, KEY, path, 29)
    with watched() as seen, pytest.raises(UsageError, match="not a blob's hash"):
        scene.outputs.read(KEY, "0123456789abcdef")
    assert not [touch for touch in seen if "secret" in touch.name]


# Links and other things in place of a file


def test_a_linked_file_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever it leads to."""
    scene.path.unlink()
    scene.path.symlink_to(scene.outside / "secret")
    assert_refused(scene, PathRejected, capsys)


def test_a_link_to_an_intact_copy_is_refused(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even the right content is not taken from behind a link."""
    scene.path.rename(scene.outside / "copy.zst")
    scene.path.symlink_to(scene.outside / "copy.zst")
    assert_refused(scene, PathRejected, capsys)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_linked_folder_is_refused(
    scene: Scene, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`blobs` itself, or a folder in it."""
    folder = scene.path.parents[depth - 1]
    folder.rename(scene.outside / "moved")
    folder.symlink_to(scene.outside / "moved")
    assert_refused(scene, PathRejected, capsys)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_with_a_second_name_is_refused(
    scene: Scene, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who can write to it under the other name could change it while it is read."""
    os.link(scene.path, scene.outside / "second")
    scene.path.chmod(mode)
    assert_refused(scene, PathRejected, capsys)


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket"])
def test_what_is_no_file_is_refused_without_waiting(
    scene: Scene, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody writes to the FIFO, and nothing waits for somebody to."""
    scene.path.unlink()
    if kind == "fifo":
        os.mkfifo(scene.path)
    elif kind == "folder":
        scene.path.mkdir()
    else:
        os.mknod(scene.path, 0o140600)
    assert_refused(scene, PathRejected, capsys)


def test_a_device_is_refused() -> None:
    """A device is opened by nobody's name for a blob, and not read."""
    folder = open_folder("/dev", ())
    try:
        for name in ("zero", "null", "random"):
            with pytest.raises(PathRejected, match="not a regular file"):
                open_file(folder, name, os.O_RDONLY)
    finally:
        os.close(folder)


# Altered payloads


def test_every_flipped_byte_is_noticed(scene: Scene) -> None:
    """No change of a byte delivers anything but the payload itself."""
    intact = scene.path.read_bytes()
    delivered = 0
    for place in range(len(intact)):
        altered = bytearray(intact)
        altered[place] ^= 0xFF
        scene.path.write_bytes(altered)
        try:
            assert by_ref_in_full(scene) == PAYLOAD
            delivered += 1  # a byte that says nothing about the content
        except BlobDamaged:
            pass
    assert delivered <= 2


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_noticed(scene: Scene, bit: int) -> None:
    """The same for single bits."""
    intact = scene.path.read_bytes()
    for place in range(len(intact)):
        altered = bytearray(intact)
        altered[place] ^= 1 << bit
        scene.path.write_bytes(altered)
        with suppress(BlobDamaged):
            assert scene.outputs.read(KEY, scene.sha256[:16]).text.encode() == PAYLOAD


def frame(data: bytes) -> bytes:
    return zstd.compress(data)


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _intact: b"",
    "cut short": lambda intact: intact[:-1],
    "half": lambda intact: intact[: len(intact) // 2],
    "appended bytes": lambda intact: intact + b"\0",
    "appended frame": lambda intact: intact + frame(b"more"),
    "another frame": lambda _intact: frame(SECRET.encode()),
    "plain text": lambda _intact: SECRET.encode(),
    "not zstd": lambda _intact: b"\x1f\x8b\x08" + bytes(40),
    "a bomb": lambda _intact: frame(bytes(64 << 20)),
    "many bombs": lambda _intact: frame(bytes(16 << 20)) * 12,
    "one byte more": lambda _intact: frame(PAYLOAD + b"\n"),
    "one byte less": lambda _intact: frame(PAYLOAD[:-1]),
    "a giant window": lambda _intact: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00",
}


@pytest.mark.parametrize("how", ALTERED)
def test_altered_payloads_are_refused(
    scene: Scene, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut, extended, replaced, or made to expand without end."""
    scene.path.write_bytes(ALTERED[how](scene.path.read_bytes()))
    assert_refused(scene, BlobDamaged, capsys)


def test_bombs_are_left_where_they_exceed_their_size(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the record says of the size is enough to stop: the rest is not even expanded."""
    scene.path.write_bytes(frame(bytes(256 << 20)))
    expanded = 0
    real = zstd.ZstdFile.read

    def counted(file: zstd.ZstdFile, size: int | None = -1) -> bytes:
        nonlocal expanded
        data = real(file, size)
        expanded += len(data)
        return data

    monkeypatch.setattr(zstd.ZstdFile, "read", counted)
    with pytest.raises(BlobDamaged, match="more than the 1,160 bytes"):
        by_ref(scene)
    assert expanded <= 1 << 20


def test_a_missing_payload_is_said_to_be_missing(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ref that is held, and whose blob was deleted."""
    scene.path.unlink()
    assert_refused(scene, BlobMissing, capsys)


# Swaps


def test_a_file_swapped_after_it_was_checked_delivers_nothing_else(scene: Scene) -> None:
    """The name leads elsewhere between the check and the reading: the open file is what counts."""
    pieces = scene.blobs.chunks(scene.sha256)
    first = next(pieces)  # checked by now
    scene.path.unlink()
    scene.path.symlink_to(scene.outside / "secret")
    assert first + b"".join(pieces) == PAYLOAD


def test_a_file_rewritten_after_it_was_checked_delivers_no_excerpt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed in place between the check and the reading: noticed before anything is returned."""
    real = os.lseek

    def swapped(fd: int, place: int, whence: int) -> int:
        scene.path.write_bytes(frame(SECRET.encode()))
        return real(fd, place, whence)

    monkeypatch.setattr(os, "lseek", swapped)
    with pytest.raises(BlobDamaged):
        scene.outputs.read(KEY, scene.sha256[:16])


def test_swaps_at_any_moment_deliver_the_payload_or_nothing(scene: Scene) -> None:
    """Another process puts links, other frames and the file itself in place, again and again."""
    intact = scene.path.read_bytes()
    aside = scene.path.with_name("aside")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for make in (
                lambda: aside.symlink_to(scene.outside / "secret"),
                lambda: aside.write_bytes(frame(SECRET.encode())),
                lambda: os.mkfifo(aside),
                lambda: aside.write_bytes(intact),
            ):
                make()
                os.replace(aside, scene.path)

    attacker = threading.Thread(target=swap)
    attacker.start()
    outcomes = set()
    try:
        for _ in range(300):
            try:
                assert scene.outputs.read(KEY, scene.sha256[:16]).text.encode() == PAYLOAD
                outcomes.add("read")
            except StoreError as error:
                outcomes.add(type(error).__name__)
    finally:
        is_over.set()
        attacker.join()
    assert "PathRejected" in outcomes
    assert outcomes <= {"read", "PathRejected", "BlobDamaged", "StoreUnavailable"}


# Where it is written to


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_nothing_is_written_over(
    scene: Scene, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there already stays as it is, and a link is not followed."""
    target = scene.outside / "target"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    else:
        real = scene.outside / ("secret" if kind == "link" else "nothing")
        target.symlink_to(real)
    assert output(scene, scene.sha256[:16], "--raw", "-o", str(target)) == 2
    assert "cannot create" in capsys.readouterr().err
    assert (scene.outside / "secret").read_text() == SECRET
    assert not (scene.outside / "nothing").exists()
    if kind == "file":
        assert target.read_text() == "mine"
