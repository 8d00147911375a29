"""The state of a session's work, as a structure that outlives its context.

A state is read from the log by code (`core.checkpoint.capture`), may be added to by a model and set
by the application, is stored whole in a `checkpoint` record, and is shown within any cap
(`core.checkpoint.render`). The field names are those that other tools' checkpoints have, so that
theirs can be read as ours; unknown fields are kept.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.checkpoint.told import ToldLine  # noqa: TC001 - a struct's field
from holdfast.core.extract.tasks import Task
from holdfast.core.log.records import Checkpoint
from holdfast.core.text.cut import has_lone_surrogates, scrub_deep
from holdfast.core.text.typed import convert_typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.log.records import Json, Record

VERSION: Final = 1
"""The format of a stored state; a newer one is refused."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a state; fields it does not know are passed over."""


class UserRequest(_Part, frozen=True):
    """Something the user asked for, in the user's own words."""

    text: str
    record: str = ""
    session: str = ""
    """The earlier session in which it was said, if any."""


class Artifact(_Part, frozen=True):
    """A file whose whole content went through the log."""

    path: str
    type: str = ""
    summary: str = ""
    sha256: str = ""
    """Of the content as it was written; empty once it was edited."""
    bytes: int | None = None
    record: str = ""


class CommandRun(_Part, frozen=True):
    """A command that was run."""

    command: str
    exit_code: int | None = None
    is_failed: bool = False
    record: str = ""


class FailedAction(_Part, frozen=True):
    """Something that went wrong, and what was done next."""

    error: str
    """The last line of what was said about it."""
    tool: str = ""
    tried: str = ""
    """The command, or the change, that failed."""
    is_command: bool = False
    record: str = ""
    then: tuple[str, ...] = ()
    is_resolved: bool = False
    """The same was done again, and worked."""


class SubagentResult(_Part, frozen=True):
    """The result of another agent, or of a task given to one."""

    subagent_type: str = ""
    summary: str = ""
    task: str = ""
    is_failed: bool = False
    record: str = ""


class LastExchange(_Part, frozen=True):
    """The last user message, and the last answer to it."""

    user: str = ""
    assistant: str = ""


