"""Refs to the payloads of a record, found by their place and never by text.

A result has the ref of its text in `output_ref` and that of its details in `details.output_ref`; a
block has those of its binary in `output_refs`, each by the dotted path of the leaf it fills.
Anyone who hands something in cannot give refs: they are taken away before it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import REF_CHARS
from holdfast.core.log.records import Compaction, OutputRef, ToolResult, User
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.log.records import Json, Record

IN_BLOCK: Final = "output_refs"
IN_DETAILS: Final = "output_ref"
ORIGINAL: Final = "original"
"""The path, among the refs of a picture, of what it was scaled down from; it fills no leaf."""
AS_TEXT: Final = "base64"
"""The kind of a payload that is base64 as no one would write it: it is kept as it was spelled."""
OUTPUTS_LISTED: Final = 12
"""Outputs that a compaction names."""
_MARKS: Final = bytes(b"0"[0] if byte in b"0123456789abcdef" else b" "[0] for byte in range(256))
"""The digits of a hash as `0`, everything else as a space."""
_RUN: Final = b"0" * 64
"""As many digits as a hash has."""
DATA_URI: Final = lazy_pattern(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")


def possible_hashes(data: bytes) -> Iterator[str]:
    """Yield everything in stored bytes that could be a payload's hash: too many, never too few."""
    for digits in hex_runs(data):
        # Text around a hash may end or begin with hex digits too (`\b`, `\u001b`).
        for start in range(len(digits) - 63):
            yield digits[start : start + 64]


def hex_runs(data: bytes) -> Iterator[str]:
    """Yield every run of digits in stored bytes that is long enough to have a hash in it."""
    marks = data.translate(_MARKS)  # and a search of bytes: a pattern takes twenty times as long
    end = 0
    while (start := marks.find(_RUN, end)) >= 0:
        end = marks.find(b" ", start)
        end = len(data) if end < 0 else end
        yield data[start:end].decode()


def refs_of(record: Record) -> tuple[OutputRef, ...]:
    """Every ref that a record holds, the text of a result first."""
    if isinstance(record, ToolResult):
        details = record.details if isinstance(record.details, dict) else {}
        found = [record.output_ref, ref_in(details.get(IN_DETAILS))]
        return (*(ref for ref in found if ref is not None), *_refs_in(record.content))
    if isinstance(record, User):
        return tuple(_refs_in(record.content))
    if isinstance(record, Compaction):
        return tuple(ref for said in record.turn or () for ref in _refs_in(said.get("content")))
    return ()


def restore(record: Record, get: Callable[[OutputRef], bytes]) -> Record:
    """A record with its pictures and other binary where they were; `get` gives a payload.

    What cannot be had is said in its place: a picture that is lost must not lose the session.
    """
    if isinstance(record, User | ToolResult):
        content = _restore_content(record.content, get)
        return (
            record
            if content is record.content
            else msgspec.structs.replace(record, content=content)
        )
    if isinstance(record, Compaction) and record.turn and refs_of(record):
        turn = [
            {**said, "content": _restore_content(said.get("content"), get)} for said in record.turn
        ]
        return msgspec.structs.replace(record, turn=turn)
    return record


def bare(made: Compaction) -> Compaction:
    """A compaction that repeats what a user said, without the payloads once more."""
    if not made.turn or not refs_of(made):
        return made
    turn = [{**said, "content": _empty_content(said.get("content"))} for said in made.turn]
    return msgspec.structs.replace(made, turn=turn)


def named_outputs(records: Sequence[Record]) -> list[Json]:
    """The newest offloaded texts among records, for a compaction that cuts them."""
    found: dict[str, Json] = {}
    for record in records:
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(record) is Compaction:
            found |= {
                output["ref"]: output for output in record.outputs or () if _is_listed(output)
            }
        elif type(record) is ToolResult and record.output_ref is not None:
            ref = record.output_ref.sha256[:REF_CHARS]
            about = {"tool": record.name or "", "chars": record.output_ref.chars}
            found[ref] = {"ref": ref, "record": record.id, **about}
    return list(found.values())[-OUTPUTS_LISTED:]


def _is_listed(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("ref"), str)


def _refs_in(content: object) -> Iterator[OutputRef]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield from (ref for _path, ref in block_refs(block))
            original = original_of(block)
            if original is not None:
                yield original


def original_of(block: Json) -> OutputRef | None:
    """Return the ref of the picture that a block was scaled down from; None for any other."""
    held = block.get(IN_BLOCK)
    return ref_in(held.get(ORIGINAL)) if isinstance(held, dict) else None


def block_refs(block: Json) -> Iterator[tuple[tuple[str, ...], OutputRef]]:
    """Yield the refs of the payloads that belong into a block, each with its place."""
    held = block.get(IN_BLOCK)
    for path, value in held.items() if isinstance(held, dict) else ():
        ref = ref_in(value)
        if ref is not None and path != ORIGINAL:
            yield tuple(path.split(".")), ref


def ref_in(value: object) -> OutputRef | None:
    """The ref that a JSON value spells, if it is one."""
    try:
        return convert_typed(value, OutputRef)
    except msgspec.ValidationError:
        return None


def _restore_content(content: Any, get: Callable[[OutputRef], bytes]) -> Any:
    if not isinstance(content, list) or not any(IN_BLOCK in block for block in content):
        return content
    return [_restore_block(block, get) if IN_BLOCK in block else block for block in content]


def _restore_block(block: Json, get: Callable[[OutputRef], bytes]) -> Json:
    whole = block
    for path, ref in block_refs(block):
        try:
            data = get(ref)
        except HoldfastError as error:
            return {"type": "text", "text": f"[{_describe_ref(ref)} cannot be shown: {error}]"}
        prefix = prefix_of(leaf_at(whole, path))
        said = data.decode(errors="replace") if ref.kind == AS_TEXT else msgspec.to_builtins(data)
        whole = with_leaf(whole, path, prefix + said)
    return whole


def _empty_content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_empty_block(block) if IN_BLOCK in block else block for block in content]


def _empty_block(block: Json) -> Json:
    for path, _ref in block_refs(block):
        block = with_leaf(block, path, prefix_of(leaf_at(block, path)))
    return block


def without_refs(block: Json) -> Json:
    """A block as it is outside our logs: refs are ours to give, and of use only to us."""
    if IN_BLOCK not in block:
        return block
    return {name: item for name, item in block.items() if name != IN_BLOCK}


def note_of(block: Json) -> str | None:
    """Describe a block whose payload is stored elsewhere; None for any other block."""
    for path, ref in block_refs(block):
        leaf = leaf_at(block, path)
        if leaf == prefix_of(leaf):
            return f"[{_describe_ref(ref)}, kept outside the log: ref {ref.sha256[:REF_CHARS]}]"
    return None


def _describe_ref(ref: OutputRef) -> str:
    return f"{ref.kind or 'payload'}, {ref.bytes:,} bytes"


# Leaves


def prefix_of(leaf: Any) -> str:
    found = DATA_URI.match(leaf) if isinstance(leaf, str) else None
    return found[0] if found else ""


def leaf_at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def with_leaf(value: Any, path: Sequence[str], leaf: Any) -> Any:
    if not path:
        return leaf
    name, *rest = path
    if isinstance(value, dict) and name in value:
        return {**value, name: with_leaf(value[name], rest, leaf)}
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        place = int(name)
        return [*value[:place], with_leaf(value[place], rest, leaf), *value[place + 1 :]]
    return value
