"""Look into JSON of unknown shape: a value of the wanted type, or an empty one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


def as_dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_dicts(value: object) -> list[Json]:
    """The objects in a list."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_blank(value: object) -> bool:
    return not isinstance(value, str) or not value.strip()
