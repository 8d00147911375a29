"""Requests of recorded sessions, as an agent that made them would have sent them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from tests.shared_data import need_data
from tests.support.runs import is_whole, sample

from holdfast import importers
from holdfast.core.dialects.registry import render_body, target
from holdfast.core.log.records import Assistant, Compaction
from holdfast.core.models.messages import read_tools
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import cache_for
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target

ENDLESS = Window(10**9)
MODELS = {
    "anthropic": "claude-opus-4-5",
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-4o",
    "gemini": "gemini-2.5-pro",
}
_PLACE_MAX = 150
"""Records before a request of the ordinary run: a longer one takes a second to make and to cut."""


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request, and the reply that it got."""

    name: str
    dialect: str
    body: Json
    reply: Assistant

    @property
    def items(self) -> list[Any]:
        return items_of(self.body)


class RecordedSession(msgspec.Struct, frozen=True):
    """A session of the transcripts."""

    name: str
    records: list[Record]

    def places(self, share: float) -> list[int]:
        """The indexes of a share of the replies, of the early ones; `nightly`: of all."""
        found = [
            place
            for place, record in enumerate(self.records)
            if isinstance(record, Assistant) and place and (is_whole() or place <= _PLACE_MAX)
        ]
        return sample(found, share=share, name=lambda place: f"{self.name} {place}")

    def request(self, place: int, dialect: str) -> RecordedRequest | None:
        """The request that the reply at an index answers; None where there is nothing to send."""
        reply = self.records[place]
        assert isinstance(reply, Assistant)
        aimed = aim(dialect)
        asked = ProjectionRequest(self.records[:place], ENDLESS, aimed, pressure="hold")
        try:
            plan = project(asked, cache_for(aimed))
        except HoldfastError:
            return None
        name = f"{self.name}, {dialect}, before record {place}"
        return RecordedRequest(name, dialect, render_body(plan.prompt, aimed), reply)


def recorded_sessions(share: float) -> Iterator[RecordedSession]:
    """The sessions of a share of the files of each folder."""
    folder = need_data()
    files = sorted(path for path in folder.glob("*/**/*") if path.is_file())
    names = {path: str(path.relative_to(folder)) for path in files}
    kinds = {path: path.relative_to(folder).parts[:2] for path in files}
    chosen = sample(files, share=share, name=names.__getitem__, kind=kinds.__getitem__)
    for path in chosen:
        try:
            found = importers.read_transcript(path.read_bytes(), path.name)
        except HoldfastError:
            continue  # a side file: annotations, state, a summary
        sessions = [
            RecordedSession(
                f"{names[path]} {number}",
                # The source's own cuts are the source's; here the whole history is sent.
                [record for record in session.records if not isinstance(record, Compaction)],
            )
            for number, session in enumerate(found)
        ]
        yield from sample(sessions, share=share, name=lambda session: session.name)


def aim(dialect: str) -> Target:
    return target(dialect, provider=dialect.partition("-")[0], model=MODELS[dialect])


def items_of(body: Json) -> list[Any]:
    found = body.get("messages", body.get("input", body.get("contents")))
    assert isinstance(found, list)
    return found


def tokens_of(body: Json, dialect: str) -> int:
    """The size of a request, read back by the importers and not by the proxy."""
    found = importers.read_transcript(json.dumps(body).encode(), "body.json")[0]
    asked = ProjectionRequest(
        found.records,
        ENDLESS,
        aim(dialect),
        system=found.system,
        tools=read_tools(body.get("tools")),
        pressure="hold",
    )
    return project(asked, cache_for(aim(dialect))).tokens.total


def newest_bytes(items: list[Any]) -> int:
    """The size of everything since the model last said something."""
    size = 0
    for item in reversed(items):
        if item.get("role") in ("assistant", "model") or item.get("type") == "function_call":
            break
        size += len(json.dumps(item))
    return size


def question_bytes(items: list[Any]) -> int:
    """The size of the newest words of a user, and of the reply before the newest message."""
    sizes = {"assistant": 0, "user": 0}
    for item in reversed(items):
        content = item.get("content", item.get("parts"))
        blocks = content if isinstance(content, list) else [content]
        is_result = any(
            isinstance(b, dict) and (b.get("type") == "tool_result" or "functionResponse" in b)
            for b in blocks
        )
        is_reply = item.get("type") == "function_call" or item.get("role") == "model"
        role = "assistant" if is_reply else item.get("role")
        if not is_result and role in sizes and not sizes[role]:
            sizes[role] = len(json.dumps(item))
    return sum(sizes.values())
