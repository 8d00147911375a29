"""Values to search with: texts of every kind, JSON, and records of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from holdfast.core.log.records import (
    BY_TYPE,
    Assistant,
    CallFailure,
    CallState,
    Checkpoint,
    Compaction,
    Epoch,
    Flush,
    Header,
    InjectedContext,
    Label,
    Mode,
    ModelChange,
    OutputRef,
    Prune,
    PruneDecision,
    Rewind,
    ToolResult,
    ToolsAdded,
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.core.text.cut import scrub

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from holdfast.core.log.records import Content, Record

FRAGMENTS = (
    "plain words ",
    "\ud800",  # a lone high surrogate
    "\udfff",  # a lone low surrogate
    "\ud83d\ude00",  # a pair as two code points, as UTF-16 text read badly leaves it
    "😀",
    "👩‍👩‍👧‍👦",  # one person-sized sign, seven code points
    "e\u0301\u0323",  # a letter with two combining marks
    "漢字かな",
    "𝔘𠜎",
    "مرحبا",
    "\x00",
    "\x18",
    "\r\n\u2028\u0085",
    "\ufeff\ufffd\uffff",
    '"\\/',
    "NaN",
)
"""Pieces of text that have broken something somewhere."""

_any_character = st.characters(exclude_categories=())
_clean_character = st.characters(exclude_categories=["Cs"])


def texts(max_size: int = 200) -> SearchStrategy[str]:
    """Any text Python can hold, lone surrogates included."""
    return st.one_of(
        st.text(_any_character, max_size=max_size),
        st.lists(st.sampled_from(FRAGMENTS), max_size=max_size // 10).map("".join),
        st.text("ab \n", max_size=max_size),
    )


CLEAN = ("", "plain", *(piece for piece in FRAGMENTS if scrub(piece) == piece))
"""Pieces of text that UTF-8 can hold."""


def clean_texts(max_size: int = 40) -> SearchStrategy[str]:
    """Text that UTF-8 can hold."""
    return st.sampled_from(CLEAN) | st.text(_clean_character, max_size=max_size)


def words() -> SearchStrategy[str]:
    """Text for the fields where any will do: few choices, quickly made."""
    return st.sampled_from(CLEAN)


def numbers() -> SearchStrategy[int | float]:
    return st.one_of(
        st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.just(10**30)
    )


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, 2**64, -(10**30), 0.0, -0.0, 1e-300, 1.5e300),
    *("", "words", "漢字😀", "\x00", [], {}, [[]], [{}], {"": {}}, [None, [1, "a"]]),
    *({"type": "user"}, {"$extra": {}}, {"a": [{"b": {"c": [1, 2.5]}}]}),
)


def values() -> SearchStrategy[Any]:
    """JSON for the fields where any will do: few choices, quickly made."""
    return st.sampled_from(ODD_VALUES)


def objects() -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(words(), values(), max_size=2)


def json_values(max_leaves: int = 8) -> SearchStrategy[Any]:
    """Whatever a line of JSON can hold."""
    leaves = st.one_of(st.none(), st.booleans(), numbers(), clean_texts())
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(clean_texts(8), inner, max_size=3)
        ),
        max_leaves=max_leaves,
    )


def json_objects(max_leaves: int = 6) -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(clean_texts(8), json_values(max_leaves), max_size=3)


def record_ids() -> SearchStrategy[str]:
    """Ids of ours, of other tools, and of nobody."""
    ours = st.integers(0, 16**18 - 1).map(lambda number: f"{number:018x}")
    return ours | words()


def times() -> SearchStrategy[float]:
    return st.floats(min_value=0, max_value=1e11, allow_nan=False)


def counts() -> SearchStrategy[int]:
    return st.integers(min_value=0, max_value=2**53)


def contents() -> SearchStrategy[Content]:
    """A message's text or blocks, the seed's shapes among them."""
    block = st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": words()}),
        st.fixed_dictionaries(
            {
                "type": st.just("tool_use"),
                "id": words(),
                "name": words(),
                "input": values(),
            }
        ),
        objects(),
    )
    return st.one_of(st.none(), clean_texts(), st.lists(block, max_size=3))


def unknown_fields(known: frozenset[str]) -> SearchStrategy[dict[str, Any]]:
    """Fields of a later version, some with the names that are used inside."""
    names = [
        name
        for name in (*CLEAN, "$extra", "$type", "extra", "kind", "format", "zz")
        if name not in known
    ]
    return st.dictionaries(st.sampled_from(names), values(), max_size=2)


def _maybe(values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.none() | values


def _fields_of(struct: type) -> frozenset[str]:
    return frozenset((*struct.__struct_fields__, "type"))  # type: ignore[attr-defined]


def output_refs() -> SearchStrategy[OutputRef]:
    return st.builds(
        OutputRef,
        sha256=st.sampled_from(("0" * 64, "9f" * 32)),
        bytes=counts(),
        kind=words(),
        lines=_maybe(counts()),
        extra=unknown_fields(_fields_of(OutputRef) - {"type", "extra"}),
    )


def prune_decisions() -> SearchStrategy[PruneDecision]:
    return st.builds(
        PruneDecision,
        record=record_ids(),
        action=st.sampled_from(("trim", "clear")),
        tool_use_id=_maybe(words()),
        extra=unknown_fields(_fields_of(PruneDecision) - {"type", "extra"}),
    )


def _common(struct: type) -> dict[str, SearchStrategy[Any]]:
    return {
        "id": st.just("") | record_ids(),
        "ts": st.just(0.0) | times(),
        "parent": _maybe(record_ids()),
        "more": _maybe(st.integers(0, 20)),
        "extra": unknown_fields(_fields_of(struct) - {"extra"}),
    }


_OWN: dict[type, dict[str, SearchStrategy[Any]]] = {
    Header: {
        "format": words(),
        "version": counts(),
        "agent": words(),
        "label": clean_texts(),
        "parent_session": _maybe(words()),
        "parent_record": _maybe(record_ids()),
        "reason": _maybe(words()),
    },
    User: {"content": contents(), "name": _maybe(words())},
    Assistant: {
        "content": contents(),
        "provider": _maybe(words()),
        "model": _maybe(words()),
        "usage": _maybe(objects()),
        "stop_reason": _maybe(words()),
        "sent": _maybe(objects()),
    },
    ToolResult: {
        "tool_use_id": words(),
        "content": contents(),
        "name": _maybe(words()),
        "is_error": st.booleans(),
        "details": values(),
        "output_ref": _maybe(output_refs()),
        "pending": st.booleans(),
        "key": _maybe(words()),
    },
    ToolUse: {"tool_use_id": words(), "name": words(), "input": values()},
    Compaction: {
        "summary": clean_texts(),
        "first_kept": _maybe(record_ids()),
        "covers": _maybe(st.tuples(record_ids(), record_ids())),
        "window": _maybe(counts()),
        "tokens_before": _maybe(counts()),
        "tokens_after": _maybe(counts()),
        "method": st.sampled_from(("model", "extract", None)),
        "model": _maybe(words()),
        "usage": _maybe(objects()),
        "cost": _maybe(times()),
        "reason": _maybe(words()),
        "reasoning": _maybe(counts()),
    },
    Prune: {
        "decisions": st.lists(prune_decisions(), max_size=3),
        "window": _maybe(counts()),
        "reason": _maybe(words()),
        "reasoning": _maybe(counts()),
    },
    Epoch: {
        "cause": words(),
        "detail": clean_texts(),
        "reasoning": _maybe(counts()),
        "drops_reasoning": st.booleans(),
    },
    CallState: {
        "key": words(),
        "state": words(),
        "call": words(),
        "reply": record_ids(),
        "name": words(),
        "arguments": _maybe(objects()),
        "reason": clean_texts(),
        "by": words(),
        "until": _maybe(times()),
        "approvers": st.lists(words(), max_size=3),
        "is_told": st.booleans(),
    },
    ToolsAdded: {"tools": st.lists(objects(), max_size=3)},
    Rewind: {"to": record_ids(), "reason": _maybe(words())},
    Undo: {"target": record_ids(), "reason": _maybe(words())},
    Checkpoint: {"state": objects(), "trigger": _maybe(words())},
    Flush: {
        "notes": st.lists(clean_texts(), max_size=3),
        "trigger": _maybe(words()),
        "usage": _maybe(objects()),
    },
    InjectedContext: {"text": clean_texts(), "source": words()},
    Label: {"label": clean_texts(), "target": _maybe(record_ids())},
    ModelChange: {
        "model": words(),
        "provider": _maybe(words()),
        "window": _maybe(counts()),
    },
    CallFailure: {
        "cause": clean_texts(),
        "failure": _maybe(words()),
        "status": _maybe(counts()),
    },
    Mode: {
        "mode": st.sampled_from(("continue", "fresh")),
        "continued_in": _maybe(words()),
    },
}


def records_of(struct: type[Record]) -> SearchStrategy[Record]:
    """Records of one known type, with every field filled or left out."""
    return st.builds(struct, **_common(struct), **_OWN[struct])


def unknown_records() -> SearchStrategy[Unknown]:
    kinds = st.sampled_from(("novel", "User", "session ", *CLEAN[1:]))
    return st.builds(Unknown, type=kinds, **_common(Unknown))


def records() -> SearchStrategy[Record]:
    """Records of every type, those of an unknown one included."""
    return st.one_of(*(records_of(struct) for struct in BY_TYPE.values()), unknown_records())
