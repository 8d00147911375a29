"""One session of a store while it is open: its log, its run, and everything made for them."""

from __future__ import annotations

import functools
import hashlib
import warnings
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.core.flow.effects import FailedCall, SavedCheckpoint, StoredMessage
from holdfast.core.limits import INJECTION_CHARS, STANDING_CHARS_MAX
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.records import Assistant, Compaction, Mode, User, text_of
from holdfast.core.models.totals import bill_for
from holdfast.core.models.window import budget_for
from holdfast.core.outputs.offload import CONTEXT_TOOL, room_for
from holdfast.core.owners import UNKNOWN_OWNER, owner_of
from holdfast.core.turn.calls import SessionCalls
from holdfast.core.turn.run import RunState
from holdfast.engine.session.drivers.world import World
from holdfast.engine.session.opening import have_one_owner
from holdfast.engine.session.options import run_settings, window_and_floor
from holdfast.engine.session.session_log import SessionLog, records_at_hand
from holdfast.engine.session.side_files import SideFiles
from holdfast.engine.tools import Toolbox
from holdfast.errors import HoldfastError, HoldfastWarning, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.owners import FoundOwner
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.sizes import Scale
    from holdfast.core.projection.view import ProjectionCache
    from holdfast.core.secrets.found import SecretWatch
    from holdfast.core.secrets.vault import Vault
    from holdfast.core.turn.replies import PreparedCalls
    from holdfast.engine.outputs import Outputs
    from holdfast.engine.session.drivers.world import Listeners
    from holdfast.engine.session.options import SessionOptions
    from holdfast.engine.session.status import Status
    from holdfast.engine.tools import ToolFunction
    from holdfast.ports import AsyncModel, BlobStore, Clock, Model, SessionStore


def _make_cache(target: Target) -> ProjectionCache:
    """Return an empty cache of projections for a target."""
    from holdfast.engine.session.prepare import cache_for

    return cache_for(target)


# Made on first use: opening a session loads none of it.


def _make_outputs(state: SessionState) -> Outputs | None:
    from holdfast.engine.outputs import Outputs

    return Outputs(state.store, state.blobs) if state.blobs is not None else None


def _make_context_tool(state: SessionState) -> ToolFunction | None:
    if state.outputs is None:
        return None
    from holdfast.core.tokens.counting import Estimator
    from holdfast.engine.context_tool import context_tool

    room = room_for(budget_for(state.stated_window, floor=0).tokens, Estimator())
    return context_tool(
        state.outputs,
        state.key,
        status=lambda: _describe(state),
        compact=state.ask_for_cut,
        checkpoint=state.ask_for_checkpoint,
        chars_max=room.read_chars,
    )


def _describe(state: SessionState) -> str:
    """The status and the newest cut, for the model."""
    from holdfast.engine.context_tool import describe_cuts
    from holdfast.engine.session.status import describe_status

    return "\n".join((*describe_status(state.status()), *describe_cuts(state.records())))


def _make_prepared_calls(state: SessionState) -> PreparedCalls:
    from holdfast.core.turn.replies import PreparedCalls

    return PreparedCalls(state.run, state.classify)


