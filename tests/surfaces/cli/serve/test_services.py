"""Retention as a service: applied when the gateway starts, and again; a failure is no end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.engine.gateway.gateways import make_gateway

from holdfast import SessionKey, User
from holdfast.core.owners import ANY_OWNER
from holdfast.core.retention import Retention
from holdfast.engine.retention import apply_retention
from holdfast.errors import StoreUnavailable
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.surfaces.cli.serve import services
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.cli.serve.services import RetentionService
from holdfast.surfaces.serve_settings import ServeSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

KEY = SessionKey("main", "old")


def test_it_is_applied_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a first look cannot do, a later one does."""
    monkeypatch.setattr(services, "PAUSE_SECONDS", 0.0)
    apply: Callable[..., Any] = apply_retention
    looks: list[str] = []

    with MemoryStore(clock=lambda: 1_000.0) as store:
        store.create(KEY)
        store.append(KEY, [User(content="long ago")], expect=ANY_HEAD)

        def failing_once(*args: Any, **more: Any) -> Any:
            looks.append(service.status.state)
            if len(looks) == 1:
                raise StoreUnavailable("no room", hint="make some")
            return apply(*args, **more)

        monkeypatch.setattr(services, "apply_retention", failing_once)

        async def run() -> None:
            await service.start()
            while len(looks) < 3:
                await asyncio.sleep(0)
            assert service.status.detail == "1 sessions moved to the trash"
            await service.stop()
            await service.close()

        service = RetentionService(make_gateway(store), Retention(days=30))
        asyncio.run(run())
        assert looks[:3] == ["running", "failed", "running"]
        assert service.status.state == "stopped"
        assert store.sessions(owner=ANY_OWNER) == []
        assert [trashed.key for trashed in store.trash()] == [KEY]


def test_a_server_keeps_every_session_unless_its_settings_say_otherwise() -> None:
    for rules, expected in ((None, []), (Retention(days=30), ["retention"])):
        with MemoryStore() as store:
            server = build_server(ServeSettings(retention=rules), store, "offline")
            names = [service.status.name for service in server.gateway.services]
            assert [name for name in names if name == "retention"] == expected
