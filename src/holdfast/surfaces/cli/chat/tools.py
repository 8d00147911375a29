"""Tools of a chat: they read files in one folder.

A path is resolved, must lie inside the folder, and is opened component by component without
following links, so that no name, link or race leads out of it.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.text.cut import cut
from holdfast.errors import PathRejected
from holdfast.stores.files import open_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OUTPUT_CHARS_MAX: Final = 50_000
_MARKER_CHARS: Final = 200
_READ_BYTES_MAX: Final = 4 * OUTPUT_CHARS_MAX
_SEARCH_BYTES_MAX: Final = 2_000_000
_MATCHES_MAX: Final = 200
_FILES_MAX: Final = 20_000
_LINE_CHARS: Final = 240
"""Bounds on what the built-in tools read and return, so that no folder can hang the chat."""
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv"})
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderTools:
    """Tools that work inside one folder."""

    def __init__(self, folder: str = ".") -> None:
        self._root = os.path.realpath(folder)

    def tools(self, *, can_write: bool = False) -> list[Callable[..., Any]]:
        readers: list[Callable[..., Any]] = [
            self.read_file,
            self.list_directory,
            self.search_files,
            self.get_current_time,
        ]
        return [*readers, self.write_file] if can_write else readers

    def read_file(self, file_path: str, first_line: int = 1) -> str:
        """Read a text file in the working directory.

        Args:
            file_path: the file, relative to the working directory
            first_line: the first line to read, to continue a long file
        """
        with self._open_file(file_path, os.O_RDONLY) as fd:
            size = os.fstat(fd).st_size
            with open(fd, "rb", closefd=False) as file:
                for _ in range(first_line - 1):
                    if not file.readline(_SEARCH_BYTES_MAX):
                        return f"[`{file_path}` has no line {first_line}]"
                start = file.tell()
                data = file.read(_READ_BYTES_MAX + 1)
        if b"\0" in data[:8_000]:
            return f"[`{file_path}` is not text: {size:,} bytes]"
        text = data.decode("utf-8", "replace")
        if start + len(data) >= size and len(text) <= OUTPUT_CHARS_MAX:
            return text
        kept = text[: OUTPUT_CHARS_MAX - _MARKER_CHARS]
        kept = kept[: kept.rfind("\n") + 1] or kept
        marker = f"[… truncated; the file has {size:,} bytes"
        if kept.endswith("\n"):
            return f"{kept}{marker}; continue with first_line={first_line + kept.count(chr(10))}]"
        return f"{kept}\n{marker}; the line is too long to show]"

    def list_directory(self, directory: str = ".") -> str:
        """List the files and folders in a folder of the working directory.

        Args:
            directory: the folder, relative to the working directory
        """
        fd = self._folder(directory)
        try:
            with os.scandir(fd) as entries:
                rows = sorted(_entry_row(entry) for entry in entries)
        finally:
            os.close(fd)
        text = "\n".join(row for _kind, row in rows) or "[the folder is empty]"
        return cut(text, OUTPUT_CHARS_MAX, keep="head").text

    def search_files(self, query: str, directory: str = ".") -> str:
        """Find the lines that contain a text, in all text files below a folder, or in one file.

        Args:
            query: the text; case is ignored
            directory: the folder or file to search, relative to the working directory
        """
        if not query.strip():
            return "[the query is empty]"
        found: list[str] = []
        looked = 0
        for path, text in self._texts(directory):
            looked += 1
            for number, line in enumerate(text.splitlines(), 1):
                if query.casefold() in line.casefold():
                    shown = cut(line.strip(), _LINE_CHARS, keep="head").text
                    found.append(f"{path}:{number}: {shown}")
            if len(found) >= _MATCHES_MAX:
                found = [*found[:_MATCHES_MAX], "[… more matches: use a longer query]"]
                break
        text = "\n".join(found) or f"[nothing found in {looked:,} text files]"
        return cut(text, OUTPUT_CHARS_MAX, keep="head").text

    def get_current_time(self) -> str:
        """Return the local date and time."""
        return time.strftime("%A, %Y-%m-%d %H:%M:%S %z")

    def write_file(self, file_path: str, content: str) -> str:
        """Write a text file in the working directory, replacing its content.

        Args:
            file_path: the file, relative to the working directory
            content: the new content of the whole file
        """
        if any(part.startswith(".") for part in self._parts(file_path)):
            raise PathRejected(f"`{file_path}` is hidden", hint="hidden files are read-only")
        with self._open_file(file_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            data = content.encode("utf-8", "replace")
            with open(fd, "wb", closefd=False) as file:
                file.write(data)
        return f"[wrote {len(data):,} bytes to `{file_path}`]"

    def _parts(self, path: str) -> list[str]:
        """Resolve a path to its components below the root."""
        joined = os.path.join(self._root, os.path.expanduser(path))
        resolved = os.path.realpath(joined)
        if resolved != self._root and not resolved.startswith(self._root.rstrip("/") + "/"):
            raise PathRejected(
                f"`{path}` is outside the working directory `{self._root}`",
                hint="use a path inside it",
            )
        inside = os.path.relpath(resolved, self._root)
        return [] if inside == "." else inside.split(os.sep)

    def _folder(self, path: str) -> int:
        try:
            return open_folder(self._root, self._parts(path))
        except NotADirectoryError:
            raise NotADirectoryError(f"`{path}` is not a folder") from None
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no folder `{path}`") from None

    def _open_file(self, path: str, flags: int) -> _OpenFile:
        parts = self._parts(path)
        if not parts:
            raise IsADirectoryError(f"`{path}` is a folder: list_directory shows it")
        folder = open_folder(self._root, parts[:-1])
        try:
            fd = os.open(parts[-1], _FLAGS | flags, 0o644, dir_fd=folder)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file `{path}`") from None
        finally:
            os.close(folder)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return _OpenFile(fd)
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"`{path}` is a folder: list_directory shows it")
        raise PathRejected(f"`{path}` is not a regular file", hint="nothing was read from it")

    def _texts(self, directory: str) -> Iterator[tuple[str, str]]:
        """Yield the text files below a folder, without hidden and generated ones."""
        parts = self._parts(directory)
        top = os.path.join(self._root, *parts)
        if parts and os.path.isfile(top):
            path = os.path.join(*parts)
            text = self._text(path)
            if text is not None:
                yield path, text
            return
        looked = 0
        for folder, folders, files in os.walk(top, followlinks=False):
            folders[:] = sorted(n for n in folders if n[0] != "." and n not in _SKIPPED)
            for name in sorted(files):
                looked += 1
                if looked > _FILES_MAX:
                    return
                path = os.path.relpath(os.path.join(folder, name), self._root)
                text = self._text(path)
                if text is not None:
                    yield path, text

    def _text(self, path: str) -> str | None:
        try:
            with self._open_file(path, os.O_RDONLY) as fd:
                if os.fstat(fd).st_size > _SEARCH_BYTES_MAX:
                    return None
                data = os.read(fd, _SEARCH_BYTES_MAX)
        except (OSError, PathRejected):
            return None
        return None if b"\0" in data[:8_000] else data.decode("utf-8", "replace")


class _OpenFile:
    """A file descriptor that closes at the end of its block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _entry_row(entry: os.DirEntry[str]) -> tuple[bool, str]:
    """Return the line of an entry; folders sort first."""
    if entry.is_symlink():
        return True, f"{entry.name} (link)"
    if entry.is_dir(follow_symlinks=False):
        return False, f"{entry.name}/"
    return True, f"{entry.name}  {entry.stat(follow_symlinks=False).st_size:,} bytes"
