"""pi and OpenClaw: one entry a line, in a tree joined by `parentId`.

The first versions have no ids: there the file is one branch. The newest branch is carried; what a
branch summary or a compaction said about the rest is carried with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import ModelChange
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    integer,
    is_text,
    keep_from,
    mapping,
    path_to,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_ENTRIES: Final = frozenset(
    (
        *("message", "compaction", "model_change", "thinking_level_change", "branch_summary"),
        *("custom", "custom_message", "label", "session_info"),
    )
)
_WHY: Final = {
    "thinking_level_change": "a setting; the messages show its effect",
    "custom": "an extension's own data; no model saw it",
}


def detect(source: Source) -> bool:
    head = source.head
    if not head:
        return False
    is_ours = any(map(_is_entry, head))
    if head[0].get("type") != "session":
        # The header is lost; Droid's lines look the same, and have a header of another name.
        return is_ours and not any(item.get("type") == "session_start" for item in head)
    if head[0].get("format") == "holdfast":
        return False
    return is_ours or (len(head) == 1 and "timestamp" in head[0] and "cwd" in head[0])


def _is_entry(value: Json) -> bool:
    kind = value.get("type")
    if kind == "message":
        return is_text(mapping(value.get("message")).get("role"))
    is_known = is_text(kind) and kind in _ENTRIES
    return is_known and "timestamp" in value and ("parentId" in value or "modelId" in value)


def detect_openclaw(source: Source) -> bool:
    if not detect(source):
        return False
    marks = (item.get("customType") for item in source.head)
    is_marked = any(is_text(mark) and mark.startswith("openclaw") for mark in marks)
    places = [*source.folders, text_or_empty(source.head[0].get("id"))]
    return is_marked or any("openclaw" in place for place in places)


def read(source: Source) -> list[Imported]:
    return _read(source, "pi")


def read_openclaw(source: Source) -> list[Imported]:
    return _read(source, "openclaw")


def _read(source: Source, kind: str) -> list[Imported]:
    entries = [line.value for line in source.lines]
    draft = Draft()
    header: Json = {}
    if entries and entries[0].get("type") == "session":
        header, *entries = entries
    path = _path(entries, text_at(header, "id"))
    left = Draft()
    for place, entry in enumerate(entries):
        if place not in path:
            _carry(left, entry, _KeptPlaces(has_header=False))
    draft.leave(left, len(entries) - len(path))
    kept = _KeptPlaces(has_header=bool(header))
    for place, entry in enumerate(entries):
        if place in path:
            kept.note(place, entry, len(draft.records))
            _carry(draft, entry, kept)
    return [draft.finish(source, kind, text_at(header, "id"))]


def _path(entries: list[Json], header_id: str) -> set[int]:
    """The places of the newest branch; a parent that is not there is the entry before."""
    places: dict[str, int] = {}
    parents: list[int | None] = []
    for place, entry in enumerate(entries):
        named = entry.get("parentId")
        before = place - 1 if place else None
        found = places.get(named) if is_text(named) and named != header_id else None
        is_root = "parentId" in entry and named is None
        parents.append(None if is_root else before if found is None else found)
        if is_text(entry.get("id")):
            places[entry["id"]] = place
    return path_to(len(entries) - 1 if entries else None, parents)


class _KeptPlaces:
    """The place of each entry among the records. A compaction may keep from any entry on, also from
    one that became no record."""

    def __init__(self, *, has_header: bool) -> None:
        self._by_id: dict[str, int] = {}
        self._by_index: dict[int, int] = {}
        self._lines_before = int(has_header)

    def note(self, place: int, entry: Json, record: int) -> None:
        self._by_index[place + self._lines_before] = record
        if is_text(entry.get("id")):
            self._by_id[entry["id"]] = record

    def first_kept(self, draft: Draft, compaction: Json) -> str | None:
        """The record with which the kept part begins. The first versions name a line of the file
        (`firstKeptEntryIndex`), the header included."""
        named, index = compaction.get("firstKeptEntryId"), compaction.get("firstKeptEntryIndex")
        place = (
            self._by_id.get(named) if is_text(named) else self._by_index.get(integer(index) or -1)
        )
        return None if place is None else keep_from(draft, place)


def _carry(draft: Draft, entry: Json, places: _KeptPlaces) -> None:
    about = about_line(entry)
    kind = entry.get("type")
    match kind:
        case "message":
            _carry_message(draft, mapping(entry.get("message")), about)
        case "compaction":
            blocks.compaction(
                draft,
                text_at(entry, "summary"),
                first_kept=places.first_kept(draft, entry),
                tokens_before=integer(entry.get("tokensBefore")),
                **about,
            )
        case "model_change":
            draft.add(
                ModelChange(
                    model=text_at(entry, "modelId"),
                    provider=text_at(entry, "provider") or None,
                    id=about["record_id"],
                    ts=about["ts"],
                )
            )
        case "branch_summary":
            summary = text_at(entry, "summary")
            draft.user(summary, extra={"role": "branch_summary"}, **about)
        case "custom_message":
            extra = {"role": "custom", "custom_type": text_at(entry, "customType")}
            draft.user(blocks.content_of(entry.get("content")), extra=extra, **about)
        case "label":
            target = text_at(entry, "targetId")
            draft.title(target, text_at(entry, "label"), **about)
        case "session_info":
            draft.label = text_at(entry, "name") or draft.label
        case _:
            draft.skip(f"entry `{kind}`", _WHY.get(text_or_empty(kind), "no message"))


def _carry_message(draft: Draft, message: Json, about: dict[str, Any]) -> None:
    about["ts"] = seconds(message.get("timestamp")) or about["ts"]
    content = message.get("content")
    role = message.get("role")
    match role:
        case "user":
            draft.user(blocks.content_of(content), **about)
        case "assistant":
            draft.assistant(
                blocks.with_ids(draft, _read_content(content)),
                provider=text_at(message, "provider") or None,
                model=text_at(message, "model") or None,
                usage=mapping(message.get("usage")) or None,
                stop_reason=text_at(message, "stopReason") or None,
                **about,
            )
        case "toolResult":
            draft.result(
                draft.answer_id(message.get("toolCallId")),
                blocks.content_of(content),
                name=text_at(message, "toolName"),
                is_error=message.get("isError") is True,
                details=message.get("details"),
                **about,
            )
        case "bashExecution":
            _carry_shell(draft, message, about)
        case "system" | "custom" | "branchSummary" | "compactionSummary" | "hookMessage":
            said = content if content is not None else message.get("summary")
            draft.user(blocks.content_of(said), extra={"role": role}, **about)
        case _:
            blocks.skip_role(draft, role)


def _carry_shell(draft: Draft, message: Json, about: dict[str, Any]) -> None:
    """A command that the person ran; the model sees it as a message."""
    if message.get("excludeFromContext") is True:
        draft.skip("command run by hand", "it was kept out of the context")
        return
    command, output = message.get("command"), text_at(message, "output")
    shown = f"```\n{output}\n```" if output else "(no output)"
    code = integer(message.get("exitCode"))
    ending = f"\n\nCommand exited with code {code}" if code else ""
    draft.user(f"Ran `{command}`\n{shown}{ending}", extra={"role": "bashExecution"}, **about)


def _read_content(content: object) -> Any:
    if not isinstance(content, list):
        return blocks.content_of(content)
    said: list[Json] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "thinking":
            signature = block.get("thinkingSignature") or block.get("signature")
            if block.get("redacted") is True:
                said.append({"type": "redacted_thinking", "data": text_or_empty(signature)})
            else:
                said.append(blocks.thinking(text_at(block, "thinking"), text_or_empty(signature)))
        else:
            said += blocks.blocks_of([block])
    return said


IMPORTER: Final = Importer("pi", "pi sessions (~/.pi/agent/sessions/…/*.jsonl)", detect, read)
OPENCLAW: Final = Importer(
    "openclaw", "OpenClaw sessions (~/.openclaw/agents/…/*.jsonl)", detect_openclaw, read_openclaw
)
