"""Claude Code: one JSON object a line, in a tree of lines joined by `parentUuid`.

What one has to know to read these files:

* One API call is spread over two or three lines with the same `message.id` and the same `usage`;
  the results of its first calls may stand between them. They are one message.
* The results of parallel calls hang on different lines of one message, so that following parents
  alone loses some of them. They belong to the path of their call.
* A line without a parent begins a new conversation, unless it is a compaction, which names what it
  followed as `logicalParentUuid`.
* What a sub-agent did (`isSidechain`) is a conversation of its own.
* Newer versions write down what they add to a request: files, reminders, what was typed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import text_of
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    integer,
    is_text,
    listing,
    mapping,
    mappings,
    names_for,
    path_to,
    session_name,
    text_at,
    text_or_empty,
    unique_names,
)
from holdfast.importers.common.harness import bare_summary
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Content, Json

_OURS: Final = frozenset(
    (
        *("user", "assistant", "system", "progress", "summary", "attachment"),
        *("file-history-snapshot", "queue-operation"),
    )
)
_MESSAGES: Final = frozenset({"user", "assistant", "tool_use", "tool_result", "attached"})
_WHY: Final = {
    "progress": "progress for the screen; no model saw it",
    "file-history-snapshot": "undo data of the editor; no model saw it",
    "queue-operation": "a queue's bookkeeping; the prompt itself follows as a message",
    "summary": "the title of another conversation",
    "attachment": "a note of the program, without a text of its own",
}
_SYSTEM_WHY: Final = {
    "microcompact_boundary": "the tool hid old results from its own view; here they are whole",
    "api_error": "a failed attempt; the answer that counts follows",
}
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle"}


def _attachment_file(attachment: Json) -> object:
    content = mapping(attachment.get("content"))
    file = mapping(content.get("file"))
    if content.get("type") == "image" and is_text(file.get("base64")):
        return [blocks.image(file["base64"], text_at(file, "type"))]
    return file.get("content")


def _attachment_skills(attachment: Json) -> object:
    return [item.get("content") for item in mappings(attachment.get("skills"))]


_ATTACHED: Final[dict[str, Callable[[Json], object]]] = {
    "queued_command": lambda one: one.get("prompt"),
    "file": _attachment_file,
    "nested_memory": lambda one: mapping(one.get("content")).get("content"),
    "edited_text_file": lambda one: one.get("snippet"),
    "hook_additional_context": lambda one: one.get("content"),
    "skill_listing": lambda one: one.get("content"),
    "invoked_skills": _attachment_skills,
    "total_tokens_reminder": lambda one: one.get("text"),
    "silent_turn_reminder": lambda one: one.get("text"),
    "batching_reminder_sent": lambda one: one.get("text"),
}
"""Fields that hold the text of an attachment, by kind."""


class _Node(msgspec.Struct, gc=False):
    """A line in the tree."""

    value: Json
    index: int
    parent: int | None = None
    root: int = 0

    @property
    def kind(self) -> str:
        kind = text_at(self.value, "type")
        return "attached" if kind == "attachment" and self.attachment else kind

    @property
    def attachment(self) -> list[Json]:
        """Return the content that an attachment gave the model; many are only notes of the
        program."""
        attachment = mapping(self.value.get("attachment"))
        read = _ATTACHED.get(text_at(attachment, "type"))
        return blocks.blocks_of(read(attachment)) if read else []

    @property
    def message(self) -> Json:
        return mapping(self.value.get("message"))

    @property
    def is_side(self) -> bool:
        return self.value.get("isSidechain") is True

    @property
    def ts(self) -> float:
        return seconds(self.value.get("timestamp"))

    @property
    def call_ids(self) -> list[str]:
        return [block["id"] for block in self._blocks("tool_use") if is_text(block.get("id"))]

    @property
    def find_answered(self) -> list[str]:
        answers = self._blocks("tool_result")
        return [answer["tool_use_id"] for answer in answers if is_text(answer.get("tool_use_id"))]

    def _blocks(self, kind: str) -> list[Json]:
        content = listing(self.message.get("content"))
        return [item for item in content if isinstance(item, dict) and item.get("type") == kind]


def detect(source: Source) -> bool:
    return any(
        str(value.get("type")) in _OURS
        and ("sessionId" in value or "parentUuid" in value or "leafUuid" in value)
        and ("message" in value or "uuid" in value or "leafUuid" in value)
        for value in source.head
        if is_text(value.get("type"))
    )


def read(source: Source) -> list[Imported]:
    nodes = _tree(line.value for line in source.lines)
    parents = [node.parent for node in nodes]
    trees: dict[int, list[_Node]] = {}
    for node in nodes:
        if node.kind in _MESSAGES:
            trees.setdefault(node.root, []).append(node)
    loose = [node for node in nodes if node.kind not in _MESSAGES]
    base = _session_id(nodes) or source.stem
    mains = [tree for tree in trees.values() if not tree[0].is_side]
    sides = [tree for tree in trees.values() if tree[0].is_side]
    done = [
        _read_tree(source, tree, nodes, parents, name)
        for tree, name in zip(mains, names_for(base, len(mains)), strict=True)
    ]
    side_names = [_side_name(base, tree[0], has_main=bool(mains)) for tree in sides]
    done += [
        _read_tree(source, tree, nodes, parents, name)
        for tree, name in zip(sides, unique_names(side_names), strict=True)
    ]
    if not done:
        return [_nothing_said(source, loose, base)]
    first = done[0]
    draft = Draft()
    label = _skip_loose(draft, loose, nodes)
    extra = draft.finish(source, "claude-code").skipped
    done[0] = msgspec.structs.replace(
        first, label=label or first.label, skipped=[*first.skipped, *extra]
    )
    return done


def _tree(values: Iterable[Json]) -> list[_Node]:
    """Every line with its parent; a parent that is not there is the line before."""
    nodes: list[_Node] = []
    places: dict[str, int] = {}
    previous: int | None = None
    for value in values:
        node = _Node(value, len(nodes))
        nodes.append(node)
        uuid = value.get("uuid")
        if not is_text(uuid):
            node.root = nodes[previous].root if previous is not None else 0
            continue
        node.parent = _parent(value, places, previous)
        node.root = node.index if node.parent is None else nodes[node.parent].root
        places[uuid] = previous = node.index
    return nodes


def _parent(value: Json, places: dict[str, int], previous: int | None) -> int | None:
    named = value.get("parentUuid") or value.get("logicalParentUuid")
    if is_text(named):
        found = places.get(named)
        return previous if found is None else found
    is_start = "parentUuid" in value and value.get("subtype") != "compact_boundary"
    return None if is_start else previous


def _read_tree(
    source: Source, tree: list[_Node], nodes: list[_Node], parents: list[int | None], name: str
) -> Imported:
    draft = Draft()
    kept = _newest_branch(tree, parents)
    places = {node.index for node in kept}
    left = Draft()
    for group in _calls([node for node in tree if node.index not in places]):
        _carry(left, group, nodes)
    draft.leave(left, len(tree) - len(kept))
    for group in _calls(kept):
        _carry(draft, group, nodes)
    copies = sum("toolUseResult" in node.value for node in kept)
    draft.skip("toolUseResult", "the screen's copy of a result; the model's is carried", copies)
    return draft.finish(source, "claude-code", name, tells_flaws=False)


def _newest_branch(tree: list[_Node], parents: list[int | None]) -> list[_Node]:
    """The lines of the newest branch, with all that belongs to its messages."""
    path = path_to(tree[-1].index, parents)
    messages = {_message_id(node) for node in tree if node.index in path} - {""}
    said = [node for node in tree if node.index in path or _message_id(node) in messages]
    calls = {call for node in said for call in node.call_ids}
    keep = {node.index for node in said}
    for node in tree:
        answered = node.find_answered
        if answered and all(call in calls for call in answered):
            keep.add(node.index)
    return [node for node in tree if node.index in keep]


def _calls(kept: list[_Node]) -> list[list[_Node]]:
    """Lines in order, those of one API call together at the place of the first."""
    groups: list[list[_Node]] = []
    places: dict[str, int] = {}
    for node in kept:
        message_id = _message_id(node)
        if message_id and message_id in places:
            groups[places[message_id]].append(node)
            continue
        if message_id:
            places[message_id] = len(groups)
        groups.append([node])
    return groups


def _carry(draft: Draft, group: list[_Node], nodes: list[_Node]) -> None:
    node = group[0]
    match node.kind:
        case "assistant":
            _carry_assistant(draft, group)
        case "user":
            _carry_user(draft, node, nodes)
        case "attached":
            about = mapping(node.value.get("attachment"))
            kind, path = text_at(about, "type"), text_at(about, "filename")
            extra: Json = {} if kind == "queued_command" else {"attachment": kind, "meta": True}
            extra |= {"path": path} if path else {}
            uuid = text_at(node.value, "uuid")
            draft.user(node.attachment, record_id=uuid, ts=node.ts, extra=extra)
        case "tool_use":
            call_id = text_at(node.value, "id", "uuid")
            name = text_at(node.value, "name")
            block = blocks.call(call_id, name, node.value.get("input"))
            draft.assistant([block], record_id=text_at(node.value, "uuid"), ts=node.ts)
        case _:
            _carry_loose_result(draft, node)


def _carry_assistant(draft: Draft, group: list[_Node]) -> None:
    first = group[0]
    if first.value.get("isApiErrorMessage") is True:
        draft.skip("API error message", "written for the person; no model said or saw it")
        return
    model = text_at(first.message, "model")
    is_synthetic = model == "<synthetic>"
    extra: Json = {"message_id": _message_id(first)} if _message_id(first) else {}
    draft.assistant(
        _merge_blocks(draft, group),
        record_id=text_at(first.value, "uuid"),
        ts=first.ts,
        provider=None if is_synthetic else "anthropic",
        model=None if is_synthetic else model or None,
        usage=None if is_synthetic else _usage(group),
        stop_reason=_last_text(node.message.get("stop_reason") for node in group),
        extra={**extra, "synthetic": True} if is_synthetic else extra,
    )


def _carry_user(draft: Draft, node: _Node, nodes: list[_Node]) -> None:
    content = blocks.content_of(node.message.get("content"))
    uuid = text_at(node.value, "uuid")
    if node.value.get("isCompactSummary") is True:
        _carry_compaction(draft, node, nodes, text_of(content))
        return
    said = content
    if isinstance(content, list):
        answers = [block for block in content if block.get("type") == "tool_result"]
        said = [block for block in content if block.get("type") != "tool_result"]
        for answer in answers:
            draft.result(
                draft.answer_id(answer.get("tool_use_id")),
                blocks.content_of(answer.get("content")),
                record_id=uuid,
                ts=node.ts,
                is_error=answer.get("is_error") is True,
            )
            uuid = ""
        if answers and not said:
            return
    is_meta = node.value.get("isMeta") is True
    draft.user(said, record_id=uuid, ts=node.ts, extra={"meta": True} if is_meta else {})


def _carry_compaction(draft: Draft, node: _Node, nodes: list[_Node], summary: str) -> None:
    boundary = {} if node.parent is None else nodes[node.parent].value
    about = mapping(boundary.get("compactMetadata"))
    listed = listing(mapping(about.get("preservedMessages")).get("uuids"))
    kept = (mapping(about.get("preservedSegment")).get("headUuid"), *listed)
    blocks.compaction(
        draft,
        bare_summary(summary),
        first_kept=next((uuid for uuid in kept if is_text(uuid) and draft.has(uuid)), None),
        tokens_before=integer(about.get("preTokens")),
        reason=text_at(about, "trigger") or None,
        record_id=text_at(node.value, "uuid"),
        ts=node.ts,
    )


def _carry_loose_result(draft: Draft, node: _Node) -> None:
    """An old kind of line: a result that names its tool and not its call."""
    name = text_at(node.value, "name")
    call_id = draft.answer_id(node.value.get("tool_use_id"), name)
    output = node.value.get("output", node.value.get("content"))
    draft.result(
        call_id,
        blocks.content_of(output),
        name=name,
        record_id=text_at(node.value, "uuid"),
        ts=node.ts,
    )


def _merge_blocks(draft: Draft, group: list[_Node]) -> Content:
    """The blocks of a message's lines; a line that repeats an earlier one adds nothing."""
    if len(group) == 1:
        return blocks.with_ids(draft, blocks.content_of(group[0].message.get("content")))
    merged: list[Json] = []
    for node in group:
        fresh = blocks.blocks_of(node.message.get("content"))
        merged += [block for block in fresh if block not in merged]
    return blocks.with_ids(draft, merged)


