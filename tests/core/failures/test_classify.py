"""Failures get the right name, and only what is an overflow is called one."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.failures.failure_cases import (
    LEARNED_MISSES,
    LEARNED_OVERFLOWS,
    NEAR_MISSES,
    OVERFLOWS,
    PROBES,
    Case,
    Probe,
)
from tests.shared_data import need_data
from tests.support.cases import check_all

from holdfast.core.failures.classify import (
    Action,
    Failure,
    Kind,
    Rule,
    Symptoms,
    built_in_rules,
    classify,
    classify_finish,
    learned_window,
)
from holdfast.core.failures.normalise import plain, seconds_in, unwrap
from holdfast.core.failures.numbers import quantities

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_OVERFLOWS = (*OVERFLOWS, *LEARNED_OVERFLOWS)
ALL_MISSES = (*NEAR_MISSES, *LEARNED_MISSES)
CASES = (*ALL_OVERFLOWS, *ALL_MISSES)
SPEAKING = tuple(
    case
    for case in CASES
    if len(case.message) > 12
    and "<" not in case.message
    and case.status != 200
    and case.kind != "ambiguous"
)
"""Cases whose text alone gives them away."""


def symptoms(case: Case) -> Symptoms:
    return Symptoms(case.status, case.code, case.type, case.message)


def catalogue() -> list[dict[str, Any]]:
    path = need_data() / "provider_errors.json"
    if not path.is_file():
        pytest.skip(f"NO CATALOGUE: {path} is not there")
    entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return entries


def of_entry(entry: dict[str, Any], status: int | None = None) -> Symptoms:
    return Symptoms(status, str(entry["code"] or ""), entry["type"] or "", entry["message"])


def named(failure: Failure) -> tuple[str, str]:
    return failure.kind, failure.action


def test_errors_in_our_own_words_are_named() -> None:
    """Class, action and numbers of errors that no rule was copied from."""

    def check(case: Case) -> None:
        found = classify(symptoms(case))
        assert named(found) == (case.kind, case.action), found.rule
        if case.numbers is not None:
            assert (found.limit, found.input, found.output) == case.numbers

    check_all(CASES, check)


def test_errors_of_the_second_set_are_named() -> None:
    """The class of errors that were written after the rules."""

    def check(probe: Probe) -> None:
        found = classify(Symptoms(probe.status, probe.code, probe.type, probe.message))
        assert found.kind == probe.kind, found.rule

    check_all(PROBES, check)


def test_there_are_enough_near_misses() -> None:
    """The table is broad: many overflows, and more that merely look like them."""
    assert len(OVERFLOWS) >= 60
    assert len(NEAR_MISSES) >= 90
    assert len({case.message for case in CASES if case.message}) >= 150


def test_catalogue_is_named() -> None:
    """Every entry of the catalogue of real errors has its class and its action."""
    wrong = [
        (entry["message"], found.rule, named(found))
        for entry in catalogue()
        if named(found := classify(of_entry(entry, entry["status"])))
        != (entry["class"], entry["action"])
    ]
    assert wrong == []


@pytest.mark.parametrize("status", [None, 400, 401, 403, 413, 422, 429, 500, 502, 503])
def test_catalogue_is_named_by_its_texts(status: int | None) -> None:
    """A status that is missing or wrong changes no name: the texts of the catalogue decide."""
    wrong = [
        (entry["message"], found.rule, named(found))
        for entry in catalogue()
        if named(found := classify(of_entry(entry, status))) != (entry["class"], entry["action"])
    ]
    assert wrong == []


STATUSES = (None, 400, 401, 413, 422, 429, 500, 502, 503)


def test_overflow_is_one_whatever_the_status() -> None:
    """Gateways change the status; a busy server's status wins only over loose wordings."""

    def check(combination: tuple[Case, int | None]) -> None:
        case, status = combination
        found = classify(Symptoms(status, case.code, case.type, case.message))
        if found.rule in ("rate, by status", "busy, by status"):
            assert classify(Symptoms(400, case.code, case.type, case.message)).rule.startswith(
                "overflow, loosely"
            )
        else:
            assert found.kind == "context_overflow"

    check_all(product(ALL_OVERFLOWS, STATUSES), check)


