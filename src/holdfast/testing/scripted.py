"""A model that says what the test wrote down, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core.dialects.common.reading import settle_stop
from holdfast.core.dialects.registry import target
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.tokens.counting import Estimator
from holdfast.core.window import Window, as_window
from holdfast.providers.offline.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.replies import keep_partial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import StatedWindow
    from holdfast.ports import OnDelta

    Spoken: TypeAlias = str | Reply | BaseException
    Answer: TypeAlias = Spoken | Callable[[Json], Spoken]
    """An answer: a text, a reply, an exception to raise, or a function of the request."""

SCRIPTED: Final = target("anthropic", provider="scripted", model="scripted-1")
PIECE_CHARS: Final = 16
"""Characters of a text in one delta."""


class ScriptExhausted(AssertionError):
    """The model was asked more often than the script has answers."""


class ScriptedModel:
    """Gives its answers one by one; `requests` has what it was sent, in order.

    With a `limit` in tokens, a longer request is refused in Anthropic's words and takes no answer
    from the script. `otherwise` answers when the script has come to its end.
    """

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        target: Target = SCRIPTED,
        window: StatedWindow = 32_000,
        limit: int | None = None,
        otherwise: Answer | None = None,
        counter: Counter | None = None,
    ) -> None:
        self.target = target
        self.window = as_window(window, "scripted")
        self.limit = limit
        self.requests: list[Json] = []
        self.refused: list[int] = []
        """The sizes, in tokens, of the requests that were over the limit."""
        self._answers: Iterator[Answer] = iter(answers)
        self._otherwise = otherwise
        self._counter = counter or Estimator()
        self._meter = Meter(self._counter, target)

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        self.requests.append(copy.deepcopy(request))
        tokens = count_request(request, self._counter)
        if self.limit is not None and tokens > self.limit:
            self.refused.append(tokens)
            raise PromptTooLong(tokens, self.limit)
        reply = self._reply(request)
        return reply if on_delta is None else _stream_in_pieces(reply, on_delta)

    def as_async(self) -> AsyncScriptedModel:
        """The same script for asynchronous callers; requests are remembered here."""
        return AsyncScriptedModel(self)

    def _reply(self, request: Json) -> Reply:
        answer = next(self._answers, self._otherwise)
        if answer is None:
            raise ScriptExhausted(f"no answer is left for request {len(self.requests)}")
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        reply = Reply(content=_text(answer)) if isinstance(answer, str) else answer
        return msgspec.structs.replace(
            reply,
            stop=settle_stop(reply.stop, reply.content),
            raw_usage=reply.raw_usage
            if reply.raw_usage is not None
            else self._meter.usage(request, reply.content),
            provider=reply.provider or self.target.provider,
            model=reply.model or self.target.model,
        )


class AsyncScriptedModel:
    """A scripted model that is awaited."""

    def __init__(self, script: ScriptedModel) -> None:
        self.script = script

    @property
    def target(self) -> Target:
        return self.script.target

    @property
    def window(self) -> Window:
        return self.script.window

    @property
    def requests(self) -> list[Json]:
        return self.script.requests

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        await asyncio.sleep(0)
        return self.script.send(request, on_delta)


def calls(*wanted: tuple[str, str, Json], text: str = "") -> Reply:
    """A reply that asks for tools: (call id, name, arguments) each."""
    blocks = [
        {"type": "tool_use", "id": call_id, "name": name, "input": given}
        for call_id, name, given in wanted
    ]
    return Reply(content=[*_text(text), *blocks], stop="tools", stop_reason="tool_use")


def _text(said: str) -> list[Json]:
    return [{"type": "text", "text": said}] if said else []


def _stream_in_pieces(reply: Reply, on_delta: OnDelta) -> Reply:
    """A reply told in pieces; where a listener ends it, what was told is the partial reply."""
    told: list[Json] = []
    try:
        for block in reply.content:
            kind = block.get("type")
            if kind == "tool_use":
                on_delta(Delta("call", block["name"]))
                told.append(block)
            elif kind in ("text", "thinking"):
                told.append({"type": kind, kind: ""})
                said = block[kind]
                for at in range(0, len(said), PIECE_CHARS):
                    piece = said[at : at + PIECE_CHARS]
                    told[-1] = {**told[-1], kind: told[-1][kind] + piece}
                    on_delta(Delta("thinking" if kind == "thinking" else "text", piece))
            else:
                told.append(block)
    except BaseException as error:
        keep_partial(error, msgspec.structs.replace(reply, content=told, stop="other"))
        raise
    return reply
