"""The difference between two requests: what a prompt cache can reuse, what left, what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.models.messages import Prompt


class PromptBlock(NamedTuple):
    """One block of a request, in the order in which it is sent."""

    kind: str
    """`system`, `tool`, or the role and the kind of a block of a message."""
    data: bytes
    """The block as JSON; two blocks are the same where this and the kind are."""
    record: str = ""
    """The record it was made from."""
    tokens: int = 0
    """Its size; those of a request add up to the size of the request."""


class PromptDiff(NamedTuple):
    """Two requests, block by block. A prompt cache reads `same` and nothing after it."""

    same: tuple[PromptBlock, ...]
    """The beginning that both have."""
    removed: tuple[PromptBlock, ...]
    added: tuple[PromptBlock, ...]
    same_end: tuple[PromptBlock, ...]
    """The end that both have, where something before it changed."""

    @property
    def is_growth(self) -> bool:
        """True where the second request only adds to the first: its cache is whole."""
        return not self.removed and not self.same_end


def compare_blocks(old: Sequence[PromptBlock], new: Sequence[PromptBlock]) -> PromptDiff:
    """Compare two requests. Costs what they have."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if not _is_same(old[at], new[at])), shorter)
    most = shorter - start
    end = next((at for at in range(most) if not _is_same(old[-at - 1], new[-at - 1])), most)
    return PromptDiff(
        tuple(new[:start]),
        tuple(old[start : len(old) - end]),
        tuple(new[start : len(new) - end]),
        tuple(new[len(new) - end :]),
    )


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a total by weights, in whole numbers that add up to it."""
    whole = sum(weights)
    shares, used, seen = [], 0, 0
    for weight in weights:
        seen += weight
        upto = total * seen // whole if whole else 0
        shares.append(upto - used)
        used = upto
    return shares


def prompt_blocks(prompt: Prompt) -> Iterator[PromptBlock]:
    """Yield the blocks of a request: tools, system prompt, and the messages."""
    for tool in prompt.tools:
        yield PromptBlock(f"tool {tool.name}", msgspec.json.encode(tool))
    if prompt.system:
        yield PromptBlock("system", msgspec.json.encode(prompt.system))
    for message in prompt.messages:
        for block in message.blocks:
            data = msgspec.json.encode(block)
            yield PromptBlock(f"{message.role} {_tag(block)}", data, message.record)


def _is_same(one: PromptBlock, other: PromptBlock) -> bool:
    return one.kind == other.kind and one.data == other.data


def _tag(block: msgspec.Struct) -> str:
    return str(block.__struct_config__.tag)
