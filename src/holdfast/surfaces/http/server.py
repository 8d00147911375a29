"""The application: finds the route, knows who asks, runs it, records the access, answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from holdfast.core.owners import NO_OWNER
from holdfast.core.text.typed import convert_typed, decode_typed
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.surfaces.http import (
    events,
    openapi,
    operations,
    system,
)
from holdfast.surfaces.http.admission import Admission, TokenRegister, client_in
from holdfast.surfaces.http.guard import Guard, GuardSettings, read_headers
from holdfast.surfaces.http.identity import Client
from holdfast.surfaces.http.metrics import Metrics
from holdfast.surfaces.http.paying_clients import PayingClients
from holdfast.surfaces.http.problems import MEDIA_TYPE, Problem, no_token, problem_of
from holdfast.surfaces.http.route import HttpAnswer, HttpCall, check_depth, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from holdfast.core.history.access import Action, Caller
    from holdfast.engine.access_tokens import AccessToken
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.surfaces.http.route import Route

ROUTES: Final = (
    *system.ROUTES,
    *events.ROUTES,
    *operations.ROUTES,
)
"""Every route of the API."""
_REST: Final = "{path:path}"
"""In an address that takes whatever follows."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
"""Methods whose refusal names those that an address takes."""
_THREADS_MAX: Final = 64
"""Of the pool for stores and for planning. That of asyncio has four more than there are cores: as
many compactions would keep every other session from its log."""
_FIELDS_MAX: Final = 100
"""Fields of a form; the largest of ours has ten."""
_log: Final = logging.getLogger(__name__)


