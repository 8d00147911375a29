"""The next request of a session, and the facts that stand above each of its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.operations.sessions import row_of, session_states
from holdfast.engine.workspace.facts import read_facts
from holdfast.engine.workspace.request_preview import read_request
from holdfast.errors import CannotFit
from holdfast.surfaces.console.charts import small_bar
from holdfast.surfaces.console.html import join, tag
from holdfast.surfaces.console.layout import (
    facts,
    gist,
    moment,
    number,
    session_path,
    tabs,
    tokens,
)
from holdfast.surfaces.formatting import money

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.models.totals import Spent
    from holdfast.engine.workspace.facts import SessionFacts
    from holdfast.engine.workspace.request_preview import RequestFacts, RequestTerms
    from holdfast.ports import SessionStore
    from holdfast.surfaces.console.html import Html
    from holdfast.surfaces.http.route import HttpCall


def facts_of(call: HttpCall, key: SessionKey) -> SessionFacts:
    """Return the facts of a session that the client may read."""
    return read_facts(call.store, key, call.workspace.context.turn_terms(key))


def cost_text(spent: Spent) -> str:
    """Return the cost of a session, and the number of calls without a known one."""
    if not spent.calls:
        return money(0)
    if spent.cost is None:
        return f"{number(spent.gaps)} calls without a price"
    return money(spent.cost) + (f" + {number(spent.gaps)} unpriced" if spent.gaps else "")


def try_request(store: SessionStore, key: SessionKey, terms: RequestTerms) -> RequestFacts | str:
    """Return the next request, or the sentence that says why there is none."""
    try:
        return read_request(store, key, terms)
    except CannotFit as error:
        return str(error)


def running_text(call: HttpCall, key: SessionKey) -> Html | None:
    """Return who runs the turn of a session, and since when; None where no turn runs."""
    running = call.store.queues.messages(
        "inbox", owner=call.owner, lane=str(key), states=("running",), limit=1
    )
    if not running:
        return None
    holder = gist(running[0].holder, 60)
    return tag("span", "since ", moment(running[0].since or 0), " by ", holder, class_="dim")


def heading(call: HttpCall, key: SessionKey, here: str) -> tuple[str, Html]:
    """Return the title and the top of a page of a session."""
    found = facts_of(call, key)
    info = row_of(call.workspace, found.info, session_states(call.workspace))
    totals, last = found.totals, found.last
    name = gist(info.label or info.title or str(key), 100)
    used = f"{tokens(last.size)} of {tokens(last.context_window.tokens)}"
    title = f"{'● running' if info.state == 'running' else info.state} · {name} · {last.share:.0%}"
    cuts = f"{totals.compactions} + {totals.prunes} prunes"
    return title, join(
        tag("h1", name),
        facts(
            (
                "state",
                [
                    tag("span", info.state, class_=f"state {info.state}", id="state"),
                    running_text(call, key) if info.state == "running" else None,
                ],
            ),
            ("model", gist(call.workspace.mask(last.model), 60) or "none yet"),
            (
                "last call took",
                tag(
                    "a",
                    small_bar(last.share, used),
                    f" {last.share:.0%}, {used}",
                    href=session_path(key, "/context"),
                ),
            ),
            (
                "cost",
                tag("a", cost_text(found.spent), href=session_path(key, "/context/time")),
            ),
            ("compactions", tag("a", cuts, href=session_path(key, "/compaction"))),
            ("records", number(info.records)),
            ("last active", moment(info.last_active)),
            ("session", tag("code", str(key))),
        ),
        tabs(key, here),
    )
