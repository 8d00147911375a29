"""An agent's command line as the model of a session.

The agent keeps a session of its own. Each reply's record names it, so that the next turn, in
whichever process, resumes it. Where the agent does not know it any more, where its window is full,
or where it would be another's (`choose_session`), a new one begins with the conversation retold.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from typing import TYPE_CHECKING, Final

from holdfast import config
from holdfast.core.dialects.registry import target
from holdfast.core.flow.effects import Cancelled
from holdfast.core.history.backends import BACKEND, FIRST, Resume, Start, choose_session, state_of
from holdfast.core.history.reseed import cap_for
from holdfast.core.models.replies import Reply
from holdfast.core.text.cut import size
from holdfast.errors import BadSetting
from holdfast.providers.callables import window_for
from holdfast.providers.command_line.child import LINE_BYTES_MAX, ChildProcess
from holdfast.providers.command_line.output import (
    SESSION_VARIABLE,
    BackendGone,
    CallPlan,
    CommandFailed,
    ProgramReader,
    WindowFull,
    report_exit,
    report_overflow,
    report_refusal,
)
from holdfast.providers.command_line.programs import (
    find_program,
    fits_argument,
    identity_of,
    split_command,
)
from holdfast.providers.command_line.prompts import AgentRequest, first_prompt, shorten_newest
from holdfast.providers.replies import keep_partial

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from holdfast.core.history.backends import BackendIdentity
    from holdfast.core.log.records import Json
    from holdfast.core.models.replies import Delta
    from holdfast.core.window import GivenWindow
    from holdfast.ports.models import BackendConversation, OnDelta
    from holdfast.providers.command_line.output import ProgramAnswer

TIMEOUT_SECONDS: Final = 3_600.0
"""The longest run of an agent, unless another time is stated: it may work for a while."""
_PROMPT_MIN: Final = 4_000
"""A window that is full with as short a prompt cannot be used."""
_SHRINK: Final = 4
"""By which the prompt of a new session is shorter than one that filled the window."""
PROVIDER: Final = "cli"
"""As the log names it."""


class CommandLineModel:
    """An agent's command line: `claude`, `codex`, or any command that reads a prompt."""

    runs_own_tools: Final = True
    """It gets no tools of ours."""

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        window: GivenWindow = None,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        account: str = "",
    ) -> None:
        """`environment` adds to this process's own. `account` names whom the agent works for,
        where its settings do not: another name begins another session."""
        self.words = split_command(command)
        self.program = find_program(self.words)
        self.target = target("anthropic", provider=PROVIDER, model=self.program.name, cache="none")
        self.window = window_for(self.target, window)
        self.timeout = TIMEOUT_SECONDS if timeout is None else timeout
        self.folder = os.path.abspath(folder or os.curdir)
        self.environment = config.child_environment(environment or {})
        self.account = account
        self.prompt_max = self.program.prompt_max
        """The longest prompt that is sent: less than the program's own limit, once a window was
        full with less."""

    def ready(self) -> None:
        """Raise `BadSetting` where the program is not installed."""
        if shutil.which(self.words[0], path=self.environment.get("PATH")) is None:
            raise BadSetting(
                f"there is no program `{self.words[0]}`",
                hint="install it, or give its path: `cli:/path/to/program`",
            )

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        return self.begin().send(request, on_delta)

    def begin(self, conversation: BackendConversation | None = None) -> CommandLineCall:
        """A call for a session, or one without a session, of which the agent keeps nothing."""
        return CommandLineCall(self, conversation)

    def as_async(self) -> AsyncCommandLineModel:
        """The same model for asynchronous callers."""
        return AsyncCommandLineModel(self)

    def identity(self, system: str) -> BackendIdentity:
        return identity_of(
            self.program,
            self.words,
            self.environment,
            system=system,
            folder=self.folder,
            account=self.account,
        )


