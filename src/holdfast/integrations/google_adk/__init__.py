"""Google ADK: sessions and memory kept by Holdfast, and requests that fit.

    from google.adk.runners import Runner
    from holdfast.integrations.google_adk import HoldfastMemoryService, HoldfastSessionService

    sessions = HoldfastSessionService(root=".sessions")
    memory = HoldfastMemoryService(root=".sessions")
    runner = Runner(app=app, session_service=sessions, memory_service=memory)

`BoundedRequests` is a plugin of an `App` that keeps every request within the model's window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use

if TYPE_CHECKING:
    from holdfast.integrations.google_adk.bounded_requests import PluginMethods as BoundedRequests
    from holdfast.integrations.google_adk.memory_service import (
        MemoryServiceMethods as HoldfastMemoryService,
    )
    from holdfast.integrations.google_adk.session_service import (
        SessionServiceMethods as HoldfastSessionService,
    )

__all__ = ["BoundedRequests", "HoldfastMemoryService", "HoldfastSessionService"]


__getattr__ = classes_on_use(
    __name__,
    "google_adk",
    {
        "HoldfastSessionService": "google_adk.session_service:SessionServiceMethods",
        "HoldfastMemoryService": "google_adk.memory_service:MemoryServiceMethods",
        "BoundedRequests": "google_adk.bounded_requests:PluginMethods",
    },
)
