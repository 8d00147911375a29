"""A request's messages as atoms: what each says, however the client spells it.

Two requests hold the same conversation where their atoms are equal. Cache marks move, texts come
as strings and as blocks, tool ids lose their punctuation, thinking is left out by some clients:
none of that is part of an atom.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.text.cut import scrub_deep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.catalog import DialectName

AtomKind = Literal["system", "user", "result", "assistant"]
"""`system` is an instruction amid the conversation; those before it are terms, and no atoms."""

_DIGEST_BYTES: Final = 12
"""Of a hash: 96 bits, for conversations are compared with those of one store."""
_THINKING: Final = frozenset(("thinking", "redacted_thinking", "reasoning"))
_TEXTS: Final = frozenset(("text", "input_text", "output_text"))
_VOLATILE: Final = frozenset(("cache_control", "id", "status", "annotations", "logprobs"))
"""Fields that say nothing: marks that move, ids that some clients change or leave out."""
_CALLS: Final = ("function_call", "custom_tool_call")
_OUTPUTS: Final = frozenset(
    ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
)
_SYSTEM_ROLES: Final = frozenset(("system", "developer"))
_encoder: Final = msgspec.json.Encoder(order="sorted")


class Atom(msgspec.Struct, frozen=True, gc=False):
    """One thing that is said: a text, a call, a result, a block of another kind."""

    kind: AtomKind
    digest: bytes
    item: int
    """The index of the message, or the item, that says it."""
    block: int | None = None
    """The index of the block in it; None where the item is no list of blocks."""


def leading_terms(items: Sequence[Any]) -> int:
    """The number of items at the beginning that are instructions and no conversation."""
    count = 0
    for item in items:
        if not isinstance(item, dict) or item.get("role") not in _SYSTEM_ROLES:
            break
        count += 1
    return count


def read_atoms(items: Sequence[Any], dialect: DialectName) -> list[Atom]:
    """The atoms of a request's messages, in the order in which their records stand in a log."""
    start = leading_terms(items) if dialect != "anthropic" else 0
    atoms: list[Atom] = []
    for index in range(start, len(items)):
        if isinstance(items[index], dict):
            atoms += _atoms_of(items[index], index, dialect)
    return atoms


def reply_atoms(content: Content) -> list[bytes]:
    """The digests of a reply as the log has it; the client's next request repeats them."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return [atom.digest for atom in _message_atoms("assistant", blocks, 0)]


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


def _atoms_of(item: Json, index: int, dialect: DialectName) -> list[Atom]:
    kind, role = item.get("type"), item.get("role")
    if dialect == "openai-responses":
        if kind in _THINKING:
            return []
        if kind in _CALLS:
            given = item.get("arguments") if kind == _CALLS[0] else {"input": item.get("input")}
            return [_call(item.get("name"), given, index)]
        if kind in _OUTPUTS:
            return [_result(item.get("output"), index)]
        if role is None:
            return [Atom("assistant", _digest("block", _plain(item)), index)]
    if role in ("tool", "function"):
        return [_result(item.get("content"), index)]
    said: AtomKind = "assistant" if role == "assistant" else "user"
    if role in _SYSTEM_ROLES:
        said = "system"
    atoms = _message_atoms(said, item.get("content"), index)
    if item.get("refusal") and isinstance(item["refusal"], str):
        atoms.append(Atom(said, _digest("text", item["refusal"].strip()), index))
    for call in item.get("tool_calls") or () if role == "assistant" else ():
        function = call.get("function") if isinstance(call, dict) else None
        custom = call.get("custom") if isinstance(call, dict) else None
        if isinstance(function, dict):
            atoms.append(_call(function.get("name"), function.get("arguments"), index))
        elif isinstance(custom, dict):
            atoms.append(_call(custom.get("name"), {"input": custom.get("input")}, index))
    return atoms


def _message_atoms(kind: AtomKind, content: Any, index: int) -> list[Atom]:
    """The atoms of a message's content; results stand first, as they do in a log."""
    if isinstance(content, str):
        return [Atom(kind, _digest("text", content.strip()), index)] if content.strip() else []
    results: list[Atom] = []
    others: list[Atom] = []
    for place, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        name = block.get("type")
        if name in _THINKING:
            continue
        if name in _TEXTS:
            text = block.get("text")
            if isinstance(text, str) and text.strip():
                others.append(Atom(kind, _digest("text", text.strip()), index, place))
        elif name == "tool_use":
            others.append(_call(block.get("name"), block.get("input"), index, place))
        elif name == "tool_result":
            results.append(_result(block.get("content"), index, place))
        elif name == "refusal" and isinstance(block.get("refusal"), str):
            others.append(Atom(kind, _digest("text", block["refusal"].strip()), index, place))
        else:
            others.append(Atom(kind, _digest("block", _plain(block)), index, place))
    return [*results, *others]


def _call(name: object, given: object, index: int, place: int | None = None) -> Atom:
    if isinstance(given, str):
        text = given.strip()
        try:
            given = msgspec.json.decode(text) if text else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            given = text
    return Atom("assistant", _digest("call", [name, {} if given is None else given]), index, place)


def _result(content: object, index: int, place: int | None = None) -> Atom:
    said: list[Any]
    if content is None or isinstance(content, str):
        said = [content.strip() if content else ""]
    elif isinstance(content, list):
        said = [_piece(piece) for piece in content]
    else:
        said = [content]
    return Atom("result", _digest("result", [piece for piece in said if piece]), index, place)


def _piece(piece: object) -> object:
    if isinstance(piece, dict) and piece.get("type") in _TEXTS:
        text = piece.get("text")
        return text.strip() if isinstance(text, str) else ""
    return _plain(piece) if isinstance(piece, dict) else piece


def _plain(block: Json) -> Json:
    return {
        name: value for name, value in block.items() if name not in _VOLATILE and value is not None
    }


def _digest(kind: str, value: object) -> bytes:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _encode(value)
    return _hash(kind.encode(), data)


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(scrub_deep(value))


def _hash(first: bytes, second: bytes) -> bytes:
    return hashlib.blake2b(second, digest_size=_DIGEST_BYTES, key=first[:64]).digest()