class OpenCall(_Part, frozen=True):
    """A call whose result has not come yet, as far as the result will need it."""

    id: str
    tool: str = ""
    tried: str = ""
    is_command: bool = False
    changes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    artifact: Artifact | None = None
    deletes: bool = False
    subagent: SubagentResult | None = None
    task: Task | None = None


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything a checkpoint knows. What is not known is empty."""

    version: int = VERSION
    """The version of this format."""
    checkpoint_id: str = ""
    """The id of the checkpoint."""
    session_id: str = ""
    """The session that it is about."""
    timestamp: str = ""
    """The time it was taken, in ISO 8601."""
    trigger: str = ""
    """The reason it was taken: `asked`, `compaction` and others."""

    original_request: str = ""
    """The first thing that the user asked for."""
    current_objective: str = ""
    """The objective that the agent works on."""
    requests: tuple[UserRequest, ...] = ()
    """The newest, oldest first; the first of all is the original request."""
    request_count: int = 0
    """Number of the user's requests, those that are not listed included."""
    rules: tuple[str, ...] = ()
    """The user's instructions."""
    last_exchange: LastExchange = LastExchange()
    """The last words of the user and of the agent."""

    completed_tasks: tuple[str, ...] = ()
    """Tasks that are done."""
    pending_tasks: tuple[str, ...] = ()
    """Tasks that are open."""
    current_task: str = ""
    """The task in progress."""
    overall_progress_pct: float = 0.0
    """The share of tasks that are done, in percent."""
    goal_satisfaction: dict[str, Any] = {}
    """Goals and how far each is met, as the application states it."""

    artifacts: tuple[Artifact, ...] = ()
    """Files and other things that were made."""
    files_changed: tuple[str, ...] = ()
    """Paths that were written."""
    files_read: tuple[str, ...] = ()
    """Those that were only read. Both have the newest last."""
    files_omitted: int = 0
    """Number of older paths that are not listed."""
    subagent_results: tuple[SubagentResult, ...] = ()
    """Results of other agents."""
    commands: tuple[CommandRun, ...] = ()
    """Commands that ran, with their outcome."""
    errors: tuple[FailedAction, ...] = ()
    """Actions that failed."""

    learnings: tuple[str, ...] = ()
    """Sentences about what was learned."""
    key_decisions: tuple[str, ...] = ()
    """Decisions, in the words they were made in."""
    failed_approaches: tuple[str, ...] = ()
    """Approaches that did not work."""

    tools_used: dict[str, int] = {}
    """Number of calls by tool."""
    tool_call_count: int = 0
    """Number of all tool calls."""
    context_tokens_estimate: int = 0
    """Estimated tokens in view."""
    context_utilization_pct: float = 0.0
    """The share of the window that they take, in percent."""
    execution_time_seconds: float = 0.0
    """Seconds that the work took."""

    upto: str = ""
    """The last record it was read from."""
    from_session: str = ""
    """The session whose state it began with."""
    given: dict[str, Any] = {}
    """Fields that the application set: they hold until it sets them otherwise."""
    added: dict[str, tuple[str, ...]] = {}
    """Entries of lists that a model added."""
    covered: dict[str, Any] = {}
    """Values that code found for fields that are shown otherwise."""
    tasks: tuple[Task, ...] = ()
    """The tasks of a task list, with their states."""
    open_calls: tuple[OpenCall, ...] = ()
    """Tool calls without a result."""
    story: tuple[ToldLine, ...] = ()
    """The newest lines of the narrative, oldest first."""
    story_omitted: int = 0
    """Older lines that are not kept."""
    extra: dict[str, Any] = {}
    """Fields that this version does not know."""


IDENTITY: Final = frozenset(("version", "checkpoint_id", "session_id", "timestamp", "trigger"))
MEASURES: Final = frozenset(
    ("context_tokens_estimate", "context_utilization_pct", "execution_time_seconds")
)
"""Measurements of the caller for one checkpoint; the next has its own."""
WORKING: Final = frozenset(
    (
        *("upto", "from_session", "given", "added", "covered", "tasks", "open_calls", "extra"),
        *("story", "story_omitted"),
    )
)
"""Fields that a later capture needs and no caller sets."""
SETTABLE: Final = frozenset(State.__struct_fields__) - IDENTITY - MEASURES - WORKING

ADDABLE: Final = ("learnings", "key_decisions", "failed_approaches", "pending_tasks", "rules")
"""Lists of sentences that a model may add to."""


class Bad(msgspec.Struct, frozen=True):
    """A checkpoint that cannot be used, and why."""

    record: str
    reason: str


class Loaded(msgspec.Struct, frozen=True):
    """The newest checkpoint that can be used, and those after it that cannot."""

    state: State | None = None
    record: str = ""
    passed_over: tuple[Bad, ...] = ()


def to_json(state: State) -> Json:
    """A state as it is stored; fields of other versions are where they were."""
    plain: Json = msgspec.to_builtins(state)
    unknown = plain.pop("extra", {})
    plain["version"] = state.version
    for name in State.__struct_fields__:
        unknown.pop(name, None)  # ours is what counts, also where it is empty
    whole = {**unknown, **plain}
    if not has_lone_surrogates(whole):
        made = msgspec.json.decode(msgspec.json.encode(whole))
    else:
        made = scrub_deep(whole)
    assert isinstance(made, dict)
    return made


