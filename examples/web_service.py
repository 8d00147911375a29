"""A web service: every request opens its session, and a message is answered once.

Run: python examples/web_service.py
Serve it with any ASGI server: uvicorn --app-dir examples web_service:app

A session has one turn at a time, in all requests and worker processes; the others wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import AsyncSession, JsonlStore, User
from holdfast.errors import TurnInProgress

Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
store = JsonlStore(".sessions")


async def answer(session_id: str, text: str, key: str | None) -> tuple[int, str]:
    """Answer a message; returns an HTTP status and a text."""
    async with await AsyncSession.open(session_id, model="offline", store=store) as session:
        try:
            return 200, (await session.say(text, key=key, wait=30)).text
        except TurnInProgress as busy:
            return 409, str(busy)


async def app(scope: Event, receive: Receive, send: Send) -> None:
    """Answer `POST /SESSION`: the body is the message, `Idempotency-Key` its key."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    key = dict(scope["headers"]).get(b"idempotency-key", b"").decode() or None
    status, text = await answer(scope["path"].strip("/"), body.decode(), key)
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


async def post(path: str, text: str, key: str = "") -> str:
    """Call the service as a server would."""
    headers = [(b"idempotency-key", key.encode())] if key else []
    sent: list[Event] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": text.encode()}

    async def send(event: Event) -> None:
        sent.append(event)

    await app({"type": "http", "path": path, "headers": headers}, receive, send)
    return str(sent[-1]["body"], "utf-8")


async def main() -> None:
    await post("/support", "hello")
    messages = [post("/support", "How do I reset it?", "delivery-1") for _ in range(3)]
    replies = await asyncio.gather(*messages, post("/support", "Another question", "delivery-2"))
    asked = [rec for rec in store.read(next(iter(store.keys()))) if isinstance(rec, User)]
    print(len(replies), "requests,", len(set(replies)), "answers,", len(asked), "messages stored")


if __name__ == "__main__":
    asyncio.run(main())
    store.close()
