"""Who may read which session: nobody, unless a rule says so."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import texts

from holdfast.core.history.access import (
    OPERATOR,
    Access,
    AccessDecision,
    Caller,
    Gate,
    Subject,
    Visibility,
    bound,
    decide,
    decide_change,
    subject_of,
)
from holdfast.core.limits import AUDIT_FIELD_CHARS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Header
from holdfast.core.owners import ANY_OWNER, NO_OWNER, UNKNOWN_OWNER, AnyOwner, NamedOwner
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from random import Random

    from hypothesis.strategies import SearchStrategy

    from holdfast.core.owners import FoundOwner, Owner

World = dict[SessionKey, Subject]

VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
CONTINUING = ("reset", "fork", "repair")
KEYS = [SessionKey(agent, f"s{number}") for agent in ("ann", "bob") for number in range(4)]
OWNERS: tuple[Owner, ...] = (NO_OWNER, NamedOwner("x"), NamedOwner("y"))
FOUND: tuple[FoundOwner, ...] = (*OWNERS, UNKNOWN_OWNER)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A few sessions of two agents, with parents that may be missing or go round in circles."""
    held = draw(st.lists(st.sampled_from(KEYS), unique=True))
    return {
        key: Subject(
            key,
            draw(st.sampled_from(FOUND)),
            draw(st.sampled_from([*KEYS, None])),
            draw(st.sampled_from([*CONTINUING, "spawn", "whim", None])),
        )
        for key in held
    }


def callers() -> SearchStrategy[Caller]:
    names = st.sampled_from(["ann", "bob", "*"])
    owners = st.lists(st.sampled_from(OWNERS), max_size=2).map(tuple)
    return st.builds(
        Caller,
        agent=st.sampled_from(["ann", "bob", "eve"]),
        session=st.sampled_from(["s0", "s1", "s9", None]),
        owner=st.sampled_from(OWNERS),
        visibility=st.sampled_from(VISIBILITIES),
        agents=st.lists(names, max_size=2).map(tuple),
        owners=owners | st.just(ANY_OWNER),
    )


def readable(caller: Caller, world: World) -> set[SessionKey]:
    """What the caller may read of this world."""
    return {key for key, one in world.items() if decide(caller, one, world.get).is_allowed}


def refusal(caller: Caller) -> AccessDecision:
    """What it is told of a session that does not exist."""
    return decide(caller, None, lambda _key: None)


def granted(caller: Caller, world: World) -> set[SessionKey]:
    """The rules once more, in the simplest way: sets that grow until they are complete."""
    own = SessionKey(caller.agent, caller.session) if caller.session else None

    def is_of_owner(key: SessionKey) -> bool:
        owner = world[key].owner
        return allowed is None or owner in {caller.owner, *allowed}

    allowed = None if isinstance(caller.owners, AnyOwner) else set(caller.owners)
    past, tree = ({own} & world.keys(), {own})
    for _round in world:
        past |= {
            parent
            for key in past
            if key is not None and world[key].reason in CONTINUING
            for parent in [world[key].parent]
            if parent in world and parent.agent == caller.agent and is_of_owner(parent)
        }
        tree |= {key for key, one in world.items() if one.parent is not None and one.parent in tree}
    found = {own} | past
    if caller.visibility != "self":
        found |= tree
    if caller.visibility in ("agent", "all"):
        found |= {key for key in world if key.agent == caller.agent}
    if caller.visibility == "all":
        found |= {key for key in world if {key.agent, "*"} & set(caller.agents)}
    return {key for key in found if key in world and is_of_owner(key)}


@given(callers(), worlds())
def test_access_is_what_the_rules_grant_and_nothing_else(caller: Caller, world: World) -> None:
    """For any sessions and any caller: exactly what a plain reading of the rules gives."""
    assert readable(caller, world) == granted(caller, world)


@given(callers(), worlds(), st.randoms())
def test_gates_decide_as_if_they_remembered_nothing(
    caller: Caller, world: World, order: Random
) -> None:
    """In whatever order a listing asks, each answer is what the question alone gets."""
    gate = Gate(caller, world.get)
    subjects = [None, *world.values()] * 2
    order.shuffle(subjects)
    for subject in subjects:
        assert gate.verdict(subject) == decide(caller, subject, world.get)


def test_gates_look_every_session_up_once() -> None:
    """A listing costs the number of its sessions, not the sum of their generations."""
    names = [f"s{number}" for number in range(400)]
    line = family(*zip(names, [None, *names], ["reset"] * 400, strict=False))
    looked: list[SessionKey] = []

    def find(key: SessionKey) -> Subject | None:
        looked.append(key)
        return line.get(key)

    gate = Gate(Caller("main", "s399"), find)
    assert all(gate.verdict(subject).is_allowed for subject in line.values())
    assert len(looked) <= 400
    looked.clear()
    gate = Gate(Caller("main", "elsewhere"), find)
    assert not any(gate.verdict(subject).is_allowed for subject in line.values())
    assert len(looked) <= 401


