"""The resources: `session://agent/id`, `output://ref` and `memory://path`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.text.cut import cut, scrub
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.context import ReadOutput
from holdfast.engine.operations.history import ReadMessages
from holdfast.engine.operations.memory import ReadPassage
from holdfast.engine.operations.sessions import listing_cursor, read_listing_cursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.history.answers import Result
    from holdfast.engine.operations.operation import Operation
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionInfo

URI_CHARS_MAX: Final = 2_000
_PAGE: Final = 100
"""Resources in one page of a list."""


class ResourceKind(msgspec.Struct, frozen=True):
    """A template of resources, and how one of them is read."""

    scheme: str
    template: str
    title: str
    description: str
    read: Callable[[str], Operation[Any]]

    @property
    def name(self) -> str:
        return self.scheme


class ListedResource(msgspec.Struct, frozen=True):
    """A resource in a list."""

    uri: str
    name: str
    description: str


def _output(name: str) -> ReadOutput:
    session, _, ref = name.rpartition("/")
    return ReadOutput(ref=ref, session_key=session)


KINDS: Final = (
    ResourceKind(
        "session",
        "session://{+key}",
        "A session",
        "The newest messages of a session, by `agent/id`, within a fixed size. The tool "
        "`sessions_history` reads earlier ones.",
        lambda key: ReadMessages(session_key=key),
    ),
    ResourceKind(
        "output",
        "output://{+ref}",
        "A tool output",
        "The beginning of an output that a preview refers to: its ref, or `agent/id/ref`. The tool "
        "`context` reads other parts.",
        _output,
    ),
    ResourceKind(
        "memory",
        "memory://{+path}",
        "A file of notes",
        "Notes of this agent, by path, such as `MEMORY.md` or `2026-11-16.md`.",
        lambda path: ReadPassage(citation=path),
    ),
)
"""Every kind of resource."""

_KINDS: Final = {kind.scheme: kind for kind in KINDS}


def read_resource(workspace: CallerWorkspace, uri: str) -> Result:
    """Return the answer to a read. Raises `RequestRefused`."""
    scheme, separator, rest = uri.partition("://")
    kind = _KINDS.get(scheme)
    name = scrub(unquote(rest))
    if not separator or kind is None or not name or len(uri) > URI_CHARS_MAX:
        known = ", ".join(kind.template for kind in KINDS)
        raise RequestRefused(
            "invalid", f"`{cut(uri, 80).text}` is not a resource of this server; it has {known}"
        )
    found: Result = kind.read(name).call(workspace)
    return found


def list_resources(
    workspace: CallerWorkspace, after: str | None
) -> tuple[list[ListedResource], str | None]:
    """A page of the sessions and notes that the caller may read, and the cursor of the next.

    Sessions come first; a cursor is the place of the last one, or the last file of notes. Raises
    `RequestRefused` for any other.
    """
    scheme = f"{_KINDS['memory'].scheme}://"
    notes = [
        ListedResource(f"{scheme}{quote(workspace.mask(file.path))}", file.path, "Notes")
        for file in workspace.notes().files()
    ]
    page: list[ListedResource] = []
    more = None
    if after is not None and after.startswith(scheme):
        uris = [item.uri for item in notes]
        if after not in uris:
            raise RequestRefused(
                "invalid", "the cursor is not one of this list; begin again without a cursor"
            )
        notes = notes[uris.index(after) + 1 :]
    else:
        start = None if after is None else read_listing_cursor(after)
        infos = workspace.sessions(_PAGE + 1, after=start)
        page = [_session_resource(workspace, info) for info in infos[:_PAGE]]
        if len(infos) > _PAGE or (len(infos) == _PAGE and notes):
            more = listing_cursor(infos[_PAGE - 1])
    room = _PAGE - len(page)
    page += notes[:room]
    if len(notes) > room > 0:
        more = page[-1].uri
    masked = [
        msgspec.structs.replace(item, name=workspace.mask(item.name), description=item.description)
        for item in page
    ]
    return masked, more


def _session_resource(workspace: CallerWorkspace, info: SessionInfo) -> ListedResource:
    return ListedResource(
        f"session://{quote(workspace.mask(str(info.key)), safe='/@:')}",
        str(info.key),
        f"{workspace.mask(info.label) or 'A session'}, {info.messages:,} messages",
    )