class CommandLineCall:
    """One call. `stop` ends it from any thread."""

    def __init__(self, model: CommandLineModel, conversation: BackendConversation | None) -> None:
        self._model = model
        self._conversation = conversation
        self._guard = threading.Lock()
        self._child: ChildProcess | None = None
        self._is_stopped = False

    def stop(self) -> None:
        with self._guard:
            self._is_stopped = True
            if self._child is not None:
                self._child.stop()

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        model = self._model
        asked = AgentRequest.read(request, model.program.name)
        identity = model.identity(asked.system)
        choice: Resume | Start = Start(FIRST)
        if self._conversation is not None:
            name = self._conversation.name
            choice = choose_session(self._conversation.back(), name, identity)
        if isinstance(choice, Resume):
            text = shorten_newest(asked.newest, model.prompt_max, model.program.prompt_unit)
            try:
                return self._run(choice, text, asked.system, identity, on_delta)
            except BackendGone as gone:
                choice = Start(gone.reason)
        name, unit = model.program.name, model.program.prompt_unit
        while True:
            text = self._first_prompt(asked)
            try:
                return self._run(choice, text, asked.system, identity, on_delta)
            except WindowFull as full:
                if size(text, unit) <= _PROMPT_MIN:
                    message = f"a new session was full with a prompt of {size(text, unit):,} {unit}"
                    raise report_overflow(name, message) from full
                choice = Start(full.reason)
                model.prompt_max = max(_PROMPT_MIN, size(text, unit) // _SHRINK)
            except BackendGone as gone:
                message = f"a new session failed at once: {gone.reason}"
                raise report_refusal(name, message, status=None, has_worked=False) from gone

    def _first_prompt(self, asked: AgentRequest) -> str:
        """The conversation retold, within what the backend's window has been seen to take."""
        model = self._model
        has_system = bool(asked.system) and not self._is_option(asked.system)
        retell = asked.retell if self._conversation is None else self._conversation.retell
        chars = cap_for(model.window) if self._conversation else model.prompt_max
        return first_prompt(
            model.program,
            asked,
            retell,
            chars=min(chars, model.prompt_max),
            most=model.prompt_max,
            has_system=has_system,
        )

    def _is_option(self, system: str) -> bool:
        return self._model.program.takes_system and fits_argument(system)

    def _run(
        self,
        choice: Resume | Start,
        text: str,
        system: str,
        identity: BackendIdentity,
        on_delta: OnDelta | None,
    ) -> Reply:
        model, resumes = self._model, isinstance(choice, Resume)
        plan = CallPlan(
            session=choice.session if isinstance(choice, Resume) else str(uuid.uuid4()),
            is_new=not resumes,
            is_kept=self._conversation is not None,
            system=system if self._is_option(system) else "",
            streams=on_delta is not None,
        )
        reader = model.program.reader()
        started = choice.reason if isinstance(choice, Start) else ""
        try:
            answer = self._converse(plan, text, reader, on_delta)
        except BaseException as error:
            content = [{"type": "text", "text": reader.text}] if reader.text else []
            extra = self._extra(reader.session, identity, started)
            keep_partial(error, Reply(content=content, stop="other", extra=extra))
            raise
        return self._reply(answer, identity, started)

    def _converse(
        self, plan: CallPlan, text: str, reader: ProgramReader, on_delta: OnDelta | None
    ) -> ProgramAnswer:
        """Run the program to its end, and read its answer."""
        name = self._model.program.name
        with self._start(plan, text) as child:
            for line in child.lines():
                deltas = reader.take(line)
                if not plan.is_new and reader.session not in ("", plan.session):
                    raise BackendGone("it answered in another session than its own")
                for delta in deltas:
                    if on_delta is not None:
                        on_delta(delta)
            code = child.end()
            if child.ending == "stop":
                raise Cancelled
            if child.ending == "timeout":
                seconds = self._model.timeout
                raise CommandFailed(f"`{name}` did not end within {seconds:g} s", "timeout")
            try:
                return reader.finish(code, child.errors)
            except CommandFailed as error:
                if not child.long_lines:
                    raise
                found = f"wrote a line of more than {LINE_BYTES_MAX:,} bytes"
                raise report_exit(name, code, child.errors, found=found) from error

    def _start(self, plan: CallPlan, text: str) -> ChildProcess:
        model = self._model
        program, words = model.program, model.words
        command = [words[0], *program.arguments(plan), *words[1:], *program.ending(plan)]
        session = "" if plan.is_new else plan.session
        with self._guard:
            if self._is_stopped:
                raise Cancelled
            self._child = ChildProcess(
                command,
                text.encode(errors="replace"),
                folder=model.folder,
                environment={**model.environment, SESSION_VARIABLE: session},
                timeout=model.timeout,
            )
            return self._child

    def _reply(self, answer: ProgramAnswer, identity: BackendIdentity, started: str) -> Reply:
        extra = self._extra(answer.session, identity, started)
        if BACKEND in extra:
            # What an agent reports is summed over its calls or its thread, which would be taken
            # for the size of one request.
            figures = {"usage": answer.usage, "cost": answer.cost}
            extra[BACKEND] |= {name: item for name, item in figures.items() if item is not None}
        return Reply(
            content=[{"type": "text", "text": answer.text}] if answer.text else [],
            stop_reason=answer.stop_reason,
            provider=PROVIDER,
            model=answer.model,
            extra=extra,
        )

    def _extra(self, session: str, identity: BackendIdentity, started: str) -> Json:
        if self._conversation is None:
            return {}
        return {BACKEND: state_of(session, self._conversation.name, identity, started)}


class AsyncCommandLineModel:
    """The same for asynchronous callers. A cancelled call ends its process before it returns."""

    runs_own_tools: Final = True
    """It gets no tools of ours."""

    def __init__(self, model: CommandLineModel) -> None:
        self._model = model
        self.target = model.target
        self.window = model.window

    def ready(self) -> None:
        self._model.ready()

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        return await self.begin().send(request, on_delta)

    def begin(self, conversation: BackendConversation | None = None) -> AsyncCommandLineCall:
        return AsyncCommandLineCall(self._model.begin(conversation), self)


class AsyncCommandLineCall:
    """One call, in a thread of its own: it may take longer than a pool should wait."""

    def __init__(self, call: CommandLineCall, model: AsyncCommandLineModel) -> None:
        self._call = call
        self.target = model.target
        self.window = model.window

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        import asyncio  # here, so that blocking callers never load it

        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        outcome: list[Reply | BaseException] = []
        relay = None if on_delta is None else _relay(on_delta, loop)

        def work() -> None:
            try:
                outcome.append(self._call.send(request, relay))
            except BaseException as error:
                outcome.append(error)
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=work, daemon=True).start()
        cancelled: asyncio.CancelledError | None = None
        while not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self._call.stop()
        if cancelled is not None:
            raise cancelled
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]


def _relay(on_delta: OnDelta, loop: asyncio.AbstractEventLoop) -> OnDelta:
    """A callback for the thread that runs on the loop; what it raises is raised there."""
    import asyncio

    async def tell(delta: Delta) -> None:
        on_delta(delta)

    return lambda delta: asyncio.run_coroutine_threadsafe(tell(delta), loop).result()
