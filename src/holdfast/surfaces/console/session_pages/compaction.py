"""The page of compactions: before and after, why, and what was said before the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Prune,
    ToolResult,
    User,
    text_of,
    tool_calls,
)
from holdfast.engine.operations.context import CompactContext
from holdfast.engine.operations.sessions import UndoChange
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.console.layout import (
    form_route,
    page_route,
    see_other,
    session_path,
)
from holdfast.surfaces.console.plans import facts_of, show_session
from holdfast.surfaces.console.session_pages.reports import LOSSES_MAX, replay_session
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpQuery, JsonBody

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_CUTS: Final = 20
"""Cuts in the list."""
_RECORDS: Final = 2_000
"""Records that are looked at for them."""
_BEFORE: Final = 40
"""Records that are shown from before a cut."""
_SUMMARY_CHARS: Final = 20_000
"""Characters of a summary on the page; its record has the rest."""


class CutQuery(HttpQuery, frozen=True):
    """The compaction to show."""

    record: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Empty for the newest."""
    other: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Another compaction to compare it with."""


class CompactForm(JsonBody, frozen=True):
    """A compaction to make."""

    focus: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    record: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The compaction that is undone first, so that it is made again."""


def show_compaction(call: HttpCall) -> HttpAnswer:
    """The newest cuts, and one of them in full."""
    key, query = call.session(), call.query
    cuts = _newest_cuts(call, key)
    chosen = _choose(call, key, cuts, query.record)
    other = _choose(call, key, cuts, query.other) if query.other else None
    compared = None
    if isinstance(chosen, Compaction) and isinstance(other, Compaction):
        compared = _compare(call, chosen, other)
    return show_session(
        call,
        key,
        "/compaction",
        "compaction.html",
        cuts=cuts,
        chosen=chosen,
        compared=compared,
        before=_before(call, key, chosen) if isinstance(chosen, Compaction) else [],
        summary_chars=_SUMMARY_CHARS,
    )


def show_missed(call: HttpCall) -> HttpAnswer:
    """Replay the session: facts of a cut that later replies used and no longer had."""
    key, record = call.session(), call.query.record
    window = facts_of(call, key).last.context_window
    done = replay_session(call, key, "recorded", window)
    found = done.report.losses if done.report is not None else ()
    return show_session(
        call,
        key,
        "/compaction",
        "missed.html",
        problem=done.problem,
        losses=[loss for loss in found if loss.cut.record == record or not record],
        losses_max=LOSSES_MAX,
    )


def _compare(
    call: HttpCall, one: Compaction, other: Compaction
) -> list[tuple[str, Compaction, list[str], set[str]]]:
    """Two compactions, the older first: their lines, and those of the other."""
    cuts = sorted((one, other), key=lambda cut: (cut.ts, cut.id))
    texts = [call.workspace.mask(cut.summary)[:_SUMMARY_CHARS].splitlines() for cut in cuts]
    old, new = ([line.strip() for line in text if line.strip()] for text in texts)
    return [("Older", cuts[0], old, set(new)), ("Newer", cuts[1], new, set(old))]


def _newest_cuts(call: HttpCall, key: SessionKey) -> list[Compaction | Prune]:
    found: list[Compaction | Prune] = []
    for place, record in enumerate(call.store.back(key)):
        if isinstance(record, Compaction | Prune):
            found.append(record)
        if len(found) == _CUTS or place == _RECORDS:
            break
    return found


def _choose(
    call: HttpCall, key: SessionKey, cuts: list[Compaction | Prune], record: str
) -> Compaction | Prune | None:
    if not record:
        compactions = [cut for cut in cuts if isinstance(cut, Compaction)]
        return next(iter([*compactions, *cuts]), None)
    found = call.store.find(key, record)
    if not isinstance(found, Compaction | Prune):
        raise Problem(
            404, f"the record `{record}` is not a compaction", hint="the page lists the cuts"
        )
    return found


def _before(call: HttpCall, key: SessionKey, cut: Compaction) -> list[tuple[str, str, str, str]]:
    """The newest records that the cut covers, oldest first: kind, tool, words and id."""
    last = cut.covers[1] if cut.covers else None
    near = call.store.last(key, 4 * _BEFORE, before=cut.id)
    ids = [record.id for record in near]
    if last in ids:
        near = near[: ids.index(last) + 1]
    found = []
    for record in near:
        if isinstance(record, User | Assistant | ToolResult):
            name = (record.name or "") if isinstance(record, ToolResult) else ""
            calls = "".join(f" → {block.get('name')}" for block in tool_calls(record.content))
            words = f"{text_of(record.content)[:4_000]}{calls}"
            found.append((record.kind, name, words, record.id))
    return found[-_BEFORE:]


async def compact_now(call: HttpCall) -> HttpAnswer:
    """Compact with a focus, in place of another compaction where the form names one.

    What the old one replaced is in the view again if the new one then fails; the page says so.
    """
    form: CompactForm = call.body
    key = await run_in_thread(lambda: call.session(to_change=True))
    if form.record:
        undo = UndoChange(session_key=str(key), record=form.record)
        await run_in_thread(undo.call, call.workspace)
    asked = CompactContext(session_key=str(key), focus=form.focus)
    made = await asked.run(call.workspace, call.gateway)
    if made.outcome != "applied":
        undone = f"; the compaction `{form.record}` stays undone" if form.record else ""
        raise Problem(
            409,
            f"nothing was compacted: {made.detail or made.outcome}{undone}",
            hint="the page of the context shows what takes the room",
        )
    return see_other(session_path(key, "/compaction"))


_SESSION: Final = "/s/{agent}/{session}/compaction"
ROUTES: Final = (
    page_route("GET", _SESSION, "Compaction", show_compaction, query=CutQuery, action="context"),
    page_route(
        "GET", f"{_SESSION}/missed", "Missed", show_missed, query=CutQuery, action="context"
    ),
    page_route("POST", f"{_SESSION}/run", "Compact", compact_now, body=CompactForm),
    form_route(
        f"{_SESSION}/undo",
        UndoChange,
        ("record",),
        lambda call: session_path(call.session(), "/compaction"),
    ),
)
