"""The agents behind the APIs of model providers, at their addresses and in their words.

A model that is called `holdfast/NAME` is the agent NAME: its durable session answers. The token is
where each API has its key, and errors have the shape that its clients read.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from holdfast.core.dialects.common.speaking import STILL_HERE, AgentReply, ListedModel
from holdfast.core.dialects.registry import all_dialects, find_dialect
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.owners import NO_OWNER, AnyOwner
from holdfast.core.proxy.agent_request import (
    AGENT_PREFIX,
    check_fields,
    check_instructions,
    find_agent,
)
from holdfast.core.proxy.endpoints import (
    OWN_PATH,
    ProxyProblem,
    error_event,
    error_json,
    find_endpoint,
)
from holdfast.engine.chats.agent_chats import AgentChats, ChatSender
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.proxy.request import ClientRequest
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.surfaces.http.admission import client_in
from holdfast.surfaces.http.agent_turn import AgentTurn, drain
from holdfast.surfaces.http.events import MEDIA_TYPE
from holdfast.surfaces.http.guard import read_headers
from holdfast.surfaces.http.identity import LOCAL
from holdfast.surfaces.http.outgoing import answer_in
from holdfast.surfaces.http.problems import Problem, no_token, problem_of
from holdfast.surfaces.http.route import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from starlette.types import Receive, Scope, Send

    from holdfast.core.dialects.dialect import Dialect
    from holdfast.core.owners import Owner
    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.chats.agent_chats import PlannedMessage
    from holdfast.surfaces.http.identity import Client
    from holdfast.surfaces.http.server import HttpServer

_RETRY_HEADER: Final = "x-stainless-retry-count"
"""By which the providers' own packages say that they repeat a request."""
_KEY_HEADER: Final = "idempotency-key"
_MODELS: Final = ("/v1/models", "/v1beta/models")
_ONE_MODEL: Final = "/v1/models/"
_UPSTREAM: Final = "holdfast"
"""The provider of replies that a client brings: they were shown as an agent's."""
_SPEAKER: Final = "Holdfast"
_REASON: Final = "Allowed: a chat of the caller's own."
_AGENT_MARKS: Final = (AGENT_PREFIX.rstrip("/").encode(), b"\\u00", b"\0")
"""One of these is in every body that names an agent: the name as it is, letters that JSON escapes,
or bytes of a wider encoding."""
_log: Final = logging.getLogger(__name__)


def endpoint_paths(upstreams: Collection[str] = ()) -> list[str]:
    """Return the addresses of every API and of each upstream, as routes are written."""
    turns = [path for dialect in all_dialects() for path in dialect.body.turn_paths]
    named = [f"{OWN_PATH}/session/{{name}}{path}" for path in turns]
    reached = [f"/{name}/{{path:path}}" for name in upstreams]
    counted = ["/v1/messages/count_tokens"] if upstreams else []
    return [
        *turns,
        *named,
        *reached,
        *counted,
        *_MODELS,
        f"{_ONE_MODEL}{{model:path}}",
    ]


@dataclass(frozen=True)
class _AgentCall:
    """A request to an agent that was read and let in."""

    asked: ClientRequest
    agent: str
    sender: ChatSender
    client: Client
    ignored: list[str]
    """Fields that the agent's own settings stand for."""


class NamedAgents(Protocol):
    """The agents of a server, which may be others after a while."""

    @property
    def names(self) -> Sequence[str]:
        """The agents that clients may ask for."""


class ModelUpstreams(Protocol):
    """The servers whose models are asked for by names that mean no agent."""

    @property
    def names(self) -> Collection[str]:
        """The names of the servers."""

    async def answer(
        self,
        endpoint: Endpoint,
        owner: Owner,
        headers: Mapping[str, str],
        request: Request,
        *,
        has_token: bool,
    ) -> Response:
        """Return the answer of a server to a request; a client that `has_token` sends no key."""


