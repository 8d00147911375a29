"""Settings that are read again while a server runs: all of them or none, and no turn is lost."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.surfaces.http.servers import BASE, token_for

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.serve_settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FAST = "[gateway]\npoll_seconds = 0.05\ndrain_seconds = 0.2\n"


@asynccontextmanager
async def serving(store: MemoryStore, file: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Any]]:
    def read() -> Any:
        return load_settings(str(file), [])

    server = build_server(read(), store, "offline", read=read)
    app = server.app()
    async with app.inner.router.lifespan_context(app.inner):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client:
            yield client, server


def table(settings: Any) -> str:
    lines = [
        f"{name} = {json.dumps(getattr(settings, name))}"
        for name in ("name", "sha256", "owner", "scope")
    ]
    return "\n".join(["[[tokens]]", *lines, ""])


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_tokens_agents_and_limits_are_others_from_then_on(tmp_path: Path) -> None:
    """A token that was taken out is refused, one that was added is known, an agent has its new
    model and a body its new bound; the answer names the keys. One owner's token may not reload."""
    admin_token, admin = token_for("*")
    old_token, old = token_for("ann", "write")
    new_token, new = token_for("bob", "admin")
    file = tmp_path / "serve.toml"
    file.write_text(FAST + table(admin) + table(old) + "[agents.main]\nsystem = 'One.'\n")
    headers = {"authorization": f"Bearer {admin_token}"}

    def bearer(token: str) -> dict[str, str]:
        return {"authorization": f"Bearer {token}"}

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, file) as (client, server):
                await client.put("/v1/sessions/main/a", json={}, headers=headers)
                sent = {"content": "hello"}
                path = "/v1/sessions/main/a/messages?wait=60"
                await client.post(path, json=sent, headers=headers)
                file.write_text(
                    f"{FAST}[server]\nbody_bytes_max = 1000\n{table(admin)}{table(new)}"
                    "[agents.main]\nsystem = 'Two.'\n[agents.other]\n"
                )
                reloaded = await client.post("/v1/settings/reload", headers=headers)
                assert reloaded.json()["changed"] == [
                    "agents.main.system",
                    "agents.other",
                    "server.body_bytes_max",
                    "tokens",
                ]
                assert (
                    await client.get("/v1/sessions", headers=bearer(old_token))
                ).status_code == 401
                assert (
                    await client.get("/v1/sessions", headers=bearer(new_token))
                ).status_code == 200
                refused = await client.post("/v1/settings/reload", headers=bearer(new_token))
                assert refused.status_code == 403
                large = {"content": "x" * 2_000}
                assert (await client.post(path, json=large, headers=headers)).status_code == 413
                await client.post(path, json={"content": "again"}, headers=headers)
                request = await client.get(
                    "/v1/sessions/main/a/context?request=true", headers=headers
                )
                assert "Two." in json.dumps(request.json())
                models = (await client.get("/v1/models", headers=headers)).json()["data"]
                assert [one["id"] for one in models] == ["holdfast/main", "holdfast/other"]
                again = await client.post("/v1/settings/reload", headers=headers)
                assert again.json()["changed"] == []
                (status,) = [
                    s.status for s in server.gateway.services if s.status.name == "settings"
                ]
                assert (status.state, status.detail[:8]) == ("running", "reloaded")

    run(scenario)


WRONG = {
    "[server]\nport = 'x'\n": "$.server.port",
    "[agents.main]\nsystm = 'x'\n": "systm",
    "[agents.main]\npolicy = 'none such'\n": "none such",
    "[agents.main]\ntools = ['json:nothing']\n": "json:nothing",
    "[agents.main]\nmodel = 'no such model'\n": "no such model",
    "[[tokens]]\nname = 'a'\nsha256 = 'short'\n": "SHA-256",
    "[server\n": "is not TOML",
    "[server]\nport = 9000\n": "`server.port` cannot change while the server runs",
    "[gateway]\nturns_max = 2\n": "`gateway.",
    "[retention]\ndays = 3\n": "`retention` cannot change",
    "[server]\ncertificate = 'a'\n": "takes two files",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text.split("\n")[-2])
