"""Requests to the loopback, its answers, and the brain that decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.models.messages import Message, Prompt, Text, Tool, ToolAnswer, text_of_blocks
from holdfast.core.models.replies import Stop  # noqa: TC001  (a struct's field)
from holdfast.core.text.cut import cut
from holdfast.testing.scripted import ScriptExhausted

ECHO_CHARS: Final = 200
"""Enough of a text to recognise it in the echo."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that keeps all rules, read into no provider's dialect."""

    number: int
    """Of all requests to this loopback, from 1."""
    dialect: str
    """The API that the request came through."""
    model: str
    """The model that it names."""
    prompt: Prompt
    """System text, messages and tools; neighbours of one role are one message."""
    body: Json
    """The request as it was sent."""
    tokens: int
    """All input, as the loopback counts it."""
    output_max: int
    """Tokens that the reply may take; 0 if the request does not say."""
    is_streamed: bool = False
    """True if the reply is to be streamed."""
    thinks: bool = False
    """True if the model was asked to think first."""

    @property
    def system(self) -> str:
        return self.prompt.system

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.prompt.messages

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.prompt.tools

    @property
    def text(self) -> str:
        """The plain text of the last message: what the user just said."""
        return text_of_blocks(self.messages[-1].blocks) if self.messages else ""

    @property
    def results(self) -> tuple[ToolAnswer, ...]:
        """The tool results in the last message."""
        blocks = self.messages[-1].blocks if self.messages else ()
        return tuple(block for block in blocks if isinstance(block, ToolAnswer))


class Call(msgspec.Struct, frozen=True):
    """A tool the answer asks for."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] = {}
    """Its arguments."""
    id: str = ""
    """Made from the request where it is empty: the same request gets the same ids."""


class Answer(msgspec.Struct, frozen=True):
    """An answer of the model."""

    text: str = ""
    """The words of the answer."""
    calls: tuple[Call, ...] = ()
    """Tools that it asks for."""
    thinking: str = ""
    """Shown only where the request asks for it, as with the providers. A model that thinks
    unasked has thinking where this is empty, too."""
    stop: Stop | None = None
    """Why it ends; where no one says, `tools` with calls and `end` without."""
    delay: float = 0.0
    """Seconds before the reply begins."""
    pause: float = 0.0
    """Seconds between the pieces of a stream."""
    is_redacted: bool = False
    """True if its thinking comes encrypted (Anthropic)."""


Brain: TypeAlias = Callable[[Asked], Answer]
"""Decides the answer to each request."""
Line: TypeAlias = Answer | str | Callable[[Asked], Answer | str]
"""A line of a script: an answer, its text, or a function of the request."""


def echo(asked: Asked) -> Answer:
    """Say what came in. The same request gets the same answer, and no tool is ever called."""
    said = []
    for result in asked.results:
        text = "\n".join(piece.text for piece in result.content if isinstance(piece, Text))
        said.append(f"The tool answered: {cut(text, ECHO_CHARS).text}")
    if asked.text.strip():
        said.append(f"You said: {cut(asked.text, ECHO_CHARS).text}")
    thinking = f"{len(asked.messages)} messages were sent to me." if asked.thinks else ""
    return Answer("\n".join(said) or "You said nothing.", thinking=thinking)


class Scripted:
    """A brain that says its lines, one for each request that is answered."""

    def __init__(self, lines: Sequence[Line], *, then: Brain | None = None) -> None:
        """`then` answers once the script has ended; without it, that is an error."""
        self._lines = list(lines)
        self._then = then
        self._said = 0
        self._lock = Lock()

    @property
    def remaining(self) -> int:
        """Return the number of lines that are left."""
        return len(self._lines) - self._said

    def __call__(self, asked: Asked) -> Answer:
        with self._lock:
            line = self._lines[self._said] if self.remaining else None
            self._said += line is not None
        if line is None:
            if self._then is None:
                raise ScriptExhausted(
                    f"request {asked.number} came after the last of {len(self._lines)} lines: "
                    "add a line to the script, or give `then=echo`"
                )
            return self._then(asked)
        return as_answer(line if isinstance(line, Answer | str) else line(asked))


def as_answer(said: Answer | str) -> Answer:
    return Answer(said) if isinstance(said, str) else said
