"""A client's request to an agent as a message of the inbox: where it goes on, and under which key.

The same request again is the same message as long as it is not answered, and also afterwards where
its sender did not get the answer: it has the key of the first, says that it repeats it, or hung up.
An equal request without any of that asks for another reply.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from holdfast.core.dialects.common.digests import extend_chain
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.records import Content, User
from holdfast.core.owners import owner_of, owner_text
from holdfast.core.proxy.agent_history import Step, chain_field, decide_step
from holdfast.core.proxy.agent_request import find_last_message
from holdfast.core.proxy.branches import CHAIN_FIELD
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.core.queues import INBOX
from holdfast.engine.chats.chat_sessions import ChatSessions
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.gateway.placing import MessagePlace, place_of_records
from holdfast.engine.proxy.new_records import new_records
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import session_id_of
from holdfast.errors import KeyReused, NoSuchSession, SessionExists
from holdfast.ports import QueuedMessage  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.owners import Owner
    from holdfast.core.proxy.agent_history import AgentPlace, NextStep
    from holdfast.engine.chats.chat_sessions import ChatSession
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.proxy.request import ClientRequest

_UNDELIVERED_MAX: Final = 10_000
"""Messages whose clients hung up, in memory: their replies are in the log in any case."""
_CHATS_MAX: Final = 1_000
"""Pairs of an owner and an agent whose sessions are kept in memory."""
_KEY_DIGITS: Final = 24
"""Of a digest, in the key of a message."""


class PlannedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is to be submitted, or the one in the inbox that it repeats."""

    key: SessionKey
    step: Step
    message_key: str
    content: Content = ""
    place: MessagePlace | None = None
    chain: str = ""
    joined: QueuedMessage | None = None


