"""A record as HTML: what was said, calls and thinking folded, and marks where something was cut;
and its name for links: who spoke, and the first words.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, assert_never

import msgspec

from holdfast.core.log import records as kinds
from holdfast.core.text.cut import cut
from holdfast.surfaces.console.layout import session_path
from holdfast.surfaces.formatting import one_line, size_text
from holdfast.surfaces.pages import render_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.surfaces.http.route import HttpCall

_TEXT_CHARS: Final = 3_000
"""Characters of a text on the page of a conversation; a link leads to the whole."""
_NAME_CHARS: Final = 56
"""Characters of a name: a column has room for them."""
_NEAR: Final = 500
"""The newest records, of which a page shows most."""
_NAME_READ: Final = 2_000
"""Characters that are read for them."""
_ID: Final = 8
"""Of the id of a record that is too old to be looked up."""
_BEFORE: Final = "before the newest compaction"
IN_VIEW: Final = ("kept", "trimmed", "cleared", "injected", "silent")
"""Fates of records that the model still sees, or never saw."""
MARKS: Final = ("compaction", "prune", "rewind", "undo", "model", "flush", "mode", "checkpoint")
"""Kinds that are drawn as a line between messages."""


PartForm = Literal["words", "text", "fold", "call", "moved", "note", "link"]


class Part(NamedTuple):
    """A piece of a record, masked and cut to what a page has room for."""

    form: PartForm = "words"
    title: str = ""
    text: str = ""
    chars: int = 0
    """Characters of the whole text."""
    more: bool = False
    address: str = ""
    kind: str = ""


class RecordView:
    """Draws the records of one session for one client."""

    def __init__(self, call: HttpCall, key: SessionKey, fates: dict[str, LedgerLine]) -> None:
        self._mask = call.workspace.mask
        self._key = key
        self._fates = fates
        """Empty where the view is not known; then nothing is dimmed."""

    def show(self, record: Record) -> Markup:
        """Return a record as part of a conversation."""
        line = self._fates.get(record.id)
        is_out = bool(self._fates) and (line is None or line.action not in IN_VIEW)
        fate = (line.action, line.why) if line is not None else ("summarised", _BEFORE)
        is_told = is_out or (line is not None and line.action not in ("kept", "silent"))
        is_mark = record.kind in MARKS or record.kind in ("session", "label")
        return render_part(
            "console/record.html",
            record=record,
            parts=list(self._parts(record)),
            is_mark=is_mark,
            who=_WHO.get(record.kind, ""),
            is_out=is_out,
            fate=fate if is_told else None,
            key=self._key,
            place=self._address(record.id),
            path=session_path,
            mask=self._mask,
        )

    def _address(self, record: str) -> str:
        return session_path(self._key, f"/records/{record}")

    def _parts(self, record: Record) -> Iterator[Part]:
        match record:
            case kinds.User(content=content) | kinds.Assistant(content=content):
                yield from self._content(content)
            case kinds.ToolResult():
                yield from self._result(record)
            case kinds.ToolUse(name=name, input=given):
                yield self._call({"name": name, "input": given})
            case kinds.InjectedContext(text=text, source=source):
                yield self._fold(f"context from {source or 'a program'}", text)
            case kinds.Compaction():
                yield from self._compaction(record)
            case kinds.Prune(decisions=decisions, reason=reason):
                why = f": {self._mask(reason)}" if reason else ""
                yield Part(text=f"{len(decisions)} tool results shortened{why}")
            case kinds.Rewind(to=to, reason=reason):
                yield Part(text="went back to ")
                yield Part("link", text=to, address=self._address(to))
                yield Part(text=f" {self._mask(reason or '')}")
            case kinds.Epoch(cause=cause, detail=detail):
                yield Part(text=f"requests begin differently: {self._gist(detail or cause, 200)}")
            case kinds.ToolsAdded(tools=tools):
                names = ", ".join(str(tool.get("name")) for tool in tools)
                yield Part(text=f"tools added: {self._gist(names, 200)}")
            case kinds.CallState(name=name, state=state):
                yield Part(text=f"{self._gist(name, 80)}: {self._gist(state, 80)}")
            case kinds.Undo(target=target):
                yield Part(text="undid ")
                yield Part("link", text=target, address=self._address(target))
            case kinds.Flush(notes=notes, trigger=trigger):
                title = f"{len(notes)} notes saved ({trigger or 'asked'})"
                yield self._fold(title, "\n".join(notes))
            case kinds.ModelChange(model=model, window=window):
                size = f", window {window:,} tok" if window else ""
                yield Part(text=f"{self._gist(model, 80)}{size}")
            case kinds.CallFailure(cause=cause):
                yield Part(text=f"no reply: {self._gist(cause, 200)}")
            case kinds.Checkpoint(trigger=trigger):
                yield Part(text=self._gist(trigger or "asked for"))
            case kinds.Label(label=label):
                yield Part(text=self._gist(label, 120) or "taken away")
            case kinds.Mode(mode=mode, continued_in=other):
                yield Part(text=mode + (self._mask(f", goes on in {other}") if other else ""))
            case kinds.Header(reason=reason, parent_session=parent):
                yield Part(text="began" + self._mask(f" as a {reason} of {parent}" * bool(parent)))
            case kinds.Unknown():
                words = kinds.words_of_unknown(record)
                known = "a kind of record that this version does not know"
                yield Part(text=self._gist(words) if words else known)
            case _:
                assert_never(record)

    def _gist(self, text: str, most: int = 160) -> str:
        return one_line(self._mask(text), most)

    def _compaction(self, record: kinds.Compaction) -> Iterator[Part]:
        sizes = (
            f"{record.tokens_before:,} tok became {record.tokens_after or 0:,} tok"
            if record.tokens_before
            else "a summary replaces what was before"
        )
        why = self._mask(record.reason or "")
        yield Part(text=f"{sizes} ({why}) " if why else f"{sizes} ")
        address = session_path(self._key, "/compaction", record=record.id)
        yield Part("link", text="before and after", address=address)

    def _content(self, content: kinds.Content) -> Iterator[Part]:
        if isinstance(content, str):
            yield self._text("text", content)
        else:
            yield from map(self._block, content or ())

    def _block(self, block: Json) -> Part:
        kind = block.get("type")
        if kind == "text":
            return self._text("text", str(block.get("text", "")))
        if kind == "tool_use":
            return self._call(block)
        if kind == "thinking":
            return self._fold("thinking", str(block.get("thinking", "")))
        if kind == "tool_result":
            inner = block.get("content")
            return self._fold("tool result", inner if isinstance(inner, str) else _json(inner))
        if kind in ("image", "document"):
            return Part("note", text=f"[{kind}]", more=True)
        return self._fold(str(kind or "block"), _json(block))

    def _text(self, form: PartForm, text: str, **values: Any) -> Part:
        """A text masked and then cut, so that no half of a secret is left."""
        masked = self._mask(text)
        found = cut(masked, _TEXT_CHARS)
        return Part(form, text=found.text, chars=len(masked), more=found.was_cut, **values)

    def _fold(self, title: str, text: str, kind: str = "") -> Part:
        return self._text("fold", text, title=self._mask(title), kind=kind)

    def _call(self, block: Json) -> Part:
        given = cut(self._mask(_json(block.get("input"))), _TEXT_CHARS).text
        return Part("call", title=self._gist(str(block.get("name", "tool")), 60), text=given)

    def _result(self, record: kinds.ToolResult) -> Iterator[Part]:
        content = record.content
        texts = content if isinstance(content, str) else _texts(content)
        name = self._gist(record.name or "result", 60)
        title = f"← {name}{' failed' if record.is_error else ''}"
        ref = record.output_ref
        if ref is None:
            first = self._gist(texts[:_TEXT_CHARS], 80)
            yield self._fold(f"{title}: {first}", texts, "result")
            return
        address = session_path(self._key, f"/outputs/{ref.sha256[:16]}")
        yield Part("moved", title=title, text=size_text(ref.bytes), address=address)
        yield self._fold("shown to the model", texts, "result")


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


class RecordNames:
    """Names the newest records of a session; they are read when the first name is asked for."""

    def __init__(self, call: HttpCall, key: SessionKey) -> None:
        self._call, self._key = call, key
        self._known: dict[str, str] | None = None

    def __call__(self, record: str, kind: str = "record") -> str:
        """Return the name of a record; of an older one, its kind and the end of its id."""
        if self._known is None:
            newest = islice(self._call.store.back(self._key), _NEAR)
            self._known = {each.id: self._name(each) for each in newest}
        return self._known.get(record) or f"{one_line(kind, _NAME_CHARS)} …{record[-_ID:]}"

    def _name(self, record: Record) -> str:
        return one_line(self._call.workspace.mask(_words_of(record)), _NAME_CHARS)


def _words_of(record: Record) -> str:
    match record:
        case kinds.User(content=content):
            return f"user: {kinds.text_of(content)[:_NAME_READ]}"
        case kinds.Assistant(content=content):
            calls = ", ".join(str(block.get("name") or "?") for block in kinds.tool_calls(content))
            said = kinds.text_of(content)[:_NAME_READ]
            return f"assistant: {said}" if said.strip() else f"assistant → {calls or 'nothing'}"
        case kinds.ToolResult(name=name, content=content):
            return f"{name or 'result'}: {kinds.text_of(content)[:_NAME_READ]}"
        case kinds.Compaction(tokens_before=before, tokens_after=after):
            return f"compaction {before or 0:,} → {after or 0:,} tok"
        case kinds.Prune(decisions=decisions):
            return f"prune of {len(decisions):,} results"
        case _:
            return record.kind
