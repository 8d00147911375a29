"""Policies as people write them: thresholds in a TOML or JSON file, or in a JSON object."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.projection.policy import Policy
from holdfast.core.text.typed import convert_typed
from holdfast.errors import BadSetting, UsageError

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


def read_policy(path: str) -> Policy:
    """Return the policy of a TOML or JSON file. Raises `UsageError` or `BadSetting`."""
    try:
        text = Path(path).read_text("utf-8")
        given: Any = msgspec.json.decode(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read the policy `{path}`: {error.strerror}", hint="pass a file that is there"
        ) from error
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the policy `{path}` cannot be read: {error}",
            hint='write thresholds as TOML, or as JSON in a file that ends with ".json"',
        ) from error
    if not isinstance(given, dict):
        raise UsageError(f"the policy `{path}` is no table", hint="write `low_water = 0.3`")
    return policy_from(given)


def policy_from(given: Json) -> Policy:
    """Return a policy with some thresholds other than by default. Raises `BadSetting`."""
    unknown = sorted(set(given) - set(Policy.__struct_fields__))
    if unknown:
        raise BadSetting(
            f"a policy has no threshold `{unknown[0]}`",
            hint=f"thresholds: {', '.join(Policy.__struct_fields__)}",
        )
    try:
        return convert_typed(given, Policy)
    except msgspec.ValidationError as error:
        raise BadSetting(f"the policy cannot be used: {error}") from error
