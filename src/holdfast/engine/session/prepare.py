"""From records to a request body: project, render, and validate it before the provider does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.prefix import WrittenMessages, copy_json
from holdfast.core.dialects.registry import find_dialect, render_body, validate_body
from holdfast.core.models.dialects import CallIds
from holdfast.core.models.messages import Image, Other, ToolAnswer, ToolCall
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.images import image_rule
from holdfast.errors import BadSetting, InvalidRequest
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import DialectVariant, Target
    from holdfast.core.models.messages import Message, Prompt
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.request import ProjectionRequest

_MARK_BYTES: Final = 64
"""More than a mark of the prompt cache takes on a message."""


class Prepared(msgspec.Struct, frozen=True):
    """A request that is ready to be sent."""

    request: Json
    """The body for the provider."""
    plan: Plan
    """The reasons for its shape."""
    call_ids: CallIds
    """Tool call ids as the log and as the provider know them."""


def cache_for(target: Target) -> ProjectionCache:
    """An empty cache that counts as the target's model does, as exactly as is possible here."""
    rule = image_rule(target.model, target.provider or target.dialect.name)
    return ProjectionCache(Scale(counter_for(target.model or None), rule))


def prepare_request(request: ProjectionRequest) -> Prepared:
    """Project records and render the request body for their target.

    Raises `CannotFit` where nothing fits, and `InvalidRequest` if the body breaks a rule of its
    provider: that would be our fault, and sending it would not help.
    """
    from holdfast.core.projection.project import project

    return render_plan(project(request, cache_for(request.target)))


def render_plan(plan: Plan, writer: RequestWriter | None = None) -> Prepared:
    """Render and validate the request body of a plan; `writer` wrote those before it."""
    request = (writer or RequestWriter()).write(plan.prompt, plan.target)
    return Prepared(request, plan, CallIds.of_prompt(plan.prompt, plan.target.dialect))


class RequestWriter:
    """Writes the requests of one conversation, and judges them as their provider would. Of one that
    begins with the request before it, only what is new is written and judged. Safe for threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._written = WrittenMessages()
        self._begin()

    def _begin(self) -> None:
        self._frame: tuple[Target, Json] | None = None
        """The newest valid request without its messages, and whom it is for."""
        self._valid: tuple[Message, ...] = ()
        """Its messages."""
        self._ids: set[str] = set()
        """The ids in them."""
        self._media = 0
        """The number of files in them."""
        self._bytes = 0
        """At least as many bytes as they have in the body."""

    def write(self, prompt: Prompt, target: Target) -> Json:
        """Return a request body that its provider will accept; raises where it would not."""
        with self._mutex:
            items = self._written.go_on(prompt, target)
            # The caller may change what it gets.
            request = render_body(prompt, target, copy_json(items))
            _raise_for(self._judge(request, prompt, target, items))
        return request

    def _judge(
        self, request: Json, prompt: Prompt, target: Target, items: Sequence[Sequence[Json]]
    ) -> Sequence[Violation]:
        """Return what the provider would refuse. In a request that goes on from a valid one, new
        messages are judged behind the first of all and the newest reply before them: what is
        between is whole, since each call is answered in the message after it."""
        field = find_dialect(target.dialect.name).body.items_field
        frame = target, {name: value for name, value in request.items() if name != field}
        if frame != self._frame or prompt.messages[: len(self._valid)] != self._valid:
            self._begin()
        known = len(self._valid)
        new = prompt.messages[known:]
        ids = [name for message in new for name in _ids_in(message)]
        media = self._media + sum(map(_count_media, new))
        size = self._bytes + sum(_bytes_in(item) for item in items[known:])
        is_apart = len(set(ids)) == len(ids) and self._ids.isdisjoint(ids)
        broken: Sequence[Violation] | None = None
        limits = target.dialect
        if known > 2 and is_apart and _is_within(request, limits, field, media, frame[1], size):
            start = len(request[field]) - sum(map(len, items[1:]))
            end = start + sum(map(len, items[1 : known - 2]))
            judged = [*request[field][:start], *request[field][end:]]
            broken = validate_body({**request, field: judged}, target)
        if broken is None or broken:
            broken = validate_body(request, target)
        if not broken:
            self._frame, self._valid = frame, prompt.messages
            self._media, self._bytes = media, size
            self._ids.update(ids)
        return broken


def _bytes_in(items: Sequence[Json]) -> int:
    """Return at least as many bytes as items have in a body, with marks of the cache on them."""
    written: int = len(msgspec.json.encode(items))
    return written + len(items) * _MARK_BYTES


def _is_within(
    request: Json, dialect: DialectVariant, field: str, media: int, frame: Json, size: int
) -> bool:
    """Return whether a request is within the limits for the whole of it. Its messages have at most
    `size` bytes: where that is few enough, they are not written out to count them."""
    files = [most for most in (dialect.images_max, dialect.many_images) if most]
    return (
        (not files or media <= min(files))
        and (not dialect.messages_max or len(request[field]) <= dialect.messages_max)
        and (
            not dialect.body_bytes
            or len(msgspec.json.encode(frame)) + size <= dialect.body_bytes
            or len(msgspec.json.encode(request)) <= dialect.body_bytes
        )
    )


def _ids_in(message: Message) -> Iterator[str]:
    """Yield what no two blocks of a request may have alike."""
    for block in message.blocks:
        if type(block) is ToolCall:
            yield block.id
        item = block.raw if type(block) is Other else getattr(block, "item", None) or {}
        yield from (str(item[name]) for name in ("id", "encrypted_content") if item.get(name))


def _count_media(message: Message) -> int:
    """Return the number of blocks and pieces that may be pictures or other files."""
    pieces = [
        piece
        for block in message.blocks
        for piece in (block.content if type(block) is ToolAnswer else (block,))
    ]
    return sum(isinstance(piece, Image | Other) for piece in pieces)


def _raise_for(broken: Sequence[Violation]) -> None:
    about_tools = [
        found for found in broken if found.rule.startswith("tool-name") or found.rule == "tools-max"
    ]
    if about_tools:
        raise BadSetting(
            f"the provider would refuse these tools; at {about_tools[0].where}: "
            f"{about_tools[0].quote}",
            hint="rename them, or pass fewer",
        )
    if broken:
        raise InvalidRequest(
            f"the request breaks {len(broken)} of the provider's rules; "
            f"at {broken[0].where}: {broken[0].quote}",
            hint="this is a bug in Holdfast; the log is unchanged, and `holdfast export` has it",
        )
