"""A loop over cases reports all that fails, and never passes for lack of cases."""

from __future__ import annotations

import pytest
from tests.support.cases import check_all


def is_even(number: int) -> None:
    if number == 5:
        raise ValueError("five")
    assert number % 2 == 0, f"{number} is odd"


def test_every_failing_case_is_named_with_its_message() -> None:
    """All failures are in one report: assertions, and errors by their type."""
    with pytest.raises(AssertionError) as caught:
        check_all([2, 3, 4, 5, 7], is_even, name=lambda number: f"case {number}")

    report = str(caught.value)
    assert report.startswith("3 of 5 cases failed")
    assert "- case 3: 3 is odd" in report
    assert "- case 5: ValueError: five" in report
    assert "- case 7: 7 is odd" in report
    assert "case 2" not in report


def test_traceback_of_the_first_failure_is_kept() -> None:
    """The report is raised from the first failure."""
    with pytest.raises(AssertionError) as caught:
        check_all([1, 3], is_even)

    assert str(caught.value.__cause__).startswith("1 is odd")


def test_expected_errors_that_do_not_come_are_failures() -> None:
    """`pytest.raises` fails with an exception of its own, which is reported like others."""

    def is_refused(number: int) -> None:
        with pytest.raises(ValueError, match="five"):
            is_even(number)

    check_all([5], is_refused)
    with pytest.raises(AssertionError, match="1 of 2 cases failed"):
        check_all([4, 5], is_refused)


def test_no_cases_are_a_failure() -> None:
    """A table that became empty does not pass."""
    with pytest.raises(AssertionError, match="no cases"):
        check_all([], is_even)


def test_interrupts_end_the_loop() -> None:
    """Ctrl-C is no failing case."""

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_all([1], interrupt)