@given(callers(), worlds())
def test_access_grows_with_the_visibility(caller: Caller, world: World) -> None:
    """A wider visibility never takes away what a narrower one gave."""
    seen = [
        readable(msgspec.structs.replace(caller, visibility=visibility), world)
        for visibility in VISIBILITIES
    ]
    assert all(narrow <= wide for narrow, wide in pairwise(seen))


@given(callers(), worlds(), st.sampled_from(KEYS))
def test_access_shrinks_with_what_is_known(caller: Caller, world: World, lost: SessionKey) -> None:
    """A session that can no longer be looked up takes rights away and gives none."""

    def find(key: SessionKey) -> Subject | None:
        if key == lost:
            raise StoreError("the disk said no")
        return world.get(key)

    without = {key for key, one in world.items() if decide(caller, one, find).is_allowed}
    missing = {key: one for key, one in world.items() if key != lost}
    assert without - {lost} == readable(caller, missing)
    assert without <= readable(caller, world)


@given(callers(), worlds())
def test_access_across_owners_is_denied_at_every_visibility(caller: Caller, world: World) -> None:
    """Without a grant by name nobody sees what belongs to another, nor what nobody vouches for."""
    stranger = msgspec.structs.replace(caller, owners=())
    assert all(world[key].owner == caller.owner for key in readable(stranger, world))


@given(callers(), worlds())
def test_access_across_agents_needs_a_name_or_a_descent(caller: Caller, world: World) -> None:
    """Without `all` and a named agent, another agent's session is read only by whom it serves."""
    stranger = msgspec.structs.replace(caller, agents=(), session=None)
    assert all(key.agent == caller.agent for key in readable(stranger, world))


@given(callers(), worlds())
def test_changes_need_more_than_reading(caller: Caller, world: World) -> None:
    """What may be changed may be read, and is of the caller's own agent and owner."""
    readers = readable(caller, world)
    for key, subject in world.items():
        verdict = decide_change(caller, subject, world.get)
        is_own = key.agent == caller.agent and subject.owner == caller.owner
        is_operator = (caller.visibility, *caller.agents, caller.owners) == ("all", "*", ANY_OWNER)
        if verdict.is_allowed:
            assert key in readers
            assert is_own or is_operator
        elif key not in readers:
            assert verdict.reason == decide(caller, None, world.get).reason
        else:
            assert not is_own
    assert not decide_change(caller, None, world.get).is_allowed


@given(callers(), worlds())
def test_refusals_of_a_caller_are_all_the_same_sentence(caller: Caller, world: World) -> None:
    """What is forbidden cannot be told from what does not exist."""
    verdicts = {decide(caller, one, world.get) for one in world.values()}
    refused = {verdict for verdict in verdicts if not verdict.is_allowed}
    assert refused <= {refusal(caller)}


@given(callers(), worlds())
def test_verdicts_give_a_reason_that_fits_the_audit_log(caller: Caller, world: World) -> None:
    """Allowed or not, a sentence says why, and the log holds the whole of it."""
    for subject in [None, *world.values()]:
        verdict = decide(caller, subject, world.get)
        assert verdict.reason.startswith("Allowed: " if verdict.is_allowed else "Refused: ")
        assert verdict.reason.endswith(".")
        assert len(verdict.reason) <= AUDIT_FIELD_CHARS_MAX
        if not verdict.is_allowed:
            is_open = (
                caller.visibility == "all" and "*" in caller.agents and caller.owners == ANY_OWNER
            )
            assert is_open or f"`{caller.visibility}`" in verdict.reason


@given(worlds())
def test_operator_reads_everything_and_hears_what_does_not_exist(world: World) -> None:
    """Whoever has the files in hand is not kept from them, and learns why something is missing."""
    assert readable(OPERATOR, world) == set(world)
    assert refusal(OPERATOR).reason.startswith("Refused: there is no such session")
    assert refusal(OPERATOR) != refusal(Caller("ann", None, visibility="all"))


# By example


def family(*sessions: tuple[str, str | None, str | None]) -> World:
    """Sessions of one agent without an owner: name, parent, reason."""
    return {
        SessionKey("main", name): Subject(
            SessionKey("main", name),
            NO_OWNER,
            SessionKey("main", parent) if parent else None,
            reason,
        )
        for name, parent, reason in sessions
    }


HOUSE = family(
    ("before", None, None),
    ("boss", "before", "reset"),
    ("copy", "boss", "fork"),
    ("child", "boss", "spawn"),
    ("sibling", "boss", "spawn"),
    ("grandchild", "child", "spawn"),
    ("later-child", "child", "reset"),
    ("stranger", None, None),
)


