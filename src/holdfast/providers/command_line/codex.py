"""Codex, by `codex exec` (tried with 0.166.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.replies import Delta
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.command_line.output import (
    BackendGone,
    CallPlan,
    ProgramAnswer,
    ProgramReader,
    WindowFull,
    read_event,
    report_exit,
    report_refusal,
    text_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

_GONE: Final = lazy_pattern(r"(?i)no rollout found|thread/resume failed")
_FULL: Final = lazy_pattern(r"(?i)context_length_exceeded|ran out of room|context window")
_WORDS: Final = frozenset({"agent_message", "reasoning", "todo_list", "error"})
"""Items that change nothing outside the thread."""


def codex_arguments(plan: CallPlan) -> list[str]:
    """The options of one run, which come before `resume`; the prompt is read from `-`."""
    options = ["exec", "--json", "--skip-git-repo-check"]
    if not plan.is_kept:
        return [*options, "--ephemeral"]
    return options


def codex_ending(plan: CallPlan) -> list[str]:
    return ["-"] if plan.is_new else ["resume", plan.session, "-"]


class CodexReader(ProgramReader):
    """Reads the lines of `codex exec --json`."""

    def __init__(self) -> None:
        super().__init__()
        self._completed: Json | None = None
        self._failed: Json | None = None

    def take(self, line: bytes) -> Sequence[Delta]:
        event = read_event(line)
        match event.get("type"):
            case "thread.started":
                self.session = text_at(event, "thread_id")
            case "item.started" | "item.completed":
                return self._read_item(event)
            case "turn.completed":
                self._completed = event
            case "turn.failed":
                self._failed = event
            # An `error` is also written for a try that later succeeds; the turn says how it ended.
        return ()

    def _read_item(self, event: Json) -> Sequence[Delta]:
        kind = text_at(event, "item", "type")
        if kind not in _WORDS:
            self.has_worked = True
            return (Delta("call", kind),) if event.get("type") == "item.started" else ()
        said = text_at(event, "item", "text")
        if kind == "agent_message" and event.get("type") == "item.completed" and said:
            gap = "\n\n" if self.parts else ""
            self.parts.append(gap + said)
            return (Delta("text", gap + said),)
        return ()

    def finish(self, code: int, errors: str) -> ProgramAnswer:
        if self._failed is not None or code:
            raise self._refusal(code, errors)
        if self._completed is None:
            raise report_exit("codex", code, errors, found="completed no turn")
        usage = self._completed.get("usage")
        return ProgramAnswer(
            text=self.text,
            session=self.session,
            usage=usage if isinstance(usage, dict) else None,  # summed over the whole thread
        )

    def _refusal(self, code: int, errors: str) -> Exception:
        said = text_at(self._failed, "error", "message")
        if not self.session and _GONE.search(errors):
            return BackendGone("it no longer knows its session")
        if _FULL.search(said):
            return WindowFull()
        if self._failed is None:
            return report_exit("codex", code, errors, found="completed no turn")
        return report_refusal("codex", said, status=None, has_worked=self.has_worked)
