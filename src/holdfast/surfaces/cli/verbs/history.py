"""`history` and `audit`: what others may read of a session, and what they have read."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.core.history.access import OPERATOR, Caller, Visibility
from holdfast.core.history.capped_json import text_within
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.listing import title_of
from holdfast.core.owners import owner_of
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.operations.history import ReadMessages
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.redactor import redactor
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import Command, ResultCommand, option, takes
from holdfast.surfaces.formatting import Tone, count, local_time, size_text, without_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.history.access import Access
    from holdfast.core.log.records import Json
    from holdfast.ports.side_stores import AuditPage
    from holdfast.surfaces.cli.app import App

_REFUSED, _INVALID = 1, 2
_TONES: dict[str, Tone] = {"user": "good", "assistant": "name", "toolResult": "plain"}
_CUT = lazy_pattern(r"^\[… .* …\]$")


class HistoryCommand(Command, frozen=True, kw_only=True):
    """Shows a page of a session."""

    example = """examples:
  holdfast history notes --query "release date"
  holdfast history notes --json --max-bytes 4096
  holdfast history notes --as main/helper --visibility tree"""
    asked: Annotated[
        ReadMessages,
        takes(
            *("session_key", "limit", "include_tools", "query", "cursor"),
            query=option("", "WORDS"),
            around=option("", "RECORD"),
        ),
    ]
    max_bytes: Annotated[
        int,
        Meta(ge=0),
        option(f"the maximum size of the reply as JSON ({HISTORY_BYTES_MAX:,})", "N"),
    ] = HISTORY_BYTES_MAX
    as_: Annotated[str | None, option("show what this session may read", "AGENT/SESSION")] = None
    visibility: Annotated[
        Visibility | None, option("with --as: the sessions that it may read (default: tree)")
    ] = None

    def run(self, app: App) -> int:
        workspace = CallerWorkspace(
            app.store,
            self._caller(app),
            redactor=redactor(app.settings.secrets),
            max_bytes=self.max_bytes,
            agent=app.settings.agent,
        )
        reply = TOOLS[ReadMessages.tool].data(workspace, msgspec.to_builtins(self.asked))
        if app.out.is_json:
            # No newline, because the limit counts every byte.
            app.out.text(text_within(reply, self.max_bytes))
        elif "status" in reply:
            app.out.warn(str(reply.get("error", "")), "refused")
        else:
            self._show_page(reply, app)
        status = reply.get("status")
        return 0 if status is None else _INVALID if status == "invalid" else _REFUSED

    def _caller(self, app: App) -> Caller:
        """Return the operator, or the session of `--as`."""
        if self.as_ is None:
            if self.visibility is not None:
                raise UsageError("--visibility needs a session", hint="add --as AGENT/SESSION")
            return OPERATOR
        agent, _, session = self.as_.rpartition("/")
        agent = agent or app.settings.agent
        if not is_name(agent) or not is_name(session):
            raise UsageError(f"`{self.as_}` is not a session", hint="pass --as AGENT/SESSION")
        owner = owner_of(app.store.header(SessionKey(agent, session)).owner)
        return Caller(agent, session, owner=owner, visibility=self.visibility or "tree")

    def _show_page(self, reply: Json, app: App) -> None:
        for message in reply.get("messages", ()):
            role = str(message.get("role"))
            about = f"{local_time(message.get('ts', 0.0))}  {message.get('id', '')}"
            name = f" {title_of(str(message['toolName']))}" if "toolName" in message else ""
            error = Cell(" error" if message.get("isError") else "", "bad")
            head = Cell(f"{role}{name}", _TONES.get(role, "plain"))
            app.out.line(head, error, "  ", Cell(about, "dim"))
            for line in _content_lines(message.get("content")):
                app.out.line(_plain_line(line))
            app.out.line()
        for note in _notes(reply):
            app.out.note(note)
        if reply.get("cursor"):
            app.out.note(f"older: {self._older(reply)}")

    def _older(self, reply: Json) -> str:
        """Return the command that shows the page before."""
        plain, asked = ReadMessages(session_key=""), self.asked
        words = ["holdfast", "history", asked.session_key, "--cursor", reply["cursor"]]
        words += ["--limit", str(asked.limit)] if asked.limit != plain.limit else []
        words += ["--query", asked.query] if asked.query else []
        words += ["--include-tools"] if asked.include_tools else []
        words += ["--max-bytes", str(self.max_bytes)] if self.max_bytes != HISTORY_BYTES_MAX else []
        words += ["--as", self.as_] if self.as_ else []
        words += ["--visibility", self.visibility] if self.visibility else []
        return shlex.join(words)


def _content_lines(content: Any) -> Iterator[str]:
    """Yield the content of a message line by line."""
    blocks = content if isinstance(content, list) else [content]
    for block in blocks:
        if not isinstance(block, dict):
            yield from (f"  {line}" for line in str(block or "").splitlines())
        elif block.get("omitted"):
            kind, size = block.get("mimeType") or block.get("type"), block.get("bytes", 0)
            yield f"  [{kind}, {size_text(int(size))}, ref {block.get('ref')}]"
        elif block.get("type") == "tool_use":
            arguments = msgspec.json.encode(block.get("input")).decode()
            yield f"  → {block.get('name')} {arguments}"
        else:
            text = block.get("text") or block.get("thinking")
            text = text if isinstance(text, str) else msgspec.json.encode(block).decode()
            sign = "~ " if "thinking" in block else ""
            yield from (f"  {sign}{line}" for line in text.splitlines())


def _plain_line(line: str) -> Cell:
    """Return a line without control characters; a truncation mark is dim."""
    plain = without_controls(line)
    words = plain.strip().removeprefix("~ ")
    is_dim = _CUT.match(words) or plain.startswith("  ~ ")
    return Cell(plain, "dim" if is_dim else "plain")


def _notes(reply: Json) -> Iterator[str]:
    shown, omitted = reply.get("count", 0), reply.get("omittedCount", 0)
    found = f", {reply['matches']} found" if "matches" in reply else ""
    yield f"{count(shown, 'message')}{found}; {reply.get('bytes', 0):,} bytes as JSON"
    if omitted:
        yield f"{omitted:,} more did not fit (--max-bytes)"
    if reply.get("contentTruncated"):
        yield "long texts are truncated: `holdfast output REF` shows one in full"
    if reply.get("contentRedacted"):
        yield "secrets are masked"


class AuditCommand(ResultCommand, frozen=True, kw_only=True):
    """Lists accesses."""

    last: Annotated[int | None, Meta(ge=0), option("only the newest N", "N", "-n")] = None

    def run(self, app: App) -> AuditPage:
        noted = app.store.audit.entries(self.last)
        if noted.damaged:
            app.out.warn(f"{noted.damaged:,} lines of the audit log are damaged")
        return noted

    def plain(self, found: AuditPage) -> Any:
        return found.accesses

    def show(self, found: AuditPage, app: App) -> None:
        app.out.table(
            ("When", "Who", "Action", "Session", "Outcome", ">Bytes", "Why"),
            (
                (
                    local_time(access.ts),
                    f"{access.agent}/{access.session or '-'}" if access.agent else "operator",
                    access.action,
                    Cell(access.target or "-", "name"),
                    Cell("allowed", "good") if access.is_allowed else Cell("refused", "bad"),
                    f"{access.bytes:,}",
                    title_of(" ".join(filter(None, [access.reason, _describe_hits(access)]))),
                )
                for access in found.accesses
            ),
        )


def _describe_hits(access: Access) -> str:
    """The result of a search of memory: the number of hits, and the sessions that they are from."""
    if access.hits is None:
        return ""
    sessions = f" of {', '.join(access.shown)}" if access.shown else ""
    return f"{access.hits:,} hits{sessions}"
