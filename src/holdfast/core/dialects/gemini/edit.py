"""Gemini's contents with shorter texts, arguments and results; the rest as the client wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.models.messages import Text, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role

_CALLS: Final = ("functionCall", "function_call")
_ANSWERS: Final = ("functionResponse", "function_response")
_OUTPUTS: Final = ("output", "result", "error")


def text_content(role: Role, text: str) -> Json:
    """A content with a text of ours."""
    return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}


def is_answer(part: Any) -> bool:
    """True for a part that holds the result of a call."""
    return isinstance(part, dict) and _name_in(part, _ANSWERS) is not None


def shorten_answer(part: Json, pieces: Sequence[Block | Piece]) -> Json:
    """A result with another text. Its own pictures stay as far as the plan has them."""
    name = _name_in(part, _ANSWERS) or _ANSWERS[0]
    answer: Json = part[name]
    given = answer.get("response")
    old: Json = given if isinstance(given, dict) else {}
    field = next((key for key in _OUTPUTS if key in old), _OUTPUTS[0])
    shorter = {**answer, "response": {field: "\n".join(_texts(pieces))}}
    pictures = answer.get("parts")
    if isinstance(pictures, list):
        room = sum(not isinstance(piece, Text) for piece in pieces)
        shorter["parts"] = pictures[max(0, len(pictures) - room) :]
        if not shorter["parts"]:
            del shorter["parts"]
    return {**part, name: shorter}


def shorten_parts(parts: Sequence[Any], pieces: Sequence[Block | Piece]) -> list[Any]:
    """Parts of a user's content with other texts; of the rest, as many as the plan has."""
    others = [part for part in parts if not _is_text(part)]
    room = sum(not isinstance(piece, Text) for piece in pieces)
    kept = others[len(others) - room :] if room < len(others) else others
    return [*({"text": text} for text in _texts(pieces)), *kept]


def shorten_reply(items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
    """The contents of a reply. A text that came in several parts becomes one."""
    texts = _texts(blocks)
    own = sum(_is_text(found) for item in items for found in item.get("parts") or ())
    reply = _ShortReply(texts, blocks, is_one_by_one=own == len(texts))
    shorter = []
    for item in items:
        parts = [new for old in item.get("parts") or () for new in reply.take(old)]
        if parts:
            shorter.append({**item, "parts": parts})
    return shorter


class _ShortReply:
    def __init__(self, texts: list[str], blocks: Sequence[Block], *, is_one_by_one: bool) -> None:
        self._texts: Iterator[str] = iter(texts)
        self._calls = iter([block for block in blocks if isinstance(block, ToolCall)])
        self._is_one_by_one = is_one_by_one
        self._is_in_text = False

    def take(self, part: Any) -> list[Any]:
        """The parts that stand for one of the client's."""
        if not isinstance(part, dict) or part.get("thought") is True:
            return [part]
        if not _is_text(part):
            self._is_in_text = False
            return [self._shorten_call(part)]
        if self._is_in_text and not self._is_one_by_one:
            is_signed = any(name in part for name in ("thoughtSignature", "thought_signature"))
            return [{**part, "text": ""}] if is_signed else []
        self._is_in_text = True
        return [{**part, "text": next(self._texts, part["text"])}]

    def _shorten_call(self, part: Json) -> Json:
        name = _name_in(part, _CALLS)
        if name is None:
            return part
        call = next(self._calls, None)
        is_same = call is None or (part[name].get("args") or {}) == call.arguments
        return (
            part
            if call is None or is_same
            else {**part, name: {**part[name], "args": call.arguments}}
        )


def _texts(pieces: Sequence[Block | Piece]) -> list[str]:
    return [piece.text for piece in pieces if isinstance(piece, Text)]


def _is_text(part: Any) -> bool:
    is_said = isinstance(part, dict) and isinstance(part.get("text"), str)
    return is_said and part.get("thought") is not True and bool(part["text"].strip())


def _name_in(part: Json, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if isinstance(part.get(name), dict)), None)
