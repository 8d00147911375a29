"""A record as HTML: what was said, calls and thinking folded, and marks where something was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from holdfast.core.log import records as kinds
from holdfast.core.text.cut import cut
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import gist, moment, number, session_path, tokens
from holdfast.surfaces.formatting import size_text

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.surfaces.http.route import HttpCall

_TEXT_CHARS: Final = 3_000
"""Characters of a text on the page of a conversation; a link leads to the whole."""
IN_VIEW: Final = ("kept", "trimmed", "cleared", "injected", "silent")
"""Fates of records that the model still sees, or never saw."""
MARKS: Final = ("compaction", "prune", "rewind", "undo", "model", "flush", "mode", "checkpoint")
"""Kinds that are drawn as a line between messages."""


class RecordView:
    """Draws the records of one session for one client."""

    def __init__(self, call: HttpCall, key: SessionKey, fates: dict[str, LedgerLine]) -> None:
        self._mask = call.workspace.mask
        self._key = key
        self._fates = fates
        """Empty where the view is not known; then nothing is dimmed."""

    def show(self, record: Record) -> Html:
        """Return a record as part of a conversation."""
        body = self._body(record)
        if record.kind in MARKS or record.kind in ("session", "label"):
            return tag(
                "li",
                tag("span", gist(self._mask(record.kind), 60), class_="kind"),
                " ",
                body,
                " ",
                self._place(record),
                class_=f"mark-line {record.kind}",
                id=f"r-{record.id}",
            )
        line = self._fates.get(record.id)
        is_out = bool(self._fates) and (line is None or line.action not in IN_VIEW)
        return tag(
            "li",
            tag(
                "div",
                tag(
                    "span",
                    _WHO.get(record.kind) or gist(self._mask(record.kind), 60),
                    class_="kind",
                ),
                self._fate(line, is_out=is_out),
                self._place(record),
                class_="who",
            ),
            body,
            class_=f"record {record.kind if record.kind in _WHO else 'other'}"
            + (" out" if is_out else ""),
            id=f"r-{record.id}",
        )

    def _fate(self, line: LedgerLine | None, *, is_out: bool) -> Html | None:
        if line is None and not is_out:
            return None
        action = line.action if line is not None else "summarised"
        if action in ("kept", "silent"):
            return None
        why = line.why if line is not None else "before the newest compaction"
        return tag(
            "a",
            "out of view: " if is_out else "",
            f"{action} ({self._mask(why)})",
            href=session_path(self._key, "/context/fate", action=action),
            class_="fate",
        )

    def _place(self, record: Record) -> Html:
        address = session_path(self._key, f"/records/{record.id}")
        return tag("a", moment(record.ts), href=address, class_="place")

    def _body(self, record: Record) -> Html:
        match record:
            case kinds.User(content=content):
                return self._content(content, record.id)
            case kinds.Assistant(content=content):
                return self._content(content, record.id)
            case kinds.ToolResult():
                return self._result(record)
            case kinds.ToolUse(name=name, input=given):
                return self._call({"name": name, "input": given})
            case kinds.InjectedContext(text=text, source=source):
                return self._fold(f"context from {source or 'a program'}", text, record.id)
            case kinds.Compaction():
                return self._compaction(record)
            case kinds.Prune(decisions=decisions, reason=reason):
                count = f"{len(decisions)} tool results shortened"
                return join(count, ": " if reason else "", self._mask(reason or ""))
            case kinds.Rewind(to=to, reason=reason):
                return join("went back to ", self._record_link(to), f" {self._mask(reason or '')}")
            case kinds.Epoch(cause=cause, detail=detail):
                return join(f"requests begin differently: {gist(self._mask(detail or cause), 200)}")
            case kinds.ToolsAdded(tools=tools):
                names = ", ".join(str(tool.get("name")) for tool in tools)
                return join("tools added: ", gist(self._mask(names), 200))
            case kinds.Undo(target=target):
                return join("undid ", self._record_link(target))
            case kinds.Flush(notes=notes, trigger=trigger):
                return self._fold(
                    f"{len(notes)} notes saved ({trigger or 'asked'})", "\n".join(notes), record.id
                )
            case kinds.ModelChange(model=model, window=window):
                size = f", window {tokens(window)}" if window else ""
                return join(gist(self._mask(model), 80), size)
            case kinds.CallFailure(cause=cause):
                return join("no reply: ", gist(self._mask(cause), 200))
            case kinds.Checkpoint(trigger=trigger):
                return join(gist(self._mask(trigger or "asked for")))
            case kinds.Label(label=label):
                return join(gist(self._mask(label), 120) or "taken away")
            case kinds.Mode(mode=mode, continued_in=other):
                return join(mode, self._mask(f", goes on in {other}") if other else "")
            case kinds.Header(reason=reason, parent_session=parent):
                return join("began", self._mask(f" as a {reason} of {parent}") if parent else "")
            case kinds.Unknown():
                return join("a kind of record that this version does not know")
            case _:
                assert_never(record)

    def _record_link(self, record: str) -> Html:
        return tag("a", record, href=session_path(self._key, f"/records/{record}"))

    def _compaction(self, record: kinds.Compaction) -> Html:
        sizes = (
            f"{tokens(record.tokens_before)} became {tokens(record.tokens_after or 0)}"
            if record.tokens_before
            else "a summary replaces what was before"
        )
        why = self._mask(record.reason or "")
        return join(
            sizes,
            f" ({why}) " if why else " ",
            tag(
                "a",
                "before and after",
                href=session_path(self._key, "/compaction", record=record.id),
            ),
        )

    def _content(self, content: kinds.Content, record: str) -> Html:
        if isinstance(content, str):
            return self._text(content, record)
        parts = [self._block(block, record) for block in content or ()]
        return join(*parts) if parts else tag("p", "nothing", class_="dim")

    def _block(self, block: Json, record: str) -> Html:
        kind = block.get("type")
        if kind == "text":
            return self._text(str(block.get("text", "")), record)
        if kind == "tool_use":
            return self._call(block)
        if kind == "thinking":
            return self._fold("thinking", str(block.get("thinking", "")), record)
        if kind == "tool_result":
            inner = block.get("content")
            words = inner if isinstance(inner, str) else _json(inner)
            return self._fold("tool result", words, record)
        if kind in ("image", "document"):
            return tag("p", f"[{kind}] ", self._whole_link(record), class_="dim")
        return self._fold(str(kind or "block"), _json(block), record)

    def _text(self, text: str, record: str) -> Html:
        shown, link = self._cut(text, record)
        return join(tag("p", shown, class_="text"), link)

    def _cut(self, text: str, record: str) -> tuple[str, Html | None]:
        """A text masked and then cut, so that no half of a secret is left."""
        masked = self._mask(text)
        found = cut(masked, _TEXT_CHARS)
        return found.text, self._whole_link(record, len(masked)) if found.was_cut else None

    def _whole_link(self, record: str, chars: int = 0) -> Html:
        words = f"Show all {number(chars)} characters" if chars else "Show the record"
        return tag("a", words, href=session_path(self._key, f"/records/{record}"), class_="more")

    def _fold(self, title: str, text: str, record: str, class_: str = "") -> Html:
        shown, link = self._cut(text, record)
        return tag(
            "details",
            tag(
                "summary",
                gist(self._mask(title)),
                " ",
                tag("span", f"{number(len(text))} chars", class_="dim"),
            ),
            tag("pre", shown, tabindex="0"),
            link,
            class_=class_ or None,
        )

    def _call(self, block: Json) -> Html:
        given = self._mask(_json(block.get("input")))
        name = gist(self._mask(str(block.get("name", "tool"))), 60)
        return tag(
            "details",
            tag("summary", "→ ", tag("b", name), " ", tag("code", gist(given, 90))),
            tag("pre", cut(given, _TEXT_CHARS).text, tabindex="0"),
            class_="call",
        )

    def _result(self, record: kinds.ToolResult) -> Html:
        content = record.content
        texts = content if isinstance(content, str) else _texts(content)
        name = gist(self._mask(record.name or "result"), 60)
        title = f"← {name}{' failed' if record.is_error else ''}"
        first = gist(self._mask(texts[:_TEXT_CHARS]), 80)
        if not record.output_ref:
            return self._fold(f"{title}: {first}", texts, record.id, "result")
        ref = record.output_ref
        address = session_path(self._key, f"/outputs/{ref.sha256[:16]}")
        moved = tag(
            "p",
            f"{title}: an output of {size_text(ref.bytes)} was moved out of the log. ",
            tag("a", "Read it", href=address),
        )
        return join(moved, self._fold("shown to the model", texts, record.id, "result"))


_WHO: Final = {
    "user": "User",
    "assistant": "Assistant",
    "tool_result": "Tool",
    "tool_use": "Tool call",
    "context": "Context",
}


def _texts(content: kinds.Content) -> str:
    blocks = content if isinstance(content, list) else []
    return "\n".join(
        str(block["text"]) if isinstance(block.get("text"), str) else f"[{block.get('type')}]"
        for block in blocks
    )


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)
