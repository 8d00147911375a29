"""Lists of messages of many conversations at once, within one window."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, ToolResult, User, encode
from holdfast.engine.context_tool import context_declaration
from holdfast.integrations.common.bounded import ListBounds, name_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.integrations.common.bounded import BoundedView


def talk(name: str) -> list[Record]:
    records: list[Record] = [User(content=f"{name}: hello")]
    return name_records(records, [encode(record).decode() for record in records])


class Evicting(OrderedDict[str, Any]):
    """Loses its oldest item whenever one is set, as if another thread made room just then."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > 1:
            self.pop(next(iter(self)))


def test_a_conversation_is_kept_while_another_thread_evicts() -> None:
    bounds = ListBounds(target("gemini"), window=32_000)
    for name in ("ann", "bob"):
        bounds.fit(talk(name))
    bounds._decided = Evicting(bounds._decided)
    OrderedDict.__setitem__(bounds._decided, talk("ann")[0].id, [])
    for name in ("bob", "ann", "ann", "bob"):
        assert bounds.fit(talk(name)).is_unchanged
        assert list(bounds._decided)[-1] == talk(name)[0].id


def test_a_list_that_was_cut_names_our_tool_and_no_range() -> None:
    """The ids of a framework's messages are made here: no store knows them."""
    bounds = ListBounds(target("anthropic", model="test"), window=9_000)
    said = [
        kind(content=f"{number}: " + "what was said of it, at length " * 60)
        for number in range(30)
        for kind in (User, Assistant)
    ]
    records = name_records(said, [encode(record).decode() for record in said])
    for tools, line in (((context_declaration(),), True), ((), False)):
        opening = bounds.fit(records, tools=tools).opening
        told = str(opening[0])
        assert ("was cut: the tool `context` has it, with search." in told) is line
        assert "ref=" not in told


def test_what_was_decided_at_once_is_dropped_at_once() -> None:
    """A list without the giant result needs neither its shortening nor the cut made with it."""

    def with_result(size: int) -> list[Record]:
        call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
        said: list[Record] = [
            User(content="a question"),
            Assistant(content=[call]),
            ToolResult(tool_use_id="c1", content="x y z " * size),
            Assistant(content="done"),
            User(content="And now?"),
        ]
        return name_records(said, [encode(record).decode() for record in said])

    bounds = ListBounds(target("anthropic", model="test"), window=25_000)
    assert not bounds.fit(with_result(70_000)).is_unchanged
    assert not bounds.fit(with_result(70_000)).plan.decisions, "it is remembered"
    assert bounds.fit(with_result(7)).is_unchanged


# Cuts that stay, and reasoning that is bound to what stood before it

CLAUDE = "claude-fable-5-2"


def exchange(name: str, size: int = 60) -> list[Record]:
    """A message and its reply, which the model thought about."""
    thought = {"type": "thinking", "thinking": "", "signature": f"signed-{name}"}
    said = {"type": "text", "text": f"{name}: done"}
    return [
        User(content=f"{name}: " + "what was said of it, at length " * size),
        Assistant(content=[thought, said], model=CLAUDE),
    ]


def named(records: Sequence[Record]) -> list[Record]:
    return name_records(records, [encode(record).decode() for record in records])


def ask(bounds: ListBounds, records: Sequence[Record], **about: Any) -> BoundedView:
    return bounds.fit([*named(records)], **about)


def sent_from(view: BoundedView, records: Sequence[Record]) -> tuple[str, list[str]]:
    """What begins a request, and the messages that are in it."""
    texts = [str(part.blocks) for unit in view.opening for part in unit.parts]
    return "".join(texts), [record.id for record in named(records)][view.start :]


def grow(bounds: ListBounds, said: list[Record], turns: int, name: str = "turn") -> list[bool]:
    """Ask and hear, turn after turn; returns whether each request goes on with the one before."""
    goes_on = []
    before: tuple[str, list[str]] | None = None
    for number in range(turns):
        asked, reply = exchange(f"{name} {number}")
        said.append(asked)
        now = sent_from(ask(bounds, said), said)
        if before is not None:
            goes_on.append(now[0] == before[0] and now[1][: len(before[1])] == before[1])
        before = now
        said.append(reply)
    return goes_on


def replies(records: Sequence[Record]) -> list[str]:
    return [record.id for record in named(records) if isinstance(record, Assistant)]


def test_a_cut_stays_and_ends_the_reasoning_before_it() -> None:
    """Requests grow between cuts; behind one, the reasoning of the replies made since goes back."""
    bounds = ListBounds(target("openai-chat"), window=16_000)
    said: list[Record] = []
    goes_on = grow(bounds, said, 60)
    assert goes_on.count(False) in range(1, 10)
    said.append(User(content="And now?"))
    view = ask(bounds, said)
    since = len(goes_on) - goes_on[::-1].index(False) - 1
    assert view.stale
    assert view.stale == set(replies(said)[: since + 1])
    assert not view.is_unchanged


def test_another_model_is_not_asked_to_forget() -> None:
    """Reasoning that is bound to nothing goes back behind a cut: some providers demand it."""
    bounds = ListBounds(target("openai-chat", model="deepseek-v4-pro"), window=16_000)
    said: list[Record] = []
    assert False in grow(bounds, said, 60)
    said = [
        msgspec.structs.replace(record, model="deepseek-v4-pro")
        if isinstance(record, Assistant)
        else record
        for record in said
    ]
    said.append(User(content="And now?"))
    assert not ask(bounds, said).stale
    assert ask(bounds, said, model=CLAUDE).stale


def test_conversations_that_begin_alike_keep_their_own_cuts() -> None:
    """Two agents that are greeted alike, and branches of one conversation, taking turns."""
    bounds = ListBounds(target("openai-chat"), window=16_000)
    first: list[Record] = [User(content="Hello"), Assistant(content="Hello!")]
    second = list(first)
    assert False in grow(bounds, first, 40, "one")
    assert False in grow(bounds, second, 40, "two")
    for said in (first, second):
        said.append(User(content="And now?"))
    views = [sent_from(ask(bounds, said), said) for said in (first, second)]
    again = [sent_from(ask(bounds, said), said) for said in (first, second)]
    assert views == again
    assert views[0][0] != views[1][0]


def test_a_list_that_goes_back_before_its_cut_has_its_reasoning_again() -> None:
    bounds = ListBounds(target("openai-chat"), window=16_000)
    said: list[Record] = []
    goes_on = grow(bounds, said, 60)
    early = said[: 2 * goes_on.index(False)]
    assert ask(bounds, [*early, User(content="Another way?")]).is_unchanged


def test_other_tools_end_the_reasoning_before_them() -> None:
    bounds = ListBounds(target("openai-chat"), window=100_000)
    said = exchange("one")
    ask(bounds, said[:1], system="Be brief.")
    said += exchange("two")
    assert not ask(bounds, said[:3], system="Be brief.").stale
    said.append(User(content="And now?"))
    view = ask(bounds, said, system="Be brief.", tools=[context_declaration()])
    assert view.stale == set(replies(said))


def test_a_list_that_fits_is_sent_as_it_came() -> None:
    """Nothing is known of replies that were made elsewhere; the list never was another."""
    bounds = ListBounds(target("openai-chat"), window=100_000)
    said = [*exchange("one"), *exchange("two"), User(content="And now?")]
    assert ask(bounds, said, model=CLAUDE).is_unchanged