@pytest.mark.parametrize(
    ("session", "visibility", "expected"),
    [
        ("child", "self", "child"),
        ("child", "tree", "child grandchild later-child"),
        ("later-child", "self", "later-child child"),
        ("grandchild", "tree", "grandchild"),
        ("boss", "self", "boss before"),
        ("boss", "tree", "boss before copy child sibling grandchild later-child"),
        ("copy", "tree", "copy boss before"),
        ("child", "agent", " ".join(key.session for key in HOUSE)),
    ],
)
def test_access_within_a_family(session: str, visibility: Visibility, expected: str) -> None:
    """A child may not read its parent nor its sibling; a parent reads all that descends from it."""
    seen = readable(Caller("main", session, visibility=visibility), HOUSE)
    assert {key.session for key in seen} == set(expected.split())


def test_access_needs_a_session_for_everything_that_starts_from_one() -> None:
    """A caller without a session, or with a name that is none, has neither a self nor a tree."""
    for session in (None, "", "../boss", "boss\0"):
        assert readable(Caller("main", session), HOUSE) == set()
        assert "no session of its own" in refusal(Caller("main", session)).reason


def test_access_is_denied_for_a_visibility_that_nobody_knows() -> None:
    """A misspelled setting opens nothing and says which it is, at any length."""
    for name in ("trees", "*", "", "x" * 9_999):
        caller = Caller("main", "boss", visibility=name)  # type: ignore[arg-type]
        verdict = decide(caller, HOUSE[SessionKey("main", "boss")], HOUSE.get)
        assert not verdict.is_allowed
        assert f"`{name[:30]}" in verdict.reason
        assert len(verdict.reason) < 300


def test_access_reaches_down_any_number_of_generations() -> None:
    """Neither depth nor number is limited, up or down."""
    names = [f"s{number}" for number in range(3_000)]
    reasons = ["reset" if number % 2 else "spawn" for number in range(3_000)]
    line = family(*zip(names, [None, *names], reasons, strict=False))
    last = Subject(SessionKey("main", names[-1]), NO_OWNER, SessionKey("main", names[-2]), "spawn")
    assert decide(Caller("main", "s0"), last, line.get).is_allowed
    resets = family(*zip(names, [None, *names], ["reset"] * 3_000, strict=False))
    first = resets[SessionKey("main", "s0")]
    assert decide(Caller("main", names[-1], visibility="self"), first, resets.get).is_allowed


def test_access_to_a_child_under_another_agent_belongs_to_its_parent() -> None:
    """Who spawned a helper reads what it did, whatever agent it runs as; the reverse is denied."""
    boss, helper = SessionKey("main", "boss"), SessionKey("helper", "job")
    world = {boss: Subject(boss, NO_OWNER), helper: Subject(helper, NO_OWNER, boss, "spawn")}
    assert readable(Caller("main", "boss"), world) == {boss, helper}
    assert readable(Caller("helper", "job"), world) == {helper}


def test_access_to_a_past_under_another_agent_is_denied() -> None:
    """A session forked to another agent does not open the one it was forked from."""
    boss, fork = SessionKey("main", "boss"), SessionKey("other", "copy")
    world = {boss: Subject(boss, NO_OWNER), fork: Subject(fork, NO_OWNER, boss, "fork")}
    assert readable(Caller("other", "copy"), world) == {fork}


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("main/old", SessionKey("main", "old")),
        *((odd, None) for odd in (None, "", "old", "main/", "/old", "a/b/c", "../x", "a b/c")),
    ],
)
def test_subjects_are_read_from_headers(parent: str | None, expected: SessionKey | None) -> None:
    """A parent that is spelled in no way of ours is no parent."""
    key = SessionKey("main", "new")
    header = Header(id="new", parent_session=parent, reason="reset", owner="x")
    assert subject_of(key, header, NamedOwner("x")) == Subject(
        key, NamedOwner("x"), expected, "reset"
    )


def test_subjects_of_an_unknown_owner_descend_from_nobody() -> None:
    """Facts that were found behind a damaged header give nobody a right."""

    class Damaged:
        parent_session = "main/boss"
        reason = "spawn"

    subject = subject_of(SessionKey("main", "child"), Damaged(), UNKNOWN_OWNER)
    assert subject == Subject(SessionKey("main", "child"), UNKNOWN_OWNER)
    assert not decide(
        Caller("main", "boss", owners=(NO_OWNER, NamedOwner("ann"))), subject, HOUSE.get
    ).is_allowed


@given(texts(2_000), texts(2_000))
def test_accesses_are_bounded_for_the_log(short: str, long: str) -> None:
    """No text in a line is longer than the limit, and what is shorter stays as it is."""
    name = long * 9
    access = Access(1.0, "read", short[:100], None, name, name, False, name, 3)
    found = bound(access)
    for text in (found.agent, found.owner, found.target, found.reason):
        assert len(text) <= AUDIT_FIELD_CHARS_MAX
        text.encode()
    assert (found.ts, found.action, found.session, found.bytes) == (1.0, "read", None, 3)
    if short.isascii():
        assert found.agent == access.agent