class ChatSender(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of a request to an agent."""

    owner: Owner
    message_key: str = ""
    """The key that the client gave the request."""
    is_retry: bool = False
    """True where the client says that it repeats a request."""


class AgentChats:
    """The chats with the agents of a gateway."""

    def __init__(self, gateway: Gateway, show: Callable[[str], str]) -> None:
        """`show` masks secrets in what a client is shown."""
        self.gateway = gateway
        self.show = show
        self._sessions: OrderedDict[tuple[str, str], ChatSessions] = OrderedDict()
        self._undelivered: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self._openings: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def opening_lock(self, request: ClientRequest, sender: ChatSender) -> asyncio.Lock:
        """Return the lock of all requests that begin alike: the first of them makes the session
        that an equal one finds. Raises `ProxyProblem` for a request without a message."""
        find_last_message(request.atoms)
        name = f"{owner_text(sender.owner)}\n{request.opening}"
        return self._openings.setdefault(name, asyncio.Lock())

    def note_delivery(self, message: QueuedMessage, *, is_whole: bool) -> None:
        """Remember whether the client got the answer to a message."""
        with self._lock:
            self._undelivered.pop(message.id, None)
            if not is_whole:
                self._undelivered[message.id] = None
            if len(self._undelivered) > _UNDELIVERED_MAX:
                self._undelivered.popitem(last=False)

    def plan(self, request: ClientRequest, agent: str, sender: ChatSender) -> PlannedMessage:
        """Find the place of a request. It blocks. Raises `ProxyProblem` and `HoldfastError`."""
        queues = self.gateway.store.queues
        last = find_last_message(request.atoms)
        if sender.message_key:
            known = queues.find(INBOX, sender.owner, sender.message_key)
            if known is not None:
                return _join_keyed(known, request, last)
        session, step, chains, base = self._find(request, agent, sender, last)
        again = self._find_repeated(session, step, chains[-1], sender)
        if again is not None:
            return _join(again, step.kind)
        brought, message = _new_records(request, step, last, has_base=base is not None)
        return PlannedMessage(
            key=session.key,
            step=step.kind,
            message_key=sender.message_key or _message_key(session.key, chains[-1], step.attempt),
            content=message.content,
            place=place_of_records(step.after, brought),
            chain=chains[-1].hex(),
        )

    async def submit(self, planned: PlannedMessage, owner: Owner) -> QueuedMessage:
        """Put a message into the inbox; it is durable when this returns."""
        if planned.joined is not None:
            return await self._join(planned.joined)
        return await self.gateway.submit(
            planned.key,
            planned.content,
            message_key=planned.message_key,
            owner=owner,
            extra=dict(chain_field(bytes.fromhex(planned.chain))),
            place=planned.place,
        )

    async def _join(self, message: QueuedMessage) -> QueuedMessage:
        """Return a message that is there; one that was set aside is tried again."""
        queues = self.gateway.store.queues
        if message.state in ("failed", "dropped") and await run_in_thread(queues.retry, message.id):
            self.gateway.wake()
        return await run_in_thread(queues.message, message.id) or message

    def _sessions_of(self, agent: str, owner: Owner) -> ChatSessions:
        with self._lock:
            whose = (agent, owner_text(owner))
            found = self._sessions.get(whose)
            if found is None:
                found = ChatSessions(self.gateway.store, agent, owner, self.show)
                self._sessions[whose] = found
            self._sessions.move_to_end(whose)
            if len(self._sessions) > _CHATS_MAX:
                self._sessions.popitem(last=False)
            return found

    def _find(
        self, request: ClientRequest, agent: str, sender: ChatSender, last: int
    ) -> tuple[ChatSession, NextStep, Sequence[bytes], AgentPlace | None]:
        """The session of a request, its step, its chains, and the place that it begins at."""
        sessions = self._sessions_of(agent, sender.owner)
        if request.client.previous:
            session, base = self._find_response(sessions, request.client.previous, agent, sender)
            chains = _extend_all(base.chain, request)
            with session.lock:
                return session, decide_step(session.history, chains, last, base), chains, base
        if request.client.session:
            session = _open_named(sessions, request, agent, sender.owner)
            with session.lock:
                step = decide_step(session.history, request.chains, last)
        else:
            session, step = self._find_alike(sessions, request, sender, last)
        return session, step, request.chains, None

    def _find_response(
        self, sessions: ChatSessions, response: str, agent: str, sender: ChatSender
    ) -> tuple[ChatSession, AgentPlace]:
        """The place of the reply that a client names instead of its history."""
        number = response.rpartition("_")[2]
        is_number = number.isascii() and number.isdecimal() and len(number) < _KEY_DIGITS
        message = self.gateway.store.queues.message(int(number)) if is_number else None
        place = session = None
        if message is not None and owner_of(message.owner) == sender.owner:
            key = session_key(message)
            record = str((message.result or {}).get("record", ""))
            if key.agent == agent and record:
                session = sessions.get(key)
                with session.lock:
                    place = session.history.find_reply(record) if session.refresh() else None
        if session is None or place is None:
            raise ProxyProblem(
                404,
                f"there is no response `{response[:100]}` of this agent to go on from",
                "send the whole conversation instead; responses are found until their messages "
                "are forgotten (`keep_seconds`)",
                code="previous_response_not_found",
            )
        return session, place

    def _find_alike(
        self, sessions: ChatSessions, request: ClientRequest, sender: ChatSender, last: int
    ) -> tuple[ChatSession, NextStep]:
        """The session that has the most of a conversation, a reply among it; else a new one."""
        best: tuple[ChatSession, NextStep] | None = None
        for session in sessions.alike(request):
            step = decide_step(session.history, request.chains, last)
            is_same = _has_reply(request, step.known)
            if not is_same and self._find_repeated(session, step, request.chains[-1], sender):
                return session, step
            if is_same and (best is None or _rank(step) > _rank(best[1])):
                best = session, step
        if best is not None:
            return best
        made = sessions.make(request)
        return made, decide_step(made.history, request.chains, last)

    def _find_repeated(
        self, session: ChatSession, step: NextStep, chain: bytes, sender: ChatSender
    ) -> QueuedMessage | None:
        """The message that a request repeats."""
        queues = self.gateway.store.queues
        waiting = queues.find(INBOX, sender.owner, _message_key(session.key, chain, step.attempt))
        if waiting is not None:
            return waiting
        name = session.history.message_key(chain) if step.attempt else ""
        known = queues.find(INBOX, sender.owner, name) if name else None
        if known is None or session_key(known) != session.key:
            return None
        with self._lock:
            is_undelivered = known.id in self._undelivered
        is_repeat = sender.is_retry or is_undelivered or known.state != "answered"
        return known if is_repeat else None


def _has_reply(request: ClientRequest, known: int) -> bool:
    """True where the first atoms of a conversation have a reply among them."""
    return any(atom.kind == "assistant" for atom in request.atoms[:known])


def _rank(step: NextStep) -> tuple[int, bool]:
    return step.known, step.kind in ("go-on", "repeat", "regenerate")


def _extend_all(chain: bytes, request: ClientRequest) -> list[bytes]:
    chains = []
    for atom in request.atoms:
        chain = extend_chain(chain, (atom.digest,))
        chains.append(chain)
    return chains


def _open_named(
    sessions: ChatSessions, request: ClientRequest, agent: str, owner: Owner
) -> ChatSession:
    """The session that a client names. The id that a client has for itself is one of its owner."""
    name = request.client.session
    is_id = request.client.is_named and is_name(name)
    session = name if is_id else session_id_of(f"chat:{name}", owner)
    try:
        return sessions.open(SessionKey(agent, session), "" if is_id else "chat")
    except (NoSuchSession, SessionExists) as error:
        raise ProxyProblem(
            409,
            f"the session `{name[:100]}` cannot be used here",
            "choose another name",
            code="no_such_session",
        ) from error


def _join(message: QueuedMessage, step: Step) -> PlannedMessage:
    return PlannedMessage(
        key=session_key(message), step=step, message_key=message.key, joined=message
    )


def _join_keyed(message: QueuedMessage, request: ClientRequest, last: int) -> PlannedMessage:
    """The message under a client's key. Raises `KeyReused` where it has other words."""
    said = new_records(request, last)[-1:]
    content = said[0].content if said and isinstance(said[0], User) else None
    if message.body.get("content") != content:
        raise KeyReused(message.key, message.state, message.session)
    return _join(message, "repeat")


def _message_key(key: SessionKey, chain: bytes, attempt: int) -> str:
    """The key of a message whose client gave it none: an equal request has the same one until the
    log has the message."""
    words = f"{key}\n{chain.hex()}\n{attempt}"
    return f"chat-{hashlib.sha256(words.encode()).hexdigest()[:_KEY_DIGITS]}"


def _new_records(
    request: ClientRequest, step: NextStep, last: int, *, has_base: bool
) -> tuple[list[Record], User]:
    """Return the part of a conversation that the log does not have, and the message to answer."""
    found = new_records(request, min(step.known, last))
    if has_base:  # the chains begin at another place
        found = [_without_chain(record) for record in found]
    message = found[-1] if found else None
    if not isinstance(message, User):
        raise ProxyProblem(
            400,
            "the last message has nothing that an agent can answer",
            "send words, or blocks that the user's message may have",
            code="no_user_message",
        )
    return found[:-1], message


def _without_chain(record: Record) -> Record:
    extra = {name: value for name, value in record.extra.items() if name != CHAIN_FIELD}
    return msgspec.structs.replace(record, extra=extra)
