"""The heading of the pages of a session, its facts, and its next request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.engine.operations.sessions import row_of, session_states
from holdfast.engine.workspace.facts import read_facts
from holdfast.engine.workspace.request_preview import read_request
from holdfast.errors import CannotFit
from holdfast.surfaces.console.layout import show
from holdfast.surfaces.console.records import RecordNames
from holdfast.surfaces.formatting import money, one_line

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.models.totals import SessionTotals, Spent
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.engine.workspace.facts import LastCall, SessionFacts
    from holdfast.engine.workspace.request_preview import RequestFacts, RequestTerms
    from holdfast.ports import QueuedMessage, SessionStore
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

TABS: Final = (
    ("Talk", (("", "Conversation"), ("/branches", "Branches"))),
    (
        "Context",
        (
            ("/context", "Now"),
            ("/context/fate", "Fate"),
            ("/context/request", "Request"),
            ("/context/what-if", "What if"),
        ),
    ),
    ("Cost", (("/context/time", "Over time"), ("/inspect", "Where the tokens went"))),
    ("Memory", (("/compaction", "What was forgotten"), ("/evaluate", "What replies lacked"))),
    ("Runs", (("/turns", "Turns"), ("/context/changes", "Changes"))),
)
"""The pages of a session, by what people ask: an address after the session's own, and a name."""


def show_session(
    call: HttpCall, key: SessionKey, here: str, template: str, **values: Any
) -> HttpAnswer:
    """Return a page of a session, under its heading."""
    top = heading(call, key)
    state = "● running" if top.info.state == "running" else top.info.state
    title = f"{state} · {top.name} · {top.last.share:.0%}"
    return show(
        call,
        template,
        title,
        key=key,
        top=top,
        tabs=TABS,
        here=here,
        name_of=RecordNames(call, key),
        **values,
    )


class Heading(msgspec.Struct, frozen=True):
    """The lines above each page of a session."""

    name: str
    info: SessionRow
    last: LastCall
    totals: SessionTotals
    cost: str
    running: QueuedMessage | None


def heading(call: HttpCall, key: SessionKey) -> Heading:
    """Return the heading of a session."""
    found = facts_of(call, key)
    info = row_of(call.workspace, found.info, session_states(call.workspace))
    return Heading(
        name=one_line(info.label or info.title or str(key), 100),
        info=info,
        last=found.last,
        totals=found.totals,
        cost=cost_text(found.spent),
        running=running_message(call, key) if info.state == "running" else None,
    )


def facts_of(call: HttpCall, key: SessionKey) -> SessionFacts:
    """Return the facts of a session that the client may read."""
    return read_facts(call.store, key, call.workspace.context.turn_terms(key))


def cost_text(spent: Spent) -> str:
    """Return the cost of a session, and the number of calls without a known one."""
    if not spent.calls:
        return money(0)
    if spent.cost is None:
        return f"{spent.gaps:,} calls without a price"
    return money(spent.cost) + (f" + {spent.gaps:,} unpriced" if spent.gaps else "")


def running_message(call: HttpCall, key: SessionKey) -> QueuedMessage | None:
    """Return the message whose turn runs, with its holder; None where no turn runs."""
    running = call.store.queues.messages(
        "inbox", owner=call.owner, lane=str(key), states=("running",), limit=1
    )
    return running[0] if running else None


def try_request(store: SessionStore, key: SessionKey, terms: RequestTerms) -> RequestFacts | str:
    """Return the next request, or the sentence that says why there is none."""
    try:
        return read_request(store, key, terms)
    except CannotFit as error:
        return str(error)