class HttpServer:
    """The routes over a gateway."""

    def __init__(
        self,
        gateway: Gateway,
        workspace_of: Callable[[Caller], CallerWorkspace],
        *,
        tokens: Sequence[AccessToken] = (),
        guard: GuardSettings | None = None,
        routes: Sequence[Route] = ROUTES,
        loading: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`loading` is done in threads, before the server says that it is ready."""
        self.gateway = gateway
        self.tokens = TokenRegister(gateway.store, tokens, clock=gateway.now)
        self.metrics = Metrics()
        self.readiness = system.Readiness(gateway, loading)
        self._workspace_of = workspace_of
        self._guard = guard or GuardSettings()
        self.document = cache(partial(openapi.document, tuple(routes)))
        """Returns the OpenAPI document, which is made when it is first asked for."""
        self._routes = [*routes]
        self._mounts: list[Starlette] = []
        self.connections: list[Callable[[], AbstractAsyncContextManager[None]]] = []
        """Held while the server runs."""
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Called when everything has ended."""
        self._endpoints: list[StarletteRoute] = []

    def add_pages(self, routes: Sequence[Route]) -> None:
        """Add pages for people."""
        self._routes += routes

    def mount(self, app: Starlette) -> None:
        """Add an application that answers for addresses of its own, to clients with a token."""
        self._mounts.append(app)

    def add_endpoint(self, paths: Sequence[str], app: ASGIApp) -> None:
        """Add an application for some addresses, which finds out itself who asks."""
        self._endpoints += [StarletteRoute(path, app) for path in paths]

    def app(self) -> Any:
        """Return the ASGI application. It starts and stops the gateway with its lifespan."""
        paths: dict[str, dict[str, Route]] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method] = route
        inner = Starlette(
            routes=[
                StarletteRoute(path, self._endpoint(methods), methods=_METHODS)
                for path, methods in paths.items()
            ]
            + [route for route in self._endpoints if _REST in route.path]
            + [
                StarletteRoute(route.path, _KnownOnly(route.app))
                for mounted in self._mounts
                for route in mounted.routes
                if isinstance(route, StarletteRoute)
            ],
            lifespan=self._lifespan,
            exception_handlers={
                404: _not_found,
                405: _no_method,
                Exception: _on_mistake,
            },
        )
        inner.router.redirect_slashes = False
        inner.state.server = self
        fixed = [route for route in self._endpoints if _REST not in route.path]
        self._admission = Admission(PayingClients(_EndpointsFirst(fixed, inner)), self.tokens)
        self._admission.router = inner.router
        self._door = Guard(self._admission, self._guard, self._is_known)
        return self._door

    def limit(self, settings: GuardSettings) -> None:
        """Bound requests in another way from now on."""
        self._door.limit(settings)

    async def _is_known(self, headers: Mapping[str, str]) -> bool:
        client, _sha256 = await self.tokens.find_client(headers)
        return client is not None

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="holdfast")
        asyncio.get_running_loop().set_default_executor(threads)
        await self.gateway.start(is_alone=self.gateway.store.local_folder is not None)
        tasks = [
            asyncio.create_task(self.readiness.load(), name="holdfast-loading"),
            asyncio.create_task(self._admission.watch(self.gateway.live), name="holdfast-tokens"),
        ]
        try:
            async with AsyncExitStack() as stack:
                for connect in self.connections:
                    await stack.enter_async_context(connect())
                for mounted in self._mounts:
                    await stack.enter_async_context(mounted.router.lifespan_context(mounted))
                yield
        finally:
            for task in tasks:
                task.cancel()
            await self.gateway.stop()
            await asyncio.wait(tasks)
            for close in self.closing:
                await close()

    def _endpoint(self, methods: dict[str, Route]) -> Callable[[Request], Any]:
        allowed = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))

        async def endpoint(request: Request) -> Response:
            began = time.monotonic()
            method = "GET" if request.method == "HEAD" else request.method
            route = methods.get(method)
            path = next(iter(methods.values())).path
            response = (
                await self._answer(request, route)
                if route is not None
                else _respond_problem(
                    Problem(
                        405,
                        f"{path} does not take {request.method[:20]}",
                        hint=f"it takes {allowed}",
                        headers={"Allow": allowed},
                    )
                )
            )
            seconds = time.monotonic() - began
            self.metrics.count(method if route else "other", path, response.status_code, seconds)
            _log.info(
                "%s %s %d",
                method,
                path,
                response.status_code,
                extra={
                    "method": method,
                    "route": path,
                    "status": response.status_code,
                    "seconds": round(seconds, 6),
                },
            )
            return response

        return endpoint

    async def _answer(self, request: Request, route: Route) -> Response:
        client: Client | None = None
        call: HttpCall | None = None
        action = route.operation.audit if route.operation is not None else route.action
        headers = read_headers(request.scope)
        try:
            client = self._client(request.scope, route)
            call = await self._call(request, headers, route, client)
            answer = await self._run(route, call)
            response = _respond(answer, is_head=request.method == "HEAD")
        except Problem as problem:
            response = _respond_failure(route, problem, request)
        except RequestRefused as refused:
            assert client is not None
            mask = self.workspace(client).mask
            response = _respond_failure(route, refusal(refused, mask), request)
        except HoldfastError as error:
            response = _respond_failure(route, problem_of(error), request)
        except Exception:
            _log.exception("%s %s failed", route.method, route.path)
            response = _respond_failure(route, _mistake(), request)
        if route.operation is not None and call is not None and call.workspace.replies.is_noted:
            action = None  # an operation writes its own line
        if client is not None and action is not None:
            try:
                await run_in_thread(self._record, action, request, client, response)
            except HoldfastError as error:
                return _respond_failure(
                    route,
                    Problem(
                        503,
                        "the access could not be written to the audit log, so nothing is returned",
                        hint="the operator must make the log writable",
                        code=error.code,
                    ),
                    request,
                )
        return response

    def _client(self, scope: Mapping[str, Any], route: Route) -> Client:
        try:
            client = client_in(scope)
        except HoldfastError:
            if not route.is_open:
                raise
            client = None
        if client is None and route.is_open:
            return Client("anybody", NO_OWNER, "read")
        if client is None:
            raise no_token()
        if not client.may(route.scope):
            raise Problem(
                403,
                f"the token `{client.name}` has the scope `{client.scope}`, and this takes "
                f"`{route.scope}`",
                hint="use a token with that scope",
            )
        if route.is_for_operator and not client.is_operator:
            raise Problem(
                403,
                f"the token `{client.name}` is for one owner, and this shows those of all",
                hint="use a token whose owner is `*`",
            )
        return client

    async def _call(
        self, request: Request, headers: Mapping[str, str], route: Route, client: Client
    ) -> HttpCall:
        query = _read_query(request, route)
        body = await _read_body(request, route)
        return HttpCall(
            client=client,
            workspace=self.workspace(client),
            gateway=self.gateway,
            path=dict(request.path_params),
            query=query,
            body=body,
            headers=headers,
        )

    async def _run(self, route: Route, call: HttpCall) -> HttpAnswer:
        if route in system.ROUTES:
            return await system.run(route, call, self)
        found: Any = (
            await route.run(call)
            if inspect.iscoroutinefunction(route.run)
            else await run_in_thread(route.run, call)
        )
        assert isinstance(found, HttpAnswer)
        return found

    def _record(self, action: Action, request: Request, client: Client, response: Response) -> None:
        path = request.path_params
        name = f"{path['agent']}/{path['session']}" if "session" in path else request.url.path
        is_allowed = response.status_code < 400
        self.workspace(client).replies.note(
            action,
            name,
            f"HTTP {response.status_code}.",
            GivenReply(None, "") if is_allowed else None,
            bytes(getattr(response, "body", b"")),
        )

    def workspace(self, client: Client) -> CallerWorkspace:
        """Return the store as a client may use it."""
        workspace = self._workspace_of(client.caller)
        workspace.lookup.is_exact = True
        workspace.person = client.name
        workspace.replies.asker = f"Token {client.name}."
        return workspace


