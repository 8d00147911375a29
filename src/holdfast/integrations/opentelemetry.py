"""OpenTelemetry spans of a session, by the GenAI conventions.

    from holdfast.integrations.opentelemetry import trace

    stop = trace(session)

A turn is an `invoke_agent` span. Its children are a `chat` span for each call to a model, an
`execute_tool` span for each tool and a `compact` span for each compaction. Prunes, other
epochs, flushes, learned windows and silent failures are events of the turn. No span contains
message texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.flow.events import (
    BackgroundSummary,
    CallFailed,
    CallFinished,
    CallStarted,
    CompactionFinished,
    CompactionStarted,
    EpochBegun,
    FlushFinished,
    Interrupted,
    OffloadFailed,
    OutputOffloaded,
    PictureScaled,
    Pruned,
    ScalingFailed,
    SecretFound,
    ToolFinished,
    ToolStarted,
    TroubleNoticed,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WindowLearned,
)
from holdfast.engine.session.base import target_of
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span, Tracer

    from holdfast.core.flow.events import Event, Purpose
    from holdfast.engine.session.base import SessionBase

# The package still moves the names of the conventions around, so they are stated here.
_OPERATION = "gen_ai.operation.name"
_PROVIDER = "gen_ai.provider.name"
_MODEL = "gen_ai.request.model"
_CONVERSATION = "gen_ai.conversation.id"
_AGENT = "gen_ai.agent.name"
_INPUT = "gen_ai.usage.input_tokens"
_OUTPUT = "gen_ai.usage.output_tokens"
_CACHED = "gen_ai.usage.cache_read.input_tokens"
_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
_FINISH = "gen_ai.response.finish_reasons"
_TOOL = "gen_ai.tool.name"
_TOOL_CALL = "gen_ai.tool.call.id"
_ERROR = "error.type"


def trace(session: SessionBase, tracer: Tracer | None = None) -> Callable[[], None]:
    """Trace the events of a session from now on; call the returned function to stop."""
    try:
        from opentelemetry import trace as api
    except ImportError as error:
        raise BadSetting(
            "OpenTelemetry is not installed", hint="pip install 'holdfast[otel]'"
        ) from error
    return session.on(_Spans(session, tracer or api.get_tracer("holdfast")))


class _Spans:
    """The open spans of a session."""

    def __init__(self, session: SessionBase, tracer: Tracer) -> None:
        from opentelemetry import trace as api

        self._api = api
        self._tracer = tracer
        target = target_of(session)
        self._common = {
            _PROVIDER: target.provider or target.dialect.name,
            _MODEL: target.model,
            _CONVERSATION: str(session.key),
        }
        self._agent = session.key.agent
        self._turn: Span | None = None
        self._calls: dict[Purpose, Span] = {}
        self._compaction: Span | None = None
        self._tools: dict[str, Span] = {}
        self._keeps_prefix: bool | None = None
        """The next call of the turn begins with the request before it; None before the first."""

    def __call__(self, event: Event) -> None:
        is_cut = isinstance(event, CompactionFinished) and event.outcome == "applied"
        if is_cut or isinstance(event, EpochBegun | Pruned):
            self._keeps_prefix = False
        match event:
            case TurnStarted():
                self._end_turn()
                name = f"invoke_agent {self._agent}"
                self._turn = self._start(name, "invoke_agent", {_AGENT: self._agent})
            case CallStarted():
                sizes: dict[str, Any] = {
                    "holdfast.request.tokens": event.tokens,
                    "holdfast.window.tokens": event.window,
                    "holdfast.attempt": event.attempt,
                }
                if event.purpose == "turn":
                    sizes |= self._note_prefix()
                span = self._start(f"chat {self._common[_MODEL]}", "chat", sizes)
                self._calls[event.purpose] = span
            case CallFinished():
                self._finish_call(event)
            case CallFailed():
                self._fail_call(event)
            case ToolStarted():
                about = {_TOOL: event.call.name, _TOOL_CALL: event.call.id}
                name = f"execute_tool {event.call.name}"
                self._tools[event.call.id] = self._start(name, "execute_tool", about)
            case ToolFinished():
                self._finish_tool(event)
            case CompactionStarted():
                sizes = {"holdfast.reason": event.reason, "holdfast.tokens.before": event.tokens}
                self._compaction = self._start("compact", "compact", sizes)
            case CompactionFinished():
                self._finish_compaction(event)
            case TurnFinished():
                self._set(self._turn, {_FINISH: [event.reply.stop], "holdfast.steps": event.steps})
                self._end_turn()
            case TurnFailed():
                self._end_turn(event.reason)
            case TurnCancelled():
                self._end_turn("cancelled")
            case (
                OutputOffloaded()
                | OffloadFailed()
                | PictureScaled()
                | ScalingFailed()
                | SecretFound()
                | Pruned()
                | EpochBegun()
                | FlushFinished()
                | BackgroundSummary()
                | WindowLearned()
                | TroubleNoticed()
                | Interrupted()
            ):
                self._note(event)
            case _:  # the other events start or end nothing that has a span
                pass

    def _note_prefix(self) -> dict[str, bool]:
        """Return whether this call keeps the prefix of the last one, where there was one."""
        kept, self._keeps_prefix = self._keeps_prefix, True
        return {} if kept is None else {"holdfast.prefix.kept": kept}

    def _finish_call(self, event: CallFinished) -> None:
        span = self._calls.pop(event.purpose, None) or self._start("chat", "chat", {})
        usage = event.usage
        about: dict[str, Any] = {_FINISH: [event.stop], "holdfast.purpose": event.purpose}
        if usage is not None:
            about |= {_INPUT: usage.prompt, _CACHED: usage.cached_read}
            about[_WRITTEN] = usage.cached_write
            about |= {_OUTPUT: usage.output} if usage.output is not None else {}
        if event.cost is not None:
            about["holdfast.cost.usd"] = event.cost
        self._set(span, about)
        self._end(span)

    def _fail_call(self, event: CallFailed) -> None:
        span = self._calls.pop(event.purpose, None) or self._start("chat", "chat", {})
        self._set(span, {"holdfast.purpose": event.purpose, "holdfast.next": event.next})
        self._end(span, event.failure.kind)

    def _finish_tool(self, event: ToolFinished) -> None:
        span = self._tools.pop(event.call.id, None)
        if span is not None:
            span.set_attribute("holdfast.result.chars", event.chars)
            self._end(span, "tool" if event.is_error else "")

    def _finish_compaction(self, event: CompactionFinished) -> None:
        span, self._compaction = self._compaction, None
        if span is None:
            return
        self._set(
            span,
            {
                "holdfast.outcome": event.outcome,
                "holdfast.method": event.method or "",
                "holdfast.tokens.after": event.tokens_after,
            },
        )
        self._end(span)

    def _note(self, event: Event) -> None:
        if self._turn is not None:
            names = event.__struct_fields__
            plain = {name: getattr(event, name) for name in names if name not in ("notes",)}
            kept = {name: v for name, v in plain.items() if isinstance(v, str | int | float)}
            self._turn.add_event(type(event).__name__, kept)

    def _start(self, name: str, operation: str, about: dict[str, Any]) -> Span:
        context = self._api.set_span_in_context(self._turn) if self._turn is not None else None
        attributes = {_OPERATION: operation, **self._common, **about}
        return self._tracer.start_span(name, context=context, attributes=attributes)

    def _set(self, span: Span | None, about: dict[str, Any]) -> None:
        if span is not None:
            span.set_attributes(about)

    def _end(self, span: Span, error: str = "") -> None:
        if error:
            span.set_attribute(_ERROR, error)
            span.set_status(self._api.StatusCode.ERROR, error)
        span.end()

    def _end_turn(self, error: str = "") -> None:
        """End the turn and every span below it; a summary that is written ahead goes on."""
        draft = self._calls.pop("draft", None)
        left = [*self._calls.values(), self._compaction, *self._tools.values()]
        for span in left:
            if span is not None:
                self._end(span, "cancelled")
        self._compaction = None
        self._calls = {"draft": draft} if draft is not None else {}
        self._tools.clear()
        if self._turn is not None:
            self._end(self._turn, error)
        self._turn = None
