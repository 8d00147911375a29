"""`output`: reads an offloaded output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.core.limits import EXCERPT_CHARS, REF_CHARS
from holdfast.engine.outputs import Outputs
from holdfast.errors import AmbiguousName, NoSuchOutput, StoreError, UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.sizes import size
from holdfast.surfaces.formatting import size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.engine.outputs import FoundOutput

_PARTS = ("grep", "lines", "offset", "max_chars")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF", help="a ref from a preview, or a record id")
    parser.add_argument("--session", "-s", metavar="SESSION", help="search only this session")
    parser.add_argument("--grep", metavar="PATTERN", help="only matching lines, with line numbers")
    parser.add_argument(
        "--lines", metavar="A:B", help="only these lines; --lines=-50: shows the last 50"
    )
    parser.add_argument("--offset", type=int, metavar="N", help="start at this character")
    parser.add_argument(
        "--max-chars", type=size, metavar="N", help=f"at most N characters ({EXCERPT_CHARS})"
    )
    parser.add_argument(
        "-o", dest="file", metavar="FILE", help="write the whole output to a new file (-: stdout)"
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def _output(args: argparse.Namespace, app: App) -> int:
    outputs = _outputs(args, app)
    if args.file is not None and any(getattr(args, name) is not None for name in _PARTS):
        raise UsageError(
            "-o writes the whole output and cannot be combined with a part",
            hint="omit -o to see a part, or the part to write everything",
        )
    key, found = _find(args, app, outputs)
    if args.file is not None:
        return _write(args, app, outputs, key, found)
    part = outputs.read(
        key,
        args.ref,
        offset=args.offset,
        lines=args.lines,
        pattern=args.grep,
        max_chars=EXCERPT_CHARS if args.max_chars is None else args.max_chars,
    )
    if app.out.is_json:
        app.out.json(part)
        return 0
    _show(app, part, is_numbered=args.lines is not None and args.grep is None)
    app.out.note(f"{part.kind}, ref {part.ref}, {size_text(part.bytes)}: {part.note}")
    if part.is_cut:
        app.out.note(f"next: {_next(args, key, part)}")
    return 0


def _outputs(args: argparse.Namespace, app: App) -> Outputs:
    if args.raw:
        return Outputs(app.store, app.store.blobs)
    from holdfast.engine.redactor import redactor

    return Outputs(app.store, app.store.blobs, redactor=redactor(app.settings.secrets))


def _find(args: argparse.Namespace, app: App, outputs: Outputs) -> tuple[SessionKey, FoundOutput]:
    if args.session:
        key = app.session(args.session)
        return key, outputs.find(key, args.ref)
    found: dict[str, tuple[SessionKey, FoundOutput]] = {}
    for info in app.sessions():
        try:
            payload = outputs.find(info.key, args.ref)
        except NoSuchOutput:
            continue
        except StoreError as error:
            app.out.warn(f"skipped session `{info.key.session}`: {error}")
            continue
        # A fork shares the records of its parent, so the same payload can be in two sessions.
        found.setdefault(payload.sha256 or payload.record, (info.key, payload))
        if len(args.ref) >= REF_CHARS:
            break
    if not found:
        raise NoSuchOutput(args.ref, "")
    if len(found) > 1:
        raise AmbiguousName("output", args.ref, sorted(found))
    return next(iter(found.values()))


def _show(app: App, part: Excerpt, *, is_numbered: bool) -> None:
    if not sys.stdout.isatty():
        app.out.text(part.text)
        return
    lines = part.text.removesuffix("\n").split("\n") if part.text else []
    for number, line in enumerate(lines, part.first_line):
        app.out.line(f"{number:>6}  {line}" if is_numbered else line)


def _next(args: argparse.Namespace, key: SessionKey, part: Excerpt) -> str:
    """Return the command that shows the next part."""
    words = ["holdfast output", args.ref, "--session", key.session]
    if part.next_lines is not None:
        words += ["--lines", part.next_lines]
    else:
        words += ["--offset", str(part.next_offset)]
    if args.grep is not None:
        import shlex

        words += ["--grep", shlex.quote(args.grep)]
    if args.max_chars is not None:
        words += ["--max-chars", str(args.max_chars)]
    return " ".join(words + (["--raw"] if args.raw else []))


def _write(
    args: argparse.Namespace, app: App, outputs: Outputs, key: SessionKey, found: FoundOutput
) -> int:
    is_masked = found.is_text and not args.raw
    pieces = (
        (piece.encode() for piece in outputs.text(key, args.ref))
        if is_masked
        else outputs.payload(key, args.ref)
    )
    if args.file == "-":
        with app.out.binary() as target:
            target.writelines(pieces)
        return 0
    written = _write_new(args.file, pieces)
    if app.out.is_json:
        app.out.json(
            {"ref": found.ref, "file": args.file, "bytes": written, "is_masked": is_masked}
        )
    else:
        masked = "; secrets are masked (--raw leaves them in)" if is_masked else ""
        app.out.note(f"wrote {size_text(written)} of {found.kind} to `{args.file}`{masked}")
    return 0


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


VERBS = {
    "output": Verb(_add_output, _output),
}
