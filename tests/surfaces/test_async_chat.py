"""Slash commands on an event loop, and what each of them does while a turn runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import SessionOptions
from holdfast.commands import AsyncChatContext, ChatContext, run_command, run_command_async
from holdfast.core.flow.effects import Cancelled
from holdfast.core.flow.events import TurnWaiting
from holdfast.core.log.records import Assistant, Compaction, Label, User
from holdfast.core.owners import NamedOwner
from holdfast.engine.session.base import target_of
from holdfast.errors import TurnInProgress, UsageError
from holdfast.providers.models import async_model
from holdfast.stores import MemoryStore
from holdfast.surfaces.slash_commands import COMMANDS, find, turns
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import Reply
    from holdfast.stores import SessionStore
    from holdfast.surfaces.slash_commands.command import SlashCommand

AT_ONCE = [command for command in COMMANDS if command.during_turn == "at once"]
QUEUED = [command for command in COMMANDS if command.during_turn == "queued"]
REFUSED = [command for command in COMMANDS if command.during_turn == "refused"]
STATED = {
    "at once": {
        *("start", "menu", "help", "quit", "status", "context", "history", "memory", "output"),
        *("list", "new", "switch", "cancel", "reset", "approvals", "approve", "deny"),
        *("remind", "timers", "reschedule", "unremind"),
    },
    "queued": {"label", "mode", "window", "compact", "checkpoint"},
    "refused": {"rewind", "undo", "model", "continue"},
}
ARGUMENTS = {"label": "after it", "mode": "fresh", "output": "0" * 16, "switch": "nothing"}
PATIENCE = 60
"""Seconds until a test gives up on something that should have happened."""


class Held:
    """A model that answers when it is let go, on a loop."""

    def __init__(self) -> None:
        script = ScriptedModel((), otherwise="fine")
        self.target, self.window = script.target, script.window
        self.requests = script.requests
        self._script = script.as_async()
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def send(self, request: Any, on_delta: Any = None) -> Reply:
        self.is_asked.set()
        await self.may_answer.wait()
        return await self._script.send(request, on_delta)


class Scene:
    """A chat on a loop, in which a turn runs until the model is let go."""

    def __init__(self, store: SessionStore, **settings: Any) -> None:
        self.model = Held()
        self.waits = asyncio.Event()
        loop = asyncio.get_running_loop()

        def listen(event: Any) -> None:
            if isinstance(event, TurnWaiting):
                loop.call_soon_threadsafe(self.waits.set)

        given: dict[str, Any] = {"audience": "operator", "owner": "ann", "listen": listen}
        self.chat = AsyncChatContext(
            store, "main", self.model, SessionOptions(summary="extract"), **given | settings
        )

    async def begin(self) -> asyncio.Task[Any]:
        """Start the chat and a turn, and return when the model is asked."""
        await self.chat.open_newest()
        self.key = self.chat.session.key
        turn = asyncio.create_task(self.chat.session.say("what now?"))
        await self.model.is_asked.wait()
        return turn

    def on_surface_of(self, command: SlashCommand) -> str:
        """Choose a surface that offers the command; return what is typed."""
        self.chat.blocking.surface = command.surfaces[0]
        return f"/{command.name} {ARGUMENTS.get(command.name, '')}".strip()

    def records(self) -> list[Record]:
        return list(self.chat.blocking.store.read(self.key))


def play(work: Callable[[], Any]) -> None:
    async def within() -> None:
        await asyncio.wait_for(work(), PATIENCE)

    asyncio.run(within())


def test_a_model_with_tools_of_its_own_gets_none_of_the_chat() -> None:
    """On a loop as in a terminal."""

    def look(path: str) -> str:
        """Look at a file."""
        return path

    async def talk() -> None:
        model = async_model("cli:sh -c 'cat > /dev/null; echo The 9:12.'")
        chat = AsyncChatContext(MemoryStore(), "main", model, SessionOptions(tools=[look]))
        await chat.open_newest()
        assert chat.blocking.tools == ()
        assert (await chat.session.say("Which train?")).text == "The 9:12."

    play(talk)


def test_the_docs_have_every_command() -> None:
    """With its audience, its surfaces, and its answer while a turn runs."""
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text("utf-8")
    found = {}
    for row in page.splitlines():
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        if row.startswith("| `/") and len(cells) == 5:
            name = cells[0].strip("`/").split("`")[0].split()[0]
            found[name] = tuple(cells[2:])
    places = {"everywhere": ("terminal", "messenger", "api")}
    rows = {
        name: (audience, places.get(where, tuple(where.split(", "))), when)
        for name, (audience, where, when) in found.items()
    }
    assert rows == {
        command.name: (command.audience, command.surfaces, command.during_turn)
        for command in COMMANDS
    }


def test_every_command_states_its_answer() -> None:
    """A new command has to be added here."""
    found = {"at once": AT_ONCE, "queued": QUEUED, "refused": REFUSED}
    names = {when: {command.name for command in rows} for when, rows in found.items()}
    assert names == STATED


@pytest.mark.parametrize("command", AT_ONCE, ids=lambda command: command.name)
def test_commands_that_answer_during_a_turn(command: SlashCommand) -> None:
    """They answer before the model does. The turn goes on, unless the command is to end it."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            answer = await run_command_async(scene.on_surface_of(command), scene.chat)
            assert answer.text
            assert not scene.waits.is_set() or command.name == "reset"
            if command.name in ("cancel", "reset"):
                with pytest.raises(Cancelled):
                    await turn
                return
            assert not turn.done()
            scene.model.may_answer.set()
            assert (await turn).text == "fine"
            assert isinstance(scene.records()[-1], Assistant)

    play(work)


