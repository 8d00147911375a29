"""Hooks for the Claude Agent SDK over a store.

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from holdfast.integrations.claude_agent import EVENTS, CompactionHook, OutputHook, RecallHook

    compaction = CompactionHook()
    hooks = {event: [HookMatcher(hooks=[compaction])] for event in EVENTS}
    hooks["PostToolUse"] = [HookMatcher(hooks=[OutputHook(root=".sessions")])]
    hooks["UserPromptSubmit"].append(HookMatcher(hooks=[RecallHook(root=".sessions")]))
    options = ClaudeAgentOptions(hooks=hooks)

Before the SDK compacts, `CompactionHook` reads the transcript and stores a checkpoint in a session
with the same id. The model gets its text once, as additional context: when the session starts again
after the compaction, or with the next prompt. The model reads the rest of what `OutputHook` moved
with `context` of `holdfast mcp`, or with `holdfast output REF`.

The SDK keeps the original output of a built-in tool where a replacement has another shape. So a
text becomes another text in the same place, and all else stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast import config
from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.checkpoint.render import injection
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.history.access import Caller
from holdfast.core.limits import (
    CHECKPOINT_CUT_CHARS,
    INJECTION_CHARS,
    PREVIEW_CHARS,
    PREVIEW_CHARS_MIN,
    RECALL_LIMIT,
    RECALL_LIMIT_MAX,
    REF_CHARS,
)
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.records import Checkpoint, InjectedContext, OutputRef, ToolResult
from holdfast.core.log.refs import DATA_URI
from holdfast.core.log.replay import with_ids
from holdfast.core.outputs.offload import CONTEXT_TOOL, FORMER_TOOL, is_binary
from holdfast.core.outputs.preview import preview
from holdfast.core.owners import owner_argument
from holdfast.core.text.cut import scrub
from holdfast.engine.adapters import require
from holdfast.engine.memory.search import SCOPES, Memory
from holdfast.engine.redactor import redactor
from holdfast.engine.session import checkpoints
from holdfast.engine.session.opening import check_owner, choose_store
from holdfast.errors import BadSetting, HoldfastWarning, NoSuchSession, SessionExists, UsageError
from holdfast.importers import read_transcript
from holdfast.integrations.common.home import StoreAdapter, StoreOptions, read_in_thread, read_name
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.memory.hits import Hit
    from holdfast.engine.memory.indexer import Scope
    from holdfast.ports import Clock, SessionStore
    from holdfast.providers.embedders import EmbedTexts
    from holdfast.providers.embeddings import Embedder


_log: Final = logging.getLogger(__name__)


class StoreHook(StoreAdapter, ABC):
    """Answers one event of the SDK from a store.

    `root` is the address of a store, `store` an open one. An error costs the answer, never the
    tool call or the prompt. The log names it once, and again only after an answer in between.
    """

    event: ClassVar[str]
    """The event to register the hook for."""
    purpose: ClassVar[str]
    """The work that an error prevents, for the log."""

    def __init__(self, **where: Unpack[StoreOptions]) -> None:
        super().__init__(**where)
        self._is_failing = False

    async def __call__(
        self, hook_input: Mapping[str, Any], _tool_use_id: str | None, _context: Any
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        try:
            if hook_input.get("hook_event_name") == self.event:
                fields = await read_in_thread(lambda: self._answer(hook_input))
                self._is_failing = False
        except Exception as error:  # a hook that raises would stop the agent
            if not self._is_failing:
                _log.warning("%s: could not %s: %s", type(self).__name__, self.purpose, error)
            self._is_failing = True
        if not fields:
            return {"continue_": True}
        return {"continue_": True, "hookSpecificOutput": {"hookEventName": self.event, **fields}}

    @abstractmethod
    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the answer beside the event's name; none changes nothing."""


Path = tuple[str | int, ...]
"""The keys and places that lead to a text in a response; empty where the response is the text."""

_PAYLOADS: Final = frozenset({"data", "base64", "blob", "bytes"})
"""Fields that hold a picture or a file in the tools of Claude Code and in MCP's blocks."""


