"""Digests of what is said, and the chains that conversations make of them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.models.messages import MESSAGE_FIELDS
from holdfast.core.text.cut import scrub_deep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json


AtomKind = Literal["system", "user", "result", "assistant"]
"""`system` is an instruction amid the conversation; those before it are terms, and no atoms."""

_DIGEST_BYTES: Final = 12
"""Of a hash: 96 bits, for conversations are compared with those of one store."""
_encoder: Final = msgspec.json.Encoder(order="sorted")


class Atom(msgspec.Struct, frozen=True, gc=False):
    """One thing that is said: a text, a call, a result, a block of another kind."""

    kind: AtomKind
    digest: bytes
    item: int
    """The index of the message, or the item, that says it."""
    block: int | None = None
    """The index of the block in it; None where the item is not a list of blocks."""


def start_chain(scope: str = "") -> bytes:
    return _hash(b"holdfast", scope.encode("utf-8", "surrogatepass"))


def extend_chain(chain: bytes, digests: Iterable[bytes]) -> bytes:
    """The hash of a conversation that goes on with these atoms."""
    for digest in digests:
        chain = _hash(chain, digest)
    return chain


def digest_of(value: object) -> bytes:
    """The hash of a JSON value, whatever the order of its keys."""
    return _hash(b"value", _encode(value))


def digest_as(kind: str, value: object) -> bytes:
    """The hash of something that is said in one way: as a text, a call, a result, a block."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _encode(value)
    return _hash(kind.encode(), data)


def call_atom(name: object, given: object, index: int, place: int | None = None) -> Atom:
    """The atom of a tool call, whose arguments may be text."""
    if isinstance(given, str):
        text = given.strip()
        try:
            given = msgspec.json.decode(text) if text else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            given = text
    digest = digest_as("call", [name, {} if given is None else given])
    return Atom("assistant", digest, index, place)


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):  # half a character, a number of many digits
        return json.dumps(scrub_deep(value), sort_keys=True).encode()


def _hash(first: bytes, second: bytes) -> bytes:
    return hashlib.blake2b(second, digest_size=_DIGEST_BYTES, key=first[:64]).digest()


# What a client sends for a kind or a role may be no text: a tuple is searched without a hash of it.
THINKING: Final = ("thinking", "redacted_thinking", "reasoning")
_TEXTS: Final = ("text", "input_text", "output_text")
_VOLATILE: Final = frozenset(("cache_control", "id", "status", "annotations", "logprobs"))
"""Fields that say nothing: marks that move, ids that some clients change or leave out."""
_SYSTEM_ROLES: Final = ("system", "developer")


def message_atoms(item: Json, index: int) -> list[Atom]:
    """The atoms of a message with a role, and with its calls where it has them."""
    role = item.get("role")
    if role in ("tool", "function"):
        return [result_atom(item.get("content"), index)]
    said: AtomKind = "assistant" if role == "assistant" else "user"
    if role in _SYSTEM_ROLES:
        said = "system"
    atoms = content_atoms(said, item.get("content"), index)
    if item.get("refusal") and isinstance(item["refusal"], str):
        atoms.append(Atom(said, digest_as("text", item["refusal"].strip()), index))
    calls = item.get("tool_calls") if role == "assistant" else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        custom = call.get("custom") if isinstance(call, dict) else None
        if isinstance(function, dict):
            atoms.append(call_atom(function.get("name"), function.get("arguments"), index))
        elif isinstance(custom, dict):
            atoms.append(call_atom(custom.get("name"), {"input": custom.get("input")}, index))
    return atoms


def content_atoms(kind: AtomKind, content: Any, index: int) -> list[Atom]:
    """The atoms of a message's content; results stand first, as they do in a log."""
    if isinstance(content, str):
        return [Atom(kind, digest_as("text", content.strip()), index)] if content.strip() else []
    results: list[Atom] = []
    others: list[Atom] = []
    for place, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        name = block.get("type")
        if name in THINKING or name == MESSAGE_FIELDS:
            continue  # clients need not send it back
        if name in _TEXTS:
            text = block.get("text")
            if isinstance(text, str) and text.strip():
                others.append(Atom(kind, digest_as("text", text.strip()), index, place))
        elif name == "tool_use":
            others.append(call_atom(block.get("name"), block.get("input"), index, place))
        elif name == "tool_result":
            results.append(result_atom(block.get("content"), index, place))
        elif name == "refusal" and isinstance(block.get("refusal"), str):
            others.append(Atom(kind, digest_as("text", block["refusal"].strip()), index, place))
        else:
            others.append(Atom(kind, digest_as("block", without_marks(block)), index, place))
    return [*results, *others]


def result_atom(content: object, index: int, place: int | None = None) -> Atom:
    """The atom of a tool's result."""
    said: list[Any]
    if content is None or isinstance(content, str):
        said = [content.strip() if content else ""]
    elif isinstance(content, list):
        said = [_piece(piece) for piece in content]
    else:
        said = [content]
    return Atom("result", digest_as("result", [piece for piece in said if piece]), index, place)


def _piece(piece: object) -> object:
    if isinstance(piece, dict) and piece.get("type") in _TEXTS:
        text = piece.get("text")
        return text.strip() if isinstance(text, str) else ""
    return without_marks(piece) if isinstance(piece, dict) else piece


def without_marks(block: Json) -> Json:
    """A block without the fields that say nothing."""
    return {
        name: value for name, value in block.items() if name not in _VOLATILE and value is not None
    }
