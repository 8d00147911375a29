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
from holdfast.surfaces.console import layout
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    form_route,
    moment,
    number,
    page_route,
    session_path,
    tokens,
)
from holdfast.surfaces.console.plans import heading
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpQuery, JsonBody

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
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
    title, top = heading(call, key, "/compaction")
    chosen = _choose(call, key, cuts, query.record)
    other = _choose(call, key, cuts, query.other) if query.other else None
    if isinstance(chosen, Compaction) and isinstance(other, Compaction):
        return layout.page(title, top, _compare(call, key, chosen, other))
    body: list[object] = [top, tag("h2", "What was cut last, and why")]
    if chosen is None:
        body.append(tag("p", "Nothing was cut yet."))
    elif isinstance(chosen, Compaction):
        body.append(_show_cut(call, key, chosen))
    else:
        body.append(_show_prune(call, key, chosen))
    if cuts:
        rows = [
            layout.row(
                tag("a", cut.id, href=session_path(key, "/compaction", record=cut.id)),
                cut.kind,
                moment(cut.ts),
                _sizes(cut),
                call.workspace.mask(cut.reason or ""),
                _compare_link(key, chosen, cut),
            )
            for cut in cuts
        ]
        heads = ("record", "kind", "when", "size", "why", "compare")
        body.append(layout.table(heads, rows, "Cuts, newest first"))
    if call.client.may("write"):
        body.append(_compact_form(key, None))
    return layout.page(title, *body)


def _compare_link(key: SessionKey, chosen: Record | None, cut: Compaction | Prune) -> Html | str:
    """The way to compare a compaction with the one that is shown."""
    if not isinstance(cut, Compaction) or not isinstance(chosen, Compaction) or cut is chosen:
        return ""
    if cut.id == chosen.id:
        return ""
    address = session_path(key, "/compaction", record=cut.id, other=chosen.id)
    return tag("a", "with the one above", href=address, aria_label=f"with the one above: {cut.id}")


def _compare(call: HttpCall, key: SessionKey, old: Compaction, new: Compaction) -> Html:
    """Two compactions: their sizes, and the lines that one has and the other has not."""
    if (old.ts, old.id) > (new.ts, new.id):
        old, new = new, old
    mask = call.workspace.mask
    texts = [mask(cut.summary)[:_SUMMARY_CHARS].splitlines() for cut in (old, new)]
    known = [{line.strip() for line in text} for text in texts]
    sides = []
    for title, cut, text, others, sign in (
        ("Older", old, texts[0], known[1], "-"),
        ("Newer", new, texts[1], known[0], "+"),
    ):
        lines = [
            tag(
                "li",
                f"{sign} ",
                tag("b", line),
                class_="change in" if sign == "+" else "change out",
            )
            if line.strip() not in others
            else tag("li", line, class_="same")
            for line in text
            if line.strip()
        ]
        sides.append(
            tag(
                "section",
                tag("h3", f"{title}: ", _cut_link(key, cut)),
                layout.facts(
                    ("when", moment(cut.ts)),
                    ("size", _sizes(cut)),
                    ("why", mask(cut.reason or "not said")),
                    ("lines of its own", number(sum(row.strip() not in others for row in text))),
                ),
                tag("ol", *lines, class_="lines"),
            )
        )
    return join(
        tag("h2", "Two compactions compared line by line"), tag("div", *sides, class_="sides")
    )


def _cut_link(key: SessionKey, cut: Compaction) -> Html:
    return tag("a", cut.id, href=session_path(key, "/compaction", record=cut.id))


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


def _sizes(cut: Compaction | Prune) -> str:
    if isinstance(cut, Prune):
        return f"{len(cut.decisions)} tool results"
    return f"{number(cut.tokens_before or 0)} → {tokens(cut.tokens_after or 0)}"


