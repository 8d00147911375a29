"""Check many cases in one test and report every failure, not only the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def check_all(
    cases: Iterable[T], check: Callable[[T], object], *, name: Callable[[T], str] = repr
) -> None:
    """Run `check` on every case; fail once, naming each case that failed and why.

    A table of cases costs one test instead of thousands, and a broken rule still shows all that
    it breaks. No cases at all is a failure: a loop over nothing proves nothing.
    """
    failures: list[tuple[str, BaseException]] = []
    count = 0
    for case in cases:
        count += 1
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            failures.append((name(case), error))
    assert count, "there are no cases to check"
    if failures:
        raise AssertionError(_report(failures, count)) from failures[0][1]


def _report(failures: list[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failures)} of {count} cases failed (the first one's traceback is above):"]
    for label, error in failures:
        message = str(error) or "no message"
        if not isinstance(error, AssertionError):
            message = f"{type(error).__name__}: {message}"
        lines.append(f"- {label}: {message}")
    return "\n".join(lines)
