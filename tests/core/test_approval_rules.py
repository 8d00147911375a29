"""Rules of approvals: what they ask about, and that a doubt is a reason to ask."""

from __future__ import annotations

import math
import posixpath
import re
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.approval_rules import (
    ApprovalRule,
    ArgumentTest,
    GatedTool,
    both_needs,
    check_rules,
    read_rules,
    rule_need,
)
from holdfast.core.owners import NO_OWNER, UNKNOWN_OWNER, FoundOwner, NamedOwner
from holdfast.core.turn.calls import ApprovalNeed
from holdfast.errors import BadSetting

ANN = NamedOwner("ann")


class Currency(Enum):
    """Values as an argument may have them."""

    EURO = "eur"
    DOLLAR = "usd"


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ({"above": 50}, 51, True),
        ({"above": 50}, 50, False),
        ({"above": 50}, 49.9, False),
        ({"above": 50}, Decimal("50.01"), True),
        ({"above": 50}, 10**400, True),
        ({"above": 50}, -(10**400), False),
        ({"below": 0}, -1, True),
        ({"below": 0}, 0, False),
        ({"above": 10, "below": 20}, 15, True),
        ({"above": 10, "below": 20}, 25, False),
        ({"above": 50}, [1, 60], True),
        ({"above": 50}, [1, 2], False),
        ({"above": 50}, [1, ["2", 3]], True),
        ({"one_of": ["eur", "usd"]}, "eur", True),
        ({"one_of": ["eur"]}, "gbp", False),
        ({"one_of": ["eur"]}, Currency.EURO, True),
        ({"one_of": ["eur"]}, Currency.DOLLAR, False),
        ({"one_of": [80]}, 80.0, True),
        ({"one_of": [80, "all"]}, 81, False),
        ({"one_of": [True]}, False, False),
        ({"none_of": ["eur"]}, "eur", False),
        ({"none_of": ["eur"]}, "EUR", True),
        ({"none_of": [1]}, True, True),
        ({"inside": "/etc"}, "/etc", True),
        ({"inside": "/etc"}, "/etc/passwd", True),
        ({"inside": "/etc"}, "//etc//./passwd", True),
        ({"inside": "/etc"}, "/home/../etc/passwd", True),
        ({"inside": "/etc"}, "/../etc", True),
        ({"inside": "/etc"}, "/etcetera", False),
        ({"inside": "/etc"}, "/etc/../home", False),
        ({"inside": "/"}, "/anything", True),
        ({"outside": "/work"}, "/work/a.txt", False),
        ({"outside": "/work/"}, "/work", False),
        ({"outside": "/work"}, PurePosixPath("/work/a"), False),
        ({"outside": "/work"}, PurePosixPath("/etc"), True),
        ({"outside": "/work"}, "/work/../etc/passwd", True),
        ({"outside": "/work"}, "/workshop", True),
        ({"outside": "/work"}, "/", True),
        ({"outside": "/work"}, ["/work/a", "/etc"], True),
    ],
)
def test_a_test_of_an_argument(test: dict[str, Any], value: Any, expected: bool) -> None:
    """Numbers are compared by size, values by kind, and paths by folder without detours."""
    assert rule(when={"x": test}).applies({"x": value}) is expected


def rule(**fields: Any) -> ApprovalRule:
    (read,) = read_rules([{"tools": ["*"], **fields}], "here")
    return read


TESTS = (
    {"above": 1e300},
    {"below": -1e300},
    {"above": 1.0, "below": 1.0},
    {"one_of": [12345.5]},
    {"inside": "/no/such/folder"},
    {"outside": "/"},
)
"""Tests that hold of hardly a value, or of none, that can be compared."""
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.just(math.nan),
    st.just(Decimal("sNaN")),
    st.binary(),
    st.dictionaries(st.text(), st.integers()),
    st.complex_numbers(),
    st.builds(object),
)
"""Values that none of these tests can compare."""


@given(st.sampled_from(TESTS), STRANGE, st.booleans())
def test_what_cannot_be_compared_asks(test: dict[str, Any], value: Any, in_list: bool) -> None:
    """No value of a wrong kind gets past a rule, alone or among others."""
    given = rule(when={"x": test})
    assert given.applies({"x": [value] if in_list else value})


@given(st.text())
def test_a_text_is_no_number(text: str) -> None:
    """Neither is `"5"`: a function that takes a text may read it in a way of its own."""
    for test in ({"above": 1e300}, {"below": -1e300}, {"one_of": [1]}, {"one_of": [True]}):
        assert rule(when={"x": test}).applies({"x": text})


