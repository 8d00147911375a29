"""What both kinds of session are made of: everything but the driving."""

from __future__ import annotations

import inspect
import random
import time
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import msgspec

from holdfast import config
from holdfast.core.checkpoint.render import render
from holdfast.core.flow.effects import FailedCall, SavedCheckpoint
from holdfast.core.flow.events import SessionReset
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.ids import SessionKey, is_name, new_session_id
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Flush,
    Label,
    Mode,
    Prune,
    Rewind,
    ToolResult,
    Undo,
    User,
    text_of,
)
from holdfast.core.memory.notes import durable, flushed
from holdfast.core.models.prices import price_of
from holdfast.core.models.window import Window, budget_for, check_floor
from holdfast.core.outputs.offload import READS_OUTPUTS, room_for
from holdfast.core.projection.policy import Policy
from holdfast.core.secrets.vault import Vault
from holdfast.core.text.cut import cut
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn import turn
from holdfast.core.turn.run import Course, Terms
from holdfast.engine.outputs import Outputs, output_tool
from holdfast.engine.session.checkpoints import record_of
from holdfast.engine.session.drivers import Listeners, World
from holdfast.engine.session.prepare import memory_for
from holdfast.engine.session.session_log import Log
from holdfast.engine.session.side_files import Continuity
from holdfast.engine.session.status import Status, status_of
from holdfast.engine.session.totals import Totals
from holdfast.engine.tools import Toolbox, made_tools
from holdfast.errors import (
    AccessDenied,
    BadSetting,
    HoldfastError,
    HoldfastWarning,
    NoSuchOutput,
    NoSuchSession,
    SessionExists,
    StoreError,
    UsageError,
)
from holdfast.providers.failures import name_failure
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.checkpoint.state import State
    from holdfast.core.failures.classify import Rule
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.prices import Price
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.projection.project import Plan
    from holdfast.core.secrets.vault import Secret
    from holdfast.engine.memory.search import Memory
    from holdfast.engine.tools import ToolFunction
    from holdfast.ports import AsyncModel, BlobStore, Clock, Hear, Model, Notes, SessionStore

_NEAR_RECORDS: Final = 50
"""How far from the end a session says where it goes on."""
FIRST_LABEL: Final = "initial"
"""What the first session is called where nobody says."""


class Undone(msgspec.Struct, frozen=True):
    """What was taken back."""

    what: str
    record: str
    """The head now."""


class Options(TypedDict, total=False):
    """What a caller may set when a session is opened. What is left out is as in `core.Terms`."""

    system: str
    """The system prompt; the same in every request, or the provider's cache is lost."""
    tools: Iterable[Callable[..., Any] | Tool | ToolFunction]
    """Functions the model may call, or mere declarations where the caller runs them."""
    window: int | Window
    """The model's window in tokens, where it is not as publicly known."""
    output_tokens: int
    policy: Policy
    floor: int
    price: Price
    summary: Literal["model", "extract"]
    summary_calls: int
    summary_tokens: int
    summary_seconds: float
    notes: Literal["extract", "model", "off"]
    checkpoints: Literal["cuts", "turns", "off"]
    steps: int
    recovery_calls: int
    waits: int
    wait_seconds: float
    memory: Memory
    """What is asked, once, about everything the user says."""
    recall: Literal["notes", "sessions", "all"]
    """Which part of the memory; the notes where nobody says."""
    secrets: Mapping[str, str | Secret]
    """Values by name that are stored as handles (`<secret:NAME>`), which tools get resolved."""
    rules: Sequence[Rule]
    """The caller's own rules for naming failures; they come before ours."""


