"""Rules of approvals from a TOML file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.core.approval_rules import read_rules
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.core.approval_rules import ApprovalRule


def approvals_from(given: Any) -> tuple[ApprovalRule, ...]:
    """Return rules from a TOML file, or from tables as such a file has them. Raises `BadSetting`
    where anything in it is wrong: no part of it is taken."""
    if not isinstance(given, str | os.PathLike):
        return read_rules(given, source_of(given))
    name = os.fspath(given)
    tables = _read_file(name)
    if list(tables) != ["approvals"]:
        other = min(tables.keys() - {"approvals"}, default=None)
        found = "no table `approvals`" if other is None else f"a key `{other}`"
        raise BadSetting(
            f"the rules `{name}` have {found}", hint="write rules as tables `[[approvals]]` alone"
        )
    return read_rules(tables["approvals"], source_of(given))


def source_of(given: Any) -> str:
    """Return how an error names the place of rules."""
    return f"`{os.fspath(given)}`" if isinstance(given, str | os.PathLike) else "`approvals`"


def _read_file(path: str) -> dict[str, Any]:
    # A session without a file needs none of these.
    import tomllib
    from pathlib import Path

    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadSetting(
            f"cannot read the rules `{path}`: {error.strerror}", hint="name a TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"`{path}` is not TOML: {error}", hint="correct the file") from error
