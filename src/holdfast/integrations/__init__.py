"""Adapters into other people's tools, one module each; none is loaded unless it is asked for."""

from __future__ import annotations

from holdfast.engine.adapters import Integration, integrations

__all__ = ["Integration", "list"]


def list() -> tuple[Integration, ...]:  # noqa: A001 - read as `holdfast.integrations.list()`
    """Return every adapter: its framework, what is installed here, and what was tested."""
    return integrations()
