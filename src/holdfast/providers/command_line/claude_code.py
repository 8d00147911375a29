"""Claude Code, by `claude -p` (tried with 2.1.197)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

_GONE: Final = lazy_pattern(r"(?i)no conversation found|requires a valid session id")
_FULL: Final = lazy_pattern(r"(?i)^prompt is too long|context window|context limit")


def claude_arguments(plan: CallPlan) -> list[str]:
    """The options of one run; the prompt comes on the standard input."""
    options = ["-p", "--output-format", "stream-json", "--verbose"]
    if plan.streams:
        options.append("--include-partial-messages")
    if plan.system:
        options += ["--append-system-prompt", plan.system]
    if not plan.is_kept:
        return [*options, "--no-session-persistence"]
    return [*options, "--session-id" if plan.is_new else "--resume", plan.session]


class ClaudeReader(ProgramReader):
    """Reads `stream-json`."""

    def __init__(self) -> None:
        super().__init__()
        self._result: Json | None = None
        self._model = ""

    def take(self, line: bytes) -> Sequence[Delta]:
        event = read_event(line)
        self.session = text_at(event, "session_id") or self.session
        match event.get("type"):
            case "system":
                self._model = text_at(event, "model") or self._model
            case "stream_event":
                return self._read_delta(event)
            case "user":
                self.has_worked = True  # the result of a tool
            case "assistant":
                if event.get("parent_tool_use_id") is None:
                    said = _text_of(event.get("message"))
                    self.parts = [said] if said else self.parts
            case "result":
                self._result = event
        return ()

    def _read_delta(self, event: Json) -> Sequence[Delta]:
        if event.get("parent_tool_use_id") is not None:
            return ()  # a sub-agent's
        inner = event.get("event")
        for kind, name in (("text", "text_delta"), ("thinking", "thinking_delta")):
            if text_at(inner, "delta", "type") == name and (said := text_at(inner, "delta", kind)):
                return (Delta(kind, said),)  # type: ignore[arg-type]
        if text_at(inner, "content_block", "type") == "tool_use":
            return (Delta("call", text_at(inner, "content_block", "name")),)
        return ()

    def finish(self, code: int, errors: str) -> ProgramAnswer:
        result = self._result
        if result is None:
            if _GONE.search(errors):
                raise BackendGone("it no longer knows its session")
            raise report_exit("claude", code, errors, found="wrote no result")
        # An error may call itself `"subtype": "success"`, and have a result that explains it.
        if code or result.get("is_error"):
            raise self._refusal(result, errors)
        usage, cost = result.get("usage"), result.get("total_cost_usd")
        return ProgramAnswer(
            text=text_at(result, "result") or self.text,
            session=self.session,
            model=self._model,
            stop_reason=text_at(result, "stop_reason"),
            usage=usage if isinstance(usage, dict) else None,
            cost=cost if isinstance(cost, int | float) else None,
        )

    def _refusal(self, result: Json, errors: str) -> Exception:
        listed: Any = result.get("errors")
        words = [text_at(result, "result"), *(listed if isinstance(listed, list) else ()), errors]
        said = "\n".join(str(word) for word in words if word)
        if _GONE.search(said):
            return BackendGone("it no longer knows its session")
        is_full = text_at(result, "terminal_reason") == "prompt_too_long" or _FULL.search(said)
        if is_full:
            return WindowFull()
        status = result.get("api_error_status")
        return report_refusal(
            "claude",
            said,
            status=status if isinstance(status, int) else None,
            has_worked=self.has_worked,
        )


def _text_of(message: object) -> str:
    blocks = message.get("content") if isinstance(message, dict) else None
    texts = (text_at(block, "text") for block in (blocks if isinstance(blocks, list) else ()))
    return "\n".join(text for text in texts if text)
