"""What is kept of the last request never shows in the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts import name_of, prompts, targets
from tests.support.runs import examples

from holdfast.core.dialects.prefix import WrittenMessages, copy_json, prefixes_of
from holdfast.core.dialects.registry import target
from holdfast.core.models.messages import Message, Prompt, Text, Thinking, ToolAnswer

if TYPE_CHECKING:
    from holdfast.core.models.dialects import Target


@examples(60)
@given(st.lists(prompts(), min_size=1, max_size=3), st.sampled_from(targets()), st.data())
def test_requests_in_any_order_are_written_as_each_would_be_alone(
    given_prompts: list[Prompt], to: Target, data: st.DataObject
) -> None:
    """Whether a request goes on from the one before it, is cut, or is another one altogether."""
    written, prefixes = WrittenMessages(), WrittenMessages()
    for _ in range(6):
        prompt = data.draw(st.sampled_from(given_prompts))
        ends = [at + 1 for at, one in enumerate(prompt.messages) if one.role == "user"]
        end = data.draw(st.sampled_from(ends))
        prompt = msgspec.structs.replace(prompt, messages=prompt.messages[:end])
        assert written.go_on(prompt, to) == WrittenMessages().go_on(prompt, to)
        head = prompt.system, prompt.tools, to
        alone = prefixes_of(prompt.messages, *head)
        assert prefixes_of(prompt.messages, *head, prefixes) == alone


@pytest.mark.parametrize("to", targets(), ids=name_of)
def test_a_message_is_written_once(to: Target) -> None:
    """A conversation that grows by two messages has two messages written."""
    messages = [Message("user", (Text("Go."),), "u0")]
    written = WrittenMessages()
    first = written.go_on(Prompt(tuple(messages)), to)
    messages += [Message("assistant", (Text("Gone."),), "a0"), Message("user", (Text("On."),))]
    second = written.go_on(Prompt(tuple(messages)), to)
    assert len(first) == 1
    assert len(second) == 3
    assert second[0] is first[0]


def test_a_message_that_cannot_be_written_spoils_no_later_one() -> None:
    """The reasoning before it does not count as sent."""
    to = target("openai-responses", provider="openai", model="m")
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"}
    thought = Thinking(item=item, provider="openai", model="m")
    asked = Message("user", (Text("Go."),))
    said = Message("assistant", (thought, Text("Gone.")))
    stray = Message("user", (ToolAnswer("nobody's", (Text("seen"),)),))
    prompt = Prompt((asked, said))
    written = WrittenMessages()
    written.go_on(Prompt((asked,)), to)
    with pytest.raises(KeyError):
        written.go_on(Prompt((asked, said, stray)), to)
    assert written.go_on(prompt, to) == WrittenMessages().go_on(prompt, to)
    assert "rs_1" in str(written.items)


def test_a_copy_shares_nothing_that_can_change() -> None:
    """Objects and lists at every depth are its own."""
    inner: dict[str, list[int]] = {"b": [1]}
    whole = {"a": [inner]}
    copied = copy_json(whole)
    assert copied == whole
    copied["a"][0]["b"].append(2)
    assert inner == {"b": [1]}