def test_near_miss_is_never_an_overflow() -> None:
    """Nothing is compacted for a rate, a bill, a key, a cap or a page, whatever the status."""

    def check(combination: tuple[Case, int | None]) -> None:
        case, status = combination
        found = classify(Symptoms(status, case.code, case.type, case.message))
        assert not found.is_overflow, found.rule

    silent = {case for case in ALL_MISSES if case.kind == "ambiguous" or not case.message}
    asked = product(ALL_MISSES, STATUSES)
    check_all([each for each in asked if each[0] not in silent or each[1] != 413], check)


def test_too_large_without_a_word_is_an_overflow() -> None:
    """Servers that say nothing else say that of a full window."""
    for text in ("", "413 status code (no body)"):
        found = classify(Symptoms(413, message=text))
        assert (found.kind, found.subclass) == ("context_overflow", "no_body")


def test_bytes_are_no_window() -> None:
    failure = classify(Symptoms(400, message="too many total text bytes: 9999999 > 9437184"))
    assert failure.is_overflow
    assert learned_window(failure) is None


@given(st.integers(2_000, 10**6), st.integers(1, 10**6), st.booleans())
def test_too_much_is_more_than_the_limit(limit: int, more: int, is_swapped: bool) -> None:
    """Two numbers of an overflow are told apart by their values, not by their order."""
    low, high = limit, limit + more
    first, second = (high, low) if is_swapped else (low, high)
    for text in (
        f"the prompt is too long: {first} tokens and {second} tokens",
        f"your input has {first} tokens, the maximum context length is {second}: too long",
        f"context window exceeded: maximum {first}, the prompt has {second} tokens",
    ):
        found = classify(Symptoms(400, message=text))
        assert (found.limit, found.input) == (low, high), text


def with_new_numbers(text: str) -> str:
    """The same text about a window three times as large."""
    return re.sub(r"(?<![\w.\-\[])\d{4,}(?![\w.-])", lambda found: str(int(found[0]) * 3), text)


def with_groups(separator: str) -> Callable[[str], str]:
    def regroup(text: str) -> str:
        return re.sub(
            r"(?<![\w.\-\[/,_])\d{4,}(?![\w.,/_-])",
            lambda found: f"{int(found[0]):,}".replace(",", separator),
            text,
        )

    return regroup


REWRITES: dict[str, Callable[[str], str]] = {
    "upper case": str.upper,
    "lower case": str.lower,
    "other numbers": with_new_numbers,
    "1,000": with_groups(","),
    "1.000": with_groups("."),
    "1_000": with_groups("_"),
    "1 000": with_groups("\u202f"),
    "wrapped lines": lambda text: text.replace(". ", ".\n"),
    "litellm": lambda text: f"litellm.APIError: APIError: XException - {text}",
    "JSON": lambda text: json.dumps({"error": {"message": text}}),
    "JSON in text": lambda text: "call failed: " + json.dumps({"detail": [{"msg": text}]}),
    "JSON in JSON": lambda text: json.dumps({"error": json.dumps({"message": text})}),
    "metadata.raw": lambda text: json.dumps(
        {
            "error": {
                "message": "Provider returned error",
                "metadata": {"raw": json.dumps({"message": text})},
            }
        }
    ),
    "repr": lambda text: f"Error: { ({'error': {'message': text}})!r}",
    "an address": lambda text: f"{text} See https://example.com/tokens-per-minute/billing",
    "full width": lambda text: text.translate({ord(str(n)): chr(0xFF10 + n) for n in range(10)}),
}


@pytest.mark.parametrize("rewrite", REWRITES)
def test_wording_decides_not_spelling(rewrite: str) -> None:
    """Another case, other numbers, other grouping, other wrapping: the same name."""
    cases = [case for case in SPEAKING if not case.message.startswith("{")]
    if rewrite == "upper case":
        cases = [case for case in cases if "Error:" not in case.message]  # names of classes
    if rewrite == "an address":
        cases = [case for case in cases if case.kind != "channel_error"]  # it ends their texts
    wrong = []
    for case in cases:
        text = REWRITES[rewrite](case.message)
        found = classify(Symptoms(case.status, case.code, case.type, text))
        if named(found) != (case.kind, case.action):
            wrong.append((text, found.rule, named(found)))
    assert wrong == []