@given(st.floats() | st.integers() | st.just("/etc") | st.just("~/a") | st.just("a/../b"))
def test_what_is_no_whole_path_asks(value: Any) -> None:
    """A relative path depends on where the process runs."""
    asks = rule(when={"x": {"inside": "/work"}}).applies({"x": value})
    assert asks is (value != "/etc")
    assert rule(when={"x": {"outside": "/work"}}).applies({"x": value})


@given(st.dictionaries(st.sampled_from(["y", "z"]), st.integers()))
def test_an_argument_that_is_not_there_asks(arguments: dict[str, Any]) -> None:
    given = rule(when={"x": {"above": 1e300}})
    assert given.applies(arguments)


@given(st.lists(st.sampled_from(["a", "work", "..", ".", "", "b"]), max_size=8))
def test_paths_are_those_without_detours(parts: list[str]) -> None:
    """As the standard library has them, whatever dots and slashes are in between."""
    path = "/" + "/".join(parts)
    plain = posixpath.normpath("/" + path.lstrip("/"))
    is_in = plain == "/work" or plain.startswith("/work/")
    assert rule(when={"x": {"inside": "/work"}}).applies({"x": path}) is is_in
    assert rule(when={"x": {"outside": "/work"}}).applies({"x": path}) is not is_in


AMOUNT = {"amount": {"above": 50}}


def test_all_tests_of_a_rule_have_to_hold() -> None:
    both = rule(when={**AMOUNT, "currency": {"one_of": ["usd"]}})
    assert both.applies({"amount": 60, "currency": "usd"})
    assert not both.applies({"amount": 60, "currency": "eur"})
    assert not both.applies({"amount": 40, "currency": "usd"})


@pytest.mark.parametrize(
    ("tools", "owners", "tool", "owner", "expected"),
    [
        (["refund"], ["*"], "refund", NO_OWNER, True),
        (["re*"], ["*"], "refund", ANN, True),
        (["pay"], ["*"], "refund", ANN, False),
        (["*"], ["team-*"], "refund", NamedOwner("team-a"), True),
        (["*"], ["team-*"], "refund", ANN, False),
        (["*"], ["team-*"], "refund", UNKNOWN_OWNER, True),
        (["*"], [""], "refund", NO_OWNER, True),
        (["*"], [""], "refund", ANN, False),
    ],
)
def test_a_rule_is_about_tools_and_owners(
    tools: list[str], owners: list[str], tool: str, owner: FoundOwner, expected: bool
) -> None:
    """An owner who is not known may be any of them."""
    rules = [rule(tools=tools, owners=owners)]
    assert (rule_need(rules, tool, owner, {}) is not None) is expected


def test_the_first_rule_that_asks_decides() -> None:
    """The reason names the rule, its tests and its approvers, and no value of the call."""
    rules = [
        rule(when={"amount": {"above": 1000}}, approvers=["ann"], expires=60, reason="large"),
        rule(when=AMOUNT),
        rule(tools=["pay"]),
    ]
    need = rule_need(rules, "refund", NO_OWNER, {"amount": 4321})
    assert need == ApprovalNeed(
        "rule 1 of the approvals (`amount` above 1000; approvers: ann): large", 60, ("ann",)
    )
    need = rule_need(rules, "refund", NO_OWNER, {"amount": 60})
    assert need == ApprovalNeed("rule 2 of the approvals (`amount` above 50)")
    assert rule_need(rules, "refund", NO_OWNER, {"amount": 5}) is None
    assert rule_need(rules, "pay", NO_OWNER, {"amount": 5}) == ApprovalNeed(
        "rule 3 of the approvals"
    )


NAMES = st.lists(st.sampled_from(["ann", "bob", "eve"]), unique=True).map(tuple)
NEEDS = st.none() | st.builds(
    ApprovalNeed, st.text(min_size=1), st.none() | st.floats(1, 1e6), NAMES
)


@given(NEEDS, NEEDS)
def test_a_tool_and_a_rule_take_nothing_from_each_other(
    own: ApprovalNeed | None, ruled: ApprovalNeed | None
) -> None:
    """A call that one of them asks about waits; who may decide is named by each that names any,
    and within the time of both."""
    need = both_needs(own, ruled)
    asked = [each for each in (own, ruled) if each is not None]
    assert (need is None) is (not asked)
    if need is None:
        return
    named = [set(each.approvers) for each in asked if each.approvers]
    if len(named) == 2 and not named[0] & named[1]:
        return  # refused before: see below
    assert bool(need.approvers) is bool(named)
    assert all(set(need.approvers) <= names for names in named)
    for each in asked:
        assert each.reason in need.reason
        assert each.seconds is None or (need.seconds or math.inf) <= each.seconds


