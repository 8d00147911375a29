"""Policies as people write them: a name, or thresholds in a TOML or JSON file or a JSON object."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.projection.policy import POLICIES, Policy, policy_of
from holdfast.core.text.typed import convert_typed
from holdfast.errors import BadSetting, UsageError

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


def read_policy(path: str) -> Policy:
    """Return the policy of a TOML or JSON file, or by its name where there is no such file. Raises
    `UsageError` or `BadSetting`."""
    if path in POLICIES and not Path(path).exists():
        return POLICIES[path]
    try:
        text = Path(path).read_text("utf-8")
        given: Any = msgspec.json.decode(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read the policy `{path}`: {error.strerror}",
            hint=f"pass a file that is there, or a name: {', '.join(POLICIES)}",
        ) from error
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the policy `{path}` cannot be read: {error}",
            hint='write thresholds as TOML, or as JSON in a file that ends with ".json"',
        ) from error
    if not isinstance(given, dict):
        raise UsageError(f"the policy `{path}` is no table", hint="write `compact = 0.9`")
    return policy_from(given)


def policy_from(given: Json | str, base: Policy | None = None) -> Policy:
    """Return a policy by its name, or with some thresholds other than those of `base`; a `name`
    among them names another base. Raises `BadSetting`."""
    if isinstance(given, str):
        return policy_of(given)
    known = ("name", *Policy.__struct_fields__)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise BadSetting(
            f"a policy has no threshold `{unknown[0]}`", hint=f"thresholds: {', '.join(known)}"
        )
    changed = dict(given)
    base = policy_of(changed.pop("name")) if "name" in changed else base or Policy()
    try:
        return convert_typed({**msgspec.structs.asdict(base), **changed}, Policy)
    except msgspec.ValidationError as error:
        raise BadSetting(f"the policy cannot be used: {error}") from error
