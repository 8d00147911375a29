"""Leave fields out of a request body that its provider has refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

_MARK: Final = "cache_control"
_MARK_PATHS: Final = tuple(
    place + _MARK
    for place in (
        *("", "system.", "tools.", "messages.", "messages.content."),
        "messages.content.content.",
    )
)
"""The marks of a request; a tool's own arguments are not among them."""


def without_fields(body: Json, fields: Sequence[str]) -> Json:
    """Return a body without the fields at these paths.

    A path goes through every item of a list. A step that the body does not have is passed over:
    refusals name variants of a type there, and write names in their own style. A mark for the cache
    that is refused in one place is left out in all of them.
    """
    if any(field.endswith(_MARK) for field in fields):
        fields = [*(field for field in fields if not field.endswith(_MARK)), *_MARK_PATHS]
    for field in fields:
        first, *rest = field.split(".")
        name = _name_in(body, first)
        if name and not rest:
            body = {key: item for key, item in body.items() if key != name}
        elif name:
            body = {**body, name: _without(body[name], rest)}
    return body


def _without(value: Any, path: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_without(item, path) for item in value]
    if not isinstance(value, dict):
        return value
    name, rest = _name_in(value, path[0]), path[1:]
    if name and not rest:
        return {key: item for key, item in value.items() if key != name}
    if name:
        return {**value, name: _without(value[name], rest)}
    return _without(value, rest) if rest else value


def _name_in(body: Json, name: str) -> str:
    """Return the key that is meant: `generation_config` is `generationConfig`, too."""
    if name in body:
        return name
    wanted = name.replace("_", "").casefold()
    return next((key for key in body if key.replace("_", "").casefold() == wanted), "")
