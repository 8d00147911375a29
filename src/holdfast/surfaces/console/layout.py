"""The frame, problems, forms and addresses of all pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.http.operations import body_of, operate
from holdfast.surfaces.http.problems import TITLES
from holdfast.surfaces.http.route import HttpAnswer, Route
from holdfast.surfaces.pages import render_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.http.problems import Problem
    from holdfast.surfaces.http.route import Handler, HttpCall, JsonBody, Method

MEDIA_TYPE: Final = "text/html; charset=utf-8"


def show(
    call: HttpCall | None, template: str, title: str, *, status: int = 200, **values: Any
) -> HttpAnswer:
    """Return a page from its template."""
    given = {
        "title": title,
        "here": "",
        "mask": call.workspace.mask if call is not None else str,
        "may_write": call is not None and call.client.may("write"),
        "path": session_path,
    }
    page = render_page(f"console/{template}", **given | values)
    return HttpAnswer(page.encode(), status, MEDIA_TYPE)


def see_other(address: str, **headers: str) -> HttpAnswer:
    """Send the browser to another page after a form."""
    return HttpAnswer(b"", 303, MEDIA_TYPE, {"Location": address, **headers})


def problem_page(problem: Problem, address: str) -> HttpAnswer:
    """Show a problem; without a token, ask for one."""
    if problem.status == 401:
        return see_other(f"/login?{urlencode({'next': address})}")
    title = TITLES.get(problem.status, "Problem")
    found = show(None, "problem.html", title, status=problem.status, problem=problem)
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

    return operation_route(path, operation, run, body_of(operation, names) if names else None)


def operation_route(
    path: str, operation: type[Operation[Any]], run: Handler, body: type[JsonBody] | None
) -> Route:
    """Return the route of a form of its own, which `run` carries out."""
    return page_route(
        "POST",
        path,
        operation.title,
        run,
        body=body,
        operation=operation,
        scope=operation.right,
        is_for_operator=operation.is_for_operator,
    )


def session_path(key: SessionKey, rest: str = "", **query: Any) -> str:
    """Return the address of a page of a session."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    path = f"/s/{quote(key.agent, safe='')}/{quote(key.session, safe='')}{rest}"
    return f"{path}?{urlencode(given)}" if given else path
