"""The state of the work at a cut: open tasks, the last check, files changed and not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract import tasks
from holdfast.core.extract.shell_commands import is_look, same_command
from holdfast.core.narrative.calls import one_line
from holdfast.core.narrative.digest import commits
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.extract.tasks import Task
    from holdfast.core.extract.touched_files import Touch
    from holdfast.core.narrative.digest import Digest

_COMMAND_CHARS: Final = 160
"""Of the last check: two lines of a terminal."""
_RESULT_CHARS: Final = 300
"""Of its outcome, from the end: the line that says it, and what comes before."""
_FOLDER: Final = lazy_pattern(r"(?:\bcd|\s-C|--cwd|--repository)[ =]+[\"']?(/[^\s\"';&|]{1,400})")
"""The folder that a command works in."""
_VERSIONING: Final = lazy_pattern(r"\s*(?:git|hg|jj|svn)\s")
_JOINED: Final = lazy_pattern(r"&&|;")
_GROUPING: Final = lazy_pattern(r"['\"`({\n]|<<")
"""Signs of a command whose parts cannot be told by what joins them."""
_REMOVAL: Final = lazy_pattern(
    r"(?:^|[\n;&|])\s*(?:git\s+(?:-C\s+\S{1,400}\s+)?)?(?:rm|unlink)\s+([^\n;&|]{1,4000})"
)
"""The commands by which a shell and git delete files, with what they are given."""


class WorkState(msgspec.Struct, frozen=True):
    """The state that the records show."""

    open_tasks: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files that were changed, the newest last."""
    uncommitted: tuple[str, ...] = ()
    """Those of them that were changed after the last commit, as far as the records show."""
    check: str = ""
    """The newest command of which a part was run before, and what came of it."""
    paths: tuple[str, ...] = ()
    """Every file that a call named."""


def read_state(digests: Sequence[Digest], earlier: WorkState) -> WorkState:
    """Return the state after these records; `earlier` is the state before them."""
    open_tasks = [tasks.Task(text) for text in earlier.open_tasks]
    changed = dict.fromkeys((*earlier.changed, *earlier.uncommitted))
    uncommitted = dict.fromkeys(earlier.uncommitted)
    paths: dict[str, None] = dict.fromkeys(changed)
    touched: dict[str, tuple[Touch, ...]] = {}
    commands: dict[str, str] = {}
    changes: dict[str, tasks.Change] = {}
    ran: dict[str, None] = {}
    check = earlier.check
    for digest in digests:
        touched.update(digest.calls)
        commands.update(digest.commands)
        changes.update(digest.changes)
        open_tasks = _with_tasks(open_tasks, digest)
        outcome = digest.outcome
        if outcome is None:
            continue
        change = changes.pop(outcome.call, None)
        if change is not None and not outcome.is_failed:
            open_tasks = _apply_change(open_tasks, change, digest.new_task)
        for touch in touched.pop(outcome.call, ()):
            if outcome.is_failed or outcome.is_refused:
                continue
            paths[touch.path] = None
            if touch.is_change:
                for kept in (changed, uncommitted):
                    kept.pop(touch.path, None)
                    kept[touch.path] = None
        command = commands.pop(outcome.call, "")
        if not command or outcome.is_refused:
            continue
        if not outcome.is_failed:
            for path in _find_deleted(command, changed):
                changed.pop(path)
                uncommitted.pop(path, None)
        if commits(command) and not outcome.is_failed:
            for path in _files_in_commit(command, uncommitted):
                del uncommitted[path]
        parts = _parts_of(command)
        is_again = any(part in ran for part in parts)
        ran.update(dict.fromkeys(parts))
        if is_again:
            check = _check_line(command, outcome.text, is_failed=outcome.is_failed)
    return WorkState(
        open_tasks=tuple(
            _task_line(task) for task in open_tasks if task.status in ("open", "doing")
        ),
        changed=tuple(changed),
        uncommitted=tuple(uncommitted),
        check=check,
        paths=tuple(paths),
    )


def _parts_of(command: str) -> list[str]:
    """The keys of the commands that a line joins, as `lint && test`, without those that only show
    something, and those of a version control system, which store and share but check nothing."""
    is_whole = _GROUPING.search(command) is not None
    parts = [command] if is_whole else _JOINED.split(command)
    return [
        same_command(part)
        for part in parts
        if part.strip() and not is_look(part) and not _VERSIONING.match(part)
    ]


def _files_in_commit(command: str, paths: Iterable[str]) -> list[str]:
    """Return the files that a commit can hold: where it names a folder, those in it."""
    found = _FOLDER.search(command)
    if found is None:
        return list(paths)
    folder = found[1].rstrip("/")
    return [path for path in paths if path[:1] != "/" or path.startswith(f"{folder}/")]


def _find_deleted(command: str, paths: Iterable[str]) -> list[str]:
    """Return the files that a command names for deletion, by their path or the end of it."""
    named = [
        word.strip("\"'").removeprefix("./").rstrip("/")
        for match in _REMOVAL.finditer(command[:4_000])
        for word in match[1].split()
        if word[:1] != "-"
    ]
    return [
        path
        for path in paths
        if any(
            name and (path == name or path.endswith(f"/{name}") or path.startswith(f"{name}/"))
            for name in named
        )
    ]


def _check_line(command: str, result: str, *, is_failed: bool) -> str:
    """The command and the end of its output. A call that did not fail is not said to have
    succeeded: behind a pipe, the status is that of the last program."""
    outcome = " failed" if is_failed else ""
    said = cut(" ".join(result.split()), _RESULT_CHARS, keep="tail", marker=ellipsis).text
    told = f": {said}" if said else ""
    return f"`{one_line(command, _COMMAND_CHARS)}`{outcome}{told}"


def _with_tasks(known: list[Task], digest: Digest) -> list[Task]:
    if digest.listed is not None:
        known = tasks.replace_list(known, digest.listed)
    if digest.done:
        known = tasks.merge(known, [tasks.Task(text, "done", "text") for text in digest.done])
    return known


def _apply_change(known: list[Task], change: tasks.Change, new_id: str) -> list[Task]:
    if change.id:
        return tasks.apply_change(known, change)
    added = tasks.Task(change.text, change.status or "open", "entry", new_id)
    return tasks.merge(known, [added])


def _task_line(task: Task) -> str:
    return f"{task.text} (in progress)" if task.status == "doing" else task.text