class ChatEndpoints:
    """Answers the requests of clients that speak the API of a model provider."""

    def __init__(
        self,
        server: HttpServer,
        agents: NamedAgents,
        mask: Callable[[str], str],
        upstreams: ModelUpstreams | None = None,
    ) -> None:
        self._server = server
        self._upstreams = upstreams
        self._named = agents
        self._chats = AgentChats(server.gateway, mask)
        self._started = int(time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Errors are in the client's dialect."""
        began = time.monotonic()
        request, headers = Request(scope, receive), read_headers(scope)
        names = self._upstreams.names if self._upstreams is not None else ()
        endpoint = find_endpoint(scope["path"], headers, names)
        response = await self._answer(request, headers, endpoint)
        method, path, status = request.method, scope["route"].path, response.status_code
        seconds = time.monotonic() - began
        self._server.metrics.count(method, path, status, seconds)
        said = {"method": method, "route": path, "status": status, "seconds": round(seconds, 6)}
        _log.info("%s %s %d", method, path, status, extra=said)
        try:
            await response(scope, receive, send)
        except Exception as error:
            if answer_in(scope).has_begun:
                raise  # the connection is closed, and no whole answer made up
            failed = _respond_failure(error, request, find_dialect(endpoint.dialect))
            await failed(scope, receive, send)

    async def _answer(
        self, request: Request, headers: Mapping[str, str], endpoint: Endpoint
    ) -> Response:
        try:
            return await self._run(request, headers, endpoint)
        except Exception as error:
            return _respond_failure(error, request, find_dialect(endpoint.dialect))

    async def _run(
        self, request: Request, headers: Mapping[str, str], endpoint: Endpoint
    ) -> Response:
        client = client_in(request.scope)
        if client is None:
            raise no_token()
        if self._is_of_upstream(endpoint, headers, await request.body()):
            assert self._upstreams is not None
            _check_scope(client)
            return await self._upstreams.answer(
                endpoint, _owner_of(client), headers, request, has_token=client != LOCAL
            )
        if request.method in ("GET", "HEAD") and not endpoint.is_turn:
            return self._list_models(find_dialect(endpoint.dialect), request)
        if not endpoint.is_turn or request.method != "POST":
            allowed = "POST" if endpoint.is_turn else "GET"
            what = f"this address does not take {request.method[:20]}"
            raise Problem(405, what, hint=f"it takes {allowed}", headers={"Allow": allowed})
        _check_scope(client)
        call = self._read(await request.body(), headers, endpoint, client)
        return await self._run_agent(call, request)

    def _is_of_upstream(self, endpoint: Endpoint, headers: Mapping[str, str], data: bytes) -> bool:
        """True for a request that no agent answers, and that a server is there for."""
        if self._upstreams is None or endpoint.upstream not in self._upstreams.names:
            return False
        if not endpoint.is_turn:
            is_agents = endpoint.path in _MODELS or endpoint.path.startswith(_ONE_MODEL)
            return endpoint.is_addressed or not is_agents
        if headers.get("content-encoding"):
            return True
        if not (AGENT_PREFIX in unquote(endpoint.model) or any(m in data for m in _AGENT_MARKS)):
            return True  # it names no agent, however its JSON is read: it is read once, later
        asked = ClientRequest(
            dialect=endpoint.dialect,
            upstream=_UPSTREAM,
            headers={},
            data=data,
            path_model=unquote(endpoint.model),
        )
        try:
            return not asked.model.startswith(AGENT_PREFIX)
        except ProxyProblem:  # the upstream judges what is not JSON
            return True

    def _list_models(self, dialect: Dialect, request: Request) -> Response:
        stamp = datetime.fromtimestamp(self._started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = request.path_params.get("model", "")
        agents = [find_agent(name, self._named.names)] if name else self._named.names
        if agents == [""]:
            raise self._no_model(name)
        listed = [ListedModel(f"{AGENT_PREFIX}{each}", self._started, stamp) for each in agents]
        api = dialect.agent
        return JSONResponse(api.write_model(listed[0]) if name else api.list_models(listed))

    def _no_model(self, name: str) -> ProxyProblem:
        known = ", ".join(f"`{AGENT_PREFIX}{each}`" for each in self._named.names)
        return ProxyProblem(
            404,
            f"there is no model `{name[:100]}` here",
            f"ask for an agent: {known}",
            code="model_not_found",
        )

    def _read(
        self, data: bytes, headers: Mapping[str, str], endpoint: Endpoint, client: Client
    ) -> _AgentCall:
        """Read a request. Raises `ProxyProblem` for what an agent cannot do."""
        dialect = find_dialect(endpoint.dialect)
        asked = ClientRequest(
            dialect=dialect.name,
            upstream=_UPSTREAM,
            headers=dict(headers),
            session=endpoint.session,
            data=data,
            path_model=unquote(endpoint.model),
        )
        fields = asked.body
        agent = find_agent(asked.model, self._named.names)
        if not agent:
            raise self._no_model(asked.model)
        asked.new_items  # noqa: B018 - raises for what is not a request of this dialect
        ignored = check_fields(fields, dialect.agent)
        check_instructions(asked.system)
        is_retry = headers.get(_RETRY_HEADER, "0") not in ("", "0")
        sender = ChatSender(
            owner=_owner_of(client), message_key=_read_key(headers), is_retry=is_retry
        )
        return _AgentCall(asked, agent, sender, client, ignored)

    async def _run_agent(self, call: _AgentCall, request: Request) -> Response:
        """Put the message into the inbox, and answer with what its turn says."""
        stack = ExitStack()
        try:
            async with self._chats.opening_lock(call.asked, call.sender):
                planned = await run_in_thread(self._plan, call)
                watcher = stack.enter_context(self._server.gateway.live.watch(planned.key))
                message = await self._chats.submit(planned, call.sender.owner)
            turn = AgentTurn(self._chats, message, watcher)
            reply = AgentReply(
                id=str(message.id), model=call.asked.model, created=int(message.created)
            )
            headers = _headers_of(planned, call)
            api = find_dialect(call.asked.dialect).agent
            if api.wants_stream(call.asked.body, str(request.url)):
                events = self._stream(turn, reply, call, stack.pop_all())
                return StreamingResponse(events, headers=headers, media_type=MEDIA_TYPE)
            await drain(turn)
            answer = await run_in_thread(turn.finish, reply)
            is_gone = await request.is_disconnected()
            self._chats.note_delivery(message, is_whole=not is_gone)
            return JSONResponse(api.write(answer), headers=headers)
        finally:
            stack.close()

    def _plan(self, call: _AgentCall) -> PlannedMessage:
        """Find the place of the message; the access is in the audit log."""
        workspace = self._server.workspace(call.client)

        def give() -> GivenReply[PlannedMessage]:
            planned = self._chats.plan(call.asked, call.agent, call.sender)
            return GivenReply(planned, _REASON, target=str(planned.key), is_masked=True)

        return workspace.audit("send", f"{call.agent}", give)

    async def _stream(
        self, turn: AgentTurn, reply: AgentReply, call: _AgentCall, stack: ExitStack
    ) -> AsyncIterator[bytes]:
        """Yield the events of an answer. A client that hangs up gets it with the next request."""
        dialect = find_dialect(call.asked.dialect)
        stream = dialect.agent.open_stream(reply, call.asked.body)
        is_whole = False
        try:
            with stack:
                yield stream.begin() or STILL_HERE
                async for text in turn.texts():
                    yield stream.say(text) if text else STILL_HERE
                answer = await run_in_thread(turn.finish, reply)
                rest = turn.said.finish(answer.text)
                yield (stream.say(rest) if rest else b"") + stream.end(answer)
                is_whole = True
        except ProxyProblem as problem:
            problem.speaker = _SPEAKER
            yield error_event(problem, dialect.name)
        except Exception:
            _log.exception("a stream of %s failed", call.agent)
            mistake = ProxyProblem(500, "the server made a mistake", "send the request again")
            yield error_event(mistake, dialect.name)
        finally:
            self._chats.note_delivery(turn.message, is_whole=is_whole)


def _check_scope(client: Client) -> None:
    """Raise for a client that may not send."""
    if not client.may("write"):
        what = f"the token `{client.name}` has the scope `{client.scope}`, and this takes `write`"
        raise Problem(403, what, hint="use a token with that scope")


def _owner_of(client: Client) -> Owner:
    """The owner of what a client begins."""
    return NO_OWNER if isinstance(client.owner, AnyOwner) else client.owner


def _headers_of(planned: PlannedMessage, call: _AgentCall) -> dict[str, str]:
    ignored = {"x-holdfast-ignored": ", ".join(call.ignored)} if call.ignored else {}
    return {
        "x-holdfast-session": planned.key.session,
        "x-holdfast-step": planned.step,
        "Cache-Control": "no-store",
        **ignored,
    }


def _read_key(headers: Mapping[str, str]) -> str:
    """The key of a request. Raises `ProxyProblem` for one that is too long."""
    key = headers.get(_KEY_HEADER, "").strip()
    if len(key) > MESSAGE_KEY_CHARS_MAX:
        raise ProxyProblem(
            400,
            f"the key of a message cannot have {len(key):,} characters",
            f"use at most {MESSAGE_KEY_CHARS_MAX}",
            code="bad_key",
        )
    return key


def _respond_failure(error: Exception, request: Request, dialect: Dialect) -> Response:
    """Return an error in the client's dialect."""
    headers: dict[str, str] = {}
    match error:
        case ProxyProblem():
            problem, headers = error, error.headers
        case Problem():
            problem, headers = _in_dialect(error), error.headers
        case RequestRefused():
            problem = _in_dialect(refusal(error, lambda text: text))
        case HoldfastError():
            found = problem_of(error)
            problem, headers = _in_dialect(found), found.headers
        case _:  # a mistake of ours
            _log.error("%s failed", request.url.path, exc_info=error)
            problem = ProxyProblem(500, "the server made a mistake", "its log has the details")
    problem.speaker = _SPEAKER
    # What failed has been tried several times: the providers' packages need not do it again.
    again = {} if problem.status in (429, 503) else {"x-should-retry": "false"}
    body = error_json(problem, dialect.name)
    return JSONResponse(body, problem.status, {"Cache-Control": "no-store", **again, **headers})


def _in_dialect(problem: Problem) -> ProxyProblem:
    code = problem.code or ("invalid_api_key" if problem.status == 401 else "")
    return ProxyProblem(problem.status, problem.detail, problem.hint or "", code=code)
