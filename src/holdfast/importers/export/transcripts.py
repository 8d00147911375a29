"""Back to the transcripts of other tools: lines that the tool itself resumes.

Like `export_messages`, this is a conversion and no projection. What a format has no place for is
listed. Ids are those of the records where the tool accepts them, so that a file that is imported,
continued and exported differs from the old one by what was added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.importers.common.base import Skipped
from holdfast.importers.export.claude_code import ClaudeCodeWriter
from holdfast.importers.export.codex import CodexWriter
from holdfast.importers.export.pi import OpenClawWriter, PiWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Json, Record
    from holdfast.importers.export.writer import TranscriptAbout, TranscriptWriter


class ExportedTranscript(msgspec.Struct, frozen=True):
    """The lines of a transcript, and what has no place in them."""

    lines: list[Json]
    skipped: list[Skipped]
    session: str
    """The id by which the tool finds it."""
    hint: str
    """The place for the file, and the command that goes on with it."""


def export_transcript(
    records: Iterable[Record], kind: str, about: TranscriptAbout
) -> ExportedTranscript:
    """Return the records as a transcript of a tool: a key of `TRANSCRIPTS`."""
    writer = TRANSCRIPTS[kind](about)
    for record in records:
        writer.add(record)
    skipped = [Skipped(what, why, count) for (what, why), count in writer.skipped.items()]
    return ExportedTranscript(writer.messages, skipped, writer.name, writer.hint())


TRANSCRIPTS: Final[dict[str, Callable[[TranscriptAbout], TranscriptWriter]]] = {
    "claude-code": ClaudeCodeWriter,
    "codex": CodexWriter,
    "pi": PiWriter,
    "openclaw": OpenClawWriter,
}
