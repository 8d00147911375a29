"""The difference of two requests: nothing is lost, and the beginning is what a cache can read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.models.messages import Message, Prompt, Text, Tool
from holdfast.core.models.prompt_diff import PromptDiff, compare_blocks, prompt_blocks, share_out

words = st.lists(st.sampled_from("abc"), max_size=8)


def prompt(parts: list[str], system: str = "") -> Prompt:
    messages = tuple(
        Message("user" if at % 2 == 0 else "assistant", (Text(part),), f"r{at}")
        for at, part in enumerate(parts)
    )
    return Prompt(messages, system=system, tools=(Tool("read"),))


def compare_prompts(before: Prompt, after: Prompt) -> PromptDiff:
    return compare_blocks(list(prompt_blocks(before)), list(prompt_blocks(after)))


@given(st.integers(0, 10**9), st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_shares_add_up_to_the_whole(total: int, weights: list[int]) -> None:
    """To the last token, and each is within one of its part."""
    shares = share_out(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - total * weight / sum(weights)) <= 1


@examples(100)
@given(words, words, st.sampled_from(["", "s"]), st.sampled_from(["", "s"]))
def test_both_requests_can_be_put_together_again(
    old: list[str], new: list[str], old_system: str, new_system: str
) -> None:
    """The same beginning, what left or came, and the same end are each request, in order."""
    before, after = prompt(old, old_system), prompt(new, new_system)
    diff = compare_prompts(before, after)

    def data(*parts: tuple[object, ...]) -> list[object]:
        return [block[:2] for part in parts for block in part]  # type: ignore[index]

    assert data(diff.same, diff.removed, diff.same_end) == data(tuple(prompt_blocks(before)))
    assert data(diff.same, diff.added, diff.same_end) == data(tuple(prompt_blocks(after)))
    if diff.removed and diff.added:
        assert data(diff.removed)[0] != data(diff.added)[0], "the beginning is as long as it can be"
        assert data(diff.removed)[-1] != data(diff.added)[-1]


def test_growth_is_not_a_change() -> None:
    """A request that only adds keeps its cache; one that exchanges a block does not."""
    grown = compare_prompts(prompt(["a", "b"]), prompt(["a", "b", "c"]))
    assert grown.is_growth
    assert [block.record for block in grown.added] == ["r2"]
    changed = compare_prompts(prompt(["a", "b", "c"]), prompt(["a", "x", "c"]))
    assert not changed.is_growth
    assert [block.kind for block in changed.removed] == ["assistant text"]
    assert len(changed.same) == 2, "the tool, and the first message"