def texts_over(response: Any, limit: int, cap: int) -> dict[Path, str]:
    """Return the texts to replace by `cap` characters each, so that `limit` holds for their sum.

    The longest come first, and no more of them than needed. Texts up to `cap` stay, and so do
    pictures and other binary data: then the sum may be over the limit.
    """
    texts = dict(_texts(response, ()))
    total = sum(map(len, texts.values()))
    chosen: dict[Path, str] = {}
    for path, text in sorted(texts.items(), key=lambda item: len(item[1]), reverse=True):
        if total <= limit or len(text) <= cap:
            break
        chosen[path] = text
        total -= len(text) - cap
    return chosen


def with_texts(response: Any, texts: Mapping[Path, str]) -> Any:
    """Return a copy of a response with other texts in some places."""
    return _with_texts(response, (), texts)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case str() if not _is_binary(value, path):
            yield path, value
        case dict():
            for name, item in value.items():
                yield from _texts(item, (*path, name))
        case list():
            for place, item in enumerate(value):
                yield from _texts(item, (*path, place))
        case _:
            pass  # numbers and the like say nothing long


def _is_binary(text: str, path: Path) -> bool:
    """Base64 elsewhere is text that a tool printed."""
    is_payload = bool(path) and path[-1] in _PAYLOADS
    return is_binary(text) if is_payload else DATA_URI.match(text) is not None


def _with_texts(value: Any, path: Path, texts: Mapping[Path, str]) -> Any:
    match value:
        case str():
            return texts.get(path, value)
        case dict():
            return {name: _with_texts(item, (*path, name), texts) for name, item in value.items()}
        case list():
            return [_with_texts(item, (*path, place), texts) for place, item in enumerate(value)]
        case _:
            return value  # only texts are replaced


OUTPUT_CHARS: Final = 24_000
"""About 6,000 tokens, and more than one read of an output returns: reads are not offloaded."""
_LIMIT_MIN: Final = 2 * PREVIEW_CHARS_MIN
"""With less, a preview has no room for the lines that say how to read the rest."""
_KEPT: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
"""Tools whose responses stay. After a change the model gets a short text of the SDK instead. Of a
file it can read parts, and the SDK numbers the lines after the hook: in a preview, wrongly."""
_SESSION_NAME: Final = "claude-agent-outputs"
"""The first part of the name of the session that holds the outputs of an SDK session."""


