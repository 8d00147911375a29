"""The OpenAPI document, made from the routes."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast import __version__
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.surfaces.http.problems import MEDIA_TYPE, TITLES, ProblemDetails
from holdfast.surfaces.http.route import JsonObject, Name, NoQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.surfaces.http.route import Route

_REF: Final = "#/components/schemas/{name}"
_EVERYWHERE: Final = (400, 401, 403, 404, 405, 413, 421, 429, 503)
_PATH_ITEM: Final = lazy_pattern(r"{(\w+)(:path)?}")
_NAME: Final[Json] = msgspec.json.schema(Name)
_PATH: Final[dict[str, Json]] = {
    "agent": _NAME,
    "session": _NAME,
    "message": {"type": "integer", "minimum": 1},
}


def document(routes: Sequence[Route]) -> Json:
    """Return the document for these routes, without pages."""
    routes = [route for route in routes if not route.is_page]
    types = [kind for route in routes for kind in _types_of(route)]
    schemas, components = msgspec.json.schema_components(
        [ProblemDetails, *types], ref_template=_REF
    )
    known = dict(zip([ProblemDetails, *types], schemas, strict=True))
    paths: Json = {}
    for route in routes:
        path = _PATH_ITEM.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, known, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Durable sessions and a bounded context for LLM agents.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _types_of(route: Route) -> list[Any]:
    kinds = [route.answer] if not isinstance(route.answer, str) else []
    return [*kinds, route.query, *([route.body] if route.body is not None else [])]


def _operation(route: Route, known: dict[Any, Json], components: Json) -> Json:
    found: Json = {
        "summary": route.summary,
        "operationId": _name(route),
        "tags": [route.tag],
        "description": f"{inspect.getdoc(route.run) or route.summary}\n\nScope: `{route.scope}`.",
        "parameters": [*_path_parameters(route), *_query_parameters(route, known, components)],
        "responses": _responses(route, known),
    }
    if route.is_open:
        found["security"] = []
    if route.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": known[route.body]}},
        }
    return found


def _name(route: Route) -> str:
    words = re.findall(r"[a-z]+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH.get(name, {"type": "string", "minLength": 1}),
        }
        for name, _path in _PATH_ITEM.findall(route.path)
    ]


def _query_parameters(route: Route, known: dict[Any, Json], components: Json) -> list[Json]:
    if route.query is NoQuery:
        return []
    name = known[route.query]["$ref"].rsplit("/", 1)[1]
    properties = components[name].get("properties", {})
    required = components[name].get("required", ())
    return [
        {
            "name": field,
            "in": "query",
            "required": field in required,
            "schema": {key: value for key, value in schema.items() if key != "description"},
            **({"description": schema["description"]} if "description" in schema else {}),
        }
        for field, schema in properties.items()
    ]


def _responses(route: Route, known: dict[Any, Json]) -> Json:
    problem = {MEDIA_TYPE: {"schema": known[ProblemDetails]}}
    numbers = sorted({*_EVERYWHERE, *route.problems, *([415, 422] if route.body else [])})
    good = {"description": route.summary, "content": _content(route, known)}
    statuses = [route.status, *([route.other_status] if route.other_status else [])]
    return {
        **{str(number): good for number in statuses},
        **{str(number): {"description": TITLES[number], "content": problem} for number in numbers},
    }


def _content(route: Route, known: dict[Any, Json]) -> Json:
    if isinstance(route.answer, str):
        return {route.answer: {"schema": {"type": "string"}}}
    if route.answer is JsonObject:
        return {"application/json": {"schema": {"type": "object"}}}
    return {"application/json": {"schema": known[route.answer]}}
