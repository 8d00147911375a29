"""The console's page of access tokens."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    import httpx2

FORM = {"content-type": "application/x-www-form-urlencoded", "origin": BASE}


def test_an_operator_makes_and_revokes_tokens_and_nobody_else_sees_them() -> None:
    """The page shows a new token once; it opens the console until it is revoked there."""
    admin_token, admin = token_for("*")
    ann_token, ann = token_for("ann")
    headers = {"authorization": f"Bearer {admin_token}"}

    async def post(client: httpx2.AsyncClient, path: str, token: str, **form: str) -> str:
        sent = {**FORM, "authorization": f"Bearer {token}"}
        answer = await client.post(path, content=urlencode(form), headers=sent)
        return f"{answer.status_code} {answer.text}"

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, admin, ann) as client:
                form = {"name": "<i>phone</i>", "owner": "bob", "scope": "read", "days": ""}
                for path in ("/tokens", "/tokens/x/revoke"):
                    assert (await post(client, path, ann_token, **form)).startswith("403")
                shown = await client.get(
                    "/tokens", headers={"authorization": f"Bearer {ann_token}"}
                )
                assert shown.status_code == 403
                page = await post(client, "/tokens", admin_token, **form)
                (token,) = re.findall(r'id="token">([^<]+)<', page)
                assert "<i>" not in page
                again = (await client.get("/tokens", headers=headers)).text
                assert token not in again
                assert "phone" in again
                bobs = {"authorization": f"Bearer {token}"}
                assert (await client.get("/", headers=bobs)).status_code == 200
                bad = {**form, "name": "other", "days": "soon"}
                assert (await post(client, "/tokens", admin_token, **bad)).startswith("400")
                path = "/tokens/%3Ci%3Ephone%3C%2Fi%3E/revoke"
                assert (await post(client, "/tokens/nothing/revoke", admin_token)).startswith("400")
                assert (await post(client, path, admin_token)).startswith(("303", "404"))

    asyncio.run(asyncio.wait_for(scenario(), 60))
