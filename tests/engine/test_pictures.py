"""Pictures above a provider's limits are scaled down when they arrive, and never later."""

from __future__ import annotations

import base64
import builtins
import io
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from tests.engine.proxy.conversations import wire_reply
from tests.prompts import png

from holdfast.core.dialects.registry import target
from holdfast.core.flow.effects import ScaledPicture, ScalePicture
from holdfast.core.flow.events import PictureScaled, ScalingFailed
from holdfast.core.log.records import ToolResult, User
from holdfast.core.log.refs import refs_of
from holdfast.engine.pictures import scale_picture
from holdfast.engine.session.session import Session
from holdfast.providers.callables import from_callable
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def drawn(width: int, height: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.effect_noise((width, height), 80).convert(mode).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pictures_of_every_kind_become_small_enough(kind: str, mode: str) -> None:
    data = drawn(900, 300, kind, mode)
    made = scale_picture(ScalePicture(data, 400, 60_000, KINDS))
    assert isinstance(made, ScaledPicture)
    assert max(made.width, made.height) <= 400
    assert len(base64.b64encode(made.data)) <= 60_000
    with Image.open(io.BytesIO(made.data)) as again:
        again.load()
        assert f"image/{(again.format or '').lower()}" == made.media_type
        assert again.size == (made.width, made.height)


def test_a_turned_photograph_stands_upright_and_transparency_becomes_white() -> None:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6  # turned by a quarter
    Image.new("RGB", (60, 20)).save(out, "JPEG", exif=exif)
    made = scale_picture(ScalePicture(out.getvalue(), 30, 0, KINDS))
    assert isinstance(made, ScaledPicture)
    assert (made.width, made.height) == (10, 30)
    clear, out = Image.new("RGBA", (64, 64), (0, 0, 0, 0)), io.BytesIO()
    clear.save(out, "PNG")
    made = scale_picture(ScalePicture(out.getvalue(), 32, 0, ("image/jpeg",)))
    assert isinstance(made, ScaledPicture)
    with Image.open(io.BytesIO(made.data)) as again:
        assert again.getpixel((3, 3)) == (255, 255, 255)


def test_what_cannot_be_scaled_gives_a_reason() -> None:
    assert isinstance(scale_picture(ScalePicture(b"no picture", 10, 0, KINDS)), str)
    bomb = base64.b64decode(png(60_000, 60_000))
    assert isinstance(scale_picture(ScalePicture(bomb, 10, 0, KINDS)), str)


class Provider:
    """Answers every request, and keeps them."""

    def __init__(self, *replies: Json) -> None:
        self.requests: list[Json] = []
        self._replies = list(replies)

    def __call__(self, request: Json) -> Json:
        self.requests.append(request)
        return self._replies.pop(0) if self._replies else wire_reply("anthropic", "Fine.", "", "")


def session_of(
    store: MemoryStore, provider: Provider | None = None, **options: Any
) -> tuple[Session, Provider, list[Any]]:
    provider = provider or Provider()
    about = target("anthropic", provider="stub", model="stub-1")
    model = from_callable(provider, about, 200_000)
    session = Session.open("s", model=model, store=store, **options)
    events: list[Any] = []
    session.on(events.append, PictureScaled, ScalingFailed)
    return session, provider, events


def picture(data: bytes, media_type: str = "image/png") -> Json:
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def sent(request: Json) -> list[Json]:
    """The pictures of a request, also those in results."""
    blocks = [block for message in request["messages"] for block in message["content"]]
    inner = [
        piece for block in blocks if block["type"] == "tool_result" for piece in block["content"]
    ]
    return [block["source"] for block in (*blocks, *inner) if block["type"] == "image"]


def test_a_large_picture_is_scaled_before_any_request_has_it() -> None:
    """The original is stored, its ref is in the note beside the picture, and no later request
    changes what was sent: not even one with more than twenty pictures."""
    store = MemoryStore()
    session, model, events = session_of(store)
    large = drawn(2_600, 130)
    session.say([{"type": "text", "text": "What is it?"}, picture(large)])
    [event] = events
    assert isinstance(event, PictureScaled)
    assert max(event.width, event.height) == 2_000
    assert store.blobs.get(event.original) == large
    user = next(record for record in store.read(session.key) if isinstance(record, User))
    assert event.original in {ref.sha256 for ref in refs_of(user)}
    first = model.requests[0]
    assert event.original[:12] in str(first["messages"])
    with Image.open(io.BytesIO(base64.b64decode(sent(first)[0]["data"]))) as shown:
        assert shown.size == (2_000, 100)
    for number in range(22):
        session.say([{"type": "text", "text": f"And {number}?"}, picture(drawn(8, 8))])
    last = model.requests[-1]
    assert len(sent(last)) == 23
    assert sent(last)[0] == sent(first)[0]
    session.close()
    again, model, _events = session_of(store)
    again.say("Once more?")
    assert sent(model.requests[-1])[0] == sent(first)[0]
    again.close()


def test_a_picture_of_a_tool_and_one_of_another_kind_are_scaled_too() -> None:
    store = MemoryStore()

    def read(path: str) -> Any:
        """Look."""
        del path
        return [{"type": "text", "text": "Here."}, picture(drawn(100, 2_500))]

    asks = wire_reply("anthropic", "Looking.", "a", "c1")
    session, model, _events = session_of(store, Provider(asks), tools=[read])
    session.say("Look.")
    session.say([{"type": "text", "text": "And?"}, picture(drawn(30, 30, "BMP"), "image/bmp")])
    found = sent(model.requests[-1])
    assert [one["media_type"] for one in found] == ["image/png", "image/png"]
    result = next(record for record in store.read(session.key) if isinstance(record, ToolResult))
    assert len(refs_of(result)) >= 1
    session.close()


def test_without_the_library_a_note_is_sent_and_the_event_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turn is answered, the words are there, and the log has the picture."""
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    store = MemoryStore()
    session, model, events = session_of(store)
    session.say([{"type": "text", "text": "What is it?"}, picture(base64.b64decode(png(9_000, 9)))])
    [event] = events
    assert isinstance(event, ScalingFailed)
    assert "holdfast[images]" in event.reason
    assert not sent(model.requests[0])
    assert "What is it?" in str(model.requests[0]["messages"])
    assert "has it" in str(model.requests[0]["messages"])
    session.close()