def _show_cut(call: HttpCall, key: SessionKey, cut: Compaction) -> Html:
    mask = call.workspace.mask
    before = _before(call, key, cut)
    return tag(
        "section",
        layout.facts(
            ("when", moment(cut.ts)),
            ("why", tag("b", mask(cut.reason or "not said"), id="why")),
            ("size", _sizes(cut)),
            ("made by", layout.gist(mask(cut.model or ""), 60) or cut.method or "not said"),
            ("cost", money(cut.cost) if cut.cost is not None else "not stated"),
            ("window", tokens(cut.window) if cut.window else "any"),
        ),
        tag(
            "div",
            tag(
                "section",
                tag("h3", "Before: what was said"),
                tag(
                    "p",
                    tag(
                        "a",
                        "The conversation before the cut",
                        href=session_path(key, before=cut.id),
                    ),
                ),
                tag("ol", *(_speech_row(call, key, record) for record in before), class_="said"),
            ),
            tag(
                "section",
                tag("h3", "After: what replaces it"),
                layout.long_text(mask(cut.summary)[:_SUMMARY_CHARS]),
            ),
            class_="sides",
        ),
        _undo_form(key, cut) if call.client.may("write") else None,
        _compact_form(key, cut) if call.client.may("write") else None,
    )


def _before(call: HttpCall, key: SessionKey, cut: Compaction) -> list[Record]:
    """The newest records that the cut covers, oldest first."""
    last = cut.covers[1] if cut.covers else None
    near = call.store.last(key, 4 * _BEFORE, before=cut.id)
    ids = [record.id for record in near]
    if last in ids:
        near = near[: ids.index(last) + 1]
    spoken = [record for record in near if isinstance(record, User | Assistant | ToolResult)]
    return list(spoken[-_BEFORE:])


def _speech_row(call: HttpCall, key: SessionKey, record: Record) -> Html:
    content = record.content if isinstance(record, User | Assistant | ToolResult) else None
    calls = "".join(f" → {block.get('name')}" for block in tool_calls(content))
    words = layout.gist(call.workspace.mask(f"{text_of(content)[:4_000]}{calls}"), 200)
    name = record.name if isinstance(record, ToolResult) else None
    return tag(
        "li",
        tag(
            "span",
            f"{record.kind} {layout.gist(call.workspace.mask(name or ''), 40)} ",
            class_="kind",
        ),
        tag("a", words or "(no text)", href=session_path(key, f"/records/{record.id}")),
    )


def _show_prune(call: HttpCall, key: SessionKey, cut: Prune) -> Html:
    rows = [
        layout.row(
            tag("a", each.record, href=session_path(key, f"/records/{each.record}")),
            each.action,
            f"{number(each.keep)} characters" if each.keep is not None else "",
        )
        for each in cut.decisions[:200]
    ]
    return tag(
        "section",
        layout.facts(
            ("when", moment(cut.ts)),
            ("why", tag("b", call.workspace.mask(cut.reason or "not said"), id="why")),
            ("window", tokens(cut.window) if cut.window else "any"),
        ),
        layout.table(("record", "action", "kept"), rows, "Tool results that were shortened"),
    )


def _undo_form(key: SessionKey, cut: Compaction) -> Html:
    return tag(
        "form",
        tag("input", type="hidden", name="record", value=cut.id),
        tag("button", "Undo this compaction", class_="quiet"),
        method="post",
        action=session_path(key, "/compaction/undo"),
    )


def _compact_form(key: SessionKey, cut: Compaction | None) -> Html:
    """Compact now, or undo a compaction and make it again with another focus."""
    again = cut is not None
    name = "focus-again" if again else "focus"
    return tag(
        "form",
        tag("input", type="hidden", name="record", value=cut.id) if cut is not None else None,
        tag("label", "Focus ", tag("input", name="focus", id=name, maxlength=2000, size=20)),
        tag("button", "Undo and compact again" if again else "Compact now", class_="quiet"),
        method="post",
        action=session_path(key, "/compaction/run"),
        class_="bar",
    )


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
    return layout.see_other(session_path(key, "/compaction"))


_SESSION: Final = "/s/{agent}/{session}/compaction"
ROUTES: Final = (
    page_route("GET", _SESSION, "Compaction", show_compaction, query=CutQuery, action="context"),
    page_route("POST", f"{_SESSION}/run", "Compact", compact_now, body=CompactForm),
    form_route(
        f"{_SESSION}/undo",
        UndoChange,
        ("record",),
        lambda call: session_path(call.session(), "/compaction"),
    ),
)