def read_state(value: object) -> State | str:
    """The state in stored JSON, or why it is none. Never raises."""
    if not isinstance(value, dict):
        return f"expected an object, found {type(value).__name__}"
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        return "it has no version, so it is not a state of Holdfast"
    if version > VERSION:
        return f"it was written by a newer Holdfast (version {version}, this one reads {VERSION})"
    known = set(State.__struct_fields__) - {"extra"}
    unknown = {str(name): item for name, item in value.items() if name not in known}
    fields = {name: item for name, item in value.items() if name in known}
    try:
        state = convert_typed({**fields, "extra": unknown}, State)
        for name, item in (*state.given.items(), *state.covered.items()):
            if name not in SETTABLE:
                return f"`{name}` is not a field that can be set"
            field_value(name, item)
    except (msgspec.ValidationError, RecursionError) as error:
        return f"a field has the wrong shape: {error}"
    strange = state.added.keys() - set(ADDABLE)
    return f"`{min(strange)}` is not a list that can be added to" if strange else state


def field_value(name: str, value: Any) -> Any:
    """A plain value in the type that the field has. Raises `ValidationError` where it is none."""
    return getattr(convert_typed({name: value}, State), name)


def newest(records: Iterable[Record]) -> Loaded:
    """The newest usable checkpoint among records that are shown newest first."""
    passed: list[Bad] = []
    for record in records:
        if isinstance(record, Checkpoint):
            found = read_state(record.state)
            if isinstance(found, State):
                return Loaded(found, record.id, tuple(passed))
            passed.append(Bad(record.id, found))
    return Loaded(passed_over=tuple(passed))


def from_foreign(value: Mapping[str, Any]) -> State | str:
    """A checkpoint of another tool, read field by field; or why nothing of it can be read.

    A field that is not as expected is put aside as `unread`, and one that is not known is kept.
    """
    known = frozenset(State.__struct_fields__) - WORKING - {"version"}
    fields: Json = {"version": VERSION, "extra": {}}
    unread: Json = {}
    for name, item in value.items():
        if name not in State.__struct_fields__:
            fields["extra"][str(name)] = item
        elif name in known and (read := _read_field(name, item)) is not None:
            fields[name] = read
        elif item is not None:
            unread[name] = item
    if unread:
        fields["extra"]["unread"] = unread
    if not (SETTABLE & fields.keys()):
        return "it has no field of a checkpoint"
    state = convert_typed(fields, State)
    chain = state.requests or tuple(
        UserRequest(text=text) for text in (state.original_request,) if text
    )
    tasks = (
        *(Task(text, "done") for text in state.completed_tasks),
        *(Task(text) for text in state.pending_tasks),
    )
    errors = state.errors or tuple(
        FailedAction(error="", tried=text) for text in state.failed_approaches
    )
    return msgspec.structs.replace(
        state,
        requests=chain,
        request_count=max(state.request_count, len(chain)),
        tasks=tasks,
        errors=errors,
    )


def _read_field(name: str, item: Any) -> Any:
    """A field of another tool's checkpoint in the shape of ours; None where it has none."""
    if item is None:
        return None
    if name == "tools_used" and isinstance(item, list):
        item = {tool: 1 for tool in item if isinstance(tool, str)}
    if name == "artifacts" and isinstance(item, list):
        item = [_rename_summary(entry) for entry in item if isinstance(entry, dict)]
    try:
        read = convert_typed({name: item}, State, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None
    return msgspec.to_builtins(getattr(read, name))


def _rename_summary(artifact: Json) -> Json:
    """`description` is what others call a summary."""
    return {"summary": artifact.get("description", ""), **artifact}


def id_for(session: str, upto: str, trigger: str, now: float) -> str:
    """The id of a checkpoint: sortable by time, and no two of a session have the same."""
    told = f"{session}\0{upto}\0{trigger}\0{now!r}".encode(errors="replace")
    word = "".join(item if item.isalnum() or item in "_-" else "_" for item in trigger)[:40]
    return f"ckpt_{int(now)}_{word or 'asked'}_{hashlib.sha256(told).hexdigest()[:8]}"
