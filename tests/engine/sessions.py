"""One bench for both kinds of session: tests are written once and run blocking and awaited."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pytest

from holdfast.core.dialects.registry import validate_body
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User, text_of
from holdfast.core.memory.notes import SILENT
from holdfast.core.owners import ANY_OWNER
from holdfast.core.text.fences import ASK
from holdfast.core.turn.options import Summary
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.session import Session
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.testing.scripted import Answer

Kind = Literal["blocking", "async"]
KINDS: tuple[Kind, ...] = ("blocking", "async")
EITHER_KIND: Final = pytest.mark.sampled(1 / 2, "bench")
"""In the ordinary run a test has one kind of session, which its name decides."""


class Bench:
    """Opens sessions of one kind and carries out what they are asked, awaiting where needed."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.store: Any = MemoryStore()
        self._runner = asyncio.Runner()
        self.events: list[Any] = []

    def close(self) -> None:
        self._runner.close()
        self.store.close()

    @property
    def is_async(self) -> bool:
        return self.kind == "async"

    def do(self, value: Any) -> Any:
        """What became of it: awaited where it is something to await."""
        if not inspect.isawaitable(value):
            return value

        async def awaited() -> Any:
            return await value

        return self._runner.run(awaited())

    def open(self, model: ScriptedModel | Iterable[Answer], name: str = "s", **options: Any) -> Any:
        """A session on the bench's store; its events go into `events`. A `clock` is the store's, a
        `price` the model's."""
        script = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
        store = options.setdefault("store", self.store)
        store.clock = options.pop("clock", store.clock)
        price = options.pop("price", None)
        summary = options.get("summary")
        if self.is_async:
            if isinstance(summary, Summary) and isinstance(summary.model, ScriptedModel):
                summariser = summary.model.as_async()
                options["summary"] = msgspec.structs.replace(summary, model=summariser)
            awaited: Any = script.as_async()
            awaited.price = price
            opening: Any = AsyncSession.open(name, model=awaited, **options)
            session = self.do(opening)
        else:
            priced: Any = script
            priced.price = price
            session = Session.open(name, model=priced, **options)
        session.on(self.events.append)
        return session

    def say(self, session: Any, content: Any, **more: Any) -> Any:
        return self.do(session.say(content, **more))

    def stream(self, session: Any, content: Any, **more: Any) -> list[Any]:
        if not self.is_async:
            return list(session.stream(content, **more))

        async def collected() -> list[Any]:
            return [piece async for piece in session.stream(content, **more)]

        return list(self.do(collected()))

    def records(self, name: str = "s") -> list[Record]:
        """The path to the head of a session, as the store has it."""
        return path_of(self.store, name)

    def of(self, *kinds: type) -> list[Any]:
        """The events of some kinds, in order."""
        return [event for event in self.events if isinstance(event, kinds)]


def path_of(store: Any, name: str = "s") -> list[Record]:
    info = next(one for one in store.sessions(owner=ANY_OWNER) if one.key.session == name)
    return list(store.read(info.key))


def said(records: Sequence[Record]) -> list[tuple[str, str]]:
    """The messages among records: who, and what in plain text."""
    messages = [one for one in records if isinstance(one, User | Assistant | ToolResult)]
    return [(one.kind, text_of(one.content)) for one in messages]


def texts(request: Json) -> str:
    """Everything a request says in its messages, as one text."""
    return "\n".join(_strings(request["messages"]))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return []


def last_user(request: Json) -> str:
    """What the newest user message of a request says."""
    return "\n".join(_strings(request["messages"][-1]))


def check_requests(model: ScriptedModel) -> None:
    """Everything that was sent keeps to the provider's rules."""
    for request in model.requests:
        assert validate_body(request, model.target) == []


def boundaries(records: Sequence[Record]) -> list[Compaction]:
    return [one for one in records if isinstance(one, Compaction)]


def is_summary_request(request: Json) -> bool:
    """Whether a request asks for a summary rather than for a turn."""
    return ASK in last_user(request)


def is_notes_request(request: Json) -> bool:
    """Whether a request asks for notes rather than for a turn."""
    return "[Notes request:" in last_user(request)


def noted(request: Json, notes: Sequence[str]) -> str:
    """The answer to a request for notes of a model that finds these, where they were said."""
    told = texts(request)
    return "\n".join(f"- {note}" for note in notes if note in told) or SILENT
