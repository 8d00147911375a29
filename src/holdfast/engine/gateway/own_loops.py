"""Sessions of loops that clients run themselves: they are kept open between two requests.

A process that was killed has lost no more than what it had in memory: the next request opens the
session from its log, and prepares the same request again, byte for byte.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.models.messages import Tool  # noqa: TC001  (a struct's field)
from holdfast.core.owners import owner_of
from holdfast.core.turn.options import Limits
from holdfast.core.window import Window  # noqa: TC001  (a struct's field)
from holdfast.engine.session.options import read_options
from holdfast.engine.session.session import Session
from holdfast.engine.spending.meter import Spender
from holdfast.errors import BadSetting
from holdfast.providers.callables import from_callable
from holdfast.providers.models import model, read_name
from holdfast.providers.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.replies import Reply
    from holdfast.engine.session.prepare import Prepared
    from holdfast.engine.spending.meter import CallMeter, MeteredCall
    from holdfast.ports import SessionStore

_LOOPS_MAX: Final = 128
"""Sessions kept open; those used longest ago are closed, and opened again when they are used."""
_KEPT_HERE: Final = ("offline", "local", "cli")
"""Kinds of models that run in this process, or by a command of this machine."""


class LoopTerms(msgspec.Struct, frozen=True):
    """The terms of a loop, which come with each request for a call."""

    model: str
    system: str
    tools: tuple[Tool, ...]
    window: Window | None
    output: int | None


class RefusedCall(Exception):
    """A refusal that a client was given by its provider: status and body."""

    def __init__(self, status: int | None, body: str | Json) -> None:
        super().__init__(body if isinstance(body, str) else f"status {status}")
        self.status_code = status
        self.headers: dict[str, str] = {}
        self.response = self
        self.body = body


class ClientLoop:
    """One session under the terms of a client's loop. Its methods block."""

    def __init__(
        self, store: SessionStore, key: SessionKey, terms: LoopTerms | None, meter: CallMeter
    ) -> None:
        self.lock = threading.RLock()
        self._meter = meter
        self._call: MeteredCall | None = None
        """The call of the request that was prepared last."""
        self.terms = terms
        self.prepared = ""
        """The name of the request that was prepared last, and has no reply yet."""
        self._store = store
        self._key = key
        self._model = _model_of(terms.model if terms is not None else "anthropic:any")
        self._target = self._model.target
        self.session = self._open()

    def _open(self) -> Session:
        return Session(self._store, self._key, self._model, _options_of(self.terms))

    def prepare(self, failed: RefusedCall | None) -> Prepared:
        """Build the next request; after a refusal, a smaller one. The call is held to budgets
        before the client can make it. Raises `BudgetSpent`."""
        if failed is not None and self._call is not None:
            self._call.refuse()
        self._meter.check(self._spender())
        if failed is not None and not self.prepared:
            self.session.own_loop.prepare()  # the request that was refused, from the log
        self.prepared = ""
        found = self.session.own_loop.prepare(failed=failed)
        self.prepared = found.plan.origin.messages
        self._call = self._meter.open(
            self._spender(), self._target, found.request, name=self._call_name()
        )
        return found

    def _spender(self) -> Spender:
        owner = owner_of(self._store.header(self._key).owner)
        return Spender(owner, self._key.agent, str(self._key))

    def _call_name(self) -> str:
        """The name of the call for a request: the same, whichever process prepares it. After a
        rewind, the same words make another call."""
        return f"{self._key} {self._store.head(self._key)} {self.prepared}"

    def record(self, reply: Json | list[Json], prepared: str, name: str) -> Reply:
        """Store the reply to a request. One that is no longer what the log leads to was sent by a
        process before this one; the reply is stored, and its reasoning is bound to nothing."""
        call, self._call = self._call, None
        if prepared and prepared != self.prepared:
            call = None
            found = self.session.own_loop.prepare()
            self.prepared = found.plan.origin.messages
            if prepared != self.prepared:
                self.session.close()
                self.session = self._open()
        read = self.read(reply)
        if call is not None:
            call.settle(read)
        else:  # a process before this one held it, or nobody did
            known = self._call_name() if prepared == self.prepared else ""
            unknown = f"{self._key} {name or secrets.token_hex(12)}"
            self._meter.charge(self._spender(), self._target, read, known or unknown)
        self.prepared = ""
        extra = {**read.extra, **({"key": name} if name else {})}
        return self.session.own_loop.record(replace(read, extra=extra))

    def read(self, reply: Json | list[Json]) -> Reply:
        """Read a provider's answer, or the events of its stream."""
        return read_reply(reply, self._target)

    def records(self, count: int) -> Iterator[Record]:
        """Yield the newest records of the path."""
        return islice(self._store.back(self._key), count)


class OwnLoops:
    """The open sessions of clients' own loops. Safe for threads."""

    def __init__(self, store: SessionStore, meter: CallMeter) -> None:
        self._store = store
        self._meter = meter
        self._lock = threading.Lock()
        self._open: OrderedDict[SessionKey, ClientLoop] = OrderedDict()

    @contextmanager
    def use(self, key: SessionKey, terms: LoopTerms | None = None) -> Iterator[ClientLoop]:
        """Hold a session for as long as the block runs. Without `terms`, those it has are kept."""
        found = self._find(key, terms)
        with found.lock:
            yield found

    def _find(self, key: SessionKey, terms: LoopTerms | None) -> ClientLoop:
        with self._lock:
            found = self._open.get(key)
            if found is None or (terms is not None and terms != found.terms):
                made = ClientLoop(self._store, key, terms, self._meter)
                if found is not None:
                    with found.lock:
                        found.session.close()
                found = self._open[key] = made
            self._open.move_to_end(key)
            while len(self._open) > _LOOPS_MAX:
                _key, oldest = self._open.popitem(last=False)
                with oldest.lock:
                    oldest.session.close()
            return found

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            while self._open:
                _key, loop = self._open.popitem()
                with loop.lock:
                    loop.session.close()


def _model_of(name: str) -> Any:
    """The model of a loop: it is never called here. Raises `BadSetting`."""
    if read_name(name).kind in _KEPT_HERE:
        raise BadSetting(
            f"`{name}` is not a model that a client can call",
            hint="name it as `anthropic:NAME`, `openai:NAME` or `gemini:NAME`",
        )
    known = model(name)
    return from_callable(_never, known.target, known.window)


def _never(_request: Json) -> Json:
    raise AssertionError("the client calls the model itself")


def _options_of(terms: LoopTerms | None) -> Any:
    """The options of a session whose model is not called: summaries are made by code, and nothing
    is waited for."""
    output = terms.output if terms is not None else None
    return read_options(
        {
            "system": (terms.system or None) if terms is not None else None,
            "tools": terms.tools if terms is not None else (),
            "window": terms.window if terms is not None else None,
            "summary": "extract",
            "checkpoints": "cuts",
            "limits": Limits(waits=0, output_tokens=output),
        }
    )
