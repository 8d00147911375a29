"""OpenCode: attached files."""

from __future__ import annotations

import base64

from tests.importers.samples import document, only, skipped

from holdfast.core.log.records import User, text_of


def test_attached_files_keep_their_names_and_texts() -> None:
    """A text that the session holds is carried; of one that it only names, the name stays."""
    held = base64.b64encode(b"tea, cake").decode()
    parts = [
        {"type": "text", "text": "Read these."},
        {
            "type": "file",
            "mime": "text/plain",
            "filename": "list.txt",
            "url": f"data:text/plain;base64,{held}",
        },
        {"type": "file", "mime": "text/plain", "filename": "far.txt", "url": "file:///far.txt"},
        {"type": "file", "mime": "text/plain", "filename": 7, "url": "data:text/plain;base64,%%"},
    ]
    message = {"info": {"id": "m1", "role": "user"}, "parts": parts}
    found = only(document({"info": {"id": "s"}, "messages": [message]}), "s.json", "opencode")
    (record,) = found.records
    assert isinstance(record, User)
    assert record.extra["files"] == ["list.txt", "far.txt"]
    assert "tea, cake" in text_of(record.content)
    assert skipped(found) == {"file part": 2}
