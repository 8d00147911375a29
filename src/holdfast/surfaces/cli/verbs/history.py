"""`history` and `audit`: what others may read of a session, and what they have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.history.capped_json import text_within
from holdfast.core.limits import HISTORY_BYTES_MAX, HISTORY_LIMIT_MESSAGES
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.listing import title_of
from holdfast.core.owners import owner_of
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb, add_session
from holdfast.surfaces.cli.sizes import size
from holdfast.surfaces.formatting import Tone, count, local_time, size_text, without_controls

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.core.history.access import Access
    from holdfast.core.log.records import Json
    from holdfast.engine.operations.session_history import History

_REFUSED, _INVALID = 1, 2
_TONES: dict[str, Tone] = {"user": "good", "assistant": "name", "toolResult": "plain"}
_CUT = lazy_pattern(r"^\[… .* …\]$")
_VISIBILITIES = ("self", "tree", "agent", "all")
_EXAMPLE = """examples:
  holdfast history notes --query "release date"
  holdfast history notes --json --max-bytes 4096
  holdfast history notes --as main/helper --visibility tree"""


def _add_history(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help=f"at most N messages of user and assistant ({HISTORY_LIMIT_MESSAGES})",
    )
    parser.add_argument("--include-tools", action="store_true", help="show tool results as well")
    parser.add_argument("--query", metavar="WORDS", help="only messages that contain all the words")
    parser.add_argument("--cursor", metavar="CURSOR", help="continue with the page before")
    parser.add_argument("--around", metavar="RECORD", help="the messages around this one")
    parser.add_argument(
        "--max-bytes",
        type=size,
        default=HISTORY_BYTES_MAX,
        metavar="N",
        help=f"the maximum size of the reply as JSON ({HISTORY_BYTES_MAX:,})",
    )
    parser.add_argument(
        "--as", dest="caller", metavar="AGENT/SESSION", help="show what this session may read"
    )
    parser.add_argument(
        "--visibility",
        choices=_VISIBILITIES,
        help="with --as: the sessions that it may read (default: tree)",
    )


def _history(args: argparse.Namespace, app: App) -> int:
    asked = {
        "limit": args.limit,
        "include_tools": args.include_tools,
        "query": args.query,
        "cursor": args.cursor,
        "around": args.around,
    }
    reply = _reading(args, app).read(args.session, **asked)
    if app.out.is_json:
        # No newline, because the limit counts every byte.
        app.out.text(text_within(reply, args.max_bytes))
    elif "status" in reply:
        app.out.refuse(str(reply.get("error", "")))
    else:
        _show(reply, args, app)
    status = reply.get("status")
    return 0 if status is None else _INVALID if status == "invalid" else _REFUSED


def _reading(args: argparse.Namespace, app: App) -> History:
    from holdfast.engine.operations.session_history import History
    from holdfast.engine.redactor import redactor

    return History(
        app.store,
        caller=_caller(args, app),
        redactor=redactor(app.settings.secrets),
        max_bytes=args.max_bytes,
        agent=app.settings.agent,
    )


def _caller(args: argparse.Namespace, app: App) -> Caller:
    """Return the operator, or the session of `--as`."""
    if args.caller is None:
        if args.visibility is not None:
            raise UsageError("--visibility needs a session", hint="add --as AGENT/SESSION")
        return OPERATOR
    agent, _, session = args.caller.rpartition("/")
    agent = agent or app.settings.agent
    if not is_name(agent) or not is_name(session):
        raise UsageError(f"`{args.caller}` is not a session", hint="pass --as AGENT/SESSION")
    owner = owner_of(app.store.header(SessionKey(agent, session)).owner)
    return Caller(agent, session, owner=owner, visibility=args.visibility or "tree")


# For people


def _show(reply: Json, args: argparse.Namespace, app: App) -> None:
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
        app.out.note(f"older: {_older(reply, args)}")


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


def _older(reply: Json, args: argparse.Namespace) -> str:
    import shlex

    words = ["holdfast", "history", args.session, "--cursor", reply["cursor"]]
    for name in ("limit", "query"):
        value = getattr(args, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--include-tools"] if args.include_tools else []
    words += ["--max-bytes", str(args.max_bytes)] if args.max_bytes != HISTORY_BYTES_MAX else []
    words += ["--as", args.caller] if args.caller else []
    words += ["--visibility", args.visibility] if args.visibility else []
    return shlex.join(words)


# audit


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--last", "-n", type=int, metavar="N", help="only the newest N")


def _audit(args: argparse.Namespace, app: App) -> int:
    if args.last is not None and args.last < 0:
        raise UsageError(f"cannot show {args.last} accesses", hint="pass 0 or more")
    noted = app.store.audit.entries(args.last)
    if app.out.is_json:
        app.out.json(noted.accesses)
    else:
        rows: list[Row] = [
            (
                local_time(access.ts),
                f"{access.agent}/{access.session or '-'}" if access.agent else "operator",
                access.action,
                Cell(access.target or "-", "name"),
                Cell("allowed", "good") if access.is_allowed else Cell("refused", "bad"),
                f"{access.bytes:,}",
                title_of(" ".join(filter(None, [access.reason, _describe_hits(access)]))),
            )
            for access in noted.accesses
        ]
        app.out.table(("When", "Who", "Action", "Session", "Outcome", ">Bytes", "Why"), rows)
    if noted.damaged:
        app.out.warn(f"{noted.damaged:,} lines of the audit log are damaged")
    return 0


def _describe_hits(access: Access) -> str:
    """The result of a search of memory: the number of hits, and the sessions that they are from."""
    if access.hits is None:
        return ""
    sessions = f" of {', '.join(access.shown)}" if access.shown else ""
    return f"{access.hits:,} hits{sessions}"


VERBS = {
    "history": Verb(_add_history, _history, _EXAMPLE),
    "audit": Verb(_add_audit, _audit),
}