class SessionState:
    """Everything that belongs to one key of the store. A session in fresh mode replaces it as a
    whole when it continues under another key."""

    outputs = functools.cached_property(_make_outputs)
    """Reads payloads outside the log; None where the store keeps none."""
    context_tool = functools.cached_property(_make_context_tool)
    """The tool `context`; None where the store keeps no payloads."""
    prepared_calls = functools.cached_property(_make_prepared_calls)
    """The requests that the caller sends itself."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: Model | AsyncModel,
        summariser: Model | AsyncModel | None,
        options: SessionOptions,
        *,
        blobs: BlobStore | None,
        vault: Vault,
        secret_watch: SecretWatch,
        listeners: Listeners,
        clock: Clock,
    ) -> None:
        self.store = store
        self.key = key
        self.vault = vault
        self.owner = _owner_of(store, key)
        self.blobs = blobs
        self.stated_window, _floor = window_and_floor(options, model)
        self._clock = clock
        self._options = options
        given = Toolbox(options.tools)
        is_answered = given.has_functions and CONTEXT_TOOL not in given
        reader = self.context_tool if is_answered else None
        toolbox = Toolbox(
            options.tools,
            unlisted=_extra_tools(reader),
            vault=vault,
            approvals=options.limits.approvals,
            owner=self.owner,
        )
        self.log = SessionLog(store, key, clock, blobs, vault)
        self.world = World(
            log=self.log,
            listeners=listeners,
            toolbox=toolbox,
            blobs=blobs,
            save_checkpoint=self.save_checkpoint,
            find_message=self._find_message,
            search_memory=self._search_memory,
            rules=getattr(model, "rules", ()),
            clock=clock,
        )
        settings = run_settings(
            options, model, summariser, toolbox, reader.tool if reader else None
        )
        whom = msgspec.structs.replace(settings.target, cache_key=_cache_key(key))
        settings = msgspec.structs.replace(settings, target=whom)
        self.run = RunState(settings, lambda: _make_cache(self.run.settings.target))
        self.run.home = _home_of(store, key)
        self.run.vault = vault
        self.run.secret_watch = secret_watch
        self.run.searches_memory = options.memory is not None
        self.run.keeps_outputs = blobs is not None
        self.side_files = SideFiles(
            store,
            key,
            owner=self.owner,
            clock=clock,
        )
        self.is_settled = False
        """True once the run knows everything that the log says of it."""
        self._settle_by_newest()
        self.log.on_append(self.side_files.catch_up)

    @property
    def mode(self) -> Literal["continue", "fresh"]:
        if not self.is_settled:
            self.records()
        return "fresh" if self.run.is_fresh else "continue"

    def _settle_by_newest(self) -> None:
        """Take over what the newest records say, and all of it where they are all.

        A log that was never compacted is read in full by the first turn and not by opening it.
        """
        newest, is_all = self.log.newest()
        if is_all:
            self._settle(self.records())
            return
        self._settle(newest)
        self.is_settled = False
        self.log.on_first_load(self._settle)

    def _settle(self, records: Sequence[Record]) -> None:
        self.is_settled = True
        self.run.recall_window(records)
        self.run.is_fresh = _mode_in(records) == "fresh"
        self.side_files.catch_up(records)

    def records(self) -> Sequence[Record]:
        """The records that the next request looks at."""
        return self.log.read(self.run.window)

    def plan(self) -> Plan:
        """Project the next request. Nothing is stored."""
        with self.world.planning:
            return self.run.plan(self.records(), self._clock())

    def plan_held(self) -> Plan:
        """Project the view as it is, without cutting it as long as it fits."""
        with self.world.planning:
            return self.run.plan(self.records(), self._clock(), pressure="hold")

    def label(self) -> str:
        return self.store.info(self.key).label

    def save_checkpoint(self, trigger: str, token: int | None = None) -> SavedCheckpoint | None:
        """Store a checkpoint. A failure is a warning and costs nothing else."""
        from holdfast.engine.session.checkpoints import checkpoint_record

        try:
            has_cache = "cache" in vars(self.run)
            digest = functools.partial(_digest, self.run.cache.scale) if has_cache else None
            state = self.side_files.state(trigger, held=records_at_hand(self.log), digest=digest)
            stored = self.log.append([checkpoint_record(state)], token=token)
        except (HoldfastError, OSError) as error:
            text = f"no checkpoint of session `{self.key}` was stored: {error}"
            warnings.warn(text, HoldfastWarning, stacklevel=2)
            return None
        assert stored is not None
        return SavedCheckpoint(stored[0].id, state.pending_tasks)

    def _find_message(self, message_key: str) -> StoredMessage | None:
        """The message with a key; in fresh mode also one of a session that this one continues."""
        found, key = self.log.find_message(message_key), self.key
        while found is None and self.run.is_fresh:
            header = self.store.header(key)
            agent, _, name = (header.parent_session or "").partition("/")
            if header.reason != "reset" or not is_name(agent) or not is_name(name):
                break
            key = SessionKey(agent, name)
            if not have_one_owner(self.store, self.key, key):
                break
            found = SessionLog(self.store, key).find_message(message_key)
        return found

    def _search_memory(self, query: str) -> str:
        """The memory's hits without texts that are in view already; empty where it fails."""
        memory = self._options.memory
        assert memory is not None
        try:
            # A memory that is not ours may know no asker.
            named: dict[str, Any] = {}
            if hasattr(memory, "owners"):
                named = {"asker": self.key, "standing": True}
            if hasattr(memory, "keep_out"):
                memory.keep_out(self.vault.redactor_secrets)
            hits = memory.search(query, scope=getattr(memory, "recall", "all"), **named)
            room = INJECTION_CHARS + STANDING_CHARS_MAX
            return memory.injection(hits, room, known=_texts_of(self.records()))
        except (HoldfastError, OSError) as error:
            warnings.warn(f"the memory search failed: {error}", HoldfastWarning, stacklevel=2)
            return ""

    def status(self) -> Status:
        """The fill level and the cost so far."""
        from holdfast.engine.session.status import status_of

        totals, settings = self.store.totals(self.key), self.run.settings
        helper = (settings.summary_target or settings.target).model
        main = settings.target.model
        return status_of(
            self.plan_held(),
            totals,
            bill_for(totals, settings.price_for, model_default=main, helper_default=helper),
            session=self.key.session,
            agent=self.key.agent,
            label=self.label(),
            head=self.log.head,
            mode=self.mode,
        )

    def ask_for_cut(self, focus: str) -> str:
        """Have the view cut before the next call. Raises where nothing would be gained."""
        with self.world.planning:
            plan = self.run.plan(self.records(), self._clock(), pressure="cut")
        from holdfast.core.turn.compact import why_not_to_compact

        refusal = why_not_to_compact(plan)
        if refusal:
            raise UsageError(refusal, hint="go on: it is compacted when it is full")
        self.run.asked_cut = focus
        return "The older part of this conversation is compacted before your next step."

    def ask_for_checkpoint(self) -> str:
        """Have a checkpoint stored before the next call. Raises where there are none."""
        if self.run.options.checkpoints == "off":
            raise UsageError("this session stores no checkpoints", hint="go on without one")
        self.run.is_checkpoint_asked = True
        return "A checkpoint of this work is stored before your next step."

    def classify(self, error: object) -> FailedCall:
        from holdfast.providers.failures import name_failure

        return FailedCall(
            name_failure(error, self.world.rules),
            error if isinstance(error, BaseException) else None,
        )


