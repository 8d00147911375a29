"""Reasoning in Chat Completions: OpenAI refuses tools there, DeepSeek wants its reasoning back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.dialects.registry import find_variant
from holdfast.testing.loopback.binding.anthropic import gpt
from holdfast.testing.loopback.binding.judging import (
    UNASKED,
    Broken,
    Composed,
    Judged,
    Thought,
    Withheld,
    digest,
)
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.judging import Ledger, Replying, Request

_USE_RESPONSES: Final = {
    "without effort": "Please use /v1/responses instead.",
    "with none": "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
    "never": "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
}
_RETURNED: Final = "The `reasoning_content` in the thinking mode must be passed back to the API."


class ChatBinding:
    """Rules of OpenAI itself, and of DeepSeek."""

    judges: frozenset[str] = frozenset()

    def expand(self, body: Json) -> Json:
        return body

    def judge(self, request: Request, ledger: Ledger) -> Judged:
        broken: list[Broken] = []
        withheld, valid = [], []
        if request.variant == "openai":
            broken += _judge_tools(request)
        elif request.variant == "deepseek" and _thinks(request.body):
            broken += _judge_returned(request)
        for index, message in enumerate(as_dicts(request.body.get("messages"))):
            for call in as_dicts(message.get("tool_calls")):
                made = ledger.with_id(as_text(call.get("id")))
                if made is None:
                    continue
                # A stand-in for what is missing passes, and is not what the model thought.
                if message.get("reasoning_content") == made.said:
                    valid.append(made.number)
                else:
                    withheld.append(Withheld(f"messages.{index}", made.number, is_required=True))
                break
        return Judged(
            broken=tuple(broken),
            withheld=tuple(withheld),
            valid=tuple(valid),
            prefix=digest("", request.body.get("messages")),
        )

    def think(self, answer: Answer, request: Request) -> Thought:
        """OpenAI's chat never shows its thinking; some of its imitators always do."""
        if not find_variant("openai-chat", request.variant).replays_thinking:
            return Thought()
        is_deep = request.variant == "deepseek"
        if is_deep and not _thinks(request.body):
            return Thought()
        return Thought(answer.thinking or (UNASKED if is_deep else ""))

    def compose(self, answer: Answer, reply: Replying) -> Composed:
        if answer.thinking and answer.calls and reply.request.variant == "deepseek":
            reply.remember((), answer.thinking, [call.id for call in answer.calls])
        return Composed()


def _thinks(body: Json) -> bool:
    return as_text(as_dict(body.get("thinking")).get("type")) != "disabled"


def _judge_tools(request: Request) -> Iterator[Broken]:
    model = gpt(request.model)
    if model is None or not as_dicts(request.body.get("tools")):
        return
    takes, effort = model.takes_chat_tools, request.body.get("reasoning_effort")
    is_fine = {
        "always": True,
        "without effort": effort is None,
        "with none": effort == "none",
        "never": False,
    }
    if not is_fine[takes]:
        words = (
            f"Function tools with reasoning_effort are not supported for {request.model} in "
            f"/v1/chat/completions. {_USE_RESPONSES[takes]}"
        )
        yield Broken("chat-tools", WireFailure(words, param="reasoning_effort"), "tools")


def _judge_returned(request: Request) -> Iterator[Broken]:
    """In each stretch with a call, every message of the model carries its reasoning, for ever."""
    stretch: list[tuple[int, Json]] = []
    messages = as_dicts(request.body.get("messages"))
    for index, message in enumerate([*messages, {"role": "user"}]):
        if message.get("role") == "assistant":
            stretch.append((index, message))
        if message.get("role") != "user":
            continue
        if any(said.get("tool_calls") for _at, said in stretch):
            for at, said in stretch:
                if not isinstance(said.get("reasoning_content"), str):
                    failure = WireFailure(_RETURNED)
                    yield Broken("reasoning-content-returned", failure, f"messages.{at}")
        stretch = []
