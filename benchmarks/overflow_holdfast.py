"""Holdfast for benchmarks/overflow.py: a `Session` over files, as it comes.

With `is_exact=False` the tokenizer is hidden from it, as where `holdfast[tokens]` is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.overflow_cases import MODEL, OUTPUT, SYSTEM, TooLong, folder, wire_of

import holdfast
from holdfast import (
    Assistant,
    JsonlStore,
    Limits,
    Reply,
    Session,
    SessionKey,
    ToolResult,
    User,
    Window,
)
from holdfast.events import CallStarted
from holdfast.models import target
from holdfast.providers import tokenizers
from holdfast.records import text_of
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.overflow_cases import Answer, Json, OneModel, Purpose, Turn

    from holdfast import Record
    from holdfast.models import Delta

KEY = SessionKey("main", "torture")
STEPS = 100
"""Of one turn, at most: 60 rounds are more than the 50 that a session allows by itself."""


def versions() -> str:
    return f"Holdfast {holdfast.__version__}"


class _Refused(Exception):
    """As Anthropic's SDK raises it."""

    status_code = 400

    def __init__(self, said: str) -> None:
        error = {"type": "invalid_request_error", "message": said}
        self.body = {"type": "error", "error": error}
        super().__init__(f"Error code: 400 - {self.body}")


class _Chat:
    """The one model, as Holdfast calls models."""

    def __init__(self, one: OneModel) -> None:
        self._one = one
        self._purpose: Purpose = "summary"
        self.target = target("anthropic", provider="anthropic", model=MODEL)
        self.window = Window(one.work.case.window)

    def expect(self, event: CallStarted) -> None:
        """Requests that the turn announces are for an answer; all others for summaries."""
        self._purpose = "answer" if event.purpose == "turn" else "summary"

    def send(
        self,
        request: Json,
        on_delta: Callable[[Delta], None] | None = None,  # noqa: ARG002
    ) -> Reply:
        purpose, self._purpose = self._purpose, "summary"
        try:
            answer = self._one.send(request, purpose)
        except TooLong as refusal:
            raise _Refused(str(refusal)) from refusal
        return _reply(answer)


def _reply(answer: Answer) -> Reply:
    block: Json = {"type": "text", "text": answer.text}
    if answer.path:
        call = {"id": answer.call, "name": "fetch", "input": {"path": answer.path}}
        block = {"type": "tool_use", **call}
    return Reply(
        content=[block],
        stop="tools" if answer.path else "end",
        raw_usage={"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
        provider="anthropic",
        model=MODEL,
    )


def _records(turn: Turn) -> tuple[Record, ...]:
    question, call, _, answer = wire_of(turn)
    return (
        User(content=question["content"]),
        Assistant(content=call["content"]),
        ToolResult(tool_use_id=turn.call, name="fetch", content=turn.output),
        Assistant(content=answer["content"]),
    )


class Holdfast:
    def __init__(self, one: OneModel, place: Path, *, is_exact: bool) -> None:
        if not is_exact:
            tokenizers._vocabulary = lambda _name: None  # type: ignore[assignment]
        self._one = one
        self._root = folder(place, "sessions")

    def load(self, turns: Sequence[Turn]) -> None:
        with JsonlStore(self._root) as store:
            store.create(KEY)
            for turn in turns:
                store.append(KEY, _records(turn), expect=ANY_HEAD, durability="buffered")
        outputs = self._one.work.outputs

        def fetch(path: str) -> str:
            """Fetch a file or a page and return its text."""
            return outputs[path]

        chat = _Chat(self._one)
        self._session = Session.open(
            KEY.session,
            model=chat,
            store=str(self._root),
            system=SYSTEM,
            tools=[fetch],
            window=self._one.work.case.window,
            limits=Limits(output_tokens=OUTPUT, steps=STEPS),
        )
        self._session.on(chat.expect, CallStarted)

    def say(self, text: str) -> str:
        return self._session.say(text).text

    def kept(self) -> Iterator[str]:
        with JsonlStore(self._root) as store:
            for entry in store.read_all(KEY):
                record: Any = entry.record
                if isinstance(record, User | Assistant | ToolResult):
                    yield text_of(record.content)
