"""Bytes on their way to the client, and the client's hanging up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.surfaces.http.guard import Receive, Send
    from holdfast.surfaces.proxy.upstream import UpstreamReply


async def run_while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run a coroutine, and cancel it when the client hangs up."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    finally:
        task.cancel()
        gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def pass_on(reply: UpstreamReply, receive: Receive | None, send: Send) -> None:
    """Pass a body on, chunk by chunk. A body that breaks off breaks off for the client, too."""
    if receive is None:
        await _pass_chunks(reply, send)
    else:
        await run_while_connected(_pass_chunks(reply, send), receive)


async def _pass_chunks(reply: UpstreamReply, send: Send) -> None:
    while (chunk := await reply.next_chunk()) is not None:
        await send_chunk(send, chunk)
    await send({"type": "http.response.body", "body": b""})


async def send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})