class Held:
    """A session that somebody holds: its log, its terms, and who listens."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: Model | AsyncModel,
        options: Options,
        *,
        summariser: Model | AsyncModel | None = None,
        blobs: BlobStore | None = None,
        clock: Clock = time.time,
        owned: Sequence[Any] = (),
    ) -> None:
        self.store = store
        self.blobs = blobs if blobs is not None else store.blobs
        self._options = checked_options(options)
        self._models = (model, summariser)
        self._owned = list(owned)
        """What is closed with the session: what it opened itself, and nothing else."""
        self._clock = clock
        self._vault = Vault(self._options.get("secrets", {}))
        self._listeners = Listeners()
        self._attach(self._newest_of(key))

    def _attach(self, key: SessionKey) -> None:
        """Hold this session; who listens goes on listening."""
        self.key = key
        options, (model, summariser) = self._options, self._models
        self._toolbox = Toolbox(options.get("tools", ()))
        reader = self._reader(model, options)
        self._toolbox = Toolbox(
            options.get("tools", ()), unlisted=[reader] if reader else [], vault=self._vault
        )
        self._log = Log(self.store, key, self._clock, self.blobs, self._vault)
        self._world = World(
            log=self._log,
            listeners=self._listeners,
            toolbox=self._toolbox,
            blobs=self.blobs,
            mark=self._mark,
            recall=self._recall,
            rules=options.get("rules", ()),
            clock=self._clock,
        )
        self._course = Course(
            _terms(options, model, self._toolbox, summariser, reader), memory_for(model.target)
        )
        self._course.vault = self._vault
        self._course.recalls = "memory" in options
        self._course.keeps_outputs = self.blobs is not None
        self._guard = turn.Guard(self._course, self._named)
        records = self._log.read(self._course.window.tokens)
        self._course.recall_window(records)
        self._course.is_fresh = _mode_in(records) == "fresh"
        self._continuity = Continuity(
            self.store,
            key,
            owner=self._owner(),
            takes_notes=self._course.terms.notes != "off",
            clock=self._clock,
        )
        self._continuity.opened(records)
        self._course.lately = self._continuity.lately
        self._totals: Totals | None = None
        self._log.on_append(self._count)
        self._log.on_append(self._continuity.heard)

    def _recall(self, query: str) -> str:
        """What memory has to say, without what the view says already; nothing where it fails."""
        memory = self._options["memory"]
        try:
            hits = memory.search(query, scope=self._options.get("recall", "notes"))
            return memory.injection(hits, known=_texts_of(self._records()))
        except (HoldfastError, OSError) as error:
            warnings.warn(f"memory could not be asked: {error}", HoldfastWarning, stacklevel=2)
            return ""

    def _newest_of(self, key: SessionKey) -> SessionKey:
        """Where a session in fresh mode is now: each of its sessions names the next."""
        seen = {key}
        while True:
            newest = islice(self.store.back(key), _NEAR_RECORDS)
            found = next((one for one in newest if isinstance(one, Mode)), None)
            if found is None or found.mode != "fresh" or not is_name(found.continued_in or ""):
                return key
            following = SessionKey(key.agent, found.continued_in or "")
            if following in seen or not _exists(self.store, following):
                return key
            seen.add(following)
            key = following

    def _reader(self, model: Model | AsyncModel, options: Options) -> ToolFunction | None:
        """What reads outputs back, where we run the tools and the caller has none of that name."""
        if self.blobs is None or not self._toolbox.has_functions or READS_OUTPUTS in self._toolbox:
            return None
        window, _floor = _window_and_floor(options, model)
        room = room_for(budget_for(window, floor=0).tokens, Estimator())
        return output_tool(Outputs(self.store, self.blobs), self.key, chars_max=room.read_chars)

    def _output_read(self, ref: str, **part: Any) -> Excerpt:
        if self.blobs is None:
            raise NoSuchOutput(ref, self.key.session, "its store keeps no payloads")
        return Outputs(self.store, self.blobs).read(self.key, ref, **part)

    def _named(self, error: object) -> FailedCall:
        return FailedCall(
            name_failure(error, self._world.rules),
            error if isinstance(error, BaseException) else None,
        )

    # What everybody may ask, at no cost

    @property
    def id(self) -> str:
        return self.key.session

    @property
    def target(self) -> Target:
        return self._course.terms.target

    @property
    def window(self) -> Window:
        return self._course.window

    def on(self, handler: Callable[[Any], Any], *kinds: type) -> Callable[[], None]:
        """Call `handler` with every event, or with those of some kinds; returns what ends that.

        A handler that returns `Deny` stops what a `…Started` event announces.
        """
        self._world.listeners.add(handler, kinds or (object,))
        return lambda: self._world.listeners.remove(handler)

    def cancel(self) -> None:
        """Call the running turn off, from any thread. It ends with the next thing it would do."""
        self._world.is_cancelled.set()

    @property
    def note_store(self) -> Notes | None:
        """Where the notes of this session go; none where its store keeps no files."""
        return self._continuity.notes

    def resolve(self, arguments: Json, tool: str) -> Json:
        """The arguments of a call with the values of registered secrets in place of their handles,
        for callers who run the tools themselves."""
        return self._vault.opened(arguments, tool)

    # What the two kinds do alike, once in the right thread

    def _records(self) -> Sequence[Record]:
        return self._log.read(self._course.window.tokens)

    def _plan(self) -> Plan:
        return self._course.plan(self._records(), self._clock())

    def _status(self) -> Status:
        if self._totals is None:
            totals = Totals()
            everything = (entry.record for entry in self.store.read_all(self.key))
            totals.add(everything, self._course.terms)
            self._totals = totals
        plan = self._course.plan(self._records(), self._clock(), pressure="hold")
        return status_of(
            plan,
            self._totals,
            self._course.terms.policy,
            session=self.key.session,
            agent=self.key.agent,
            label=self._label(),
            head=self._log.head,
            mode=self._mode,
        )

    def _count(self, records: Sequence[Record]) -> None:
        if self._totals is not None:
            self._totals.add(records, self._course.terms)

    def _label(self) -> str:
        infos = self.store.sessions(agent=self.key.agent)
        return next((info.label for info in infos if info.key == self.key), "")

    def _messages(self, count: int) -> list[Record]:
        """The newest messages, oldest first."""
        found: list[Record] = []
        wanted = 2 * count
        while True:
            newest = self.store.last(self.key, wanted)
            found = [one for one in newest if isinstance(one, User | Assistant | ToolResult)]
            if len(found) >= count or len(newest) < wanted:
                return found[-count:] if count > 0 else []
            wanted *= 2

    def _notes(self) -> list[str]:
        """Everything that flushes of this session have saved, oldest first."""
        records = self.store.read(self.key)
        return [note for one in records if isinstance(one, Flush) for note in one.notes]

    def _mark(self, trigger: str) -> SavedCheckpoint | None:
        """Store a checkpoint; None where that comes to nothing, which costs nobody a turn."""
        try:
            state = self._continuity.state(trigger)
            return SavedCheckpoint(self._stored(state), state.pending_tasks)
        except (HoldfastError, OSError) as error:
            text = f"no checkpoint of session `{self.key}` was stored: {error}"
            warnings.warn(text, HoldfastWarning, stacklevel=2)
            return None

    def _checkpoint(self, trigger: str, extra: Mapping[str, Any] | None = None) -> str:
        return self._stored(self._continuity.state(trigger, extra))

    def _stored(self, state: State) -> str:
        stored = self._log.append([record_of(state)])
        assert stored is not None
        return stored[0].id

    def _reset(self, label: str) -> SessionKey:
        """A fresh session that still knows what this one was doing, by its checkpoint."""
        self._note_down("reset")
        self._checkpoint("reset")
        state = self._continuity.state("reset")
        new = SessionKey(self.key.agent, new_session_id(random.getrandbits(48)))
        head = self.store.create(
            new,
            label=label,
            parent_session=str(self.key),
            parent_record=self._log.head,
            reason="reset",
            owner=self._owner(),
        )
        seeds: list[Record] = [record_of(state)]
        text = render(state)
        if state.request_count and text:
            reason = f"reset of {self.key.session}"
            seeds.append(Compaction(summary=text, method="extract", reason=reason))
        seeds += self._course.standing()  # behind the boundary, where the next run looks
        self.store.append(new, [self._vault.sealed(one) for one in seeds], expect=head)
        return new

    def _note_down(self, trigger: str) -> None:
        """Save what is worth noting, by code, before the session is left."""
        if self._course.terms.notes == "off":
            return
        records = self._records()
        found = [note.text for note in durable(records, known=flushed(records))]
        if found:
            self._log.append([Flush(notes=found, trigger=trigger)])

    def _renewed(self) -> SessionReset | None:
        """In fresh mode, what is said after an answer is said in a session of its own."""
        if not self._course.is_fresh:
            return None
        if not any(isinstance(one, Assistant) for one in self._records()):
            return None
        old, new = self.key, self._reset(self._label())
        self._log.append([Mode(mode="fresh", continued_in=new.session)])
        self._attach(new)
        return SessionReset(old.session, new.session, "fresh mode")

    def _set_mode(self, mode: str) -> None:
        if mode not in ("continue", "fresh"):
            raise BadSetting(f"`mode` cannot be {_shown(mode)}", hint='give "continue" or "fresh"')
        if mode != self._mode:
            self._log.append([Mode(mode=mode)])  # type: ignore[arg-type]
            self._course.is_fresh = mode == "fresh"

    @property
    def _mode(self) -> Literal["continue", "fresh"]:
        return "fresh" if self._course.is_fresh else "continue"

    def _leave(self) -> None:
        """Before the session is let go of."""
        if self._course.terms.checkpoints == "turns" and self._is_unmarked():
            self._mark("close")

    def _is_unmarked(self) -> bool:
        """Whether something was said since the newest checkpoint."""
        for record in reversed(self._records()):
            if isinstance(record, Checkpoint):
                return False
            if isinstance(record, User | Assistant):
                return True
        return False

    def _owner(self) -> str:
        """Whose session it is. Where its header cannot be read, nobody's: it cannot be guessed."""
        try:
            return self.store.header(self.key).owner
        except StoreError:
            return ""

    def _rename(self, label: str) -> None:
        self._log.append([Label(label=label)])

    # Taking back

    def _rewind(self, to: str | None, turns: int) -> Undone:
        """Move the head back: to a record, or to before the last `turns` things the user said."""
        if to is not None:
            target = self.store.find(self.key, to)
            what = f"rewound to record `{target.id}`"
            return self._move(target.id, what)
        if turns < 1:
            raise UsageError(f"cannot rewind {turns} turns", hint="give 1 or more")
        path = list(self.store.read(self.key))
        starts = _turn_starts(path)
        if len(starts) < turns:
            raise UsageError(
                f"the session has {len(starts)} turns; {turns} cannot be taken back",
                hint="give a smaller number, or a record with `holdfast rewind`",
            )
        place = starts[-turns]
        if place == 0:
            raise UsageError(
                "there is nothing before the first message", hint="start a new session"
            )
        many = "turn" if turns == 1 else f"{turns} turns"
        return self._move(path[place - 1].id, f"took back the last {many}")

    def _move(self, to: str, what: str) -> Undone:
        self._log.append([Rewind(to=to)])
        self._continuity.forget()
        return Undone(what, self._log.head)

    def _undo(self, record: str | None = None) -> Undone:
        """Take back the last thing that was done: a rewind, a compaction, or a turn.

        With a `record`, that compaction or prune, whatever came after it.
        """
        if record is not None:
            return self._revoke(self.store.find(self.key, record))
        written = [entry.record for entry in self.store.read_all(self.key)]
        undone = {one.target for one in written if isinstance(one, Undo)}
        for place in range(len(written) - 1, -1, -1):
            newest = written[place]
            if isinstance(newest, Rewind):
                return self._move(written[place - 1].id, "took back the rewind")
            if isinstance(newest, Compaction) and newest.covers and newest.id not in undone:
                return self._revoke(newest)
            if isinstance(newest, User | Assistant | ToolResult):
                return self._rewind(None, 1)
        raise UsageError("there is nothing to take back", hint="the session is empty")

    def _revoke(self, record: Record) -> Undone:
        if not isinstance(record, Compaction | Prune):
            raise UsageError(
                f"record `{record.id}` is a `{record.kind}`: only a compaction or a prune can be "
                "taken back by itself",
                hint="rewind to the record before it instead",
            )
        self._log.append([Undo(target=record.id)])
        return Undone(f"took back the {record.kind}", self._log.head)


