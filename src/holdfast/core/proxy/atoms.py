"""A request's messages as atoms: what each says, however the client spells it.

Two requests hold the same conversation where their atoms are equal. Cache marks move, texts come
as strings and as blocks, tool ids lose their punctuation, thinking is left out by some clients:
none of that is part of an atom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.proxy.digests import Atom, call_atom, digest_as
from holdfast.core.proxy.gemini_atoms import gemini_reply_digests, read_gemini_atoms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.proxy.digests import AtomKind

# What a client sends for a kind or a role may be no text: a tuple is searched without a hash of it.
_THINKING: Final = ("thinking", "redacted_thinking", "reasoning")
_TEXTS: Final = ("text", "input_text", "output_text")
_VOLATILE: Final = frozenset(("cache_control", "id", "status", "annotations", "logprobs"))
"""Fields that say nothing: marks that move, ids that some clients change or leave out."""
_CALLS: Final = ("function_call", "custom_tool_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_SYSTEM_ROLES: Final = ("system", "developer")


def leading_terms(items: Sequence[Any]) -> int:
    """The number of items at the beginning that are instructions and no conversation."""
    count = 0
    for item in items:
        if not isinstance(item, dict) or item.get("role") not in _SYSTEM_ROLES:
            break
        count += 1
    return count


def read_atoms(items: Sequence[Any], dialect: DialectName, first: int = 0) -> list[Atom]:
    """The atoms of a request's messages, in the order in which their records stand in a log.

    `first` is the index of the first item given, where those before it are known.
    """
    if dialect == "gemini":
        return read_gemini_atoms(items, first)
    start = leading_terms(items) if dialect != "anthropic" and not first else 0
    atoms: list[Atom] = []
    for place in range(start, len(items)):
        if isinstance(items[place], dict):
            atoms += _atoms_of(items[place], first + place, dialect)
    return atoms


def reply_atoms(content: Content, dialect: DialectName = "anthropic") -> list[bytes]:
    """The digests of a reply as the log has it; the client's next request repeats them."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if dialect == "gemini":
        return gemini_reply_digests(blocks)
    return [atom.digest for atom in _message_atoms("assistant", blocks, 0)]


def _atoms_of(item: Json, index: int, dialect: DialectName) -> list[Atom]:
    kind, role = item.get("type"), item.get("role")
    if dialect == "openai-responses":
        if kind in _THINKING:
            return []
        if kind in _CALLS:
            given = item.get("arguments") if kind == _CALLS[0] else {"input": item.get("input")}
            return [call_atom(item.get("name"), given, index)]
        if kind in _OUTPUTS:
            return [_result(item.get("output"), index)]
        if role is None:
            return [Atom("assistant", digest_as("block", _plain(item)), index)]
    if role in ("tool", "function"):
        return [_result(item.get("content"), index)]
    said: AtomKind = "assistant" if role == "assistant" else "user"
    if role in _SYSTEM_ROLES:
        said = "system"
    atoms = _message_atoms(said, item.get("content"), index)
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


def _message_atoms(kind: AtomKind, content: Any, index: int) -> list[Atom]:
    """The atoms of a message's content; results stand first, as they do in a log."""
    if isinstance(content, str):
        return [Atom(kind, digest_as("text", content.strip()), index)] if content.strip() else []
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
                others.append(Atom(kind, digest_as("text", text.strip()), index, place))
        elif name == "tool_use":
            others.append(call_atom(block.get("name"), block.get("input"), index, place))
        elif name == "tool_result":
            results.append(_result(block.get("content"), index, place))
        elif name == "refusal" and isinstance(block.get("refusal"), str):
            others.append(Atom(kind, digest_as("text", block["refusal"].strip()), index, place))
        else:
            others.append(Atom(kind, digest_as("block", _plain(block)), index, place))
    return [*results, *others]


def _result(content: object, index: int, place: int | None = None) -> Atom:
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
    return _plain(piece) if isinstance(piece, dict) else piece


def _plain(block: Json) -> Json:
    return {
        name: value for name, value in block.items() if name not in _VOLATILE and value is not None
    }
