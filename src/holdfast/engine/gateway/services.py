"""Services beside a gateway: channels that receive messages in its process, such as a bot."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

ServiceState = Literal["starting", "running", "standby", "failed", "stopped"]
"""`standby`: another process does the work over the same store, and this one takes over after it.
`failed`: it is tried again later."""


class ServiceStatus(msgspec.Struct, frozen=True):
    """The state of a service, for an operator."""

    name: str
    state: ServiceState
    detail: str = ""
    """The work it does, or the problem and the way out."""
    since: float = 0.0


class Service(Protocol):
    """Receives messages for a gateway, and sends its answers. The gateway starts and stops it."""

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""

    async def start(self) -> None:
        """Begin to receive. A service that cannot work says so in its status."""

    async def stop(self) -> None:
        """Receive nothing more. The turns of the gateway end after this."""

    async def close(self) -> None:
        """Send what the last turns answered, for a while, and end."""