def checked_options(options: Options) -> Options:
    """The options, if a session can be run with them: said before one is made for them."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise BadSetting(
            f"a session has no option `{sorted(unknown)[0]}`",
            hint=f"options: {', '.join(sorted(Options.__annotations__))}",
        )
    checked = options.copy()
    for name, kinds, wanted in _KINDS:
        value = checked.get(name)
        if value is None:
            checked.pop(name, None)  # type: ignore[misc]  # as if it had not been given
        elif not isinstance(value, kinds) or isinstance(value, bool):
            raise BadSetting(f"`{name}` cannot be {_shown(value)}", hint=f"give {wanted}")
    for name, words in _WORDS.items():
        if name in checked and checked.get(name) not in words:
            said = ", ".join(f'"{word}"' for word in words)
            raise BadSetting(f"`{name}` cannot be {_shown(checked.get(name))}", hint=f"give {said}")
    Vault(checked.get("secrets", {}))  # says what is wrong with a name or a value
    checked["tools"] = made_tools(options.get("tools") or ())
    return checked


def checked_model(model: Any, name: str = "model") -> Any:
    """Something that requests can be made for and sent to."""
    if all(hasattr(model, one) for one in ("target", "window", "send")):
        return model
    raise BadSetting(
        f"`{name}` cannot be {_shown(model)}: it has no `target`, `window` and `send`",
        hint="give a name such as `anthropic:NAME`, or what `holdfast.model(…)` returns; "
        "an SDK's client goes into `holdfast.model(…, client=…)`",
    )


def checked_hear(hear: Hear | None) -> Hear | None:
    """Something that can be told pieces; it is told, not awaited, or a slow one would hold up the
    reply."""
    if inspect.iscoroutinefunction(hear):
        raise BadSetting(
            "`hear` cannot be a coroutine function: it is called and not awaited",
            hint="use `async for piece in session.stream(…)`, or hear with `queue.put_nowait`",
        )
    return hear


def _shown(value: object) -> str:
    return cut(repr(value), 80).text


_KINDS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("system", str, "the system prompt as text"),
    ("window", int | Window, "the model's window in tokens, for example 200000"),
    ("output_tokens", int, "a number of tokens"),
    ("policy", Policy, "a `holdfast.Policy`"),
)
"""Options whose mistakes would come to light only with the first request."""
_WORDS: Final = {
    "summary": ("model", "extract"),
    "notes": ("extract", "model", "off"),
    "checkpoints": ("cuts", "turns", "off"),
    "recall": ("notes", "sessions", "all"),
}


def check_window(options: Options, model: Model | AsyncModel) -> None:
    """Refuse a window that is too small to be meant, before anything is made or stored for it."""
    check_floor(*_window_and_floor(options, model))


def _window_and_floor(options: Options, model: Model | AsyncModel) -> tuple[Window, int]:
    given, window = options.get("window"), model.window
    if given is not None:
        window = given if isinstance(given, Window) else Window(given)
    return window, options.get("floor", getattr(model, "floor", WINDOW_FLOOR_TOKENS))


def _terms(
    options: Options,
    model: Model | AsyncModel,
    toolbox: Toolbox,
    summariser: Model | AsyncModel | None,
    reader: ToolFunction | None,
) -> Terms:
    window, floor = _window_and_floor(options, model)
    plain = {name: value for name, value in options.items() if name in _PLAIN}
    plain["floor"] = floor
    return Terms(
        target=model.target,
        window=window,
        tools=toolbox.tools,
        output_tool=reader.tool if reader is not None else None,
        price=options.get("price") or price_of(model.target.model),
        summary_target=summariser.target if summariser is not None else None,
        summary_window=summariser.window if summariser is not None else None,
        **plain,  # type: ignore[arg-type]
    )


_PLAIN: Final = Options.__annotations__.keys() - {
    *("tools", "window", "price", "rules", "secrets", "memory", "recall")
}
"""Options that are terms as they stand."""


def _texts_of(records: Sequence[Record]) -> list[str]:
    """What is in view already."""
    texts = [text_of(one.content) for one in records if isinstance(one, User | Assistant)]
    return [*texts, *(one.summary for one in records if isinstance(one, Compaction))]


def _mode_in(records: Sequence[Record]) -> str:
    """How a session goes on; the newest word counts."""
    return next((one.mode for one in reversed(records) if isinstance(one, Mode)), "continue")


def _turn_starts(path: Sequence[Record]) -> list[int]:
    """The places of the records that are the first the user said after a reply."""
    starts: list[int] = []
    is_said = False
    for place, record in enumerate(path):
        if isinstance(record, User) and not is_said:
            starts.append(place)
        if isinstance(record, User | Assistant):
            is_said = isinstance(record, User)
    return starts


def find_session(
    store: SessionStore,
    name: str | None,
    agent: str,
    *,
    create: bool,
    label: str = "",
    owner: str | None = None,
) -> SessionKey:
    """The session by that id or label, else a new one; without a name, the newest there is.

    With an `owner`, only sessions of that owner are looked at; None is for callers who know of no
    owners.
    """
    if name is not None and is_name(name) and _exists(store, SessionKey(agent, name)):
        key = SessionKey(agent, name)  # without a look at all the others
        _check_owner(store, key, owner)
        return key
    infos = [one for one in store.sessions(agent=agent) if owner in (None, one.owner)]
    if name is None and infos:
        return infos[0].key
    for info in infos:
        if name == info.label and name:
            return info.key
    if not create:
        known = [text for one in infos for text in (one.label, one.key.session)]
        raise NoSuchSession(name or "(the newest)", known)
    return _made(store, name, agent, label, owner)


def _check_owner(store: SessionStore, key: SessionKey, owner: str | None) -> None:
    if owner is None or store.header(key).owner == owner:
        return
    raise AccessDenied(
        f"session `{key}` does not belong to `{cut(owner, 80).text}`",
        hint="open it for its owner, or choose another id for a session of your own",
    )


def _exists(store: SessionStore, key: SessionKey) -> bool:
    try:
        store.head(key)
    except NoSuchSession:
        return False
    return True


def _made(
    store: SessionStore, name: str | None, agent: str, label: str, owner: str | None
) -> SessionKey:
    if name is not None and is_name(name):
        key = SessionKey(agent, name)
        try:
            store.create(key, label=label, owner=owner or "")
        except SessionExists:
            if not _exists(store, key):
                raise  # one that differs only in case
            _check_owner(store, key, owner)
        return key  # made by us, or by somebody else a moment ago
    key = SessionKey(agent, new_session_id(random.getrandbits(48)))
    store.create(key, label=label or name or FIRST_LABEL, owner=owner or "")
    return key


def owned_of(*pairs: tuple[object, object]) -> list[Any]:
    """Of what was given and what was made of it, the things that were made here."""
    return [made for given, made in pairs if made is not None and made is not given]


def make_ready(model: Model | AsyncModel) -> None:
    """Let a model say that it cannot be reached before anything is stored for it."""
    ready = getattr(model, "ready", None)
    if ready is not None:
        ready()


def opened_store(
    store: SessionStore | None, root: str | None, agent: str | None
) -> tuple[SessionStore, str, bool]:
    """The store to use, the agent, and whether we opened it."""
    settings = config.load(root=root, agent=agent)
    if store is not None:
        return store, settings.agent, False
    return JsonlStore(settings.root), settings.agent, True
