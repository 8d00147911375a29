"""A loss is named with its record, its cut and its reader; a need in view is never one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.evaluation.losses import (
    CutNote,
    LastSeen,
    Loss,
    LossTracker,
    ObservedCall,
    ways_back,
)
from holdfast.core.evaluation.needs import Need, NeedCatalog
from holdfast.core.log.records import Assistant, OutputRef, Record, ToolResult, User

RULE = "Always write tests in French."


def records_of(*replies: str, rule: bool = True) -> list[Record]:
    first = User(id="u", content=f"{RULE if rule else ''} Is it alpha_beta?")
    return [first, *(Assistant(id=f"a{n}", content=text) for n, text in enumerate(replies))]


def number_of(catalog: NeedCatalog, text: str) -> int:
    return catalog.names.index(text)


def play(views: list[set[str]], *, knows: bool = True) -> tuple[Loss, ...]:
    """Replies that each use `alpha_beta`, with the needs that each request shows."""
    records = records_of(*["see alpha_beta"] * len(views))
    catalog = NeedCatalog(records)
    tracker = LossTracker(catalog, records)
    everything = frozenset(range(len(catalog.needs)))
    fact = number_of(catalog, "alpha_beta")
    before: set[str] = set()
    for place, view in enumerate(views):
        shown = frozenset(number_of(catalog, text) for text in view)
        tracker.observe(
            ObservedCall(
                reply=f"a{place}",
                arrived=[("u", everything)] if place == 0 else [],
                uses=[fact],
                pieces=[shown],
                known=int(knows and place > 0 and view == before),
                made=CutNote("compaction", "full", f"cut-{place}"),
            )
        )
        before = view
    return tracker.finish()


def test_what_is_in_view_is_not_lost() -> None:
    assert play([{RULE, "alpha_beta"}] * 3) == ()


def test_the_cut_that_took_it_is_named() -> None:
    whole = {RULE, "alpha_beta"}
    rule, fact = play([whole, whole, {"alpha_beta"}, set(), set()])
    assert (rule.kind, rule.text, rule.cut.record, rule.needed_by) == (
        *("instruction", RULE, "cut-2", "a2"),
    )
    assert (rule.calls, rule.seen.record, rule.seen.kind) == (3, "u", "user")
    assert (fact.kind, fact.cut.record, fact.needed_by, fact.calls) == ("name", "cut-3", "a3", 2)


def test_what_no_request_ever_had_is_a_loss_too() -> None:
    rule, fact = play([set(), set()])
    assert {loss.text for loss in (rule, fact)} == {RULE, "alpha_beta"}
    assert rule.cut.call == 1


@given(st.lists(st.sets(st.sampled_from([RULE, "alpha_beta"])), min_size=1, max_size=8))
def test_calls_without_it_are_counted_each_once(views: list[set[str]]) -> None:
    """Over all cuts, a need is missing in as many calls as do not show it."""
    losses = play(views)
    for text in (RULE, "alpha_beta"):
        missing = sum(text not in view for view in views)
        assert sum(loss.calls for loss in losses if loss.text == text) == missing


def test_ways_back_name_the_ref_of_an_output() -> None:
    records: list[Record] = [
        User(id="u", content="go"),
        Assistant(id="a", content="run"),
        ToolResult(
            id="t",
            tool_use_id="c",
            name="bash",
            content="id 4711000",
            output_ref=OutputRef(sha256="ab" * 32, bytes=9),
        ),
        Assistant(id="b", content="It is 4711000."),
    ]
    catalog = NeedCatalog(records)
    tracker = LossTracker(catalog, records)
    tracker.observe(ObservedCall("a", [], [], [frozenset()], 0))
    tracker.observe(ObservedCall("b", [("t", frozenset({0}))], [0], [frozenset()], 1))
    (loss,) = tracker.finish()
    assert loss.seen == LastSeen("t", "tool_result", 2, "bash", "ab" * 8)
    assert loss.ways_back[0] == f'context(ref="{"ab" * 8}")'


def test_ways_back_quote_what_they_look_for() -> None:
    ways = ways_back(Need("value", 'a "b" \\ c'), LastSeen("", "", 1))
    assert ways == (r'memory_search(query="a \"b\" \\ c")',)