class OutputHook(StoreHook):
    """Moves texts out of tool responses that have more than `limit` characters.

    The payload and its record are stored before the preview is handed out, so a ref that the model
    sees can be read. The response keeps its shape; pictures and other binary data stay in it.
    """

    event = "PostToolUse"
    purpose = "store a large output, which stays as it is"

    def __init__(
        self,
        *,
        limit: int = OUTPUT_CHARS,
        **where: Unpack[StoreOptions],
    ) -> None:
        if limit < _LIMIT_MIN:
            raise BadSetting(
                f"`limit` is {limit}, which leaves no room for a preview",
                hint=f"pass {_LIMIT_MIN:,} characters or more",
            )
        super().__init__(**where)
        self._limit = limit
        self._cap = min(PREVIEW_CHARS, limit // 2)

    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        tool, response = str(hook_input.get("tool_name", "")), hook_input.get("tool_response")
        if tool in _KEPT or tool.rpartition("__")[2] in (CONTEXT_TOOL, FORMER_TOOL):
            return {}
        texts = texts_over(response, self._limit, self._cap)
        if not texts:
            return {}
        results = {path: self._offload(text, tool, hook_input) for path, text in texts.items()}
        self._append(results.values(), hook_input)
        shown = {path: str(result.content) for path, result in results.items()}
        return {
            "updatedToolOutput": with_texts(response, shown),
            "additionalContext": _ways_to_read(results.values()),
        }

    def _offload(self, text: str, tool: str, hook_input: Mapping[str, Any]) -> ToolResult:
        """Store a text as a blob; returns the record with its preview and ref."""
        text = scrub(text)
        data = text.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        shown = preview(text, self._cap, ref=sha256[:REF_CHARS])
        self._home.store.blobs.put(data)
        ref = OutputRef(
            sha256=sha256, bytes=len(data), kind=shown.kind, lines=shown.lines, chars=len(text)
        )
        return ToolResult(
            tool_use_id=str(hook_input.get("tool_use_id", "")),
            name=tool,
            content=shown.text,
            output_ref=ref,
        )

    def _append(self, results: Iterable[ToolResult], hook_input: Mapping[str, Any]) -> None:
        session = hook_input.get("session_id")
        if not isinstance(session, str) or not session:
            raise UsageError(
                "the hook was called without a session id",
                hint=f"register it for the event `{self.event}`",
            )
        key = self._home.ensure((_SESSION_NAME, session))
        self._home.store.append(key, list(results), expect=ANY_HEAD)


def _ways_to_read(results: Iterable[ToolResult]) -> str:
    refs = [result.output_ref.sha256[:REF_CHARS] for result in results if result.output_ref]
    commands = ", ".join(f"`holdfast output {ref}`" for ref in refs)
    return (
        "Only a preview of the last tool result is shown. The rest is stored: read parts of it "
        f"with the tool `{CONTEXT_TOOL}`, or in a shell with {commands} (--lines, --grep)."
    )


class RecallHook(StoreHook):
    """Gives the model what memory holds about a prompt, at most `cap` characters of it.

    `recall` says where to search: in the notes, in past sessions, or in both. Only what belongs to
    `owner` is searched, and never the conversation that the prompt is part of. The block says
    that it is data. There is none where nothing answers.
    """

    event = "UserPromptSubmit"
    purpose = "search memory for the prompt, which goes on without it"

    def __init__(
        self,
        *,
        recall: Scope = "all",
        limit: int = RECALL_LIMIT,
        cap: int = INJECTION_CHARS,
        embedder: Embedder | EmbedTexts | str | None = None,
        **where: Unpack[StoreOptions],
    ) -> None:
        if recall not in SCOPES:
            raise BadSetting(f"`recall` is {recall!r}", hint=f"pass one of {', '.join(SCOPES)}")
        if not 1 <= limit <= RECALL_LIMIT_MAX // 2:
            raise BadSetting(f"`limit` is {limit}", hint=f"pass 1 to {RECALL_LIMIT_MAX // 2} hits")
        super().__init__(**where)
        self._recall: Scope = recall
        self._limit = limit
        self._cap = cap
        self._embedder = embedder
        self._mutex = threading.Lock()
        self._memory: Memory | None = None

    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        prompt = hook_input.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return {}
        with self._mutex:  # a memory serves one search at a time
            store = self._home.store
            memory = self._memory = self._memory or self._open(store)
            # As many again: those of this conversation are left out afterwards.
            found = memory.search(prompt, scope=self._recall, limit=2 * self._limit, standing=True)
        session = hook_input.get("session_id")
        others = [hit for hit in found if not _is_of(hit, session, store)]
        answers = [hit for hit in others if not hit.is_standing][: self._limit]
        standing = [hit for hit in others if hit.is_standing]
        text = memory.injection([*answers, *standing], self._cap, known=[prompt])
        return {"additionalContext": text} if text else {}

    def _open(self, store: SessionStore) -> Memory:
        agent, owner, masks = self._home.agent, self._home.owner, redactor()
        return Memory(
            store,
            store.notes(agent, owner, redactor=masks),
            embedder=self._embedder,
            redactor=masks,
            caller=Caller(agent, None, owner=owner, visibility="agent"),
        )


def _is_of(hit: Hit, session: object, store: SessionStore) -> bool:
    """Return whether a hit was said in a session of the SDK, or by one of its subagents."""
    agent, _, name = (hit.session or "").partition("/")
    if hit.path is not None or not name:
        return False  # a note is not part of the conversation, even if it was taken there
    try:
        found = read_name(store.header(SessionKey(agent, name)))
    except NoSuchSession:
        return True  # deleted meanwhile
    return name == session or (found is not None and session in found)


EVENTS: Final = ("PreCompact", "SessionStart", "UserPromptSubmit")
"""The events to register the hook for."""


class CompactionHook:
    """Stores checkpoints, and gives the model at most `cap` characters of each, once.

    `root` is the address of a store, which is open while the hook works, and `store` an open one.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str = "claude-code",
        owner: str = "",
        cap: int = CHECKPOINT_CUT_CHARS,
        clock: Clock = time.time,
    ) -> None:
        if root is not None and store is not None:
            raise BadSetting("`root` and `store` exclude each other", hint="pass one of them")
        self._root = "" if store is not None else config.load(root=root).root
        self._store = store
        self._owner = owner_argument(owner)
        self._agent = agent
        self._cap = cap
        self._clock = clock
        self._redactor = redactor()

    async def __call__(
        self, hook_input: Mapping[str, Any], _tool_use_id: str | None, _context: Any
    ) -> dict[str, Any]:
        event = hook_input.get("hook_event_name")
        try:
            if event == "PreCompact":
                await asyncio.to_thread(self._take_checkpoint, hook_input)
            elif event == "UserPromptSubmit" or hook_input.get("source") == "compact":
                text = await asyncio.to_thread(self._hand_over, hook_input)
                if text:
                    given = {"hookEventName": event, "additionalContext": text}
                    return {"continue_": True, "hookSpecificOutput": given}
        except Exception as error:  # a hook that raises would stop the agent
            what = "stored before" if event == "PreCompact" else "given to the model after"
            text = f"no checkpoint was {what} the compaction: {error}"
            warnings.warn(text, HoldfastWarning, stacklevel=2)
        return {"continue_": True}

    def _take_checkpoint(self, hook_input: Mapping[str, Any]) -> None:
        key, path = self._key(hook_input), hook_input.get("transcript_path")
        if not isinstance(path, str):
            raise UsageError(
                "the hook was called without a transcript",
                hint="register it for the event `PreCompact`",
            )
        with open(path, "rb") as file:
            found = read_transcript(file.read(), os.path.basename(path))
        records = with_ids([record for session in found for record in session.records])
        trigger = "manual" if hook_input.get("trigger") == "manual" else "auto"
        state = capture_state(
            records, session=key.session, trigger=f"pre_compact_{trigger}", now=self._clock()
        )
        label = "checkpoints of a Claude Agent session"
        with self._open() as store:
            with contextlib.suppress(SessionExists):
                store.create(key, label=label, owner=self._owner)
            check_owner(store, key, self._owner)
            checkpoints.save_checkpoint(store, key, state)

    def _hand_over(self, hook_input: Mapping[str, Any]) -> str:
        """The text of a checkpoint that the model has not got; a record says that it has it now."""
        key = self._key(hook_input)
        with self._open() as store:
            try:
                check_owner(store, key, self._owner)
                newest = next(store.back(key), None)
            except NoSuchSession:
                return ""
            if not isinstance(newest, Checkpoint):
                return ""
            state = read_state(newest.state)
            text = ""
            if isinstance(state, State):
                text = injection(state, self._cap, redactor=self._redactor)
            if text:
                given = InjectedContext(text=text, source="checkpoint before a compaction")
                store.append(key, [given], expect=ANY_HEAD)
            return text

    @contextlib.contextmanager
    def _open(self) -> Iterator[SessionStore]:
        """The store: a given one stays open."""
        if self._store is not None:
            yield self._store
            return
        with choose_store(self._root, None)[0] as store:
            yield store

    def _key(self, hook_input: Mapping[str, Any]) -> SessionKey:
        session = hook_input.get("session_id")
        if not isinstance(session, str) or not is_name(session):
            raise UsageError(
                "the hook was called without a session id",
                hint=f"register it for the events {', '.join(f'`{event}`' for event in EVENTS)}",
            )
        return SessionKey(self._agent, session)


def hooks(store: SessionStore, *, owner: str = "") -> dict[str, list[Any]]:
    """Return every hook for `ClaudeAgentOptions(hooks=…)`, over an open store.

    The caller closes the store once the agent has ended. Hooks with other settings are made one by
    one.
    """
    require("claude_agent")
    from claude_agent_sdk import HookMatcher

    compaction = CompactionHook(store=store, owner=owner)
    found: dict[str, list[Any]] = {event: [HookMatcher(hooks=[compaction])] for event in EVENTS}
    for hook in (OutputHook(store=store, owner=owner), RecallHook(store=store, owner=owner)):
        found.setdefault(hook.event, []).append(HookMatcher(hooks=[hook]))
    return found
