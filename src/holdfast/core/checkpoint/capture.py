"""A checkpoint's state, read from the log by code.

Reading goes record by record and a state holds all that the next record needs. So a state that goes
on from an earlier one is the state that reading everything would give: after a restart, after a
compaction, and, because only the path to the head is read, after a rewind. A record of a checkpoint
adds nothing but what the application or a model had set in it; at the beginning of a session it is
what that session starts with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.checkpoint.actions import Work
from holdfast.core.checkpoint.state import (
    MEASURES,
    SETTABLE,
    WORKING,
    LastExchange,
    State,
    UserRequest,
    field_value,
    id_for,
    read_state,
)
from holdfast.core.checkpoint.told import ToldLines
from holdfast.core.extract.statements import same_words
from holdfast.core.extract.tasks import checkboxes
from holdfast.core.limits import (
    CHECKPOINT_ENTRIES_MAX,
    CHECKPOINT_ENTRY_CHARS,
    CHECKPOINT_EXCHANGE_CHARS,
    CHECKPOINT_REQUEST_CHARS,
    CHECKPOINT_REQUESTS_MAX,
    SIDECAR_ITEM_CHARS,
    SIDECAR_ITEMS_MAX,
)
from holdfast.core.log.records import Checkpoint, Flush, Header
from holdfast.core.log.replay import assistant_text, place_after, user_text, with_ids
from holdfast.core.narrative.digest import digest_record, words_of
from holdfast.core.refusals import as_sent, read_left_out
from holdfast.core.text.cut import cut, scrub_deep
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest

_OBJECTIVE_WORDS_MIN: Final = 4
"""Shorter words of the user answer or thank; they are no new objective."""
_SCANNED_CHARS: Final = 40_000
"""Of a longer message, the beginning and the end: what is between them was pasted."""


def capture_state(
    records: Iterable[Record],
    *,
    session: str,
    trigger: str,
    now: float,
    previous: State | None = None,
    extra: Mapping[str, Any] | None = None,
    digest: Callable[[Record], Digest | None] = digest_record,
) -> State:
    """The state after `records`, the path of a session, oldest first.

    `previous` saves reading what it was read from: it counts where the record it ends at is among
    the records, which may then begin there. After a rewind it may have been on another branch, and
    the records must be the whole path. `extra` sets fields; what it sets holds until it is set to
    something else, or to None, which leaves the field to code again. What a model refused is not
    told; where that is older than `previous`, the records are the whole path, without a `previous`.
    `digest` is `digest_record`, or what has its results.
    """
    path = with_ids(list(records))
    start = place_after(path, previous.upto) if previous is not None else None
    known = previous if previous is not None and start is not None else State()
    reading = _Reading(known, session, digest)
    left_out = read_left_out(path)
    for record in path[start or 0 :]:
        for told in as_sent((record,), left_out):
            reading.feed(told)
        reading.pass_by(record)
    state = reading.state()
    identity = {
        "checkpoint_id": id_for(session, state.upto, trigger, now),
        "timestamp": iso_utc(now),
        "trigger": trigger,
    }
    state = msgspec.structs.replace(state, session_id=session, **identity)
    return amend(state, extra or {})


def amend(
    state: State,
    extra: Mapping[str, Any] | None = None,
    added: Mapping[str, Sequence[str]] | None = None,
) -> State:
    """The state with fields set by the application, and with entries that a model added."""
    given, unknown, measures = dict(state.given), dict(state.extra), {}
    for name, value in (extra or {}).items():
        if name in MEASURES:
            measures[name] = _check_field(name, value)
        elif name not in SETTABLE:
            if name in State.__struct_fields__:
                raise BadSetting(
                    f"`{name}` of a checkpoint cannot be set",
                    hint=f"these can: {', '.join(sorted(SETTABLE | MEASURES))}",
                )
            unknown[name] = value
        elif value is None:
            given.pop(name, None)
        else:
            given[name] = _plain(_check_field(name, value))
    more = {name: tuple(entries) for name, entries in (added or state.added).items() if entries}
    bare = _uncover(state)
    bare = msgspec.structs.replace(bare, given=given, added=more, extra=unknown, **measures)
    return _cover(bare)


class _Reading:
    """A path, as far as it has been read."""

    def __init__(
        self, state: State, session: str, digest: Callable[[Record], Digest | None]
    ) -> None:
        state = _uncover(state)
        self._session = session
        self._digest = digest
        self._begin(state)

    def _begin(self, state: State) -> None:
        self._state = state
        self._work = Work(state)
        self._requests = list(state.requests)
        self._request_count = state.request_count
        self._original = state.original_request
        self._objective = state.current_objective
        self._rules = _key_by_words(state.rules)
        self._decisions = _key_by_words(state.key_decisions)
        self._learnings = _key_by_words(state.learnings)
        self._exchange = state.last_exchange
        self._given, self._added = dict(state.given), dict(state.added)
        self._extra = dict(state.extra)
        self._story = ToldLines(
            state.story,
            state.story_omitted,
            SIDECAR_ITEMS_MAX,
            SIDECAR_ITEM_CHARS,
            self._digest,
        )
        self._upto = state.upto
        self._from_session = state.from_session

    def feed(self, record: Record) -> None:
        if isinstance(record, Checkpoint):
            self._set(record)
        elif isinstance(record, Flush):
            for note in record.notes:
                _note(self._learnings, note)
        elif text := user_text(record):
            self._read_request(text, record.id)
        elif text := assistant_text(record):
            self._read_reply(text)
        self._work.feed(record)
        self._story.feed(record)

    def pass_by(self, record: Record) -> None:
        """Go on behind a record, also behind one of which nothing is told."""
        if not isinstance(record, Header) and record.id:
            self._upto = record.id

    def _set(self, record: Checkpoint) -> None:
        state = read_state(record.state)
        if not isinstance(state, State):
            return
        is_first = not self._request_count and not self._work.call_count
        if is_first:  # the state that the session starts from, whichever session it is of
            self._begin(_inherit(state, self._session))
            return
        self._given, self._added = dict(state.given), dict(state.added)
        self._extra = dict(state.extra)

    def _read_request(self, text: str, record: str) -> None:
        short = cut(text, CHECKPOINT_REQUEST_CHARS).text
        self._requests.append(UserRequest(text=short, record=record))
        del self._requests[:-CHECKPOINT_REQUESTS_MAX]
        self._request_count += 1
        self._original = self._original or short
        if not self._objective or len(words_of(text[:200])) >= _OBJECTIVE_WORDS_MIN:
            self._objective = short
        self._exchange = LastExchange(user=cut(text, CHECKPOINT_EXCHANGE_CHARS).text)
        self._work.tell_tasks(checkboxes(_edges(text)))

    def _read_reply(self, text: str) -> None:
        self._exchange = LastExchange(
            user=self._exchange.user, assistant=cut(text, CHECKPOINT_EXCHANGE_CHARS).text
        )
        self._work.tell_tasks(checkboxes(_edges(text)))

    def state(self) -> State:
        work = self._work
        done = tuple(task.text for task in work.tasks if task.status == "done")
        to_do = tuple(task.text for task in work.tasks if task.status != "done")
        doing = [task.text for task in work.tasks if task.status == "doing"]
        state = State(
            original_request=self._original,
            current_objective=self._objective,
            requests=tuple(self._requests),
            request_count=self._request_count,
            rules=tuple(self._rules.values()),
            last_exchange=self._exchange,
            completed_tasks=done,
            pending_tasks=to_do,
            current_task=doing[-1] if doing else "",
            overall_progress_pct=round(100 * len(done) / (len(done) + len(to_do)), 1)
            if done or to_do
            else 0.0,
            artifacts=tuple(work.artifacts.values()),
            files_changed=tuple(path for path, is_changed in work.files.items() if is_changed),
            files_read=tuple(path for path, is_changed in work.files.items() if not is_changed),
            files_omitted=work.files_omitted,
            subagent_results=tuple(work.errands),
            commands=tuple(work.commands),
            errors=tuple(work.errors),
            learnings=tuple(self._learnings.values()),
            key_decisions=tuple(self._decisions.values()),
            failed_approaches=work.failed_approaches,
            tools_used=work.tools,
            tool_call_count=work.call_count,
            upto=self._upto,
            from_session=self._from_session,
            given=self._given,
            added=self._added,
            tasks=tuple(work.tasks),
            open_calls=tuple(work.calls.values()),
            story=self._story.lines,
            story_omitted=self._story.omitted,
            extra=self._extra,
        )
        return _cover(state)


def _inherit(state: State, session: str) -> State:
    """The state of earlier work, as `session` begins with it."""
    if state.session_id == session:
        return msgspec.structs.replace(_uncover(state), upto="", open_calls=())
    requests = tuple(
        request if request.session else msgspec.structs.replace(request, session=state.session_id)
        for request in state.requests
    )
    bare = _uncover(state)
    measures = {name: getattr(State(), name) for name in MEASURES}
    return msgspec.structs.replace(
        bare, requests=requests, upto="", from_session=state.session_id, open_calls=(), **measures
    )


def _key_by_words(sentences_: Iterable[str]) -> dict[str, str]:
    return {same_words(sentence): sentence for sentence in sentences_}


def _note(entries: dict[str, str], sentence: str) -> None:
    """A sentence that was said again is as new as the last time."""
    key = same_words(sentence)
    if not key:
        return
    entries.pop(key, None)
    entries[key] = cut(" ".join(sentence.split()), CHECKPOINT_ENTRY_CHARS).text
    if len(entries) > CHECKPOINT_ENTRIES_MAX:
        del entries[next(iter(entries))]


def _edges(text: str) -> str:
    if len(text) <= _SCANNED_CHARS:
        return text
    return text[: _SCANNED_CHARS // 2] + "\n" + text[-_SCANNED_CHARS // 2 :]


# What others set


def _check_field(name: str, value: Any) -> Any:
    """A value for a field, in the field's own type. Raises `BadSetting`."""
    try:
        return field_value(name, _plain(value))
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise BadSetting(
            f"`{name}` of a checkpoint cannot be {str(value)[:80]!r}: {error}",
            hint="the fields and their types are in docs/checkpoints.md",
        ) from error


def _plain(value: Any) -> Any:
    """A value as it is after it was stored: lists and objects, and text that can be encoded."""
    return scrub_deep(msgspec.to_builtins(value))


def _cover(state: State) -> State:
    """The state with what was set and added in place; what code had found is kept beside it."""
    shown: dict[str, Any] = {name: _check_field(name, value) for name, value in state.given.items()}
    for name, entries in state.added.items():
        before = shown.get(name, getattr(state, name))
        known = {same_words(item) for item in before}
        shown[name] = (*before, *(entry for entry in entries if same_words(entry) not in known))
    if not shown:
        return state
    covered = {name: _plain(getattr(state, name)) for name in shown}
    return msgspec.structs.replace(state, covered=covered, **shown)


def _uncover(state: State) -> State:
    """The state as code had found it."""
    if not state.covered:
        return state
    names = state.covered.keys() & (frozenset(State.__struct_fields__) - WORKING)
    found = {name: _check_field(name, state.covered[name]) for name in names}
    return msgspec.structs.replace(state, covered={}, **found)