@pytest.mark.parametrize("separator", [",", ".", "_", "\u202f", "\u00a0", "'"])
def test_numbers_are_read_however_they_are_grouped(separator: str) -> None:
    """Limit and input do not depend on the way a provider groups its digits."""
    limit, sent = (f"{number:,}".replace(",", separator) for number in (131_072, 1_250_311))
    for text in (
        f"prompt is too long: {sent} tokens > {limit} maximum",
        f"This model's maximum context length is {limit} tokens. However, you sent {sent} tokens.",
        f"context of {limit} exceeded: input tokens = {sent}",
    ):
        found = classify(Symptoms(400, message=text))
        assert (found.limit, found.input) == (131_072, 1_250_311), text


@given(limit=st.integers(1_024, 2_000_000), more=st.integers(1, 1_000_000))
def test_numbers_are_told_apart_by_their_words(limit: int, more: int) -> None:
    """Which number is the limit does not depend on how large it is or where it stands."""
    sent = limit + more
    for text in (
        f"input of {sent} tokens exceeds the limit of {limit}",
        f"the limit is {limit} tokens, but the prompt has {sent}",
        f"maximum context length is {limit}, requested {sent}",
        f"{sent} input tokens > context window {limit}",
        f"上下文超出限制,最大 {limit},当前 {sent}",
    ):
        assert quantities(plain(text))[:2] == (limit, sent), text


@given(limit=st.integers(10_000, 2_000_000), output=st.integers(100, 9_000))
def test_sum_of_input_and_output_is_taken_apart(limit: int, output: int) -> None:
    """What was asked for in all is not mistaken for what was sent."""
    sent = limit - output + 10
    for text in (
        f"maximum context length is {limit} tokens. You requested {sent + output} tokens "
        f"({sent} in the messages, {output} in the completion)",
        f"input length and max_tokens exceed context limit: {sent} + {output} > {limit}",
        f"inputs tokens + max_new_tokens must be <= {limit}. Given: {sent} inputs tokens and "
        f"{output} max_new_tokens",
    ):
        found = classify(Symptoms(400, message=text))
        assert (found.limit, found.input, found.output) == (limit, sent, output)
        assert found.action == "lower_output_then_shrink_input"


QUOTED = "prompt is too long: 207791 tokens > 200000 maximum"


@pytest.mark.parametrize(
    "message",
    [
        json.dumps(
            {
                "detail": [
                    {
                        "loc": ["body"],
                        "msg": "Field required",
                        "input": {"messages": [{"role": "user", "content": QUOTED}]},
                    }
                ]
            }
        ),
        json.dumps(
            {"error": {"message": "bad role"}, "request": {"messages": [{"content": QUOTED}]}}
        ),
        json.dumps({"error": {"message": "bad role"}, "messages": [{"content": QUOTED}]}),
        f"[{{'type': 'missing', 'msg': 'Field required', 'input': {{'content': '{QUOTED}'}}}}]",
        "1 validation error for Request\nrole\n  Field required "
        f"[type=missing, input_value='{QUOTED}', input_type=str]",
    ],
)
def test_echo_of_the_request_is_not_looked_at(message: str) -> None:
    """A user who quotes an overflow, in a request that is refused for another reason."""
    found = classify(Symptoms(400, message=message))
    assert not found.is_overflow, found.rule
    assert found.kind == "invalid_request"


def test_unknown_is_no_overflow() -> None:
    """What no rule knows stops and is shown; with a status it is what the status says."""
    text = "the flux capacitor is misaligned"
    assert named(classify(Symptoms(message=text))) == ("ambiguous", "stop_and_tell_user")
    assert classify(Symptoms(400, message=text)).kind == "invalid_request"
    assert classify(Symptoms(500, message=text)).kind == "transport"
    assert named(classify(Symptoms())) == ("ambiguous", "stop_and_tell_user")


