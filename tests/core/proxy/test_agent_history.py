"""The history of a client beside the log: any tree of edits and branches is found again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.runs import examples

from holdfast.core.dialects.common.digests import content_atoms, extend_chain, start_chain
from holdfast.core.log.records import Assistant, Header, Record, Rewind, ToolResult, User
from holdfast.core.proxy.agent_history import AgentHistory, decide_step, turn_of

Said = tuple[str, str]


def chains_of(said: list[Said]) -> list[bytes]:
    """Return the chain after each message of a conversation."""
    chain, found = start_chain(), []
    for kind, text in said:
        digests = [atom.digest for atom in content_atoms(kind, text, 0)]  # type: ignore[arg-type]
        chain = extend_chain(chain, digests)
        found.append(chain)
    return found


class Log:
    """A log of an agent that grows as a session's does, on branches."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.history = AgentHistory(str)
        self.add(Header(agent="main"))

    def add(self, record: Record) -> str:
        stored = replace(record, id=f"r{len(self.records):04}")
        self.records.append(stored)
        self.history.add(stored)
        return stored.id


@given(st.integers(0, 2**32))
@examples(400)
def test_every_version_is_found_again(seed: int) -> None:
    """A client goes on from any version; each is known whole, and its place is the right one."""
    luck, log = random.Random(seed), Log()
    versions: list[list[Said]] = [[]]
    for number in range(luck.randint(1, 12)):
        before = luck.choice(versions)
        cut = 2 * luck.randint(0, len(before) // 2)
        kept = before[:cut]
        text = luck.choice([f"q{number}", "q"])
        asked = [*kept, ("user", text)]
        chains = chains_of(asked)
        step = decide_step(log.history, chains, len(asked) - 1)
        assert step.known == len(kept)
        if step.after != log.history.head:
            log.add(Rewind(to=step.after))
        was_there = any(version[: len(asked)] == asked for version in versions)
        assert (step.kind == "regenerate") is was_there
        log.add(User(content=text))
        has_tool = luck.random() < 0.5
        if has_tool:
            call = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
            log.add(Assistant(content=[{"type": "text", "text": "one"}, call]))
            log.add(ToolResult(tool_use_id="c", content="done"))
        log.add(Assistant(content=f"a{number}"))
        reply = f"one\n\na{number}" if has_tool else f"a{number}"
        versions.append([*asked, ("assistant", reply)])
    for version in versions[1:]:
        known, place = log.history.find(chains_of(version))
        assert known == len(version)
        assert place is not None
        assert place.is_said
        user = next(record for record in log.records if record.id == place.user)
        assert isinstance(user, User)
        assert user.content == version[-2][1]


def test_a_message_without_its_reply_is_repeated() -> None:
    log = Log()
    log.add(User(content="hello"))
    step = decide_step(log.history, chains_of([("user", "hello")]), 0)
    assert (step.kind, step.attempt) == ("repeat", 1)


def test_the_replies_of_a_turn_are_those_on_its_path() -> None:
    """Another branch between them is none of it."""
    log = Log()
    user = log.add(User(content="hello"))
    call = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
    first = log.add(Assistant(content=[call]))
    log.add(ToolResult(tool_use_id="c", content="done"))
    last = log.add(Assistant(content="bye"))
    log.add(Rewind(to=user))
    other = log.add(Assistant(content="another"))
    behind = log.records[log.records.index(next(r for r in log.records if r.id == user)) + 1 :]
    assert [record.id for record in turn_of(behind, user, last)] == [first, last]
    assert [record.id for record in turn_of(behind, user, other)] == [other]
