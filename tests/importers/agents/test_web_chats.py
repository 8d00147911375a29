"""Data exports of web chats: attached files."""

from __future__ import annotations

from tests.importers.samples import document, only

from holdfast.core.log.records import User, text_of


def test_attached_files_of_claude_keep_their_names() -> None:
    """Those with a text in the export, and those that it only names."""
    message = {
        "uuid": "m1",
        "sender": "human",
        "text": "Read this.",
        "created_at": "2026-01-05T10:00:00Z",
        "attachments": [{"file_name": "plan.md", "extracted_content": "tea at four"}],
        "files": [{"file_name": "cake.png"}],
    }
    talk = {"uuid": "c1", "name": "Tea", "chat_messages": [message]}
    (record,) = only(document([talk]), "conversations.json", "claude-web").records
    assert isinstance(record, User)
    assert record.extra["files"] == ["plan.md", "cake.png"]
    assert "tea at four" in text_of(record.content)
