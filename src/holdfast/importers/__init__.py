"""Other tools' transcripts as records: one file per family, one table.

`detect` names the format of some bytes and `read` makes sessions of them. What cannot be carried
is listed in `Imported.skipped`; nothing is dropped in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import UsageError
from holdfast.importers.agents import (
    aider,
    amp,
    claude_code,
    codex,
    coding_agents,
    event_logs,
    goose,
    litellm,
    opencode,
    openinference,
    pi,
    terminals,
    ui_messages,
    web_chats,
)
from holdfast.importers.apis import anthropic, chat, gemini, own, responses
from holdfast.importers.common.base import (
    Imported,
    Importer,
    Source,
    folder_in,
    list_siblings,
)
from holdfast.importers.common.parsing import SQLITE_MAGIC, has_words

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["detect_format", "read_transcript"]

# Detection asks in this order: formats that are marked clearly first, bare message lists last.
_ALL: Final = (
    *(gemini.QWEN, claude_code.IMPORTER, pi.OPENCLAW, pi.IMPORTER),
    *terminals.IMPORTERS,
    *event_logs.IMPORTERS,
    opencode.IMPORTER,
    *(goose.IMPORTER, amp.IMPORTER, litellm.IMPORTER, ui_messages.IMPORTER),
    *(gemini.CLI, coding_agents.MINI, coding_agents.SWE, coding_agents.OPENHANDS),
    openinference.IMPORTER,
    *web_chats.IMPORTERS,
    chat.HISTORY,
    *(own.IMPORTER, codex.IMPORTER, aider.IMPORTER),
    *(responses.IMPORTER, gemini.IMPORTER, anthropic.IMPORTER, chat.IMPORTER),
)

FORMATS: Final[dict[str, Importer]] = {importer.name: importer for importer in _ALL}
"""Every format, in the order in which detection asks."""


def detect_format(
    data: bytes, name: str = "", *, formats: Mapping[str, Importer] = FORMATS
) -> str | None:
    """The format of a file's bytes, packed or not; none where it is not a transcript we know.

    `formats` are those to choose from, in the order to ask in: ours, or ours and your own.
    """
    return format_of(Source(data, name), formats)


def read_transcript(
    data: bytes,
    name: str = "",
    *,
    format: str | None = None,  # noqa: A002
    formats: Mapping[str, Importer] = FORMATS,
) -> list[Imported]:
    """The sessions in a file. Raises `UsageError` where it is not a transcript."""
    return read_source(Source(data, name), format, formats)


def format_of(source: Source, formats: Mapping[str, Importer] = FORMATS) -> str | None:
    """Like `detect`, for a source that will be read afterwards: nothing is parsed twice."""
    return next((name for name, one in formats.items() if one.detect(source)), None)


def read_source(
    source: Source, known: str | None = None, formats: Mapping[str, Importer] = FORMATS
) -> list[Imported]:
    """Like `read`; `known` is the format where the caller knows it."""
    if known is not None and known not in formats:
        raise UsageError(f"unknown format `{known}`", hint=f"known are: {', '.join(formats)}")
    found = known or format_of(source, formats)
    if found is None and source.data.startswith(SQLITE_MAGIC):
        raise UsageError(
            f"`{source.name or 'the input'}` is a SQLite database, not a transcript",
            hint="`holdfast adopt FOLDER` takes over the sessions of OpenClaw and OpenCode from "
            "theirs, and `holdfast inspect FILE` shows them",
        )
    if found is None:
        raise UsageError(
            f"`{source.name or 'the input'}` is not a transcript in a known format: "
            f"{source.describe()}",
            hint=f"say which format it has (`--format NAME`); known are: {', '.join(formats)}"
            if has_words(source.data)
            else "name a transcript; `holdfast inspect` alone looks where agents keep theirs",
        )
    folder = folder_in(source.head)
    sessions = formats[found].read(source)
    if sessions and (lost := list_siblings(source.value, sessions)):
        told = {skipped.what for session in sessions for skipped in session.skipped}
        more = [skipped for skipped in lost if skipped.what not in told]
        first = msgspec.structs.replace(sessions[0], skipped=[*sessions[0].skipped, *more])
        sessions = [first, *sessions[1:]]
    return (
        [msgspec.structs.replace(each, folder=folder) for each in sessions] if folder else sessions
    )
