"""Events of a session as one-line notices."""

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
    PictureScaled,
    Pruned,
    ScalingFailed,
    SecretFound,
    SessionReset,
    ToolFinished,
    TroubleNoticed,
    TurnWaiting,
    WindowLearned,
)
from holdfast.core.limits import REF_CHARS
from holdfast.core.text.cut import cut, ellipsis
from holdfast.surfaces.answers import Cell, StyledLine, line
from holdfast.surfaces.formatting import count, local_time, money, printable

if TYPE_CHECKING:
    from holdfast.core.models.messages import ToolCall

_GIST_CHARS: Final = 70
"""The beginning of a text, so that a notice stays on one line."""


def notice(event: Any, *, attempt: int = 1) -> StyledLine | None:
    """Return the notice of an event, if it has one; `attempt` counts the calls of this step."""
    match event:
        case ToolFinished():
            return _tool_notice(event)
        case OutputOffloaded():
            what = f"{event.bytes:,} bytes of {event.kind} stored outside the log"
            return _notice("offload", f"{what}: /output {event.sha256[:REF_CHARS]} reads them")
        case OffloadFailed():
            what = f"{event.bytes:,} bytes of `{event.tool}` could not be stored"
            return _notice("offload", f"{what}: {event.reason}", is_bad=True)
        case PictureScaled():
            what = f"scaled down from {event.bytes_before:,} to {event.bytes_after:,} bytes"
            return _notice(
                "picture", f"{what}: /output {event.original[:REF_CHARS]} has the original"
            )
        case ScalingFailed():
            what = f"a picture of {event.bytes:,} bytes is too large for the model, and is not sent"
            return _notice("picture", f"{what}: {event.reason}", is_bad=True)
        case SecretFound():
            return _secret_notice(event)
        case SessionReset():
            what = f"session {event.new} continues {event.old}, which is unchanged"
            return _notice("fresh", what)
        case MemoryRecalled():
            return _notice("memory", f"added {event.chars:,} characters from earlier sessions")
        case Pruned():
            return _prune_notice(event)
        case CompactionFinished(outcome="applied") if event.reason != "asked":
            return _compaction_notice(event)
        case CompactionFinished(outcome="skipped") if event.reason != "asked":
            return _notice("compact", f"skipped: {event.detail}")
        case FlushFinished(outcome="saved", notes=notes, trigger=trigger):
            when = "before the compaction" if trigger == "compaction" else "as the view fills up"
            saved = f"{count(len(notes), 'note')} saved {when}"
            return _notice("flush", f"{saved}: /memory shows them")
        case FlushFinished(outcome="failed", detail=detail):
            return _notice("flush", f"no notes were saved: {detail}", is_bad=True)
        case CallFailed(purpose="draft"):
            return None  # it comes while the user types, and costs nothing
        case CallFailed():
            return _failure_notice(event, attempt)
        case WindowLearned(tokens=tokens, before=before, source=source):
            return _notice("guard", f"the window is {tokens:,} tokens ({source}), not {before:,}")
        case TroubleNoticed(kind="cache-missed"):
            return None  # every cut misses the cache, and has a notice of its own
        case TroubleNoticed(kind="reasoning-dropped", reasoning=blocks) if not any(
            block.is_ours for block in blocks
        ):
            return None  # another model was chosen, and may not read what the last one thought
        case TroubleNoticed(kind=kind, detail=detail):
            return _notice("guard", f"{kind}: {detail}", is_bad=True)
        case TurnWaiting(holder=holder, since=since):
            what = f"another turn of this session is running: {holder}, since {local_time(since)}"
            return _notice("turn", f"{what}; waiting for it, Ctrl-C stops waiting")
        case Interrupted(calls=calls):
            what = f"{count(len(calls), 'tool call')} of an earlier run"
            return _notice("resume", f"{what} reported to the model as interrupted")
        case _:  # the other events only start or end something that a notice above describes
            return None


def gist(call: ToolCall) -> str:
    """Return the arguments of a call, shortened to one line."""
    values = list(call.arguments.values())
    text = values[0] if len(values) == 1 and isinstance(values[0], str) else ""
    text = text or ", ".join(f"{name}={value}" for name, value in call.arguments.items())
    words = " ".join(printable(text, " ").split())
    return cut(words, _GIST_CHARS, keep="head", marker=ellipsis).text


_KINDS: Final = {
    "transport": "Connection or server error",
    "tpm_limit": "Token rate limit",
    "payload_too_large": "Request body too large",
    "output_limit": "Requested reply too long",
    "policy": "Refused by the provider's policy",
}
_DOING: Final = {
    "wait": "",
    "lower-output": "asking for ",
    "drop-media": "sending it ",
    "drop-thinking": "sending it ",
    "drop-field": "sending it ",
    "leave-out": "sending it ",
    "end-turn": "",
}


def _tool_notice(event: ToolFinished) -> StyledLine:
    text = f"  [tool: {event.call.name}] {gist(event.call)}".rstrip()
    if event.is_error:
        return line(Cell(text, "dim"), Cell(" → failed", "bad"))
    return line(Cell(f"{text} → {event.chars:,} chars, {event.seconds:.1f} s", "dim"))


_SECRET_PLACES: Final = {
    "user": "your message",
    "assistant": "the reply",
    "tool_use": "a call of a tool",
    "tool_result": "the result of a tool",
}


def _secret_notice(event: SecretFound) -> StyledLine:
    where = _SECRET_PLACES.get(event.type, f"a record ({event.type})")
    what = f"{where} holds what looks like a credential ({event.kind})"
    if not event.is_stored:
        return _notice("secret", f"{what}: a handle is stored in its place, until this chat ends")
    return _notice(
        "secret",
        f"{what}, and it is stored as it is. To keep such values out: put it into a variable and "
        "name that in HOLDFAST_SECRETS, or chat with --found-secrets handle; "
        "`holdfast erase SESSION` deletes what is stored",
        is_bad=True,
    )


def _prune_notice(event: Pruned) -> StyledLine:
    what = [
        f"{count} {how}"
        for count, how in ((event.trimmed, "trimmed"), (event.cleared, "cleared"))
        if count
    ]
    sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
    return _notice("trim", f"old tool results: {', '.join(what)}; {sizes}")


def _compaction_notice(event: CompactionFinished) -> StyledLine:
    why = {
        "full": "the window is filling up",
        "cold": "the prompt cache is cold, so a compaction costs nothing extra",
    }
    how = "summary by the model" if event.method == "model" else "summary made by code"
    cost = f", {money(event.cost)}" if event.cost else ""
    sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
    reason = why.get(event.reason, "the provider refused the request")
    return _notice("compact", f"{reason}: {sizes}; {how}{cost}; /undo takes it back")


def _failure_notice(event: CallFailed, attempt: int) -> StyledLine | None:
    name = event.failure.kind.replace("_", " ").capitalize()
    kind = _KINDS.get(event.failure.kind, name)
    if event.purpose != "turn":
        return _notice("compact", f"Summary failed ({kind.lower()}); {event.detail}", is_bad=True)
    if event.next == "give-up":
        return None  # the error that follows has the details
    if event.next == "shrink":
        words = "Context overflow" if attempt <= 1 else "Still overflowing"
        return _notice("guard", f"{words}, shortening the request {event.detail}")
    return _notice("guard", f"{kind}, {_DOING[event.next]}{event.detail}")


def _notice(tag: str, words: str, *, is_bad: bool = False) -> StyledLine:
    return line(
        Cell(f"  [{tag}] ", "bad" if is_bad else "warn"), Cell(printable(words, " "), "dim")
    )
