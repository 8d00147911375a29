"""The command about payloads outside the logs: output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.core.limits import EXCERPT_CHARS, REF_CHARS
from holdfast.engine.outputs import Outputs
from holdfast.errors import AmbiguousName, NoSuchOutput, StoreError, UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.formatting import size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.engine.outputs import Found

_PARTS = ("grep", "lines", "offset", "max_chars")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ref", metavar="REF", help="a ref in a preview, or the id of a record")
    parser.add_argument("--session", "-s", metavar="SESSION", help="look in this session only")
    parser.add_argument("--grep", metavar="PATTERN", help="the lines that match, with numbers")
    parser.add_argument("--lines", metavar="A:B", help="these lines; --lines=-50: for the last 50")
    parser.add_argument("--offset", type=int, metavar="N", help="from this character on")
    parser.add_argument(
        "--max-chars", type=int, metavar="N", help=f"how much to show ({EXCERPT_CHARS})"
    )
    parser.add_argument(
        "-o", dest="file", metavar="FILE", help="write all of it to a new file (-: stdout)"
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def _output(args: argparse.Namespace, app: App) -> int:
    outputs = _outputs(args, app)
    if args.file is not None and any(getattr(args, name) is not None for name in _PARTS):
        raise UsageError(
            "-o writes all of an output, and a part was asked for",
            hint="leave out -o to see the part, or the part to have everything",
        )
    key, found = _found(args, app, outputs)
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
    _show(part, is_numbered=args.lines is not None and args.grep is None)
    app.out.note(f"{part.kind}, ref {part.ref}, {size_text(part.bytes)}: {part.note}")
    if part.is_cut:
        app.out.note(f"next: {_next(args, key, part)}")
    return 0


def _outputs(args: argparse.Namespace, app: App) -> Outputs:
    if args.raw:
        return Outputs(app.store, app.blobs)
    from holdfast.engine.redactor import redactor

    return Outputs(app.store, app.blobs, redactor=redactor(app.settings.secrets))


def _found(args: argparse.Namespace, app: App, outputs: Outputs) -> tuple[SessionKey, Found]:
    if args.session:
        key = app.session(args.session)
        return key, outputs.find(key, args.ref)
    found: dict[str, tuple[SessionKey, Found]] = {}
    for info in app.sessions():
        try:
            one = outputs.find(info.key, args.ref)
        except NoSuchOutput:
            continue
        except StoreError as error:
            app.out.warn(f"session `{info.key.session}` was left out: {error}")
            continue
        # A fork has the records of its parent: the same payload in two sessions is one.
        found.setdefault(one.sha256 or one.record, (info.key, one))
        if len(args.ref) >= REF_CHARS:
            break
    if not found:
        raise NoSuchOutput(args.ref, "")
    if len(found) > 1:
        raise AmbiguousName("output", args.ref, sorted(found))
    return next(iter(found.values()))


def _show(part: Excerpt, *, is_numbered: bool) -> None:
    if not sys.stdout.isatty():
        sys.stdout.write(part.text)
        return
    lines = part.text.removesuffix("\n").split("\n") if part.text else []
    for number, line in enumerate(lines, part.first_line):
        # A terminal obeys control characters; what is in an output must not steer it.
        tame = "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in line)
        sys.stdout.write(f"{number:>6}  {tame}\n" if is_numbered else f"{tame}\n")


def _next(args: argparse.Namespace, key: SessionKey, part: Excerpt) -> str:
    """The command that shows what comes after a part."""
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
    args: argparse.Namespace, app: App, outputs: Outputs, key: SessionKey, found: Found
) -> int:
    is_masked = found.is_text and not args.raw
    pieces = (
        (piece.encode() for piece in outputs.text(key, args.ref))
        if is_masked
        else outputs.payload(key, args.ref)
    )
    if args.file == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return 0
    written = _write_new(args.file, pieces)
    if app.out.is_json:
        app.out.json(
            {"ref": found.ref, "file": args.file, "bytes": written, "is_masked": is_masked}
        )
    else:
        masked = "; secrets are masked, --raw leaves them" if is_masked else ""
        app.out.note(f"wrote {size_text(written)} of {found.kind} to `{args.file}`{masked}")
    return 0


def _write_new(path: str, pieces: Iterator[bytes]) -> int:
    """Make a file that only its owner can read, whole or not at all; none is overwritten."""
    first = next(pieces, b"")  # verified by now: a damaged payload makes no file
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot make `{path}`: {error.strerror}",
            hint="give the name of a file that does not exist, in a folder that does",
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
