"""Collect the actions of a session for a checkpoint: calls and their outcomes.

A call is remembered until its result says whether it worked; only then do its files, its command
or its errand count. What failed stays an open failure until the same is done again and works.
Every list keeps its newest entries, record by record, so that it does not matter in how many
pieces a log is read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.checkpoint.state import (
    Artifact,
    CommandRun,
    FailedAction,
    OpenCall,
    SubagentResult,
)
from holdfast.core.extract import tasks
from holdfast.core.extract.shell_commands import command_in, exit_code, same_command, without_setup
from holdfast.core.extract.touched_files import deletes_files, find_touches, whole_content
from holdfast.core.limits import (
    CHECKPOINT_CALLS_MAX,
    CHECKPOINT_ENTRIES_MAX,
    CHECKPOINT_ENTRY_CHARS,
    CHECKPOINT_FILES_MAX,
    CHECKPOINT_TASKS_MAX,
    CHECKPOINT_TRIED_MAX,
)
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, text_of
from holdfast.core.models.messages import ToolCall, read_blocks
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.records import Json, Record

_ERRANDS: Final = lazy_pattern(r"(?i)sub_?agent|(?<![a-z])(?:task|agent|delegate|dispatch|spawn)")
_ERRAND_TYPES: Final = ("subagent_type", "agent_type", "agent", "agentType", "agent_name", "role")
_ERRAND_TEXTS: Final = ("description", "prompt", "task", "instructions", "message", "goal")
_TRIED_CHARS: Final = 140
"""One line of a terminal beside the error: enough to recognise the command."""
_BARE_CODE: Final = lazy_pattern(r"(?i)(?:command )?(?:exit(?:ed)?|failed)\W.{0,40}?\d+\W*")
_KINDS: Final[dict[str, str]] = {
    "md": "document", "txt": "document", "rst": "document", "html": "document", "pdf": "document",
    "json": "data", "jsonl": "data", "csv": "data", "yaml": "data", "yml": "data", "toml": "data",
    "xml": "data", "sql": "code", "py": "code", "ts": "code", "tsx": "code", "js": "code",
    "jsx": "code", "go": "code", "rs": "code", "c": "code", "h": "code", "cpp": "code",
    "java": "code", "rb": "code", "sh": "code", "css": "code", "swift": "code", "kt": "code",
    "png": "picture", "jpg": "picture", "jpeg": "picture", "svg": "picture", "gif": "picture",
}  # fmt: skip


class Work:
    """The work done so far."""

    def __init__(self, state: State) -> None:
        self.calls = {call.id: call for call in state.open_calls}
        self.files = {
            **dict.fromkeys(state.files_read, False),
            **dict.fromkeys(state.files_changed, True),
        }
        self.files_omitted = state.files_omitted
        self.artifacts = {artifact.path: artifact for artifact in state.artifacts}
        self.commands = list(state.commands)
        self.errors = list(state.errors)
        self.errands = list(state.subagent_results)
        self.tasks = list(state.tasks)
        self.tools = dict(state.tools_used)
        self.call_count = state.tool_call_count

    def feed(self, record: Record) -> None:
        match record:
            case Assistant():
                for block in read_blocks(record.content):
                    if isinstance(block, ToolCall):
                        self._note_call(block.id, block.name, block.arguments, record.id)
            case ToolUse() if record.tool_use_id not in self.calls:
                arguments = record.input if isinstance(record.input, dict) else {}
                self._note_call(record.tool_use_id, record.name, arguments, record.id)
            case ToolResult():
                self._came(record)
            case _:
                pass  # only calls and results are actions

    @property
    def failed_approaches(self) -> tuple[str, ...]:
        """Return the attempts that failed, each once, the newest last."""
        found = {
            _approach(error): None
            for error in self.errors
            if error.tried and not error.is_resolved and not _BARE_CODE.fullmatch(error.error)
        }
        return tuple(found)

    # Calls

    def _note_call(self, call_id: str, tool: str, arguments: Json, record: str) -> None:
        self.call_count += 1
        name = cut(" ".join(scrub(tool).split()), 80).text
        if name in self.tools or len(self.tools) < CHECKPOINT_CALLS_MAX:
            self.tools[name] = self.tools.get(name, 0) + 1
        listed = tasks.whole_list(arguments)
        if listed is not None:
            self._set_tasks(tasks.replace_list(self.tasks, listed))
        call = _open_call(call_id, name, arguments, record)
        self._note_attempt(call)
        self.calls.pop(call_id, None)
        self.calls[call_id] = call
        if len(self.calls) > CHECKPOINT_CALLS_MAX:
            del self.calls[next(iter(self.calls))]
        change = tasks.entry_change(tool, arguments) if listed is None else None
        if change is not None and change.id:
            self._set_tasks(tasks.apply_change(self.tasks, change))

    def _note_attempt(self, call: OpenCall) -> None:
        """Note a call after an error as a possible attempt to fix it."""
        last = self.errors[-1] if self.errors else None
        if last is None or last.is_resolved or not call.tried or call.tried in last.then:
            return
        if call.tried != last.tried and len(last.then) < CHECKPOINT_TRIED_MAX:
            self.errors[-1] = msgspec.structs.replace(last, then=(*last.then, call.tried))

    # Results

    def _came(self, record: ToolResult) -> None:
        call = self.calls.pop(record.tool_use_id, None)
        if call is None:
            call = OpenCall(id=record.tool_use_id, tool=record.name or "")
        code = exit_code(record) if call.is_command else None
        is_failed = record.is_error or bool(code)
        if call.is_command:
            done = CommandRun(
                command=call.tried, exit_code=code, is_failed=is_failed, record=record.id
            )
            _add(self.commands, done)
        if call.subagent is not None:
            _add(self.errands, _subagent_result(call.subagent, record, is_failed=is_failed))
        if is_failed:
            self._note_failure(call, record)
        else:
            self._note_success(call, record)

    def _note_success(self, call: OpenCall, record: ToolResult) -> None:
        for path in call.reads:
            self._touch(path, is_change=False)
        for path in call.changes:
            self._touch(path, is_change=True)
            self._note_artifact(path, call)
        if call.task is not None:
            text = scrub(text_of(record.content))
            made = msgspec.structs.replace(call.task, id=tasks.new_id(text))
            self._set_tasks(tasks.merge(self.tasks, [made]))
        if call.tried:
            self.errors = [
                msgspec.structs.replace(error, is_resolved=True) if _is_same(error, call) else error
                for error in self.errors
            ]

    def _note_failure(self, call: OpenCall, record: ToolResult) -> None:
        error = _last_line(scrub(text_of(record.content)))
        if not error:
            return
        one = FailedAction(
            error=error,
            tool=call.tool,
            tried=call.tried,
            is_command=call.is_command,
            record=record.id,
        )
        # The same failure again is the same failure, as new as the last time.
        self.errors = [
            other for other in self.errors if other.error != error or not _is_same(other, call)
        ]
        self.errors.append(one)
        if len(self.errors) > CHECKPOINT_ENTRIES_MAX:
            settled = (place for place, other in enumerate(self.errors) if other.is_resolved)
            del self.errors[next(settled, 0)]

    def _touch(self, path: str, *, is_change: bool) -> None:
        was_changed = self.files.pop(path, False)
        self.files[path] = is_change or was_changed
        if len(self.files) > CHECKPOINT_FILES_MAX:
            read = (one for one, is_changed in self.files.items() if not is_changed)
            del self.files[next(read, next(iter(self.files)))]
            self.files_omitted += 1

    def _note_artifact(self, path: str, call: OpenCall) -> None:
        before = self.artifacts.pop(path, None)
        if call.deletes:
            return
        if call.artifact is not None and call.artifact.path == path:
            self.artifacts[path] = call.artifact
        elif before is not None:
            self.artifacts[path] = msgspec.structs.replace(before, sha256="", bytes=None)
        if len(self.artifacts) > CHECKPOINT_ENTRIES_MAX * 2:
            del self.artifacts[next(iter(self.artifacts))]

    def _set_tasks(self, found: list[tasks.Task]) -> None:
        self.tasks = tasks.keep_newest(found, CHECKPOINT_TASKS_MAX)

    def tell_tasks(self, found: list[tasks.Task]) -> None:
        """Record the tasks that a text states."""
        if found:
            self._set_tasks(tasks.merge(self.tasks, found))


def _approach(failure: FailedAction) -> str:
    if not failure.error:  # of a tool that tells both in one text
        return failure.tried
    return f"{_line(without_setup(failure.tried), _TRIED_CHARS)} → {failure.error}"


def _open_call(call_id: str, tool: str, arguments: Json, record: str) -> OpenCall:
    command = command_in(tool, arguments)
    touches = () if command else find_touches(tool, arguments)
    changes = tuple(touch.path for touch in touches if touch.is_change)
    reads = tuple(touch.path for touch in touches if not touch.is_change)
    deletes = deletes_files(tool)
    tried = _line(command)
    if not command and changes:
        tried = _line(f"{tool} {' '.join(changes)}")
    change = tasks.entry_change(tool, arguments)
    is_new_task = change is not None and not change.id
    return OpenCall(
        id=call_id,
        tool=tool,
        tried=tried,
        is_command=bool(command),
        changes=changes,
        reads=reads,
        artifact=_artifact(tool, arguments, changes, record) if not deletes else None,
        deletes=deletes,
        subagent=_errand(tool, arguments) if not command else None,
        task=tasks.Task(change.text, change.status or "open", "entry")
        if change is not None and is_new_task
        else None,
    )


def _artifact(tool: str, arguments: Json, changes: tuple[str, ...], record: str) -> Artifact | None:
    """Return the artifact of a call that writes the whole content of one file."""
    content = whole_content(tool, arguments)
    if len(changes) != 1 or content is None:
        return None
    data = scrub(content).encode()
    return Artifact(
        path=changes[0],
        type=_kind(changes[0]),
        summary=_first_line(content),
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        record=record,
    )


def _kind(path: str) -> str:
    return _KINDS.get(path.rpartition(".")[2].lower(), "file")


def _errand(tool: str, arguments: Json) -> SubagentResult | None:
    """Return the errand given to another agent; None if the call asks none."""
    kind = _first(arguments, _ERRAND_TYPES)
    has_kind = any(key in arguments for key in _ERRAND_TYPES[:2])
    if not has_kind and not (_ERRANDS.match(tool) and _first(arguments, _ERRAND_TEXTS[1:])):
        return None
    if tasks.entry_change(tool, arguments) is not None:
        return None
    return SubagentResult(
        subagent_type=_line(kind or tool, 80), task=_line(_first(arguments, _ERRAND_TEXTS))
    )


def _subagent_result(
    errand: SubagentResult, record: ToolResult, *, is_failed: bool
) -> SubagentResult:
    summary = _line(text_of(record.content))
    return msgspec.structs.replace(errand, summary=summary, is_failed=is_failed, record=record.id)


def _first(arguments: Json, keys: tuple[str, ...]) -> str:
    found = (arguments.get(key) for key in keys)
    return next((item for item in found if isinstance(item, str) and item.strip()), "")


def _is_same(failure: FailedAction, call: OpenCall) -> bool:
    """Return whether a call does again what failed: the same command, or a change of the same
    files."""
    if failure.is_command != call.is_command or bool(failure.tried) != bool(call.tried):
        return False
    return _key(failure.tried, failure.is_command) == _key(call.tried, call.is_command)


def _key(tried: str, is_command: bool) -> str:
    return same_command(tried) if is_command else tried.partition(" ")[2]


def _line(text: str, chars: int = CHECKPOINT_ENTRY_CHARS) -> str:
    return cut(" ".join(scrub(text).split()), chars, marker=ellipsis).text


def _last_line(text: str) -> str:
    lines = _lines(text)
    return _line(next(lines, ""))


def _lines(text: str) -> Iterator[str]:
    """The lines that say something, the last first."""
    return (line for line in reversed(text[-20_000:].splitlines()) if line.strip())


def _first_line(content: str) -> str:
    """Return the first line of words in a file."""
    for line in content[:2_000].splitlines():
        bare = line.strip(" \t#/*\"'`-=<>!;")
        if len(bare) >= 3 and any(item.isalpha() for item in bare):
            return _line(bare, 100)
    return ""


def _add(entries: list[Any], entry: Any) -> None:
    entries.append(entry)
    if len(entries) > CHECKPOINT_ENTRIES_MAX:
        del entries[0]
