"""The OpenAPI document, made from the routes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import msgspec.inspect

from holdfast import __version__
from holdfast.core.log.records import Record, Unknown
from holdfast.core.parameters import Name
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.operations.operation import describe
from holdfast.engine.operations.sessions import LoggedRecord
from holdfast.surfaces.http.problems import MEDIA_TYPE, TITLES, ProblemDetails
from holdfast.surfaces.http.route import JsonObject, NoQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.surfaces.http.route import Route

_REF: Final = "#/components/schemas/{name}"
_RESPONSE: Final = "#/components/responses/{number}"
_EVERYWHERE: Final = (400, 401, 403, 404, 405, 413, 421, 429, 503)
_PATH_ITEM: Final = lazy_pattern(r"{(\w+)(:path)?}")
_NAME: Final[Json] = msgspec.json.schema(Name)
_PATH_WORDS: Final = {
    "agent": "The agent of the session.",
    "session": "The id of the session.",
}
_PATH: Final[dict[str, Json]] = {
    "agent": _NAME,
    "session": _NAME,
}


def document(routes: Sequence[Route]) -> Json:
    """Return the document for these routes, without pages."""
    routes = [route for route in routes if not route.is_page]
    types = [kind for route in routes for kind in _types_of(route)]
    schemas, components = msgspec.json.schema_components(
        [ProblemDetails, *types], ref_template=_REF
    )
    for component in components.values():
        _without_prefixes(component)
    known = dict(zip([ProblemDetails, *types], schemas, strict=True))
    for kind in _structs_in([ProblemDetails, *types]):
        _describe(components[kind.__name__].get("properties", {}), kind)
    for kind in _structs_in([each for route in routes for each in _answers_of(route)]):
        _require_all(components[kind.__name__], kind)
    if LoggedRecord.__name__ in components:
        _type_records(components)
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
            "responses": {str(number): _problem(number, known) for number in TITLES},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _require_all(schema: Json, kind: type) -> None:
    """Say that an answer has all its fields, but those that may be unset."""
    if kind.__struct_config__.omit_defaults:  # type: ignore[attr-defined]
        return
    fields = msgspec.structs.fields(kind)
    unset = {field.encode_name for field in fields if field.default is msgspec.UNSET}
    schema["required"] = [name for name in schema.get("properties", ()) if name not in unset]


def _type_records(components: Json) -> None:
    """Say which fields a record of each type has, beside those that other writers gave it."""
    template = _REF.format(name="{name}Record")
    kinds = [kind for kind in get_args(Record) if kind is not Unknown]
    refs, found = msgspec.json.schema_components(kinds, ref_template=template)
    for kind in _structs_in(kinds):
        schema = found[kind.__name__]
        _describe(schema["properties"], kind)
        del schema["properties"]["$extra"]
        schema["additionalProperties"] = True
        schema["required"] += ["id"] if "id" in schema["properties"] else []
        components[f"{kind.__name__}Record"] = schema
    other = f"Other{LoggedRecord.__name__}"
    components[other] = {**components[LoggedRecord.__name__], "title": other}
    components[LoggedRecord.__name__] = {
        "title": LoggedRecord.__name__,
        "description": inspect.getdoc(LoggedRecord),
        "anyOf": [*refs, {"$ref": _REF.format(name=other)}],
    }


def _without_prefixes(schema: Any) -> None:
    """Describe a pair as a list of two: tools that read documents stumble over `prefixItems`."""
    if isinstance(schema, list):
        for each in schema:
            _without_prefixes(each)
    if isinstance(schema, dict):
        if "prefixItems" in schema:
            schema["items"] = schema.pop("prefixItems")[0]
        for each in schema.values():
            _without_prefixes(each)


def _structs_in(types: Sequence[Any]) -> list[type]:
    """Return the structs among types, and those that their fields hold."""
    found: dict[type, None] = {}

    def look(kind: msgspec.inspect.Type) -> None:
        match kind:
            case msgspec.inspect.StructType(cls=cls) if cls not in found:
                found[cls] = None
                for field in kind.fields:
                    look(field.type)
            case (
                msgspec.inspect.ListType(item_type=item)
                | msgspec.inspect.VarTupleType(item_type=item)
            ):
                look(item)
            case msgspec.inspect.UnionType(types=several):
                for each in several:
                    look(each)
            case _:  # it holds no struct of ours
                pass

    for kind in msgspec.inspect.multi_type_info(types):
        look(kind)
    return [*found]


def _describe(properties: Json, kind: type) -> None:
    """Add to each property the words that stand below its field."""
    words: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        words |= _words_in(owner.__module__).get(owner.__name__, {})
    tag = kind.__struct_config__.tag_field  # type: ignore[attr-defined]
    if tag in properties:
        properties[tag].setdefault("description", "The name of this kind.")
    for field in msgspec.structs.fields(kind):
        if field.name in words and "$ref" not in properties[field.encode_name]:
            properties[field.encode_name].setdefault("description", words[field.name])


@cache
def _words_in(module: str) -> dict[str, dict[str, str]]:
    """Return the words below the fields of each class; none where the source is not installed."""
    found: dict[str, dict[str, str]] = {}
    if not module.startswith("holdfast."):
        return found
    try:
        body = ast.parse(inspect.getsource(sys.modules[module])).body
    except OSError:
        return found
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                field.target.id: " ".join(str(after.value.value).split())
                for field, after in pairwise(node.body)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            }
    return found


def _answers_of(route: Route) -> list[Any]:
    kinds = [route.answer] if not isinstance(route.answer, str) else []
    return [*kinds, *route.events.values()]


def _types_of(route: Route) -> list[Any]:
    return [
        *_answers_of(route),
        route.query,
        *([route.body] if route.body is not None else []),
    ]


def _operation(route: Route, known: dict[Any, Json], components: Json) -> Json:
    found: Json = {
        "summary": route.summary,
        "operationId": _name(route),
        "tags": [route.tag],
        "description": f"{_words(route)}\n\nScope: `{route.scope}`.",
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route, known, components),
            *_header_parameters(route),
        ],
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


def _words(route: Route) -> str:
    if route.operation is not None:
        return describe(route.operation)
    return inspect.getdoc(route.run) or route.summary


def _name(route: Route) -> str:
    words = re.findall(r"[a-z]+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: Route) -> list[Json]:
    own = _properties(route)
    found = []
    for name, _path in _PATH_ITEM.findall(route.path):
        shape = dict(own.get(name) or _PATH.get(name, {"type": "string", "minLength": 1}))
        words = shape.pop("description", "") or _PATH_WORDS.get(name, "")
        found.append(
            {"name": name, "in": "path", "required": True, "description": words, "schema": shape}
        )
    return found


def _header_parameters(route: Route) -> list[Json]:
    own = _properties(route)
    found = []
    for name in route.in_headers:
        shape = dict(
            own["".join(each.title() if at else each for at, each in enumerate(name.split("_")))]
        )
        words = shape.pop("description")
        title = name.replace("_", "-").title()
        found.append(
            {
                "name": title,
                "in": "header",
                "required": False,
                "description": words,
                "schema": shape,
            }
        )
    return found


def _properties(route: Route) -> Json:
    """Return the parameters of the operation that a route is made from."""
    if route.operation is None:
        return {}
    schema = msgspec.json.schema(route.operation)["$defs"][route.operation.__name__]
    found: Json = schema["properties"]
    return found


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
    numbers = sorted({*_EVERYWHERE, *route.problems, *([415, 422] if route.body else [])})
    good = {"description": route.summary, "content": _content(route, known)}
    statuses = [route.status, *([route.other_status] if route.other_status else [])]
    return {
        **{str(number): good for number in statuses},
        **{str(number): {"$ref": _RESPONSE.format(number=number)} for number in numbers},
    }


def _problem(number: int, known: dict[Any, Json]) -> Json:
    content = {MEDIA_TYPE: {"schema": known[ProblemDetails]}}
    return {"description": TITLES[number], "content": content}


def _content(route: Route, known: dict[Any, Json]) -> Json:
    if isinstance(route.answer, str):
        events = {name: known[kind] for name, kind in route.events.items()}
        named = {"x-events": events} if events else {}
        return {route.answer: {"schema": {"type": "string"}, **named}}
    if route.answer is JsonObject:
        return {"application/json": {"schema": {"type": "object"}}}
    return {"application/json": {"schema": known[route.answer]}}
