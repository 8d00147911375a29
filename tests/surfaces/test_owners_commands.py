"""No slash command shows one owner anything of another, nor that there is another.

Every command of the table, with arguments that try to reach the other owner, is run in two stores:
one where the other owner has sessions, notes and outputs, and one without. The answers and the
completions have to be the same.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.runs import examples, sample

from holdfast import JsonlStore, Memory, SessionKey, SessionOptions
from holdfast.commands import (
    AsyncChatContext,
    ChatContext,
    commands_for,
    run_command,
    run_command_async,
)
from holdfast.core.history.access import OPERATOR
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Flush,
    Mode,
    OutputRef,
    ToolResult,
    ToolUse,
    User,
)
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.engine.outputs import Outputs
from holdfast.engine.session import opening
from holdfast.engine.session import state as session_state
from holdfast.engine.session.session import Session
from holdfast.errors import AccessDenied, BadSetting, HoldfastWarning, StoreUnavailable, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore
from holdfast.surfaces.slash_commands import COMMANDS, complete
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.stores import SessionStore

ANN = SessionKey("main", "ann-work")
BOB = SessionKey("main", "bob-work")
THEIRS = "quagga"
"""In every text of the other owner, and in nothing that is typed."""
LATER = 1_763_294_400.0
TYPED = (
    *("", BOB.session, str(BOB), "bob", "bob-w", "bob at work", "bob at", "bob-fresh", "plan"),
    *("pl", "other/bob-else", "ann-plan", "ann-work", "all", "list all", "5", "fresh"),
    "--preview",
)
SETS = [("terminal", "operator"), ("messenger", "guest"), ("api", "owner")]


def records(word: str, store: SessionStore, ts: float) -> list[Record]:
    """Return a conversation with a word wherever text can stand."""
    output = f"{word} line\n".encode() * 400
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": f"{word}.txt"}}
    ref = OutputRef(sha256=store.blobs.put(output), bytes=len(output), kind="text")
    said: list[Any] = [
        User(content=f"always call it {word}"),
        Assistant(content=[{"type": "text", "text": f"I look at {word}"}, call]),
        ToolUse(tool_use_id="c1", name="look", input={"at": f"{word}.txt"}),
        ToolResult(tool_use_id="c1", name="look", content=f"{word}…", output_ref=ref),
        Assistant(content=f"{word} it is"),
        Flush(notes=[f"the animal is {word}"], trigger="asked"),
        Checkpoint(state={"current_objective": f"feed the {word}"}),
        User(content=f"and {word}?"),
        Assistant(content=f"{word}, yes"),
    ]
    return [replace(record, ts=ts + number) for number, record in enumerate(said)]


def plant(store: SessionStore, owner: str, word: str, ts: float) -> None:
    """Give an owner sessions, one that continues in another, notes and outputs."""
    name = owner or "nobody"
    work = SessionKey("main", f"{name}-work")
    for key, label in [
        (SessionKey("main", f"{name}-plan"), "plan"),
        (SessionKey("other", f"{name}-else"), f"{name} elsewhere"),
        (work, f"{name} at work"),
    ]:
        ts += 100
        store.create(key, label=label, owner=owner_of(owner))
        store.append(key, records(word, store, ts), expect=ANY_HEAD)
    fresh = SessionKey("main", f"{name}-fresh")
    store.create(fresh, owner=owner_of(owner), parent_session=str(work), reason="reset")
    seeds = [Compaction(summary=f"about a {word}", first_kept="", ts=ts + 50)]
    store.append(fresh, [*seeds, *records(word, store, ts + 60)], expect=ANY_HEAD)
    for agent in ("main", "other"):
        notes = store.notes(agent, owner_of(owner))
        notes.put("MEMORY.md", None, f"- {word} in a note\n".encode())


class Ticks:
    """A clock that no two events share, and the ids of sessions made at its times: what is done at
    the same time in two stores gets the same."""

    def __init__(self) -> None:
        self.now = LATER

    def __call__(self) -> float:
        self.now += 1.0
        return self.now

    def new_id(self, _bits: int) -> str:
        return f"{int(self()):012x}"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Replace time and chance: texts of another length or token count are other answers."""
    monkeypatch.setattr(opening, "new_session_id", CLOCK.new_id)
    return CLOCK


