"""The atoms of Gemini's contents.

Google's packages keep a streamed reply in pieces, as several parts and even as several contents:
texts of a reply that follow each other are one atom. Both spellings of a field are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.digests import Atom, call_atom, digest_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

_SILENT: Final = frozenset(
    ("thoughtSignature", "thought_signature", "thought", "type", "id", "videoMetadata")
)
"""Fields of a part that say nothing in the conversation."""


def read_atoms(items: Sequence[Any], first: int = 0) -> list[Atom]:
    """The atoms of contents, of which the first one given has the index `first`."""
    atoms: list[Atom] = []
    reply = _ReplyAtoms()
    for index, item in enumerate(items, first):
        if not isinstance(item, dict):
            continue
        parts = item.get("parts")
        found = parts if isinstance(parts, list) else ()
        if item.get("role") == "model":
            for place, part in enumerate(found):
                reply.add(part, index, place)
        else:
            atoms += reply.end()
            atoms += _user_atoms(found, index)
    return [*atoms, *reply.end()]


def reply_digests(blocks: Sequence[Json]) -> list[bytes]:
    """The digests of a reply as the log has it."""
    reply = _ReplyAtoms()
    for block in blocks:
        reply.add(_part_of(block), 0, 0)
    return [atom.digest for atom in reply.end()]


class _ReplyAtoms:
    """The atoms of one reply, part by part."""

    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._text = ""
        self._place = (0, 0)
        """The last part of the text so far."""

    def add(self, part: Any, index: int, place: int) -> None:
        if not isinstance(part, dict) or part.get("thought") is True:
            return
        call = either(part, "functionCall", "function_call")
        if isinstance(part.get("text"), str):
            if part["text"]:
                self._text += part["text"]
                self._place = (index, place)
            return
        self._end_text()
        if isinstance(call, dict):
            self._atoms.append(call_atom(call.get("name"), call.get("args"), index, place))
        else:
            self._atoms.append(Atom("assistant", _digest_part(part), index, place))

    def _end_text(self) -> None:
        text, self._text = self._text.strip(), ""
        if text:
            self._atoms.append(Atom("assistant", digest_as("text", text), *self._place))

    def end(self) -> list[Atom]:
        """The atoms; the next part begins another reply."""
        self._end_text()
        atoms, self._atoms = self._atoms, []
        return atoms


def _user_atoms(parts: Sequence[Any], index: int) -> list[Atom]:
    """The atoms of what is not the model's; results stand first, as they do in a log."""
    results: list[Atom] = []
    others: list[Atom] = []
    for place, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        answer = either(part, "functionResponse", "function_response")
        text = part.get("text")
        if isinstance(answer, dict):
            said = [answer.get("name"), answer.get("response"), answer.get("parts")]
            results.append(Atom("result", digest_as("result", said), index, place))
        elif not isinstance(text, str):
            others.append(Atom("user", _digest_part(part), index, place))
        elif text.strip():
            others.append(Atom("user", digest_as("text", text.strip()), index, place))
    return [*results, *others]


def _part_of(block: Json) -> Json:
    """A block of the log as the part that it was."""
    match block.get("type"):
        case "thinking":
            return {"thought": True}
        case "tool_use":
            return {"functionCall": {"name": block.get("name"), "args": block.get("input")}}
        case "image":
            source = block.get("source")
            known = source if isinstance(source, dict) else {}
            data = {"mimeType": known.get("media_type"), "data": known.get("data")}
            return {"inlineData": data}
        case _:
            return block


def _digest_part(part: Json) -> bytes:
    data = either(part, "inlineData", "inline_data")
    if isinstance(data, dict):
        kind = either(data, "mimeType", "mime_type")
        # Google's package writes the alphabet for addresses, the API the usual one.
        content = str(data.get("data")).replace("-", "+").replace("_", "/")
        return digest_as("block", ["inlineData", kind, content])
    said = {name: part[name] for name in part if name not in _SILENT and part[name] is not None}
    return digest_as("block", said)


def either(value: Json, camel: str, snake: str) -> Any:
    """A field as the wire or as the SDK's objects spell it."""
    found = value.get(camel)
    return value.get(snake) if found is None else found
