"""A chat with a scripted model, for tests of what is done at it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.core.log.records import Assistant, User
from holdfast.engine.session.options import SessionOptions
from holdfast.ports import ANY_HEAD, SessionStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces import slash_commands
from holdfast.surfaces.chat_context import ChatContext
from holdfast.surfaces.cli.chat.notices import notice
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.surfaces.answers import CommandAnswer


class Seat:
    """A chat, its model, and what a person types at it. A fixture closes it after the test."""

    opened: ClassVar[list[Seat]] = []

    def __init__(self, root: Path | SessionStore, *answers: Any, **options: Any) -> None:
        """`root` is the folder of the sessions, or a store."""
        self.store = root if isinstance(root, SessionStore) else JsonlStore(str(root))
        self.opened.append(self)
        self.model = ScriptedModel(
            answers,
            otherwise="fine",
            window=options.pop("window", 32_000),
            limit=options.pop("limit", None),
        )
        self.notices: list[str] = []
        clock = options.pop("clock", time.time)
        names = ("owner", "audience", "surface", "cancel")
        chat = {name: options.pop(name) for name in names if name in options}
        given = SessionOptions(**{"summary": "extract", **options})
        self.chat = ChatContext(
            self.store,
            "main",
            self.model,
            given,
            **{"audience": "operator", "listen": self._hear, "clock": clock, **chat},
        )
        self.chat.open_newest()

    def __call__(self, text: str) -> CommandAnswer:
        assert slash_commands.is_command(text)
        return slash_commands.run_command(text, self.chat)

    def say(self, text: str) -> str:
        return self.chat.session.say(text).text

    def _hear(self, event: Any) -> None:
        said = notice(event)
        if said is not None:
            self.notices.append(said.text.strip())

    @property
    def id(self) -> str:
        return self.chat.session.key.session

    def fill(
        self, turns: int, words: str = "the parser of the importer fails on line 12. "
    ) -> None:
        """Turns that were held before, straight into the log."""
        records: list[Any] = []
        for number in range(turns):
            records.append(User(content=f"question {number}: {words * 20}"))
            records.append(Assistant(content=f"answer {number}: {words * 20}"))
        self.store.append(self.chat.session.key, records, expect=ANY_HEAD)

    def records(self) -> list[Any]:
        return [entry.record for entry in self.store.read_all(self.chat.session.key)]