def _usage(group: list[_Node]) -> Json | None:
    """Return the reported usage: early lines hold a placeholder for the output."""
    reported = [usage for node in group if (usage := mapping(node.message.get("usage")))]
    if not reported:
        return None
    return max(reversed(reported), key=lambda one: integer(one.get("output_tokens")) or 0)


def _skip_loose(draft: Draft, loose: list[_Node], nodes: list[_Node]) -> str:
    """Count the lines that are no messages; the title among them is returned."""
    known = {node.value.get("uuid") for node in nodes if is_text(node.value.get("uuid"))}
    label = given = ""
    for node in loose:
        kind = node.kind
        if kind == "summary" and text_at(node.value, "leafUuid") in known:
            label = text_at(node.value, "summary")
        elif kind in _TITLES:
            named = text_or_empty(node.value.get(_TITLES[kind]))
            given = named if kind == "custom-title" or not given else given
        elif kind == "system":
            subtype = text_at(node.value, "subtype")
            if subtype != "compact_boundary":
                why = _SYSTEM_WHY.get(subtype, "a note of the program; no model saw it")
                draft.skip(f"system {subtype}".strip(), why)
        elif kind == "attachment":
            inner = text_at(mapping(node.value.get("attachment")), "type")
            draft.skip(f"attachment {inner}".strip(), _WHY["attachment"])
        else:
            draft.skip(kind or "line without a type", _WHY.get(kind, "no message"))
    return given or label


def _nothing_said(source: Source, loose: list[_Node], base: str) -> Imported:
    draft = Draft()
    draft.label = _skip_loose(draft, loose, loose)
    return draft.finish(source, "claude-code", session_name(base))


def _session_id(nodes: list[_Node]) -> str:
    return next(
        (
            session_name(node.value["sessionId"])
            for node in nodes
            if is_text(node.value.get("sessionId"))
        ),
        "",
    )


def _side_name(base: str, first: _Node, *, has_main: bool) -> str:
    agent = text_at(first.value, "agentId")
    if not agent:
        return f"{base}-side" if has_main else base
    return base if agent in base else session_name(f"{base}-agent-{agent}")


def _message_id(node: _Node) -> str:
    return text_at(node.message, "id") if node.kind == "assistant" else ""


def _last_text(values: Iterable[object]) -> str | None:
    found = [value for value in values if isinstance(value, str) and value]
    return found[-1] if found else None


IMPORTER: Final = Importer(
    "claude-code", "Claude Code sessions (~/.claude/projects/…/*.jsonl)", detect, read
)
