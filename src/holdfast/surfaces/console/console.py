"""All pages of the console, and the files that they load."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from holdfast.surfaces.console import health, memory, overview, sessions, tokens, waiting
from holdfast.surfaces.console.layout import page_route
from holdfast.surfaces.console.links import link_routes
from holdfast.surfaces.console.session_pages import (
    compaction,
    context,
    conversation,
    reports,
    request,
    timeline,
    turns,
    what_if,
)
from holdfast.surfaces.console.tokens import login_routes
from holdfast.surfaces.http.route import HttpAnswer, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.surfaces.http.route import HttpCall
    from holdfast.surfaces.http.server import HttpServer


_TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS: Final = {"Cache-Control": "max-age=300"}


def console_pages(server: HttpServer) -> tuple[Route, ...]:
    """Return the route of each page."""
    return (
        *sessions.ROUTES,
        *overview.ROUTES,
        *conversation.ROUTES,
        *context.ROUTES,
        *request.ROUTES,
        *what_if.ROUTES,
        *timeline.ROUTES,
        *turns.ROUTES,
        *compaction.ROUTES,
        *reports.ROUTES,
        *waiting.ROUTES,
        *tokens.ROUTES,
        *memory.ROUTES,
        *health.health_routes(server),
        *login_routes(server),
        *link_routes(server),
        *static_routes(),
    )


def _give(name: str) -> Callable[[HttpCall], HttpAnswer]:
    data = files(__package__).joinpath("static", name).read_bytes()

    def give(_call: HttpCall) -> HttpAnswer:
        return HttpAnswer(data, 200, _TYPES[name], _HEADERS)

    return give


def static_routes() -> tuple[Route, ...]:
    """Return a route for each file."""
    return tuple(
        page_route("GET", f"/static/{name}", name, _give(name), media_type, is_open=True)
        for name, media_type in _TYPES.items()
    )
