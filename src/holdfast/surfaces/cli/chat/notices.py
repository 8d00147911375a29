"""What a session tells about itself, in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.flow.events import (
    CallFailed,
    CompactionFinished,
    FlushFinished,
    Interrupted,
    MemoryRecalled,
    OffloadFailed,
    OutputOffloaded,
    Pruned,
    SessionReset,
    ToolFinished,
    TroubleNoticed,
    WindowLearned,
)
from holdfast.core.limits import REF_CHARS
from holdfast.core.text.cut import cut, ellipsis
from holdfast.surfaces.answers import Cell, Line, line
from holdfast.surfaces.slash_commands import money

if TYPE_CHECKING:
    from holdfast.core.models.messages import ToolCall

_GIST_CHARS: Final = 70


def notice(event: Any, *, attempt: int = 1) -> Line | None:
    """What to show of an event; `attempt` is the number of the call it is about."""
    match event:
        case ToolFinished():
            return _tool(event)
        case OutputOffloaded():
            what = f"{event.bytes:,} bytes of {event.kind} kept outside the log"
            return _tagged("offload", f"{what}: /output {event.sha256[:REF_CHARS]} reads them")
        case OffloadFailed():
            what = f"{event.bytes:,} bytes of `{event.tool}` could not be kept"
            return _tagged("offload", f"{what}: {event.reason}", is_bad=True)
        case SessionReset():
            what = f"session {event.new} goes on from {event.old}, which stays as it is"
            return _tagged("fresh", what)
        case MemoryRecalled():
            return _tagged("memory", f"{event.chars:,} characters of what is known about that")
        case Pruned():
            return _pruned(event)
        case CompactionFinished(outcome="applied") if event.reason != "asked":
            return _compacted(event)
        case CompactionFinished(outcome="skipped") if event.reason != "asked":
            return _tagged("compact", f"not done: {event.detail}")
        case FlushFinished(outcome="saved", notes=notes):
            many = f"{len(notes)} note{'s' * (len(notes) != 1)}"
            return _tagged("flush", f"{many} saved before the cut: /memory shows them")
        case FlushFinished(outcome="failed", detail=detail):
            return _tagged("flush", f"no notes were saved: {detail}", is_bad=True)
        case CallFailed():
            return _failed(event, attempt)
        case WindowLearned(tokens=tokens, before=before, source=source):
            return _tagged("guard", f"the window is {tokens:,} tokens ({source}), not {before:,}")
        case TroubleNoticed(kind=kind, detail=detail):
            return _tagged("guard", f"{kind}: {detail}", is_bad=True)
        case Interrupted(calls=calls):
            many = f"{len(calls)} tool call{'s' * (len(calls) != 1)}"
            return _tagged("resume", f"{many} of an earlier run told to the model as interrupted")
        case _:
            return None


def gist(call: ToolCall) -> str:
    """The arguments of a call, as short as they can be told."""
    values = list(call.arguments.values())
    text = values[0] if len(values) == 1 and isinstance(values[0], str) else ""
    text = text or ", ".join(f"{name}={value}" for name, value in call.arguments.items())
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return cut(words, _GIST_CHARS, keep="head", marker=ellipsis).text


_KINDS: Final = {
    "transport": "No connection, or the server failed",
    "tpm_limit": "Limit of tokens a minute",
    "payload_too_large": "Too many bytes",
    "output_limit": "Too long a reply asked for",
}
_DOING: Final = {
    "wait": "",
    "lower-output": "asking for ",
    "drop-media": "sending only ",
    "drop-thinking": "sending it ",
}


def _tool(event: ToolFinished) -> Line:
    said = f"  [tool: {event.call.name}] {gist(event.call)}".rstrip()
    if event.is_error:
        return line(Cell(said, "dim"), Cell(" → failed", "bad"))
    return line(Cell(f"{said} → {event.chars:,} chars, {event.seconds:.1f} s", "dim"))


def _pruned(event: Pruned) -> Line:
    what = [
        f"{count} {how}"
        for count, how in ((event.trimmed, "trimmed"), (event.cleared, "cleared"))
        if count
    ]
    sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
    return _tagged("trim", f"old tool results: {', '.join(what)}; {sizes}")


def _compacted(event: CompactionFinished) -> Line:
    why = {"full": "the window fills up", "cold": "the cache is cold, so cutting is free"}
    how = "summary by the model" if event.method == "model" else "summary made by code"
    cost = f", {money(event.cost)}" if event.cost else ""
    sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
    reason = why.get(event.reason, "the provider refused more")
    return _tagged("compact", f"{reason}: {sizes}; {how}{cost}; /undo takes it back")


def _failed(event: CallFailed, attempt: int) -> Line | None:
    name = event.failure.kind.replace("_", " ").capitalize()
    kind = _KINDS.get(event.failure.kind, name)
    if event.purpose != "turn":
        return _tagged("compact", f"Summary failed ({kind.lower()}); {event.detail}", is_bad=True)
    if event.next == "give-up":
        return None  # the error that follows says it all
    if event.next == "shrink":
        words = "Context overflow" if attempt <= 1 else "Still overflowing"
        return _tagged("guard", f"{words}, shortening the request {event.detail}")
    return _tagged("guard", f"{kind}, {_DOING[event.next]}{event.detail}")


def _tagged(tag: str, words: str, *, is_bad: bool = False) -> Line:
    plain = "".join(c if c.isprintable() else " " for c in words)
    return line(Cell(f"  [{tag}] ", "bad" if is_bad else "warn"), Cell(plain, "dim"))
