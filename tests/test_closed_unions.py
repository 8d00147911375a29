"""Closed unions are closed: a `match` over one of them says what happens to every member.

Its last case is `case _: assert_never(…)`, so that mypy names it when the union grows, or a
`case _:` with a comment that says why no other member matters there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.test_architecture import PACKAGE

from holdfast.core.flow.effects import Effect
from holdfast.core.flow.events import Event
from holdfast.core.log.records import BY_TYPE, Record
from holdfast.core.models.messages import Block
from holdfast.core.models.replies import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS = ("core", "engine")
CLASSES = {
    union: frozenset(member.__name__ for member in get_args(alias))
    for union, alias in {"Record": Record, "Effect": Effect, "Event": Event, "Block": Block}.items()
}
STOPS = frozenset(get_args(Stop))


def open_matches(source: str, name: str) -> list[str]:
    """The `match` statements over closed unions that leave members unmentioned, one line each."""
    lines = source.splitlines()
    return [
        f"{name}:{node.lineno}: the match over `{union}` needs `assert_never`, or a reason"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Match)
        and (union := _union_of(node))
        and not _is_closed(node.cases[-1], lines)
    ]


def _union_of(node: ast.Match) -> str:
    """The closed union that a `match` is over, by what its cases name; empty for any other."""
    patterns = [pattern for case in node.cases for pattern in _alternatives(case.pattern)]
    classes = {ast.unparse(one.cls) for one in patterns if isinstance(one, ast.MatchClass)}
    values = {_constant(one) for one in patterns if isinstance(one, ast.MatchValue)}
    if classes:
        return next((union for union, known in CLASSES.items() if classes <= known), "")
    is_stop = ast.unparse(node.subject).split(".")[-1] == "stop"
    return "Stop" if values and values <= STOPS and is_stop else ""


def _alternatives(pattern: ast.pattern) -> Iterator[ast.pattern]:
    if isinstance(pattern, ast.MatchOr):
        for inner in pattern.patterns:
            yield from _alternatives(inner)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from _alternatives(pattern.pattern)
    else:
        yield pattern


def _constant(pattern: ast.MatchValue) -> Any:
    return pattern.value.value if isinstance(pattern.value, ast.Constant) else None


def _is_closed(case: ast.match_case, lines: list[str]) -> bool:
    pattern = case.pattern
    is_rest = isinstance(pattern, ast.MatchAs) and pattern.pattern is None
    if not is_rest or case.guard is not None:
        return False
    first = case.body[0]
    if isinstance(first, ast.Expr) and ast.unparse(first).startswith("assert_never("):
        return True
    return any("#" in line for line in lines[pattern.lineno - 1 : first.end_lineno])


def test_every_match_over_a_closed_union_is_closed() -> None:
    """In the core and the engine, nothing falls through a `match` unnoticed."""
    found = [
        problem
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for problem in open_matches(path.read_text(), str(path.relative_to(PACKAGE)))
    ]
    assert found == []


RECORDS = "match record:\n    case User():\n        pass\n    case Label() | Mode():\n        pass"


@pytest.mark.parametrize(
    ("source", "union"),
    [
        (RECORDS, "Record"),
        (f"{RECORDS}\n    case _:\n        pass", "Record"),
        (f"{RECORDS}\n    case _ if record.id:  # some\n        pass", "Record"),
        (f"{RECORDS}\n    case Header() as header:  # the last\n        pass", "Record"),
        ("match effect:\n    case Now():\n        pass", "Effect"),
        ("match event:\n    case TurnStarted(record=record):\n        pass", "Event"),
        ("match block:\n    case Text(text):\n        pass", "Block"),
        ("match reply.stop:\n    case 'length' | 'window':\n        pass", "Stop"),
    ],
)
def test_checker_sees_a_planted_violation(source: str, union: str) -> None:
    """A `match` without a last word is found and named."""
    assert open_matches(source, "m.py") == [
        f"m.py:1: the match over `{union}` needs `assert_never`, or a reason"
    ]


@pytest.mark.parametrize(
    "source",
    [
        f"{RECORDS}\n    case _:\n        assert_never(record)",
        f"{RECORDS}\n    case _:\n        pass  # no other record is shown",
        f"{RECORDS}\n    case _:  # no other record is shown\n        pass",
        f"{RECORDS}\n    case _:\n        # no other record is shown\n        pass",
        "match value:\n    case dict():\n        pass",
        "match order.kind:\n    case 'length':\n        pass",
    ],
)
def test_checker_lets_closed_and_other_matches_pass(source: str) -> None:
    assert open_matches(source, "m.py") == []


def test_a_record_type_is_declared_in_the_union_and_nowhere_else() -> None:
    """The table by type on disk follows from the union."""
    known = {member.__name__ for member in BY_TYPE.values()}
    assert known == CLASSES["Record"] - {"Unknown"}
