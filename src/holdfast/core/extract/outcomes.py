"""Actions and their outcomes as lines: a change or a command, its result, and what fixed a failure.

`make test → failed: 2 failed; worked after Edit src/login.py` is one line. Commands that only look
at something are left out. The lines can be read back and continued by the records that follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.shell_commands import (
    command_in,
    exit_code,
    is_look,
    same_command,
    states_exit_code,
    without_filters,
    without_setup,
)
from holdfast.core.log.records import text_of
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.extract.digest import Digest
    from holdfast.core.extract.touched_files import Touch
    from holdfast.core.log.records import Json, ToolResult

_ATTEMPT_CHARS: Final = 120
_CHANGE_CHARS: Final = 200
_OUTCOME_CHARS: Final = 100
"""Enough to recognise a command and its outcome; the log has the rest."""
_ERROR_CHARS: Final = 200
_SCANNED_CHARS: Final = 4_000
"""The end of a result, which says how it ended."""
_LINES: Final = 40
_FIXES_MAX: Final = 3
_ARROW: Final = " → "
_FAILED: Final = "failed: "
_WORKED: Final = "; worked "
_TELLING: Final = lazy_pattern(r"[^\W\d_]{2}")
_SILENT: Final = lazy_pattern(r"(?i)\W*(?:no (?:output|content)|none|null|undefined)\W*")
_FAILURE: Final = lazy_pattern(r"(?:FAIL(?:ED|URE)?|ERROR)\b|\d+ (?:tests? )?failed\b")
"""The end of an output whose exit code a pipe has hidden."""
_CAUSE: Final = lazy_pattern(
    r"(?i)error|fail|exception|assert|cannot|denied|not found|undefined|invalid|missing|fatal"
)
_CAUSE_WORDS_MIN: Final = 3
"""`FAIL` alone does not say what failed."""


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """A call that changes files or runs a command."""

    call: str
    line: str
    is_command: bool = False


class ResultEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a result: its last line that tells something, and whether it states a failure."""

    line: str = ""
    is_failed_command: bool = False


class _Action(msgspec.Struct):
    line: str
    outcome: str = ""
    fixes: list[str] = []
    """The changes made since it failed."""

    @property
    def is_failed(self) -> bool:
        return self.outcome.startswith(_FAILED) and _WORKED not in self.outcome

    def tell(self) -> str:
        return f"{self.line}{_ARROW if self.outcome else ''}{self.outcome}"


def find_attempt(
    call_id: str, tool: str, arguments: Json, touches: Sequence[Touch]
) -> Attempt | None:
    """The attempt that a call is, with the files it names; None if it changes and runs nothing."""
    if command := command_in(tool, arguments):
        bare = without_filters(without_setup(command))
        return None if is_look(command) else Attempt(call_id, _line(bare, _ATTEMPT_CHARS), True)
    paths = " ".join(touch.path for touch in touches if touch.is_change)
    return Attempt(call_id, _line(f"{tool} {paths}", _CHANGE_CHARS)) if paths else None


def find_outcome(result: ToolResult) -> ResultEnd:
    """Return how a result ended: its last line that says something, of a failure the one that says
    what failed."""
    lines = text_of(result.content)[-_SCANNED_CHARS:].splitlines()[-_LINES:]
    telling = (line.strip() for line in reversed(lines) if _TELLING.search(line))
    telling = (line for line in telling if not states_exit_code(line))
    last = next(telling, "")
    if _SILENT.fullmatch(last):
        last = ""
    is_failed = bool(exit_code(result)) or _FAILURE.match(last) is not None
    if (is_failed or result.is_error) and not _is_cause(last):
        last = next(filter(_is_cause, telling), last)
    return ResultEnd(_line(last, _ERROR_CHARS), is_failed)


def _is_cause(line: str) -> bool:
    return len(line.split()) >= _CAUSE_WORDS_MIN and _CAUSE.search(line) is not None


def action_lines(digests: Sequence[Digest]) -> list[str]:
    """One line for each command and each change that failed, the newest last.

    A command that ran again stands where it ran last. Changes that worked are in the lists of
    files; here they are the fix of a failure.
    """
    actions: dict[str, _Action] = {}
    waiting: dict[str, Attempt] = {}
    for digest in digests:
        for line in digest.actions:
            attempted, _arrow, outcome = line.partition(_ARROW)
            actions[same_command(attempted)] = _Action(attempted, outcome)
        for attempt in digest.attempts:
            waiting[attempt.call] = attempt
        if waiting and digest.answers in waiting:
            _note(actions, waiting.pop(digest.answers), digest)
    return [action.tell() for action in actions.values()]


def _note(actions: dict[str, _Action], attempt: Attempt, digest: Digest) -> None:
    key = same_command(attempt.line)
    before = actions.pop(key, None)
    if digest.is_failed or (attempt.is_command and digest.outcome.is_failed_command):
        outcome = f"{_FAILED}{_line(digest.outcome.line, _OUTCOME_CHARS) or 'no reason given'}"
        actions[key] = _Action(attempt.line, outcome)
    elif not attempt.is_command:
        for other in actions.values():
            if other.is_failed and attempt.line not in other.fixes:
                other.fixes.append(attempt.line)
    elif before is not None and before.is_failed:
        fixes = ", ".join(before.fixes[-_FIXES_MAX:])
        outcome = f"{before.outcome}{_WORKED}{f'after {fixes}' if fixes else 'later'}"
        actions[key] = _Action(attempt.line, outcome)
    elif before is not None and _WORKED in before.outcome:
        actions[key] = before  # what fixed it says more than that it works still
    else:
        actions[key] = _Action(attempt.line, _line(digest.outcome.line, _OUTCOME_CHARS))


def _line(text: str, chars: int) -> str:
    """A text as one line without the arrow, which divides a line."""
    plain = " ".join(scrub(text).replace(_ARROW, " -> ").split())
    return cut(plain, chars, marker=ellipsis).text
