"""The request fields by which a host of OpenAI's APIs is asked to keep a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.models.generation import traits_of
from holdfast.core.models.pace import CacheOffer

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


def cache_fields(target: Target) -> Json:
    """Return the fields for a target's host and lifetime; none for a host that takes none.

    `auto` outside of a session is the lifetime that a session begins with.
    """
    traits = traits_of(target.provider, target.model)
    if not traits.takes_cache_key:
        return {}
    fields: Json = {"prompt_cache_key": target.cache_key} if target.cache_key else {}
    if target.cache == "none":
        # In this mode only marked prefixes are written, and none is marked.
        is_charged = traits.charges_writes
        return {**fields, "prompt_cache_options": {"mode": "explicit"}} if is_charged else fields
    start = CacheOffer(traits.lifetimes_to_send).start
    name = start.name if start is not None and target.cache == "auto" else target.cache
    asked = next((each for each in traits.lifetimes_to_send if each.name == name), None)
    match asked.request if asked is not None else "none":
        case "options":
            fields["prompt_cache_options"] = {"ttl": name}
        case "retention":
            fields["prompt_cache_retention"] = name
        case _:
            pass  # this host is not asked for that lifetime
    return fields
