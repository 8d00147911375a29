"""Code as users write it, checked by mypy and by pyright in strict mode; it is never run.

`assert_type` states what a type checker must see through the public surface: no `Any`, no
`Unknown`, and the protocols that users implement.
"""

from collections.abc import Mapping
from typing import Any, assert_type

from holdfast import (
    AsyncSession,
    HoldfastError,
    JsonlStore,
    Record,
    Reply,
    Session,
    SessionKey,
    Status,
    ToolOutput,
    User,
    Window,
    model,
)
from holdfast.core.log.records import Assistant, ToolResult
from holdfast.events import Deny, Event, ToolStarted, TurnFinished
from holdfast.models import Delta, Model, Target, target
from holdfast.records import Compaction


def search(query: str, limit: int = 10) -> list[str]:
    """Search something."""
    return [query] * limit


def picture(path: str) -> ToolOutput:
    """Return more than text."""
    return ToolOutput(path, details={"size": 3})


class MyModel:
    """A model of one's own: three attributes are the whole protocol."""

    def __init__(self) -> None:
        self.target: Target = target("anthropic", model="my-model")
        self.window: Window = Window(200_000)

    def send(self, request: Mapping[str, Any], on_delta: Any = None) -> Reply:
        if on_delta is not None:
            on_delta(Delta("text", "hello"))
        return Reply(content=[{"type": "text", "text": str(len(request))}])


def no_deletions(event: Event) -> Deny | None:
    if isinstance(event, ToolStarted) and event.call.name == "delete":
        return Deny("not here")
    if isinstance(event, TurnFinished):
        assert_type(event.reply, Reply)
    return None


def blocking() -> str:
    with Session.open(
        "name", model="offline", tools=[search, picture], system="Be brief."
    ) as session:
        assert_type(session, Session)
        session.on(no_deletions)
        reply = session.say("hello")
        assert_type(reply, Reply)
        assert_type(reply.text, str)
        assert_type(session.status(), Status)
        assert_type(session.key, SessionKey)
        session.undo()
        return reply.text


async def awaiting() -> str:
    async with await AsyncSession.open("name", model="offline") as session:
        reply = await session.say("hello")
        assert_type(reply, Reply)
        return reply.text


def storing(folder: str) -> list[str]:
    key = SessionKey("main", "name")
    with JsonlStore(folder) as store:
        head = store.create(key)
        done = store.append(key, [User(content="hi"), Assistant(content="ho")], expect=head)
        assert_type(done.head, str)
        return [describe(record) for record in store.read(key)]


def describe(record: Record) -> str:
    match record:
        case User(content=content) | Assistant(content=content) | ToolResult(content=content):
            return str(content)
        case Compaction(summary=summary):
            assert_type(summary, str)
            return summary
        case _:
            return record.kind


def own_model() -> None:
    mine: Model = model("offline")
    try:
        Session.open("name", model=mine).close()
        Session.open("name", model=MyModel()).close()
    except HoldfastError as error:
        assert_type(error.hint, str | None)