@pytest.mark.parametrize("command", QUEUED, ids=lambda command: command.name)
def test_commands_that_wait_for_the_turn(command: SlashCommand) -> None:
    """Nothing of them is stored before the reply."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            asked = asyncio.create_task(run_command_async(scene.on_surface_of(command), scene.chat))
            await scene.waits.wait()
            before = scene.records()
            assert not asked.done()
            scene.model.may_answer.set()
            await turn
            answer = await asked
            assert answer.text
            assert "Error" not in answer.text
            kinds = [record.kind for record in scene.records()[len(before) :]]
            assert kinds[0] == "assistant"

    play(work)


@pytest.mark.parametrize("command", REFUSED, ids=lambda command: command.name)
def test_commands_that_are_refused_during_a_turn(command: SlashCommand) -> None:
    """They change nothing, and say what to do."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            before = scene.records()
            answer = await run_command_async(scene.on_surface_of(command), scene.chat)
            assert answer.is_refused
            assert answer.then is None
            assert f"/{command.name} has to wait: a turn is running since" in answer.text
            assert "/cancel stops the turn" in answer.text
            assert scene.records() == before
            assert not turn.done()
            scene.model.may_answer.set()
            await turn
            assert not (await run_command_async(f"/{command.name}", scene.chat)).text.startswith(
                "/"
            )

    play(work)


def test_status_tells_of_the_turn() -> None:
    """Only an operator reads which process has it."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            text = (await run_command_async("/status", scene.chat)).text
            assert "running since" in text
            assert ", turn " in text
            scene.chat.blocking.audience = "guest"
            text = (await run_command_async("/status", scene.chat)).text
            assert "running since" in text
            assert ", turn " not in text
            scene.model.may_answer.set()
            await turn
            assert "running since" not in (await run_command_async("/status", scene.chat)).text

    play(work)


def test_reset_during_a_turn_starts_from_what_was_said() -> None:
    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            answer = await run_command_async("/reset again", scene.chat)
            with pytest.raises(Cancelled):
                await turn
            fresh = scene.chat.session
            assert fresh.key != scene.key
            assert fresh.key.session in answer.text
            assert store.header(fresh.key).owner == "ann"
            assert "characters" in answer.text
            scene.model.may_answer.set()
            assert (await fresh.say("go on")).text == "fine"
            assert "what now?" in str(scene.model.requests[-1])
            assert not isinstance(scene.records()[-1], Assistant)

    play(work)


def test_reset_does_not_depend_on_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of another process, or one that does not end, stays with the old session."""
    monkeypatch.setattr(turns, "RESET_WAIT_SECONDS", 0.05)

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store, cancel=lambda: False)
            turn = await scene.begin()
            refusal = await run_command_async("/cancel", scene.chat)
            assert refusal.is_refused
            assert "another process has it" in refusal.text
            answer = await run_command_async("/reset", scene.chat)
            assert scene.chat.session.key != scene.key
            assert scene.chat.session.key.session in answer.text
            assert not turn.done()
            scene.model.may_answer.set()
            assert (await turn).text == "fine"
            assert isinstance(scene.records()[-1], Assistant)
            assert "Nothing to cancel" not in refusal.text

    play(work)


