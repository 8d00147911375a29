"""What a server makes when somebody asks for it: made once, tried again, ended with the server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast.surfaces.cli.serve.serve import late_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.files_only("it has no store")


class Maker:
    """Makes an application, and keeps what happened to it."""

    def __init__(self, mistakes: int = 0, bad_starts: int = 0) -> None:
        self.mistakes = mistakes
        self.bad_starts = bad_starts
        self.happened: list[str] = []
        self._task: Any = None

    def make(self) -> Starlette:
        self.happened.append("made")
        if self.mistakes:
            self.mistakes -= 1
            raise RuntimeError("it cannot be made")

        async def answer(_request: Any) -> PlainTextResponse:
            return PlainTextResponse("hello")

        return Starlette(routes=[Route("/late", answer)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        if self.bad_starts:
            self.bad_starts -= 1
            raise RuntimeError("it cannot start")
        self._task = asyncio.current_task()
        yield
        assert asyncio.current_task() is self._task, "another task left what this one entered"
        self.happened.append("ended")


@asynccontextmanager
async def asking(maker: Maker) -> AsyncIterator[httpx2.AsyncClient]:
    app = late_app("/late", maker.make)
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            yield client


def test_many_requests_at_once_make_it_once() -> None:
    maker = Maker()

    async def scenario() -> None:
        async with asking(maker) as client:
            assert maker.happened == []
            assert (await client.get("/elsewhere")).status_code == 404
            assert maker.happened == [], "nobody asked for it"
            answers = await asyncio.gather(*(client.get("/late") for _ in range(5)))
            assert [answer.text for answer in answers] == ["hello"] * 5
            assert maker.happened == ["made"]

    asyncio.run(scenario())
    assert maker.happened == ["made", "ended"]


@pytest.mark.parametrize("maker", [Maker(mistakes=1), Maker(bad_starts=1)], ids=["make", "start"])
def test_what_failed_is_tried_again(maker: Maker) -> None:
    async def scenario() -> None:
        async with asking(maker) as client:
            with pytest.raises(RuntimeError, match="it cannot"):
                await client.get("/late")
            assert (await client.get("/late")).text == "hello"

    asyncio.run(scenario())
    assert maker.happened == ["made", "made", "ended"]


def test_a_client_that_goes_away_stops_nothing() -> None:
    """The request that makes it is cancelled at any moment; the next is answered by the same."""

    async def scenario() -> None:
        for ticks in range(6):
            maker = Maker()
            async with asking(maker) as client:
                first = asyncio.create_task(client.get("/late"))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                first.cancel()
                await asyncio.wait([first])
                assert (await client.get("/late")).text == "hello"
                assert maker.happened == ["made"]
            assert maker.happened == ["made", "ended"]

    asyncio.run(scenario())