async def _not_found(request: Request, _error: Exception) -> Response:
    return _respond_problem(
        Problem(
            404,
            f"there is nothing at {request.url.path[:200]}",
            hint="GET /openapi.json lists every address",
        )
    )


async def _no_method(request: Request, _error: Exception) -> Response:
    detail = f"there is no method {request.method[:20]}"
    return _respond_problem(Problem(405, detail, headers={"Allow": ", ".join(_METHODS[:6])}))


async def _on_mistake(_request: Request, _error: Exception) -> Response:
    return _respond_problem(_mistake())


class _EndpointsFirst:
    """Answers at the addresses of the APIs of models, where most requests go, before any other
    route is compared and without what wraps the routes."""

    def __init__(self, endpoints: Sequence[StarletteRoute], rest: ASGIApp) -> None:
        self._endpoints = endpoints
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in self._endpoints if scope["type"] == "http" else ():
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found, route=route)
                await route.handle(scope, receive, send)
                return
        await self._rest(scope, receive, send)


class _KnownOnly:
    """Answers 401 where the client has no valid token, and lets the others through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            refusal = no_token() if client_in(scope) is None else None
        except HoldfastError as error:
            refusal = problem_of(error)
        await (_respond_problem(refusal) if refusal else self._app)(scope, receive, send)


def _mistake() -> Problem:
    return Problem(
        500, "the server made a mistake", hint="its log has the details; please report it"
    )


def _read_query(request: Request, route: Route) -> Any:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Problem(400, f"the parameter `{name[:100]}` is given twice")
        if value or not route.is_page:  # a form sends the fields that were left empty, too
            given[name] = value
    try:
        return convert_typed(given, route.query, strict=False)
    except (msgspec.ValidationError, UnicodeError) as error:
        fields = ", ".join(f.encode_name for f in msgspec.structs.fields(route.query))
        raise Problem(
            400, f"a parameter cannot be used: {error}", hint=f"parameters: {fields or 'none'}"
        ) from error


async def _read_body(request: Request, route: Route) -> Any:
    data = await request.body()
    if route.is_page:
        return _read_form(data, request, route)
    if route.body is None:
        if data.strip() not in (b"", b"{}"):
            raise Problem(400, "this takes no body", hint="leave it out")
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise Problem(
            415,
            f"the body is `{kind[:100] or 'of no type'}`, and JSON is needed",
            hint="send `Content-Type: application/json`",
        )
    try:
        body = decode_typed(data, route.body)
        check_depth(body)
        return body
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(route.body))
        raise Problem(
            400, f"the body cannot be read: {error}", hint=f"fields: {fields}; nothing was stored"
        ) from error


def _read_form(data: bytes, request: Request, route: Route) -> Any:
    if route.body is None:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, f"the body is `{kind[:100] or 'of no type'}`, and a form is needed")
    try:
        pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
        return convert_typed(dict(pairs), route.body, strict=False)
    except ValueError as error:
        raise Problem(
            400, f"the form cannot be read: {error}", hint="nothing was stored"
        ) from error


def _respond_failure(route: Route, problem: Problem, request: Request) -> Response:
    if route.problem_page is None:
        return _respond_problem(problem)
    address = f"{request.url.path}?{request.url.query}".rstrip("?")
    return _respond(route.problem_page(problem, address))


def _respond(answer: HttpAnswer, *, is_head: bool = False) -> Response:
    if hasattr(answer.value, "__aiter__") and is_head:
        return Response(None, answer.status, headers=answer.headers, media_type=answer.media_type)
    if hasattr(answer.value, "__aiter__"):
        return StreamingResponse(
            answer.value,
            answer.status,
            headers=answer.headers,
            media_type=answer.media_type,
        )
    value = answer.value
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    headers = {"Cache-Control": "no-store", **answer.headers}
    return Response(data, answer.status, headers=headers, media_type=answer.media_type)


def _respond_problem(problem: Problem) -> Response:
    headers = {"Cache-Control": "no-store", **problem.headers}
    return Response(problem.body(), problem.status, headers=headers, media_type=MEDIA_TYPE)
