"""`output`: reads an offloaded output."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.core.limits import EXCERPT_CHARS, REF_CHARS
from holdfast.engine.operations.context import ReadOutput
from holdfast.engine.outputs import Outputs
from holdfast.engine.redactor import redactor
from holdfast.errors import AmbiguousName, NoSuchOutput, StoreError, UsageError
from holdfast.surfaces.cli.command import RawOption, ResultCommand, option, takes
from holdfast.surfaces.formatting import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.engine.outputs import FoundOutput
    from holdfast.surfaces.cli.app import App


class OutputCommand(ResultCommand, frozen=True, kw_only=True):
    """Prints an output, or writes it into a file."""

    asked: Annotated[
        ReadOutput,
        takes(
            *("ref", "search", "lines", "offset", "max_chars"),
            search=option("", "PATTERN", "--grep"),
            lines=option("", "A:B"),
        ),
    ]
    session: Annotated[str | None, option("search only this session", "SESSION", "-s")] = None
    file: Annotated[
        str | None,
        option("write the whole output to a new file (-: stdout)", "FILE", "-o", "--file"),
    ] = None
    is_raw: RawOption = False

    def run(self, app: App) -> tuple[SessionKey, Excerpt] | dict[str, Any] | None:
        asked, masks = self.asked, None if self.is_raw else redactor(app.settings.secrets)
        outputs = Outputs(app.store, app.store.blobs, redactor=masks)
        parts = (asked.search, asked.lines, asked.offset)
        is_part = any(part is not None for part in parts) or asked.max_chars != EXCERPT_CHARS
        if self.file is not None and is_part:
            raise UsageError(
                "-o writes the whole output and cannot be combined with a part",
                hint="omit -o to see a part, or the part to write everything",
            )
        key, found = self._find(app, outputs)
        if self.file is not None:
            return self._write(app, outputs, key, found)
        return key, outputs.read(
            key,
            asked.ref,
            offset=asked.offset,
            lines=asked.lines,
            pattern=asked.search,
            max_chars=asked.max_chars,
        )

    def _find(self, app: App, outputs: Outputs) -> tuple[SessionKey, FoundOutput]:
        ref = self.asked.ref
        if self.session:
            key = app.session(self.session)
            return key, outputs.find(key, ref)
        found: dict[str, tuple[SessionKey, FoundOutput]] = {}
        for info in app.sessions():
            try:
                payload = outputs.find(info.key, ref)
            except NoSuchOutput:
                continue
            except StoreError as error:
                app.out.warn(f"skipped session `{info.key.session}`: {error}")
                continue
            # A fork shares the records of its parent: the same payload can be in two sessions.
            found.setdefault(payload.sha256 or payload.record, (info.key, payload))
            if len(ref) >= REF_CHARS:
                break
        if not found:
            raise NoSuchOutput(ref, "")
        if len(found) > 1:
            raise AmbiguousName("output", ref, sorted(found))
        return next(iter(found.values()))

    def _write(
        self, app: App, outputs: Outputs, key: SessionKey, found: FoundOutput
    ) -> dict[str, Any] | None:
        file, is_masked = self.file or "", found.is_text and not self.is_raw
        pieces = (
            (piece.encode() for piece in outputs.text(key, self.asked.ref))
            if is_masked
            else outputs.payload(key, self.asked.ref)
        )
        if file == "-":
            with app.out.binary() as target:
                target.writelines(pieces)
            return None
        written = _write_new(file, pieces)
        if not app.out.is_json:
            masked = "; secrets are masked (--raw leaves them in)" if is_masked else ""
            app.out.note(f"wrote {size_text(written)} of {found.kind} to `{file}`{masked}")
            return None
        return {"ref": found.ref, "file": file, "bytes": written, "is_masked": is_masked}

    def plain(self, found: tuple[SessionKey, Excerpt] | dict[str, Any]) -> Any:
        return found if isinstance(found, dict) else found[1]

    def show(self, found: tuple[SessionKey, Excerpt], app: App) -> None:
        key, part = found
        if not sys.stdout.isatty():
            app.out.text(part.text)
        else:
            is_numbered = self.asked.lines is not None and self.asked.search is None
            lines = part.text.removesuffix("\n").split("\n") if part.text else []
            for number, line in enumerate(lines, part.first_line):
                app.out.line(f"{number:>6}  {line}" if is_numbered else line)
        app.out.note(f"{part.kind}, ref {part.ref}, {size_text(part.bytes)}: {part.note}")
        if part.is_cut:
            app.out.note(f"next: {self._next(key, part)}")

    def _next(self, key: SessionKey, part: Excerpt) -> str:
        """Return the command that shows the next part."""
        asked = self.asked
        words = ["holdfast", "output", asked.ref, "--session", key.session]
        if part.next_lines is not None:
            words += ["--lines", part.next_lines]
        else:
            words += ["--offset", str(part.next_offset)]
        words += ["--grep", asked.search] if asked.search is not None else []
        words += ["--max-chars", str(asked.max_chars)] if asked.max_chars != EXCERPT_CHARS else []
        return shlex.join([*words, "--raw"] if self.is_raw else words)


def _write_new(path: str, pieces: Iterator[bytes]) -> int:
    """Create a file that only its owner can read, complete or not at all; never overwrite."""
    first = next(pieces, b"")  # the payload is verified first: damage creates no file
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot create `{path}`: {error.strerror}",
            hint="pass a new file name in an existing folder",
        ) from error
    written = len(first)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(first)
            for piece in pieces:
                written += file.write(piece)
    except BaseException:
        os.unlink(path)
        raise
    return written
