"""What the rule tables of the dialects' tests are made of."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.dialects.registry import target

if TYPE_CHECKING:
    from holdfast.core.models.dialects import Target

Json = dict[str, Any]


class Case(NamedTuple):
    """A request that breaks one rule, and the nearest one that keeps it."""

    rule: str
    broken: Any
    kept: Any
    where: str
    """The place that is named."""
    said: str = ""
    """What the quote has to hold, with its blanks filled."""
    to: Target | None = None

    @property
    def id(self) -> str:
        return f"{self.rule}@{self.where}"


def case_id(case: Case) -> str:
    return case.id


def to(name: str, **settings: Any) -> Target:
    return target(name, **settings)


def with_(request: Json, path: str, value: Any) -> Json:
    """A copy of a request with one place changed; a place that is not there is added."""
    changed = copy.deepcopy(request)
    *way, last = path.split(".")
    spot: Any = changed
    for name in way:
        spot = spot[int(name)] if isinstance(spot, list) else spot[name]
    if not isinstance(spot, list):
        spot[last] = value
    elif int(last) < len(spot):
        spot[int(last)] = value
    else:
        spot.append(value)
    return changed


def without(request: Json, path: str) -> Json:
    """A copy of a request with one place taken out."""
    changed = copy.deepcopy(request)
    *way, last = path.split(".")
    spot: Any = changed
    for name in way:
        spot = spot[int(name)] if isinstance(spot, list) else spot[name]
    del spot[int(last) if isinstance(spot, list) else last]
    return changed
