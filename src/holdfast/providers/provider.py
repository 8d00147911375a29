"""A provider's API as one value: everything that a folder under `providers/` supplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.providers.sdk import Sdk


def _no_variant(_model: str, _url: str | None) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire format and the package that speaks it. Limits and windows are in the catalog."""

    dialect: str
    name: str
    """As the log names the provider."""
    own_host: str = ""
    """The provider's own server, where others imitate its API; the log names those by host."""
    variant_for: Callable[[str, str | None], str] = _no_variant
    """The variant of the dialect for a model's name and the server's address, if one was given."""

    sdk: Sdk