def test_cancel_without_a_turn_says_so() -> None:
    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            await scene.chat.open_newest()
            assert "no turn is running" in (await run_command_async("/cancel", scene.chat)).text

    play(work)


def test_many_commands_that_wait_leave_the_turn_its_threads() -> None:
    """More than the pool of the loop has: the turn needs that pool to end."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            asked = [
                asyncio.create_task(run_command_async(f"/label number {number}", scene.chat))
                for number in range(40)
            ]
            await scene.waits.wait()
            scene.model.may_answer.set()
            await turn
            answers = await asyncio.gather(*asked)
            assert {answer.is_refused for answer in answers} == {False}
            labels = [rec.label for rec in scene.records() if isinstance(rec, Label)]
            assert sorted(labels) == sorted(f"number {number}" for number in range(40))

    play(work)


def test_a_command_that_waited_is_not_done_in_another_session() -> None:
    """What was typed for a session is not done to the one that a reset made."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            asked = asyncio.create_task(run_command_async("/label of the old one", scene.chat))
            await scene.waits.wait()
            await run_command_async("/new", scene.chat)
            scene.model.may_answer.set()
            await turn
            answer = await asked
            assert answer.is_refused
            assert "went on to another session" in answer.text
            assert not any(isinstance(rec, Label) for rec in store.read(scene.chat.session.key))
            assert not any(isinstance(rec, Label) for rec in scene.records())

    play(work)


def test_a_cancelled_caller_takes_its_command_along() -> None:
    """A command that waits for a turn is not done after all."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            turn = await scene.begin()
            asked = asyncio.create_task(run_command_async("/label too late", scene.chat))
            await scene.waits.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            scene.model.may_answer.set()
            await turn
            assert not [rec for rec in scene.records() if isinstance(rec, Label)]

    play(work)


def test_a_cancelled_caller_stops_a_compaction() -> None:
    """The call to the model that a command waits for ends with it."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            chat = AsyncChatContext(
                store, "main", scene.model, SessionOptions(summary="model"), owner=NamedOwner("ann")
            )
            await chat.open_newest()
            said: list[Any] = [User(content="word " * 900), Assistant(content="word " * 900)] * 6
            key = chat.session.key
            store.append(key, said, expect=store.head(key))
            asked = asyncio.create_task(run_command_async("/compact", chat))
            await scene.model.is_asked.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert store.leases.current(key) is None
            assert not [rec for rec in store.read(key) if isinstance(rec, Compaction)]

    play(work)


def test_a_command_does_not_hold_the_loop() -> None:
    """While a command waits for its store, the loop goes on: here, to let the store answer."""
    let_go = threading.Event()

    class Slow(MemoryStore):
        def sessions(self, **filters: Any) -> Any:
            assert let_go.wait(PATIENCE)
            return super().sessions(**filters)

    async def work() -> None:
        with closing(Slow()) as store:
            scene = Scene(store)
            await scene.chat.start("first")
            asked = asyncio.create_task(run_command_async("/list", scene.chat))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not asked.done()
            let_go.set()
            assert "first" in (await asked).text

    play(work)


