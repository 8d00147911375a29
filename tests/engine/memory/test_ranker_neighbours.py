"""The turns beside a hit: those that were said right before and after it, and no others."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from holdfast import Session
from holdfast.core.limits import RECALL_TURN_CHARS_MAX, RECALL_TURNS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.engine.memory.search import Memory
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.memory.hits import NeighbourTurn

DAY = 86_400.0
SECRET = "sk-ant-api03-" + "Ab1" * 30

SAID = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "tool"]),
        st.sampled_from(["yes.", "the heron nests.", "A long reply about herons. " * 60]),
    ),
    min_size=1,
    max_size=12,
)


def _record(role: str, text: str) -> Record:
    match role:
        case "user":
            return User(content=text)
        case "assistant":
            return Assistant(content=text)
        case _:
            return ToolResult(tool_use_id="c", content=text)


@contextmanager
def _remembered(said: Mapping[str, Sequence[Record]]) -> Iterator[Memory]:
    """A memory of sessions, by their names."""
    with closing(MemoryStore()) as store:
        for name, records in said.items():
            store.create(SessionKey("main", name))
            store.append(SessionKey("main", name), list(records), expect=None)
        yield Memory(store, None)


@given(SAID)
def test_each_hit_has_the_turns_right_beside_it(said: list[tuple[str, str]]) -> None:
    """For every order of users, replies and tools: what people and models said, and nothing else;
    bounded, the end of what was before and the beginning of what came after."""
    numbered = [(role, f"{place} {text}") for place, (role, text) in enumerate(said)]
    records = [_record(role, text) for role, text in numbered]
    spoken = [place for place, (role, _text) in enumerate(numbered) if role != "tool"]
    with _remembered({"one": records}) as memory:
        hits = memory.search("heron", scope="sessions", limit=100)

    for hit in hits:
        place = int(hit.text.split()[0]) if hit.text[0].isdigit() else None
        if place is None:
            continue  # a later passage of a long message
        index = spoken.index(place)
        _check(hit.turns_before, numbered, spoken[:index][-RECALL_TURNS_MAX:], is_before=True)
        _check(hit.turns_after, numbered, spoken[index + 1 :][:RECALL_TURNS_MAX], is_before=False)


def _check(
    turns: Sequence[NeighbourTurn],
    numbered: list[tuple[str, str]],
    expected: list[int],
    *,
    is_before: bool,
) -> None:
    assert len(turns) == len(expected)
    for turn, place in zip(turns, expected, strict=True):
        role, text = numbered[place]
        assert turn.role == role
        assert len(turn.text) <= RECALL_TURN_CHARS_MAX
        shown = turn.text.strip()
        assert shown[-20:] == text.strip()[-20:] if is_before else shown[:20] == text.strip()[:20]


def test_a_turn_that_is_too_young_is_not_shown() -> None:
    asked = User(content="Where does the heron nest?", ts=100.0)
    with _remembered({"one": [asked, Assistant(content="Here.", ts=200.0)]}) as memory:
        (hit,) = memory.search("heron", scope="sessions", before=150.0)

    assert hit.turns_after == ()


def test_the_turns_beside_a_hit_have_no_secrets() -> None:
    told = User(content=f"key {SECRET}")
    with _remembered({"one": [told, User(content="the heron nests")]}) as memory:
        (hit,) = memory.search("heron", scope="sessions")

    (before,) = hit.turns_before
    assert before.text.startswith("key ")
    assert SECRET not in before.text


def test_the_answer_beside_a_hit_is_in_the_request() -> None:
    """Found is not sent: the model is asked with the turn that holds the answer."""
    asked = Assistant(content="What genre of film do you like?")
    told = User(content="drama and romance!")
    with _remembered({"one": [asked, told]}) as memory:
        options = {"model": "offline", "store": memory._store, "memory": memory}
        with Session.open("next", **options) as session:  # type: ignore[arg-type]
            session.say("Which genre of film would suit me?")
            sent = str(session.plan().prompt.messages)

    assert "drama and romance!" in sent
    assert "the turn after" in sent


def test_times_in_a_question_are_counted_from_now() -> None:
    """Of equal statements that of the named time is first, whichever is newer."""
    days = {"early": 100, "middle": 128, "late": 140}
    said = {
        name: [User(content=f"I saw a heron, {name}.", ts=day * DAY)] for name, day in days.items()
    }
    with _remembered(said) as memory:
        first = {
            when: memory.search(f"the heron of {when}", scope="sessions", now=142 * DAY)[0].text
            for when in ("two weeks ago", "6 weeks ago", "the day before yesterday")
        }

    assert list(first.values()) == [
        f"I saw a heron, {name}." for name in ("middle", "early", "late")
    ]


def test_what_was_said_before_an_event_goes_first() -> None:
    """ "Before the trip" is counted from what was said about the trip."""
    said = {
        "early": [User(content="I bought a heron lamp, early.", ts=100 * DAY)],
        "trip": [User(content="The trip to Rome was lovely.", ts=120 * DAY)],
        "late": [User(content="I bought a heron lamp, late.", ts=140 * DAY)],
    }
    with _remembered(said) as memory:
        order = {
            relation: [
                hit.session
                for hit in memory.search(
                    f"Which heron lamp did I buy {relation} the trip to Rome?",
                    scope="sessions",
                    now=150 * DAY,
                )
                if hit.session != "main/trip"
            ]
            for relation in ("before", "after")
        }

    assert order == {
        "before": ["main/early", "main/late"],
        "after": ["main/late", "main/early"],
    }