REFUND = GatedTool("refund", ("amount",), ("ann", "bob"))
OTHER = GatedTool("lookup", None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": ["refnud"]}, "`rules.toml`: rule 2 .*`refnud`.*refund, lookup"),
        ({"tools": ["re*"], "when": {"amout": {"above": 5}}}, "rule 2 .*`amout`.*`refund`.*amount"),
        ({"tools": ["refund"], "approvers": ["eve"]}, "rule 2 .*no one could decide.*ann, bob"),
    ],
)
def test_a_rule_that_would_never_apply_is_refused(fields: dict[str, Any], words: str) -> None:
    """A misspelled tool or argument is an error, and so are approvers of whom none may decide."""
    rules = [rule(), rule(**fields)]
    with pytest.raises(BadSetting) as refused:
        check_rules(rules, [REFUND, OTHER], "`rules.toml`")
    assert re.search(words, f"{refused.value} {refused.value.hint}", re.DOTALL)


def test_rules_that_fit_are_taken() -> None:
    fitting = [
        rule(tools=["refund"], when=AMOUNT, approvers=["bob", "eve"]),
        rule(tools=["nothing-yet-*"]),
        rule(tools=["lookup"], when={"anything": {"above": 1}}),
    ]
    check_rules(fitting, [REFUND, OTHER], "here")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, ("tools",)),
        ({"tools": "refund"}, ("tools", "array")),
        ({"tools": []}, ("`tools` is empty",)),
        ({"tools": [""]}, ("name in `tools`",)),
        ({"owners": []}, ("`owners` is empty",)),
        ({"approvers": [""]}, ("name in `approvers`",)),
        ({"approver": ["ann"]}, ("approver", "keys of a rule", "`approvers`")),
        ({"expires": 0}, ("expires",)),
        ({"expires": math.inf}, ("expires",)),
        ({"expires": math.nan}, ("expires",)),
        ({"when": ["amount"]}, ("when",)),
        ({"when": {"amount": 50}}, ("when.amount", "tests of an argument")),
        ({"when": {"amount": {}}}, ("when.amount", "nothing is asked")),
        ({"when": {"amount": {"over": 50}}}, ("when.amount", "over", "`above`")),
        ({"when": {"amount": {"above": "50"}}}, ("when.amount", "above", "float")),
        ({"when": {"amount": {"above": True}}}, ("when.amount", "above")),
        ({"when": {"amount": {"above": math.nan}}}, ("when.amount", "above")),
        ({"when": {"amount": {"below": math.inf}}}, ("when.amount", "below")),
        ({"when": {"amount": {"one_of": [math.nan]}}}, ("when.amount", "one_of")),
        ({"when": {"path": {"inside": "etc"}}}, ("when.path", "inside", "relative")),
        ({"when": {"path": {"outside": "~"}}}, ("when.path", "outside", "relative")),
    ],
)
def test_a_mistake_is_named(table: dict[str, Any], words: tuple[str, ...]) -> None:
    """With the source, the rule and the key, and what may be there."""
    tools = {} if not table else {"tools": ["*"]}
    with pytest.raises(BadSetting) as refused:
        read_rules([{"tools": ["*"]}, {**tools, **table}], "`rules.toml`")
    text = f"{refused.value} {refused.value.hint}"
    for word in ("`rules.toml`", "rule 2", *words):
        assert word in text


@pytest.mark.parametrize("given", ["rules", 5, {"tools": ["*"]}, None])
def test_rules_are_a_list(given: Any) -> None:
    with pytest.raises(BadSetting, match="list of rules"):
        read_rules(given, "here")


@pytest.mark.parametrize("given", [5, "refund", ["refund"], None, object()])
def test_a_rule_is_a_table(given: Any) -> None:
    with pytest.raises(BadSetting, match="rule 1"):
        read_rules([given], "here")


def test_values_are_checked_as_tables_are() -> None:
    """Also rules and tests that a program made."""
    read = read_rules([{"tools": ["*"], "when": {"x": ArgumentTest(above=1)}}], "here")
    assert read_rules(read, "here") == read
    for wrong in (ApprovalRule(tools=()), ApprovalRule(tools="refund")):  # type: ignore[arg-type]
        with pytest.raises(BadSetting, match="tools"):
            read_rules([wrong], "here")


def test_those_decide_whom_tool_and_rule_both_name() -> None:
    own = ApprovalNeed("large", 60.0, ("ann", "bob"))
    ruled = ApprovalNeed("abroad", 30.0, ("bob", "carl"))
    assert both_needs(own, ruled) == ApprovalNeed("abroad; large", 30.0, ("bob",))
    assert both_needs(own, None) == own