CLOCK = Ticks()


def stock(folder: Path | None = None, *, has_other: bool) -> SessionStore:
    """Make a store in a folder or in memory, with two owners and some sessions of nobody's, or with
    one owner alone."""
    given: Any = {"clock": CLOCK, "entropy": lambda _bits: 0}
    store = MemoryStore(**given) if folder is None else JsonlStore(folder, **given)
    CLOCK.now = LATER
    plant(store, "ann", "panda", LATER)
    if has_other:
        CLOCK.now = LATER + 10_000  # other ids
        plant(store, "bob", THEIRS, LATER + 10_000)
        plant(store, "", THEIRS, LATER + 20_000)
        # A record of one owner that names a session of the other is not followed.
        named = Mode(mode="fresh", continued_in=BOB.session)
    else:
        named = Mode(mode="fresh", continued_in="no-such-work")
    CLOCK.now = LATER + 30_000
    store.append(SessionKey("main", "ann-plan"), [named], expect=ANY_HEAD)
    return store


def arguments(store: SessionStore) -> list[str]:
    """Return texts that mean something of the other owner, and some that mean nothing of it."""
    theirs = list(store.read(BOB))
    kinds = (User, ToolResult, Checkpoint)
    ids = [record.id for record in theirs if isinstance(record, kinds)]
    refs = [rec.output_ref for rec in theirs if isinstance(rec, ToolResult)]
    sha256 = next(ref.sha256 for ref in refs if ref is not None)
    every = [*TYPED, *ids, sha256, sha256[:16], f"{sha256} 1:5", f"{ids[0]} a"]
    return sample(every, share=0.4, kind=len)


