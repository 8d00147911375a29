"""The frame of every page: navigation, the heading of a session, problems, and small parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from holdfast.core.text.cut import cut
from holdfast.core.text.timestamps import iso_utc
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.console.html import Html, join, tag, text
from holdfast.surfaces.formatting import ago, one_line
from holdfast.surfaces.http.operations import body_of, operate
from holdfast.surfaces.http.problems import TITLES
from holdfast.surfaces.http.route import HttpAnswer, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.http.problems import Problem
    from holdfast.surfaces.http.route import Handler, HttpCall, Method

MEDIA_TYPE: Final = "text/html; charset=utf-8"
_NAV: Final = (
    ("/", "Sessions"),
    ("/inbox", "Inbox"),
    ("/memory", "Memory"),
    ("/health", "Health"),
)
_TABS: Final = (
    ("", "Conversation"),
    ("/context", "Context"),
    ("/context/fate", "Fate"),
    ("/context/what-if", "What if"),
    ("/context/time", "Over time"),
    ("/context/request", "Request"),
    ("/compaction", "Compaction"),
    ("/branches", "Branches"),
    ("/inspect", "Inspect"),
    ("/evaluate", "Evaluate"),
)
_KEYS: Final = (
    ("?", "these keys"),
    ("/", "search"),
    ("j k", "next, previous"),
    ("o", "open"),
    ("c", "context of this session"),
    ("g s", "sessions"),
)
_TEXT_BYTES: Final = 140_000
"""Of a long text on a page, so that it stays below 200 KB with its frame."""
_ESCAPED_MAX: Final = 5
"""Bytes of `&amp;`, for one."""
_HTMX: Final = '{"includeIndicatorStyles":false,"allowEval":false,"historyCacheSize":0}'


def page(title: str, *body: object, here: str = "", status: int = 200) -> HttpAnswer:
    """Return a whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="htmx-config", content=_HTMX),
        tag("title", f"{title} · Holdfast"),
        tag("link", rel="stylesheet", href="/static/console.css"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("script", src="/static/htmx.min.js", defer=True),
        tag("script", src="/static/console.js", defer=True),
    )
    links = [
        tag("a", label, href=path, aria_current="page" if path == here else None)
        for path, label in _NAV
    ]
    top = tag(
        "header",
        tag("a", "Skip to the content", href="#main", class_="skip"),
        tag("nav", tag("a", "Holdfast", href="/", class_="brand"), *links, aria_label="Console"),
        class_="top",
    )
    keys = tag(
        "dialog",
        tag("h2", "Keys", id="keys-title"),
        tag("dl", *(join(tag("dt", tag("kbd", key)), tag("dd", what)) for key, what in _KEYS)),
        tag("form", tag("button", "Close"), method="dialog"),
        id="keys",
        aria_labelledby="keys-title",
    )
    content = tag("main", *body, id="main")
    whole = tag("html", head, tag("body", top, content, keys), lang="en")
    return HttpAnswer(f"<!doctype html>\n{whole}".encode(), status, MEDIA_TYPE)


def fragment(*parts: object) -> HttpAnswer:
    """Return a part of a page, for one that is open."""
    return HttpAnswer(join(*parts).encode(), 200, MEDIA_TYPE)


def see_other(address: str, **headers: str) -> HttpAnswer:
    """Send the browser to another page after a form."""
    return HttpAnswer(b"", 303, MEDIA_TYPE, {"Location": address, **headers})


def problem_page(problem: Problem, address: str) -> HttpAnswer:
    """Show a problem; without a token, ask for one."""
    if problem.status == 401:
        return see_other(f"/login?{urlencode({'next': address})}")
    found = page(
        TITLES.get(problem.status, "Problem"),
        tag("h1", TITLES.get(problem.status, "Problem")),
        tag("p", problem.detail, class_="problem"),
        tag("p", problem.hint) if problem.hint else None,
        tag("p", tag("a", "All sessions", href="/")),
        status=problem.status,
    )
    return HttpAnswer(found.value, found.status, found.media_type, dict(problem.headers))


def page_route(
    method: Method, path: str, summary: str, run: Handler, answer: str = "text/html", **options: Any
) -> Route:
    """Return the route of a page; a form changes something, unless `options` say otherwise."""
    scope = {"scope": "read" if method == "GET" else "write"}
    given = scope | options
    return Route(method, path, summary, run, answer, problem_page=problem_page, **given)


def form_route(
    path: str,
    operation: type[Operation[Any]],
    names: tuple[str, ...],
    following: Callable[[HttpCall], str],
) -> Route:
    """Return the route of a form that carries out an operation, and then shows another page."""

    async def run(call: HttpCall) -> HttpAnswer:
        await operate(operation, call)
        return see_other(await run_in_thread(following, call))

    body = body_of(operation, names) if names else None
    return page_route("POST", path, operation.title, run, body=body, operation=operation)


def session_path(key: SessionKey, rest: str = "", **query: Any) -> str:
    """Return the address of a page of a session."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    path = f"/s/{quote(key.agent, safe='')}/{quote(key.session, safe='')}{rest}"
    return f"{path}?{urlencode(given)}" if given else path


def tabs(key: SessionKey, here: str) -> Html:
    """Return the pages of a session."""
    links = [
        tag(
            "a",
            label,
            href=session_path(key, rest),
            aria_current="page" if rest == here else None,
            data_key="c" if rest == "/context" else None,
        )
        for rest, label in _TABS
    ]
    return tag("nav", *links, class_="tabs", aria_label="Session")


def number(value: float) -> str:
    """Return a number with thin spaces between its thousands."""
    return f"{value:,.0f}".replace(",", "\u202f")


def tokens(value: float) -> str:
    """Return a number of tokens with its unit."""
    return f"{number(value)} tok"


def moment(ts: float) -> Html:
    """Return a time as how long ago it was, with the time itself beside it."""
    if ts <= 0:
        return tag("span", "never")
    return tag("time", ago(ts), datetime=iso_utc(ts), title=iso_utc(ts))


def gist(value: str, most: int = 160) -> str:
    """Return the beginning of a text on one line."""
    return one_line(value, most)


def long_text(value: str) -> Html:
    """Return a long text as it is, cut to what a page has room for."""
    shown = cut(value, _TEXT_BYTES, unit="bytes").text
    size = len(text(shown).encode())
    if size > _TEXT_BYTES:  # escaped text is longer
        shown = cut(value, _TEXT_BYTES * _TEXT_BYTES // size, unit="bytes").text
        if len(text(shown).encode()) > _TEXT_BYTES:
            shown = cut(value, _TEXT_BYTES // _ESCAPED_MAX, unit="bytes").text
    return tag("pre", shown, tabindex="0", class_="whole")


def table(heads: tuple[str, ...], rows: list[Html], caption: str) -> Html:
    """Return a table; a head that begins with `>` is of numbers."""
    cells = [
        tag("th", head.lstrip(">"), scope="col", class_="num" if head[:1] == ">" else None)
        for head in heads
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *cells)),
            tag("tbody", *rows),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def row(*cells: object, numbers: tuple[int, ...] = (), **attributes: Any) -> Html:
    """Return a row of a table; `numbers` are the columns of numbers."""
    made = [
        tag("td", cell, class_="num" if place in numbers else None)
        for place, cell in enumerate(cells)
    ]
    return tag("tr", *made, **attributes)


def facts(*pairs: tuple[str, object]) -> Html:
    """Return names and values in a line."""
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs),
        class_="facts",
    )
