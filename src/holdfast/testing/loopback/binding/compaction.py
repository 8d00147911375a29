"""Compaction by Anthropic's API: on demand, with a signed block, and at a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_number, as_text
from holdfast.testing.loopback.binding.generations import claude
from holdfast.testing.loopback.binding.judging import Broken
from holdfast.testing.loopback.binding.seals import Seal, digest, digest_text, read_seal, write_seal
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.judging import Request

ON_DEMAND: Final = "compact-2026-09-04"
AT_THRESHOLD: Final = "compact-2026-01-12"
TRIGGER_MIN: Final = 50_000
TRIGGER: Final = 150_000
"""The least tokens that a threshold may have, and those it has by default."""
_EDIT: Final = "compact_20260112"


class Compacted(msgspec.Struct, frozen=True):
    """A compaction that a reply begins with, or consists of."""

    block: dict[str, Any]
    report: dict[str, Any]
    ends_here: bool
    """True if the reply is the block and nothing else."""


def expand(body: Json) -> Json:
    """The request as the model is shown it: the newest block as words, and nothing before it.

    A request for a compaction ends with what is asked for.
    """
    messages = as_dicts(body.get("messages"))
    wanted = body.get("compaction")
    if wanted:
        asked = as_text(as_dict(wanted).get("instructions")) or "Summarize the conversation."
        body = {**body, "messages": [*messages, {"role": "user", "content": asked}]}
        messages = body["messages"]
    place = _newest(messages)
    if place is None:
        return body
    index, at = place
    content = messages[index]["content"]
    summary = as_text(content[at].get("content"))
    words = {"type": "text", "text": f"[The conversation so far]\n{summary}"}
    after = {**messages[index], "content": content[at + 1 :]}
    rest = [*([after] if after["content"] else []), *messages[index + 1 :]]
    return {**body, "messages": [{"role": "user", "content": [words]}, *rest]}


def _newest(messages: Sequence[Json]) -> tuple[int, int] | None:
    for index in range(len(messages) - 1, -1, -1):
        content = as_dicts(messages[index].get("content"))
        for at in range(len(content) - 1, -1, -1):
            if content[at].get("type") == "compaction" and content[at].get("content"):
                return index, at
    return None


def judge(request: Request, pieces: Sequence[Any]) -> Iterator[Broken]:
    """Judge a request for a compaction, and the blocks of earlier ones."""
    body, betas = request.body, request.betas
    blocks = [piece for piece in pieces if piece.block.get("type") == "compaction"]
    signed = [piece for piece in blocks if "signature" in piece.block]

    def breach(words: str, where: str = "compaction") -> Broken:
        return Broken("compaction-block", WireFailure(words), where)

    if blocks and not betas & {ON_DEMAND, AT_THRESHOLD}:
        words = (
            f"{blocks[0].path}: Input tag 'compaction' found using 'type' does not match any of "
            "the expected tags"
        )
        yield breach(words, blocks[0].path)
    if len(signed) > 1:
        yield breach("messages: at most one `compaction` block with a signature may be sent")
    for piece in signed:
        yield from _judge_signed(piece, pieces, breach)
    wanted = body.get("compaction")
    edits = as_dicts(as_dict(body.get("context_management")).get("edits"))
    triggers = [edit for edit in edits if edit.get("type") == _EDIT]
    if triggers and AT_THRESHOLD not in betas:
        yield breach("context_management: Extra inputs are not permitted")
    for edit in triggers:
        value = as_number(as_dict(edit.get("trigger")).get("value"))
        if value is not None and value < TRIGGER_MIN:
            yield breach(
                f"context_management.edits.0.trigger.value: must be at least {TRIGGER_MIN}"
            )
    if wanted is None:
        return
    if ON_DEMAND not in betas:
        yield breach(f"compaction: requires anthropic-beta: {ON_DEMAND}")
    for name in ("context_management", "stop_sequences"):
        if body.get(name):
            yield breach(f"compaction: cannot be combined with `{name}`")
    if not [piece for piece in pieces if piece not in blocks]:
        yield breach("compaction_nothing_to_summarize: there are no messages to summarize")


def _judge_signed(piece: Any, pieces: Sequence[Any], breach: Any) -> Iterator[Broken]:
    seal = read_seal(as_text(piece.block.get("signature")))
    if piece is not pieces[0]:
        words = f"compaction_block_misplaced: {piece.path}: must come first in `messages`"
        yield breach(words, piece.path)
    if seal is None or seal.kind != "compaction":
        yield breach(f"compaction_signature_invalid: {piece.path}", piece.path)
    elif digest_text(as_text(piece.block.get("content"))) != seal.said:
        yield breach(f"compaction_content_mismatch: {piece.path}", piece.path)


def resume(block: Json, head: str, role: str) -> str:
    """The digest behind a block: where the turns that were kept go on from those it stands for.

    They do where system and tools are the same and the roles fit; otherwise the prefix begins
    again, and so it does behind a block without a signature.
    """
    seal = read_seal(as_text(block.get("signature")))
    if seal is not None and seal.head == head and role not in (seal.role, "system"):
        maker = claude(seal.model)
        if maker is not None and maker.checks_prefix:
            return seal.prefix
    return digest(head, {name: it for name, it in block.items() if name != "cache_control"})


def make(answer: Answer, request: Request, prefix: str, head: str) -> Compacted | None:
    """The compaction that a request asks for, or that its size calls for; the brain's words."""
    body = request.body
    usage = {"type": "compaction", "input_tokens": request.tokens, "output_tokens": 1}
    if body.get("compaction"):
        messages = as_dicts(body.get("messages"))
        seal = Seal(
            "compaction",
            request.model,
            request.account,
            request.number,
            prefix,
            said=digest_text(answer.text),
            head=head,
            role=as_text(messages[-1].get("role")) if messages else "",
        )
        block = {"type": "compaction", "content": answer.text, "signature": write_seal(seal)}
        empty = {"input_tokens": 0, "output_tokens": 0}
        report = {"stop_reason": "compaction", "usage": {**empty, "iterations": [usage]}}
        return Compacted(block, report, ends_here=True)
    for edit in as_dicts(as_dict(body.get("context_management")).get("edits")):
        value = as_number(as_dict(edit.get("trigger")).get("value")) or TRIGGER
        if edit.get("type") == _EDIT and request.tokens > value:
            block = {"type": "compaction", "content": f"So far: {answer.text}"}
            pauses = edit.get("pause_after_compaction") is True
            stop = {"stop_reason": "compaction"} if pauses else {}
            report = {**stop, "usage": {"iterations": [usage]}}
            return Compacted(block, report, ends_here=pauses)
    return None