def without_chance(text: str) -> str:
    """Return a text without times and ids made by chance."""
    text = re.sub(r"20\d\d-\d\d-\d\d[T ][\d:.+Z-]+", "TIME", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", "DAY", text)
    text = re.sub(r"\b1[7-9]\d{8}(?:\.\d+)?\b", "SECONDS", text)
    text = re.sub(r"ckpt_\d+_(\w+)_[0-9a-f]{8}", r"ckpt_\1", text)
    text = re.sub(r"\b(?:[0-9a-f]{12}|[0-9a-f]{18})\b", "ID", text)
    # An id may be like some of a session's own, or like none.
    return re.sub(
        r"did you mean `ID`(?: or `ID`)*\?|list them with `holdfast log [^`]*`", "X", text
    )


Answers = dict[str, str]


def walk(store: SessionStore, surface: Any, audience: Any, given: Iterable[str]) -> Answers:
    """Run every command with every argument in a chat of Ann's; also complete each of them."""
    model = ScriptedModel((), otherwise="fine")
    options = SessionOptions(summary="extract")
    chat = ChatContext(
        store,
        "main",
        model,
        options,
        owner=NamedOwner("ann"),
        surface=surface,
        audience=audience,
        clock=CLOCK,
    )
    answers = {}
    for command in COMMANDS:
        chat.open(ANN)
        choices = [without_chance(f"{choice}") for choice, _ in complete(f"/{command.name} ", chat)]
        answers[f"complete {command.name}"] = "\n".join(sorted(choices))
        for argument in given:
            if chat.session.key != ANN:
                chat.open(ANN)
            said = f"/{command.name} {argument}".strip()
            answers[said] = without_chance(run_command(said, chat).text)
            assert store.header(chat.session.key).owner == "ann", said
    return answers


def walk_on_loop(store: SessionStore, surface: Any, audience: Any, given: Iterable[str]) -> Answers:
    """`walk` by `run_async`, without completions."""

    async def work() -> Answers:
        model = ScriptedModel((), otherwise="fine").as_async()
        options = SessionOptions(summary="extract")
        chat = AsyncChatContext(
            store,
            "main",
            model,
            options,
            owner=NamedOwner("ann"),
            surface=surface,
            audience=audience,
            clock=CLOCK,
        )
        answers = {}
        for command in COMMANDS:
            await chat.open(ANN)
            for argument in given:
                if chat.session.key != ANN:
                    await chat.open(ANN)
                said = f"/{command.name} {argument}".strip()
                answers[said] = without_chance((await run_command_async(said, chat)).text)
                assert store.header(chat.session.key).owner == "ann", said
        return answers

    return asyncio.run(work())


def differences(with_other: Answers, alone: Answers) -> dict[str, tuple[str, str]]:
    """Return the answers that show something of the other owner, or depend on it."""
    return {
        said: (text, alone.get(said, ""))
        for said, text in with_other.items()
        if text != alone.get(said) or THEIRS in text
    }


@pytest.mark.sampled(1 / 2, "kind")
@pytest.mark.parametrize(("surface", "audience"), SETS)
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_no_answer_depends_on_another_owner(
    kind: str, surface: str, audience: str, tmp_path: Path
) -> None:
    """Neither a word of the other owner is shown, nor that something of theirs exists."""
    folders = (tmp_path / "both", tmp_path / "alone") if kind == "folder" else (None, None)
    with closing(stock(folders[0], has_other=True)) as store:
        given = arguments(store)
        found = walk(store, surface, audience, given)
    with closing(stock(folders[1], has_other=False)) as store:
        alone = walk(store, surface, audience, given)
    assert differences(found, alone) == {}
    assert any("panda" in text for text in found.values())


@pytest.mark.parametrize(("surface", "audience"), SETS)
def test_on_a_loop_every_answer_is_the_same(surface: str, audience: str) -> None:
    """The table runs on `AsyncSession`: with another owner, without, and in a blocking chat."""
    with closing(stock(has_other=True)) as store:
        given = arguments(store)
        on_loop = walk_on_loop(store, surface, audience, given)
    with closing(stock(has_other=False)) as store:
        alone = walk(store, surface, audience, given)
    assert differences(on_loop, alone) == {}


ACTS = ("say", *(f"/{command.name}" for command in COMMANDS))
TO_NAME = st.sampled_from(
    ["", "plan", "bob-work", "ann-work", "1", "fresh", "bob", "list all", "x"]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]), st.sampled_from(ACTS), TO_NAME | st.text(max_size=6)
    ),
    min_size=1,
    max_size=12,
)


def answers_of_ann(steps: list[tuple[str, str, str]], *, has_other: bool) -> list[str]:
    """Let two owners use their chats in turns, or one of them alone; return what Ann reads."""
    found = []
    with closing(stock(has_other=has_other)) as store:
        chats = {}
        for owner in ("ann", "bob") if has_other else ("ann",):
            model = ScriptedModel((), otherwise=f"fine, {'panda' if owner == 'ann' else THEIRS}")
            chat = ChatContext(
                store,
                "main",
                model,
                SessionOptions(summary="extract"),
                owner=owner_of(owner),
                audience="operator",
                clock=CLOCK,
            )
            chat.open(SessionKey("main", f"{owner}-work"))
            chats[owner] = chat
        for number, (owner, act, argument) in enumerate(steps):
            CLOCK.now = LATER + 40_000 + 1_000 * number
            if owner not in chats:
                continue
            chat = chats[owner]
            if act == "say":
                text = chat.session.say(f"hello {argument}").text
            else:
                text = run_command(f"{act} {argument}", chat).text
            if owner == "ann":
                found.append(f"{act} {argument}: {without_chance(text)}")
    return found


@examples(120)
@given(steps=STEPS)
def test_what_one_owner_does_changes_nothing_for_another(steps: list[tuple[str, str, str]]) -> None:
    """Whatever both do and type, each reads what they would read alone."""
    found = answers_of_ann(steps, has_other=True)
    assert found == answers_of_ann(steps, has_other=False)
    assert not any(THEIRS in text for text in found)


def _list_all(chat: ChatContext, limit: int | None = None) -> Any:
    return chat.store.sessions(agent=chat.agent, owner=ANY_OWNER, limit=limit)


