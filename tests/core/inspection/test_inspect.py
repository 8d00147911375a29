"""An inspection adds up: every token once, by kind, tool, file, turn and item; and the cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.conversations import PNG, messy_logs, said
from tests.support.runs import examples

from holdfast.core.inspection.inspect import KINDS, Inspection, inspect
from holdfast.core.log.records import Assistant, Compaction, Record, ToolResult, User
from holdfast.core.models.messages import Tool
from holdfast.core.models.prices import Price
from holdfast.core.projection.sizes import Scale

TEXT = "a line of the file a.py\n" * 20
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SYSTEM, TOOLS = "Be brief.", (Tool("read", "Reads a file."), Tool("bash", "Runs a command."))
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, cache_write_hour=6.0)


def usage(plain: int, read: int, write: int, output: int) -> dict[str, int]:
    return {
        "input_tokens": plain,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": output,
    }


def step(
    number: int, tool: str, arguments: dict[str, str], result: str, **fields: object
) -> list[Record]:
    call = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": arguments}
    blocks = [{"type": "text", "text": f"Step {number}."}, call]
    reply = Assistant(content=blocks, provider="anthropic", **fields)  # type: ignore[arg-type]
    is_error = result.startswith("Error")
    return [reply, ToolResult(tool_use_id=f"c{number}", content=result, is_error=is_error)]


def a_session() -> list[Record]:
    """Two turns: a file is read twice, a command fails, a cut is made, the user thanks."""
    return said(
        [
            User(content=[{"type": "text", "text": "Read a.py twice."}, PICTURE]),
            *step(
                0, "read", {"file_path": "a.py"}, TEXT, model="one", usage=usage(100, 0, 900, 20)
            ),
            *step(1, "read", {"path": "a.py"}, TEXT, model="two", usage=usage(50, 900, 0, 30)),
            *step(2, "bash", {"cmd": "ls"}, "Error: no such file"),
            Assistant(content="Done."),
            Compaction(summary="It was read."),
            User(content="Thanks."),
        ]
    )


def inspected(records: list[Record], price: Price | None = None, top: int = 10) -> Inspection:
    def price_for(_model: str, _provider: str, _at: float) -> Price | None:
        return price

    return inspect(records, scale=Scale(), system=SYSTEM, tools=TOOLS, price_for=price_for, top=top)


def test_every_token_is_of_one_kind() -> None:
    """The kinds are in the order of a request, and together they are all of it."""
    found = inspected(a_session())
    assert tuple(group.name for group in found.kinds) == KINDS
    assert found.tokens == sum(group.tokens for group in found.kinds)
    assert {group.name: group.count for group in found.kinds} == {
        "system prompt": 1,
        "tool schemas": 2,
        "user": 2,
        "added by programs": 0,
        "assistant": 4,
        "thinking": 0,
        "tool calls": 3,
        "tool results": 3,
        "images": 1,
        "other": 0,
    }
    assert all((group.tokens > 0) is (group.count > 0) for group in found.kinds)
    assert found.images == next(group for group in found.kinds if group.name == "images")


def test_session_is_described() -> None:
    """Records, turns, steps, models, cuts and times."""
    records = a_session()
    found = inspected(records)
    assert (found.records, found.turns, found.steps) == (len(records), 2, 4)
    assert (found.models, found.compactions) == (("one", "two"), 1)
    assert (found.started, found.ended) == (records[0].ts, records[-1].ts)
    empty = inspected([])
    assert (empty.turns, empty.steps, empty.started, empty.ended) == (0, 0, 0.0, 0.0)
    assert (empty.biggest, empty.doubles, empty.calls) == ((), (), ())


def test_tools_and_files_have_their_calls_and_results() -> None:
    """A file that is read twice is one group; the larger group comes first."""
    found = inspected(a_session())
    assert [(group.name, group.count, group.errors) for group in found.tools] == [
        ("read", 2, 0),
        ("bash", 1, 1),
    ]
    (file,) = found.files
    assert (file.name, file.count) == ("a.py", 2)
    assert file.tokens == found.tools[0].tokens
    assert file.tokens > file.largest > found.tools[1].tokens
    kinds = {group.name: group.tokens for group in found.kinds}
    assert sum(group.tokens for group in found.tools) == kinds["tool calls"] + kinds["tool results"]


def test_turns_and_items_name_their_records() -> None:
    """A turn is as large as its messages, and items come largest first."""
    records = a_session()
    found = inspected(records, top=3)
    assert [(turn.record, turn.name, turn.says) for turn in found.by_turn] == [
        (records[0].id, "4 steps", "Read a.py twice. [image/png]"),
        (records[-1].id, "0 steps", "Thanks."),
    ]
    assert found.by_turn[0].tokens > 2 * found.tools[0].largest
    assert 0 < found.by_turn[1].tokens < 20
    assert len(found.biggest) == 3
    sizes = [item.tokens for item in found.biggest]
    assert sizes == sorted(sizes, reverse=True)
    assert {item.record for item in found.biggest} >= {records[2].id, records[4].id}


def test_result_that_came_twice_is_counted_once_too_often() -> None:
    """All copies but the first could be spared; short results that are alike are no copies."""
    records = a_session()
    (double,) = inspected(records).doubles
    assert (double.name, double.copies) == ("read", 2)
    assert double.records == (records[2].id, records[4].id)
    assert double.tokens == inspected(records).doubled_tokens
    assert 0.8 < double.tokens / inspected(records).tools[0].largest < 1.2
    short = said([record for n in range(3) for record in step(n, "read", {}, "the same")])
    assert inspected(short).doubles == ()


def test_calls_show_what_was_sent_and_what_was_reported() -> None:
    """What the provider counted beyond the messages is the system prompt and the tools."""
    records = a_session()
    found = inspected(records)
    assert [call.record for call in found.calls] == [records[n].id for n in (1, 3, 5, 7)]
    assert [call.reported for call in found.calls] == [1_000, 950, None, None]
    seen = [call.seen for call in found.calls]
    assert seen == sorted(set(seen))
    assert seen[0] > 0
    known = sum(group.tokens for group in found.kinds[:2])
    assert found.unseen_static == 1_000 - seen[0] - known
    assert inspected(said([User(content="hi"), Assistant(content="ho")])).unseen_static is None


def test_spent_is_what_all_calls_reported() -> None:
    """With a price: what it cost, and what it would have cost without a cache."""
    spent = inspected(a_session(), PRICE).spent
    assert (spent.calls, spent.unknown, spent.prompt, spent.output) == (4, 2, 1_950, 50)
    assert (spent.cached_read, spent.cached_write) == (900, 900)
    million = 1_000_000
    assert spent.cost == pytest.approx((150 * 3 + 900 * 0.3 + 900 * 3.75 + 50 * 15) / million)
    assert spent.without_cache == pytest.approx((1_950 * 3 + 50 * 15) / million)
    free = inspected(a_session()).spent
    assert (free.calls, free.prompt, free.cost, free.without_cache) == (4, 1_950, None, None)


@examples(40)
@given(records=messy_logs())
def test_any_log_can_be_inspected(records: list[Record]) -> None:
    """Whatever is in it, the sums hold and every record that is named exists."""
    found = inspected(records, PRICE)
    ids = {record.id for record in records}
    assert found.tokens == sum(group.tokens for group in found.kinds)
    assert {item.record for item in found.biggest} <= ids
    assert {call.record for call in found.calls} <= ids
    own = [rec for rec in records if isinstance(rec, User) and not rec.extra.get("meta")]
    assert found.turns == len(own)
    assert all(double.copies == len(double.records) > 1 for double in found.doubles)
