"""What is noted of real transcripts: what was planted in them, and nothing of what programs say."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING

from tests.shared_data import need_data
from tests.support.runs import is_whole, sample

from holdfast.core.log.replay import with_ids
from holdfast.core.memory.notes import durable
from holdfast.importers import read

if TYPE_CHECKING:
    from holdfast.importers import Imported

QUOTED = re.compile(r"'(@?\w+)'")


def noted(session: Imported) -> list[str]:
    return [note.text for note in durable(list(with_ids(session.records)))]


def test_most_of_what_a_mentor_lays_down_is_noted() -> None:
    """MemoryCode plants conventions (`start names with 'x_'`) in long friendly talk."""
    planted = found = notes = sessions = 0
    files = sorted((need_data() / "memory" / "memorycode").iterdir())
    for file in sample(files, share=1 / 4, name=lambda file: file.name):
        data = file.read_bytes()
        plain = gzip.decompress(data) if file.suffix == ".gz" else data
        for session, told in zip(read(data, file.name), json.loads(plain)["sessions"], strict=True):
            texts = noted(session)
            sessions, notes = sessions + 1, notes + len(texts)
            for kind, topic in zip(told["type"], told["topic"], strict=True):
                names = QUOTED.findall(str(topic)) if str(kind).startswith("instruction") else []
                if names:
                    planted += 1
                    found += any(names[0] in text for text in texts)

    assert planted > (500 if is_whole() else 100)
    assert found / planted > 0.75, f"{found} of {planted}"
    assert notes / sessions < 1.5, f"{notes} notes in {sessions} sessions"


def test_nothing_of_what_programs_say_is_noted() -> None:
    """In these runs every user message is a prompt or the output of a command."""
    folder = need_data() / "agents" / "mini-swe-agent"
    files = sorted(path for path in folder.rglob("*") if path.is_file())[:20]
    sessions = [session for path in files for session in read(path.read_bytes(), path.name)]

    assert len(sessions) >= 20
    assert [text for session in sessions for text in noted(session)] == []