def test_a_wrong_reload_changes_nothing(tmp_path: Path, text: str) -> None:
    """It is refused as a whole, with the file or the key and the reason, although tokens in it are
    right: the old ones stay in force. The state of the server says so until a right one."""
    _token, added = token_for("bob")
    file = tmp_path / "serve.toml"
    file.write_text(FAST)

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, file) as (client, server):
                gateway = "" if text.startswith("[gateway]") else FAST
                file.write_text(f"{gateway}{text}{table(added)}")
                before = server.tokens.settings
                answer = await client.post("/v1/settings/reload")
                assert answer.status_code == 400
                found = answer.json()
                assert WRONG[text] in found["detail"]
                assert "the old ones stay in force" in found["hint"]
                assert server.tokens.settings == before
                assert (await client.get("/v1/sessions")).status_code == 200
                (service,) = [s for s in server.gateway.services if s.status.name == "settings"]
                assert service.status.state == "failed"
                file.write_text(FAST)
                assert (await client.post("/v1/settings/reload")).json()["changed"] == []
                assert service.status.state == "running"

    run(scenario)


def test_reloads_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    """Forty messages to four sessions while right and wrong settings are read again and again:
    each is in its log once and answered once, in order."""
    file = tmp_path / "serve.toml"
    file.write_text(FAST)
    number, sessions = 10, "abcd"

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, file) as (client, _server):
                for name in sessions:
                    await client.put(f"/v1/sessions/main/{name}", json={})

                async def send(name: str) -> None:
                    for place in range(number):
                        answer = await client.post(
                            f"/v1/sessions/main/{name}/messages?wait=60",
                            json={"content": f"{name}{place}"},
                            headers={"idempotency-key": f"{name}{place}"},
                        )
                        assert answer.json()["state"] == "answered"

                async def reload() -> int:
                    for place in range(1_000):
                        is_wrong = place % 3 == 2
                        file.write_text(
                            FAST + ("[server]\nport='x'" if is_wrong else f"[agents.n{place}]")
                        )
                        answer = await client.post("/v1/settings/reload")
                        assert answer.status_code == (400 if is_wrong else 200)
                        if all(task.done() for task in sending):
                            return place
                    raise AssertionError("the messages were not answered")

                sending = [asyncio.create_task(send(name)) for name in sessions]
                assert await reload() > 1
                await asyncio.gather(*sending)
            for name in sessions:
                records = list(store.read(SessionKey("main", name)))
                said = [str(one.content) for one in records if isinstance(one, User)]
                assert said == [f"{name}{place}" for place in range(number)]
                assert sum(isinstance(one, Assistant) for one in records) == number
            assert store.queues.counts("inbox", owner=ANY_OWNER) == {"answered": 40}

    run(scenario)


def test_budgets_are_others_from_then_on(tmp_path: Path) -> None:
    """A budget that is added holds at once, and one that is wrong changes nothing."""
    admin_token, admin = token_for("*")
    file = tmp_path / "serve.toml"
    file.write_text(FAST + table(admin))
    headers = {"authorization": f"Bearer {admin_token}"}
    limits = '[budgets.tokens."*"]\nday_requests = 0\nday_dollars = 1.0\n'

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, file) as (client, server):
                await client.put("/v1/sessions/main/a", json={}, headers=headers)
                path = "/v1/sessions/main/a/messages?wait=60"
                states = []
                for more in ("", limits, f"{limits}zone = 'Mars'\n", ""):
                    file.write_text(FAST + table(admin) + more)
                    answer = await client.post("/v1/settings/reload", headers=headers)
                    if "Mars" in more:
                        place = "budgets.tokens.*: Object contains unknown field `zone`"
                        assert place in answer.json()["detail"]
                    said = await client.post(path, json={"content": more or "hi"}, headers=headers)
                    states.append(said.status_code)
                assert states == [200, 429, 429, 200]
                assert server.gateway.meter.budgets is None

    run(scenario)