def _read_all(outputs: Outputs, _key: SessionKey) -> Iterator[Record]:
    for key in outputs._store.keys():  # noqa: SIM118
        yield from outputs._store.back(key)


BREAKS: dict[str, tuple[Any, str, Any]] = {
    "lists ignore the owner": (ChatContext, "infos", _list_all),
    "notes are another owner's": (
        session_state,
        "_owner_of",
        lambda _store, _key: NamedOwner("bob"),
    ),
    "outputs of every session are read": (Outputs, "_newest_first", _read_all),
    "messages are those of another session": (
        Session,
        "messages",
        lambda session, _count=20: [rec for rec in session.store.read(BOB) if rec.kind == "user"],
    ),
}


@pytest.mark.files_only("it breaks the code around the store")
@pytest.mark.parametrize("broken", BREAKS)
def test_the_walk_notices_a_leak(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code broken in one place, an answer depends on the other owner."""
    with closing(stock(has_other=False)) as alone, closing(stock(has_other=True)) as other:
        given = ["", *arguments(other)[-5:]]
        wanted = walk(alone, "terminal", "operator", given)
        monkeypatch.setattr(*BREAKS[broken])
        assert differences(walk(other, "terminal", "operator", given), wanted) != {}


def test_a_chat_opens_and_takes_sessions_of_its_owner_alone() -> None:
    model = ScriptedModel((), otherwise="fine")
    with closing(stock(has_other=True)) as store:
        chat = ChatContext(store, "main", model, SessionOptions(), owner=NamedOwner("ann"))
        with pytest.raises(AccessDenied, match="does not belong to `ann`"):
            chat.open(BOB)
        with pytest.raises(AccessDenied):
            chat.take(Session(store, BOB, model))
        elsewhere = MemoryStore()
        elsewhere.create(BOB, owner=NamedOwner("ann"))
        with pytest.raises(UsageError, match="another store"):
            chat.take(Session(elsewhere, BOB, model))
        chat.open(ANN)
        run_command("/new", chat)
        run_command("/reset", chat)
        run_command("/mode fresh", chat)
        chat.session.say("hello")
        chat.session.say("and again")
        made = [
            info for info in store.sessions(owner=ANY_OWNER) if info.key.session not in _planted()
        ]
        assert len(made) >= 3
        assert {info.owner for info in made} == {NamedOwner("ann")}
        operator = ChatContext(store, "main", model, SessionOptions(), owner=ANY_OWNER)
        assert operator.open(BOB).key == BOB


def _planted() -> set[str]:
    kinds = ("work", "plan", "else", "fresh")
    return {f"{name}-{kind}" for name in ("ann", "bob", "nobody") for kind in kinds}


def test_a_chat_refuses_a_memory_of_other_owners() -> None:
    """What a memory finds goes into the model's request, so it has to be of the same owner."""
    model = ScriptedModel((), otherwise="fine")
    with closing(stock(has_other=True)) as store:
        memory = Memory(store, None, caller=OPERATOR)
        options = SessionOptions(memory=memory)
        with pytest.raises(AccessDenied, match="other owners"):
            ChatContext(store, "main", model, options, owner=NamedOwner("ann"))
        ChatContext(store, "main", model, options, owner=ANY_OWNER)


# Sets


@pytest.mark.parametrize("wrong", [{"audience": "root"}, {"surface": "fax"}, {"audience": None}])
def test_an_unknown_audience_or_surface_is_refused(wrong: Any) -> None:
    """A mistyped name offers neither everything nor nothing."""
    with closing(MemoryStore()) as store, pytest.raises(BadSetting, match="cannot be"):
        ChatContext(store, "main", ScriptedModel(()), SessionOptions(), **wrong)


def names(surface: Any, audience: Any) -> list[str]:
    return [command.name for command in commands_for(surface, audience)]


def test_a_messenger_has_the_commands_of_a_bot() -> None:
    wanted = (
        *("start", "menu", "new", "mode", "reset", "status", "context", "compact", "checkpoint"),
        *("memory", "remind", "timers", "reschedule", "unremind", "continue", "cancel", "help"),
    )
    for audience in ("guest", "owner", "operator"):
        assert names("messenger", audience) == list(wanted)


def test_audiences_are_offered_more_and_more() -> None:
    for surface in ("terminal", "messenger", "api"):
        guest, owner, operator = (
            set(names(surface, audience)) for audience in ("guest", "owner", "operator")
        )
        assert guest <= owner <= operator
        assert not guest & {"model", "output", "switch", "list"}
    assert {command.name for command in COMMANDS} - set(names("terminal", "operator")) == {
        "start",
        "menu",
    }


@pytest.mark.parametrize(("surface", "audience"), SETS)
def test_a_command_outside_the_set_is_unknown(surface: Any, audience: Any) -> None:
    """It is not run, listed, described or completed; a guest does not learn that it exists."""
    with closing(stock(has_other=False)) as store:
        model = ScriptedModel((), otherwise="fine")
        chat = ChatContext(
            store,
            "main",
            model,
            SessionOptions(),
            owner=NamedOwner("ann"),
            surface=surface,
            audience=audience,
        )
        chat.open(ANN)
        offered = set(names(surface, audience))
        head = store.head(ANN)
        listed = run_command("/help", chat).text
        for command in COMMANDS:
            assert (f"  /{command.name}" in listed) == (command.name in offered)
            if command.name in offered:
                continue
            for name in (command.name, *command.aliases):
                for said in (f"/{name}", f"/help {name}"):
                    answer = run_command(said, chat)
                    assert answer.is_refused
                    assert answer.text.startswith("Unknown command: ")
                    assert ("not offered here" in answer.text) == (audience != "guest")
                    assert command.help not in answer.text
                    guess = re.search(r"did you mean /(\w+)", answer.text)
                    assert guess is None or guess[1] in offered
            assert not list(complete(f"/{command.name} ", chat))
        assert {choice.text for choice, _ in complete("/", chat)} == offered
        assert store.head(ANN) == head


@pytest.mark.parametrize(("surface", "audience"), SETS)
def test_answers_name_commands_that_are_offered(surface: Any, audience: Any) -> None:
    """No answer advises to use what the chat does not offer; shells are for operators."""
    offered = set(names(surface, audience))
    others = {command.name for command in COMMANDS} - offered
    wrong = {}
    with closing(stock(has_other=False)) as store:
        for said, text in walk(store, surface, audience, ["", "list", "5", "bob"]).items():
            found = set(re.findall(r"(?<![\w/])/(\w+)", text)) & others
            if said.startswith("/") and said.split()[0][1:] in offered and found:
                wrong[said] = text
            if "`holdfast " in text and audience != "operator":
                wrong[said] = text
    assert wrong == {}


def test_a_guest_reads_nothing_of_a_store_that_fails(recwarn: pytest.WarningsRecorder) -> None:
    """Its words name paths and servers; they are a warning for the operator."""
    secret = "/srv/secret/place"

    class Failing(MemoryStore):
        def info(self, key: SessionKey) -> Any:
            raise StoreUnavailable(f"cannot read {secret}", hint=f"look at {secret}")

    with closing(Failing()) as store:
        model = ScriptedModel((), otherwise="fine")
        chat = ChatContext(store, "main", model, SessionOptions(), audience="guest")
        chat.start()
        answer = run_command("/label", chat)
        assert answer.is_refused
        assert "Error: /label failed" in answer.text
        assert secret not in answer.text
        assert secret in str(recwarn.pop(HoldfastWarning).message)
        chat.audience = "owner"
        assert secret in run_command("/label", chat).text


def test_completions_are_masked() -> None:
    """They are shown, as answers are."""
    key = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with closing(MemoryStore()) as store:
        store.create(ANN, label=key, owner=NamedOwner("ann"))
        store.append(ANN, [User(content=f"the key is {key}")], expect=ANY_HEAD)
        model = ScriptedModel((), otherwise="fine")
        chat = ChatContext(store, "main", model, SessionOptions(), owner=NamedOwner("ann"))
        chat.open(ANN)
        for command in COMMANDS:
            shown = [choice for choice, _ in complete(f"/{command.name} ", chat)]
            assert key not in str(shown)
