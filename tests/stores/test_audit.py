"""The audit log: every access is in it, whoever writes at the same time and whatever is broken."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.reads import bytes_read

from holdfast.core.history.access import Access
from holdfast.core.limits import AUDIT_FIELD_CHARS_MAX, READ_BLOCK_BYTES
from holdfast.errors import NotDurable, PathRejected, StoreError, StoreUnavailable
from holdfast.ports import AuditPage
from holdfast.stores.audit import NAME, FileAudit
from holdfast.stores.files import Disk
from holdfast.testing.disk import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Callable

NOTES = """
import sys
from holdfast.core.history.access import Access
from holdfast.stores.audit import FileAudit
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
audit = FileAudit(root)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    reason = "x" * (number * 7 % 600)
    audit.note(Access(1.0, "read", name, None, "", f"main/{number}", True, reason, number))
"""


class QuickDisk(Disk):
    """Does not wait for the medium: these tests lose no power."""

    def sync(self, fd: int) -> None:
        pass


def access(target: str = "main/work", **fields: object) -> Access:
    values: dict[str, object] = {"agent": "main", "session": "asking", "owner": "ann", **fields}
    return Access(ts=5.0, action="read", target=target, is_allowed=True, reason="why", **values)  # type: ignore[arg-type]


def all_of(audit: FileAudit) -> AuditPage:
    """Return what all pages have together."""
    pages = list(audit.pages())
    accesses = tuple(access for page in pages for access in page.accesses)
    return AuditPage(accesses, sum(page.damaged for page in pages))


def targets(audit: FileAudit, last: int | None = None) -> list[str]:
    return [one.target for one in audit.entries(last).accesses]


# Many writers


def test_audit_of_many_processes_loses_no_line_and_mixes_none(tmp_path: Path) -> None:
    """Four processes that note 500 accesses each leave 2,000 whole lines, each in its order."""
    names = [f"agent-{number}" for number in range(4)]
    command = [sys.executable, "-c", NOTES, str(tmp_path)]
    writers = [
        subprocess.Popen(
            [*command, name, "500"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n")
        assert writer.returncode == 0
    found, damaged = FileAudit(tmp_path).entries()
    assert (len(found), damaged) == (2_000, 0)
    for name in names:
        assert [one.bytes for one in found if one.agent == name] == list(range(500))


def test_audit_of_many_threads_loses_no_line(tmp_path: Path) -> None:
    """One audit log can be shared by threads."""
    audit = FileAudit(tmp_path, disk=QuickDisk())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: audit.note(access(f"{number}")), range(400)))
    assert sorted(targets(audit), key=int) == [f"{number}" for number in range(400)]


# What it costs, and how it looks


def test_audit_is_read_from_its_end(tmp_path: Path) -> None:
    """The newest entries of a long log cost a block, not the log."""
    audit = FileAudit(tmp_path, disk=QuickDisk())
    audit.note(access())
    line = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(line * (20 * READ_BLOCK_BYTES // len(line)))
    audit.note(access("main/newest"))
    with bytes_read() as read:
        assert targets(audit, 2) == ["main/work", "main/newest"]
    assert 0 < read.total <= READ_BLOCK_BYTES
    with bytes_read() as read:
        audit.note(access())
    assert read.total == 1


def test_audit_is_on_the_medium_before_the_answer_is(tmp_path: Path) -> None:
    """A note is one write and one sync; a new file is made durable in its folder too."""
    disk = FaultyDisk()
    audit = FileAudit(tmp_path, disk=disk)
    audit.note(access())
    assert disk.calls == ["sync_folder", "write", "sync"]
    audit.note(access())
    assert disk.calls[3:] == ["write", "sync"]


def test_audit_line_has_a_bounded_length(tmp_path: Path) -> None:
    """The longest texts in the most expensive characters make a line of a few kilobytes."""
    worst = "\x00" * 100_000
    FileAudit(tmp_path).note(access(worst, agent=worst, session=worst, owner=worst))
    assert (tmp_path / NAME).stat().st_size < 6 * 5 * AUDIT_FIELD_CHARS_MAX


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_audit_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """The file is 0600 and the root, made on the way, 0700."""
    before = os.umask(umask)
    try:
        FileAudit(tmp_path / "root").note(access())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "root" / NAME).stat().st_mode) == 0o600


def test_audit_that_is_not_there_yet_is_empty_and_stays_unmade(tmp_path: Path) -> None:
    """Reading makes nothing."""
    for root in (tmp_path, tmp_path / "nowhere"):
        assert FileAudit(root).entries() == ((), 0)
    assert list(tmp_path.iterdir()) == []


def test_audit_that_was_moved_aside_is_made_anew(tmp_path: Path) -> None:
    """An operator may put the file away while processes write."""
    audit = FileAudit(tmp_path)
    audit.note(access("main/before"))
    (tmp_path / NAME).rename(tmp_path / "audit.1.jsonl")
    audit.note(access("main/after"))
    assert targets(audit) == ["main/after"]


# Damage


def test_audit_skips_and_counts_lines_that_cannot_be_read(tmp_path: Path) -> None:
    """Garbage between the lines hides none of them."""
    audit = FileAudit(tmp_path)
    odd = [b"garbage", b"[1]", b'{"ts":1}', b"\x00" * 50, b"\xff\xfe", b'{"a":' * 5_000]
    for number, line in enumerate(odd):
        audit.note(access(f"main/{number}"))
        with (tmp_path / NAME).open("ab") as file:
            file.write(line + b"\n")
    audit.note(access("main/last"))
    expected = [*(f"main/{number}" for number in range(len(odd))), "main/last"]
    assert targets(audit) == expected
    assert audit.entries().damaged == len(odd)
    assert audit.entries(1).damaged == 0
    assert audit.entries(2).damaged == 1


def test_audit_reads_lines_of_a_later_version(tmp_path: Path) -> None:
    """A field that this version does not know takes nothing away."""
    audit = FileAudit(tmp_path)
    audit.note(access())
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes().replace(b"{", b'{"later":[1],', 1))
    assert audit.entries() == ((access(),), 0)


def test_audit_cut_off_at_any_byte_keeps_what_was_noted_before_and_after(tmp_path: Path) -> None:
    """A line that a crash left unfinished is closed by the next note, and only that one is lost."""
    audit = FileAudit(tmp_path, disk=QuickDisk())
    audit.note(access("main/before"))
    path, start = tmp_path / NAME, (tmp_path / NAME).stat().st_size
    audit.note(access("main/torn"))
    whole = path.read_bytes()
    for size in range(start, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert audit.entries() == ((access("main/before"),), 0)
        audit.note(access("main/after"))
        assert targets(audit) == ["main/before", "main/after"]
        assert audit.entries().damaged == (size > start)
        assert all_of(audit) == audit.entries()
    path.write_bytes(whole[:-1])  # only the newline is missing
    audit.note(access("main/after"))
    assert targets(audit) == ["main/before", "main/torn", "main/after"]


@given(st.binary(max_size=300))
def test_audit_with_any_bytes_in_it_can_be_read_and_written(data: bytes) -> None:
    """Whatever stands in the file: reading raises nothing, and the next note is found."""
    with tempfile.TemporaryDirectory() as folder:
        audit = FileAudit(folder, disk=QuickDisk())
        Path(folder, NAME).write_bytes(data)
        assert audit.entries().accesses == ()
        assert all_of(audit) == audit.entries()
        audit.note(access())
        assert all_of(audit) == audit.entries()
        assert audit.entries(1) == ((access(),), 0)
        lines = [line for line in re.split(b"\n", data) if line.strip()]
        assert audit.entries().damaged == len(lines)


# A disk that says no


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lambda disk: disk.fill(), StoreUnavailable),
        (lambda disk: disk.fill(room=20), NotDurable),
        (lambda disk: disk.shorten(30), NotDurable),
        (lambda disk: disk.fail("write", errno.EIO), NotDurable),
        (lambda disk: disk.fail("sync", errno.EIO), NotDurable),
        (lambda disk: disk.fail("write", errno.EROFS), StoreUnavailable),
    ],
)
def test_audit_that_cannot_be_written_says_so(
    tmp_path: Path, fault: Callable[[FaultyDisk], None], expected: type[StoreError]
) -> None:
    """A note that may be lost is an error with a hint, and the next one succeeds."""
    disk = FaultyDisk()
    audit = FileAudit(tmp_path, disk=disk)
    audit.note(access("main/before"))
    fault(disk)
    with pytest.raises(expected) as caught:
        audit.note(access("main/refused"))
    assert caught.value.hint
    disk.heal()
    audit.note(access("main/after"))
    assert targets(audit)[0] == "main/before"
    assert targets(audit)[-1] == "main/after"


# Things in its place


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nowhere"))


def _hard_link(path: Path, outside: Path) -> None:
    outside.chmod(0o666)  # others can change it
    path.hardlink_to(outside)


def _fifo(path: Path, _outside: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, _outside: Path) -> None:
    path.mkdir()


def _device(path: Path, _outside: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # zeros without end
    except PermissionError:
        pytest.skip("NOT TESTED: this user may not make device nodes")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [_link, _dangling_link, _hard_link, _fifo, _folder, _device])
def test_audit_is_neither_read_nor_written_through_anything_but_a_file(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    """A link, FIFO, folder or device in its place is rejected, and nothing outside is touched."""
    outside = tmp_path / "outside"
    outside.write_text("not yours")
    root = tmp_path / "root"
    root.mkdir()
    make(root / NAME, outside)
    audit = FileAudit(root)
    with pytest.raises(PathRejected):
        audit.note(access())
    with pytest.raises(PathRejected):
        audit.entries()
    assert outside.read_text() == "not yours"
    assert not outside.with_name("nowhere").exists()


def test_audit_below_a_file_is_refused(tmp_path: Path) -> None:
    """A root that is a file is no root."""
    (tmp_path / "root").write_text("a file")
    audit = FileAudit(tmp_path / "root")
    for act in (audit.entries, lambda: audit.note(access())):
        with pytest.raises(StoreError):
            act()