def _extra_tools(reader: ToolFunction | None) -> list[ToolFunction]:
    """The tools that a session answers and lists nowhere: `context`, and its former name."""
    if reader is None:
        return []
    from holdfast.engine.context_tool import former_tool

    return [reader, former_tool(reader)]


def _owner_of(store: SessionStore, key: SessionKey) -> FoundOwner:
    """The owner of a session; unknown where its header is damaged. Notes of such a session would
    be among those of other people."""
    try:
        return owner_of(store.header(key).owner)
    except StoreError:
        return UNKNOWN_OWNER


def _digest(scale: Scale, record: Record) -> Digest | None:
    """The digest of a record, which a cut may have made."""
    return next(iter(scale.digests((record,))), None)


def _home_of(store: SessionStore, key: SessionKey) -> SessionCalls:
    """The session as its calls know it. With a damaged header, all of them count as copied: none
    is run again."""
    try:
        header = store.header(key)
    except StoreError:
        return SessionCalls(str(key), created=float("inf"))
    return SessionCalls(str(key), copied_to=header.parent_record or "", created=header.ts)


def _mode_in(records: Sequence[Record]) -> str:
    """The mode that the newest `Mode` record sets."""
    return next((rec.mode for rec in reversed(records) if isinstance(rec, Mode)), "continue")


def _texts_of(records: Sequence[Record]) -> list[str]:
    """The texts that are in view: messages and summaries."""
    texts = [text_of(rec.content) for rec in records if isinstance(rec, User | Assistant)]
    return [*texts, *(rec.summary for rec in records if isinstance(rec, Compaction))]


def _cache_key(key: SessionKey) -> str:
    """A name of the conversation for the provider's cache; it does not tell the session's own."""
    return hashlib.sha256(f"{key.agent}/{key.session}".encode()).hexdigest()[:32]
