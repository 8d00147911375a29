"""Google ADK: sessions and memory kept by Holdfast, and requests that fit.

    from google.adk.runners import Runner
    from holdfast.integrations.google_adk import HoldfastMemoryService, HoldfastSessionService

    sessions = HoldfastSessionService(root=".sessions")
    memory = HoldfastMemoryService(root=".sessions")
    runner = Runner(app=app, session_service=sessions, memory_service=memory)

`BoundedRequests` is a plugin of an `App` that keeps every request within the model's window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.google_adk.bounded_requests import PluginMethods as BoundedRequests
    from holdfast.integrations.google_adk.memory_service import (
        MemoryServiceMethods as HoldfastMemoryService,
    )
    from holdfast.integrations.google_adk.session_service import (
        SessionServiceMethods as HoldfastSessionService,
    )

__all__ = ["BoundedRequests", "HoldfastMemoryService", "HoldfastSessionService"]


def __getattr__(name: str) -> Any:
    """Make a class on first use: its base is a class of ADK."""
    if name == "HoldfastSessionService":
        from holdfast.integrations.google_adk.session_service import service_class

        return service_class()
    if name == "HoldfastMemoryService":
        from holdfast.integrations.google_adk.memory_service import memory_class

        return memory_class()
    if name == "BoundedRequests":
        from holdfast.integrations.google_adk.bounded_requests import plugin_class

        return plugin_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