@given(st.text(max_size=300), st.text(max_size=20), st.none() | st.integers(100, 599))
def test_classify_takes_anything(message: str, code: str, status: int | None) -> None:
    """Whatever arrives gets one of the names, and the same one again."""
    found = classify(Symptoms(status, code, code, message))
    assert found.kind in get_args(Kind)
    assert found.action in get_args(Action)
    assert classify(Symptoms(status, code, code, message)) == found


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["error", "message", "code", "type", "x", "metadata"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_unwrap_takes_any_json(value: Any) -> None:
    """A body of any shape is read the same, parsed or as text."""
    parsed = unwrap(value)
    assert isinstance(parsed.text, str)
    if isinstance(value, dict) and value:
        assert unwrap(json.dumps(value)).marks == parsed.marks


@pytest.mark.parametrize("size", [20_000, 500_000])
def test_long_texts_are_bounded(size: int) -> None:
    """A page or a dump is read at both ends and no further."""
    found = classify(Symptoms(400, message="x" * size + " prompt is too long"))
    assert found.kind == "context_overflow"
    assert len(unwrap("word " * size).text) <= 4_000


def test_own_rules_come_first() -> None:
    """A user's rule decides before the built-in ones, and only where it holds."""
    ours = Rule("house proxy", "rate_limit", "wait_and_retry", text=r"house proxy", status=(400,))
    text = "house proxy: prompt is too long: 5000 tokens > 4096 maximum"
    assert classify(Symptoms(400, message=text)).kind == "context_overflow"
    assert classify(Symptoms(400, message=text), [ours]).rule == "house proxy"
    assert classify(Symptoms(500, message=text), [ours]).kind == "context_overflow"


@pytest.mark.parametrize(
    ("text", "learned"),
    [
        ("prompt is too long: 207791 tokens > 200000 maximum", 200_000),
        ("This model's maximum context length is 3 tokens. However, you requested 9000", None),
        ("maximum context length is 99000000 tokens, requested 99000001 tokens", None),
        ("max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens", None),
        ("tokens per minute (TPM): Limit 12000, Requested 14137", None),
        ("Prompt exceeds the context window", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("input length and max_tokens exceed context limit: 198981 + 21333 > 200000", 200_000),
    ],
)
def test_window_is_learned_only_from_overflows(text: str, learned: int | None) -> None:
    """Within reason, and never from a rate, an output cap or an error code."""
    assert learned_window(classify(Symptoms(400, message=text))) == learned


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("model_context_window_exceeded", "context_overflow"),
        ("length", "silent_overflow"),
        ("max_tokens", "silent_overflow"),
        ("MAX_TOKENS", "silent_overflow"),
        ("stop", None),
        ("end_turn", None),
        ("tool_calls", None),
        ("content_filter", None),
        ("", None),
    ],
)
def test_finish_reasons_of_empty_replies(reason: str, kind: str | None) -> None:
    """A reply that succeeded may still say that the window or its cap ended it."""
    found = classify_finish(reason)
    assert (found.kind if found else None) == kind


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360),
        ("4.77s", 4.77),
        ("20 minutes", 1_200),
        ("7", 7),
        ("150ms", 0.15),
        ("soon", None),
    ],
)
def test_spans_of_time_are_read(text: str, seconds: float | None) -> None:
    """The ways in which providers write how long to wait."""
    assert seconds_in(text) == (pytest.approx(seconds) if seconds is not None else None)


def test_status_that_came_is_read_not_the_one_hoped_for() -> None:
    """A client that says what it expected names two statuses."""
    assert unwrap("Expected status code 200 but got status code: 429").status == 429
    assert unwrap("HTTP status 200").status == 200


def test_what_a_parameter_is_called_is_not_what_is_said() -> None:
    """The name of a parameter is no text; a sentence in its place is."""
    assert unwrap({"message": "no", "param": "max_tokens"}).text == "no"
    assert "far too large" in unwrap({"message": "no", "param": "that is far too large"}).text


def test_wait_is_read_from_the_text() -> None:
    """Where no header says how long to wait, the text often does."""
    assert classify(Symptoms(429, message="Please try again in 4.77s.")).retry_after == 4.77
    assert classify(Symptoms(429, message="retry in 20s", retry_after=3.0)).retry_after == 3.0
    assert classify(Symptoms(429, message="slow down")).retry_after is None


def test_rules_are_named_once() -> None:
    """A name in a report leads to one rule."""
    names = [rule.name for rule in built_in_rules()]
    assert len(names) == len(set(names))


def test_waiting_and_shrinking_are_told_apart() -> None:
    """No failure both waits and counts as an overflow; a request above its rate does neither."""
    for case in CASES:
        found = classify(symptoms(case))
        assert not (found.can_wait and found.is_overflow), case
    over = classify(Symptoms(429, message="tokens per minute (TPM): Limit 12000, Requested 14137"))
    assert over.kind == "tpm_limit"
    assert not over.can_wait
