"""The parts that transcripts of all tools share: times, ids, and what stands between messages."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.core.log.records import Assistant, Compaction, Label, ModelChange, Record
from holdfast.importers.export_messages import MessageWriter

_SPACE: Final = uuid.UUID("6f1d5a30-6a58-5b0e-9d5c-1f0a3d1c8b11")
"""The namespace of ids that a tool wants as UUIDs."""
NO_PLACE: Final = "the format has no place for it"


class TranscriptAbout(msgspec.Struct, frozen=True):
    """The facts about a session that are not in its records."""

    session: str
    folder: str
    label: str = ""
    created: float = 0.0


class TranscriptWriter(MessageWriter):
    """Shared by the formats: times, ids, and what stands between messages."""

    def __init__(self, about: TranscriptAbout) -> None:
        super().__init__()
        self.about = about
        self.name = as_uuid(about.session)
        self._model = ""
        self._now = about.created

    def add(self, record: Record) -> None:
        self._now = record.ts or self._now
        match record:
            case Compaction():
                self.compaction(record)
            case ModelChange():
                self._model = record.model
                self.model_change(record)
            case Label():
                self.label(record)
            case _:
                if isinstance(record, Assistant):
                    self._model = record.model or self._model
                super().add(record)

    @abstractmethod
    def compaction(self, record: Compaction) -> None: ...

    def model_change(self, record: ModelChange) -> None:
        self.skip(f"{record.kind} record", NO_PLACE)

    def label(self, record: Label) -> None:
        self.skip(f"{record.kind} record", NO_PLACE)

    @abstractmethod
    def hint(self) -> str:
        """Return the place for the file, and the command that goes on with it."""

    def stamp(self) -> str:
        moment = datetime.fromtimestamp(max(0.0, self._now), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_uuid(name: str) -> str:
    """Return a name that is a UUID as it is, and the same UUID for the same other name."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(_SPACE, name))
