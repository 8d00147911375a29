"""What an output is: JSON, a table, a log, a traceback or text; and what can be said of it.

Everything said is so: numbers are counted in the whole text, or it is said in which part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.outputs.describe.failures import failure_facts, last_trace, trace_facts
from holdfast.core.outputs.describe.json_shape import (
    NOT_JSON,
    is_json_lines,
    json_facts,
    json_in,
    json_lines_facts,
)
from holdfast.core.outputs.describe.logs import is_log, is_logged, log_facts
from holdfast.core.outputs.describe.outlines import outline_facts
from holdfast.core.outputs.describe.samples import sample_of
from holdfast.core.outputs.describe.tables import table_facts, table_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.outputs.describe.failures import Trace
    from holdfast.core.outputs.describe.samples import Sample

Kind = Literal["text", "json", "table", "log", "traceback"]

_ENDING_LINES: Final = 60
"""A log is a traceback where it ends in one: within so many lines of its end."""


class Shape(msgspec.Struct, frozen=True):
    """The kind of a text, and what tells about it."""

    kind: Kind
    describe: Callable[[int], list[str]]

    def facts(self, room: int) -> list[str]:
        """Lines about the text, of at most `room` characters together, their ends included."""
        lines = self.describe(room)
        assert _size(lines) <= max(0, room), "facts exceed their room"
        return lines


def shape_of(text: str) -> Shape:
    """What a text is."""
    value = json_in(text)
    if value is not NOT_JSON:
        return Shape("json", lambda room: json_facts(value, text, room))
    sample = sample_of(text)
    if is_json_lines(sample):
        return Shape("json", lambda room: json_lines_facts(sample, room))
    # The lines of a log may have as many commas as one another: they are no table's rows.
    table = table_in(sample) if sample.lines and not is_logged(sample.lines[0]) else None
    if table is not None:
        return Shape("table", lambda room: table_facts(table, sample, room))
    trace = last_trace(sample)
    if is_log(sample):
        is_ending = trace is not None and trace.end >= len(sample.lines) - _ENDING_LINES
        return Shape(
            "traceback" if is_ending else "log",
            lambda room: _traced(sample, trace, room, log_facts),
        )
    return Shape(
        "text" if trace is None else "traceback",
        lambda room: _traced(sample, trace, room, _prose_facts),
    )


def _traced(
    sample: Sample, trace: Trace | None, room: int, more: Callable[[Sample, int], list[str]]
) -> list[str]:
    facts = trace_facts(sample, trace, room // 2) if trace is not None else []
    return [*facts, *more(sample, room - _size(facts))]


def _prose_facts(sample: Sample, room: int) -> list[str]:
    failures = failure_facts(sample, room // 2)
    return [*failures, *outline_facts(sample, room - _size(failures))]


def _size(facts: list[str]) -> int:
    return sum(len(one) + 1 for one in facts)