def test_a_command_of_a_running_turn_does_not_wait_for_itself() -> None:
    """A tool that runs a command is part of the turn."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            found: list[str] = []

            async def listen(event: Any) -> None:
                if type(event).__name__ == "TurnStarted":
                    found.append((await run_command_async("/label mine", scene.chat)).text)

            await scene.chat.open_newest()
            scene.chat.session.on(listen)
            scene.model.may_answer.set()
            await scene.chat.session.say("hello")
            assert "would wait for itself" in found[0]

    play(work)


def test_a_chat_goes_on_with_the_sessions_that_its_commands_open() -> None:
    """After `/new`, `/reset` and `/switch`, turns run in the session that was opened."""

    async def work() -> None:
        with closing(MemoryStore()) as store:
            scene = Scene(store)
            scene.model.may_answer.set()
            chat = scene.chat
            await chat.open_newest()
            first = chat.session
            for said in ("/new second", "/reset third", f"/switch {first.key.session}"):
                await run_command_async(said, chat)
                assert (await chat.session.say(said)).text == "fine"
            assert chat.session.key == first.key
            assert chat.session is not first
            assert len(store.sessions(owner=NamedOwner("ann"))) == 3
            taken = await chat.take(first)
            assert taken is first
            assert "Model: " in (await run_command_async("/model offline", chat)).text
            assert target_of(chat.session).model == "offline"
            await chat.close()

    play(work)


# A blocking chat


class HeldThread(ScriptedModel):
    """A model that answers when it is let go, in a thread."""

    def __init__(self) -> None:
        super().__init__((), otherwise="fine")
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def send(self, request: Any, on_delta: Any = None) -> Reply:
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE)
        return super().send(request, on_delta)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_blocking_chat_does_the_same(
    command: SlashCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command beside a turn in another thread, whose model cannot be interrupted."""
    monkeypatch.setattr(turns, "RESET_WAIT_SECONDS", 0.05)
    waits = threading.Event()

    def listen(event: Any) -> None:
        if isinstance(event, TurnWaiting) and command.during_turn == "queued":
            waits.set()
            model.may_answer.set()

    with closing(MemoryStore()) as store:
        model = HeldThread()
        chat = ChatContext(
            store,
            "main",
            model,
            SessionOptions(summary="extract"),
            audience="operator",
            surface=command.surfaces[0],
            listen=listen,
        )
        chat.open_newest()
        session = chat.session

        def turn() -> None:
            with suppress(Cancelled):
                session.say("what now?")

        thread = threading.Thread(target=turn)
        thread.start()
        assert model.is_asked.wait(PATIENCE)
        answer = run_command(f"/{command.name} {ARGUMENTS.get(command.name, '')}".strip(), chat)
        assert answer.parts
        assert waits.is_set() == (command.during_turn == "queued")
        assert model.may_answer.is_set() == (command.during_turn == "queued")
        assert ("has to wait" in answer.text) == (command.during_turn == "refused")
        if command.name == "reset":
            assert chat.session.key != session.key
        model.may_answer.set()
        thread.join()


def test_the_turn_of_another_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is all that a command sees of it; what waits in vain says so."""
    monkeypatch.setattr(turns, "TURN_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(turns, "RESET_WAIT_SECONDS", 0.05)
    with closing(MemoryStore()) as store:
        model = ScriptedModel((), otherwise="fine")
        chat = ChatContext(store, "main", model, SessionOptions(), audience="operator")
        chat.open_newest()
        key = chat.session.key
        token = store.leases.acquire(key, "pid 4242 on another host", 60.0)
        assert "running since" in run_command("/status", chat).text
        answer = run_command("/label too soon", chat)
        assert answer.is_refused
        assert "/label has to wait: a turn is running since" in answer.text
        assert "pid " in answer.text
        chat.audience = "guest"
        assert "pid " not in run_command("/label too soon", chat).text
        chat.audience = "operator"
        assert not chat.info().label.startswith("too")
        assert run_command("/undo", chat).is_refused
        assert run_command("/cancel", chat).is_refused
        assert not run_command("/reset", chat).is_refused
        assert chat.session.key != key
        with pytest.raises(TurnInProgress):
            chat.open(key).reset(wait=0)
        with pytest.raises(UsageError):
            chat.session.reset(at_once=1)  # type: ignore[arg-type]
        store.leases.release(key, token)


def test_find_looks_among_the_commands_it_is_given() -> None:
    assert find("/quit") is not None
    assert find("/quit", AT_ONCE[:1]) is None
