"""Thinking as Anthropic binds it: behind its prefix, after its predecessor, for its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_list, as_text
from holdfast.testing.loopback.binding import compaction
from holdfast.testing.loopback.binding.generations import Claude, claude
from holdfast.testing.loopback.binding.judging import (
    UNASKED,
    Broken,
    Composed,
    Dropped,
    Judged,
    Thought,
    Withheld,
)
from holdfast.testing.loopback.binding.seals import (
    Seal,
    digest,
    digest_text,
    is_sealed_here,
    read_seal,
    write_seal,
)
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.judging import Ledger, Replying, Request

CONTROLS: Final = "thinking-binding-controls-2026-08-01"
"""The beta header that lets a request say what happens to bound blocks, and reports it."""
_CLEAR_AT: Final = "mid-conversation-system-clear-at-2026-08-21"
_THINKING: Final = ("thinking", "redacted_thinking")
_FIELDS: Final = {
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "compaction": frozenset({"type", "content", "signature", "cache_control"}),
}
_BOUND: Final = (
    "{path}: Invalid `signature` in `{kind}` block. The block is bound to a different "
    "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
    '"drop_block".'
)
_NEEDS_HEADER: Final = (
    f" That setting requires the `{CONTROLS}` value in the `anthropic-beta` header."
)
_CHANGED: Final = (
    "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response."
)
_UNCHAINED: Final = (
    " The `thinking` block that preceded this one when it was created is missing from this request."
)


class PlacedBlock(msgspec.Struct, frozen=True):
    """A block of a message, in its place."""

    path: str
    role: str
    block: Json
    before: str
    """The digest of everything before it but reasoning."""

    @property
    def is_thinking(self) -> bool:
        return self.block.get("type") in _THINKING

    @property
    def proof(self) -> str:
        """Its signature, or the data of a redacted block."""
        is_redacted = self.block.get("type") == "redacted_thinking"
        return as_text(self.block.get("data" if is_redacted else "signature"))


class AnthropicBinding:
    """Preserved thinking, and compaction on demand and at a threshold."""

    judges = frozenset({"thinking-unmodified", "thinking-signature"})

    def expand(self, body: Json) -> Json:
        return compaction.expand(body)

    def judge(self, request: Request, ledger: Ledger) -> Judged:
        model = claude(request.model)
        head = head_digest(request.body)
        pieces, end = read_pieces(request.body, head)
        shape = [
            *_judge_settings(request, model),
            *_judge_fields(request, pieces),
            *compaction.judge(request, pieces),
        ]
        check = _Check(request, model)
        for piece in _after_compaction(pieces):
            if piece.is_thinking:
                check.take(piece)
        latest = _latest(pieces)
        broken = [*shape, *check.find_forged(latest), *_judge_latest(latest, pieces, ledger)]
        if check.refused is not None:
            broken.append(check.refused)
        withheld = tuple(_withheld(pieces, ledger, request, model))
        return Judged(
            broken=tuple(broken),
            valid=tuple(check.valid),
            dropped=tuple(check.dropped),
            allowed=tuple(check.allowed),
            withheld=withheld,
            prefix=end,
            last=check.last,
        )

    def think(self, answer: Answer, request: Request) -> Thought:
        """A model that omits its thinking shows none, and thinks all the same."""
        model, settings = claude(request.model), as_dict(request.body.get("thinking"))
        mode = as_text(settings.get("type"))
        thinks = mode in ("enabled", "adaptive", "between_tools")
        if not mode:
            thinks = model is not None and model.thinks_unasked
        if not thinks or request.body.get("compaction"):
            return Thought()
        shows = as_text(settings.get("display"))
        is_hidden = shows == "omitted" or (
            not shows and mode != "enabled" and model is not None and model.omits_by_default
        )
        words = answer.thinking or (UNASKED if model and model.thinks_unasked else "")
        return Thought(words, is_hidden)

    def compose(self, answer: Answer, reply: Replying) -> Composed:
        request, judged = reply.request, reply.judged
        report: Json = {}
        model = claude(request.model)
        if CONTROLS in request.betas and model is not None:
            report["input_transformations"] = [
                *(_transformation("thinking_dropped", item) for item in judged.dropped),
                *(_transformation("thinking_mismatch_allowed", item) for item in judged.allowed),
            ]
        made = compaction.make(answer, request, judged.prefix, head_digest(request.body))
        if made is not None and made.ends_here:
            return Composed(thoughts=(made.block,), report={**report, **made.report}, is_all=True)
        prefix, before, first = judged.prefix, judged.last, []
        if made is not None:  # at a threshold: the prefix begins again with the block
            report.update(made.report)
            first.append(made.block)
            prefix, before = digest(head_digest(request.body), made.block), ""
        if not answer.thinking:
            return Composed(thoughts=tuple(first), report=report)
        thoughts, name = self._seal(answer, reply, prefix, before)
        names = [name]
        notes: list[Json] = []
        if answer.calls and answer.text and model is not None and model.writes_notes:
            said = digest(prefix, ["assistant", {"type": "text", "text": answer.text}])
            notes, name = self._seal(answer, reply, said, name)
            names.append(name)
        reply.remember(tuple(names), _words_of(answer), [call.id for call in answer.calls])
        return Composed(thoughts=(*first, *thoughts), notes=tuple(notes), report=report)

    def _seal(
        self, answer: Answer, reply: Replying, prefix: str, before: str
    ) -> tuple[list[Json], str]:
        request = reply.request
        text = "" if reply.thought.is_hidden or answer.is_redacted else answer.thinking
        seal = Seal(
            "thinking",
            request.model,
            request.account,
            request.number,
            prefix,
            before,
            digest_text(text),
        )
        if answer.is_redacted:
            return [{"type": "redacted_thinking", "data": write_seal(seal)}], seal.name
        block = {"type": "thinking", "thinking": text, "signature": write_seal(seal)}
        return [block], seal.name


class _Check:
    """Looks at the thinking of a request, block by block."""

    def __init__(self, request: Request, model: Claude | None) -> None:
        self.request = request
        self.model = model
        self.refused: Broken | None = None
        self.valid: list[int] = []
        self.dropped: list[Dropped] = []
        self.allowed: list[Dropped] = []
        self.last = ""
        self._forged: list[PlacedBlock] = []
        self._edited: list[PlacedBlock] = []
        binding = as_dict(as_dict(request.body.get("thinking")).get("block_binding"))
        self._wanted = as_text(binding.get("prefix_mismatch_behavior"))

    def take(self, piece: PlacedBlock) -> None:
        seal = read_seal(piece.proof)
        if seal is None or seal.kind != "thinking":
            # What another provider signed passes unless it is to be checked, or is no signature.
            is_ours = is_sealed_here(piece.proof) or self.request.checks_foreign
            if is_ours or not piece.proof:
                self._forged.append(piece)
            return
        text = piece.block.get("thinking")
        if seal.said and text is not None and digest_text(as_text(text)) != seal.said:
            self._edited.append(piece)
        maker = claude(seal.model)
        reason = self._unreadable(seal, maker)
        fault = "" if maker is None or not maker.checks_prefix else self._mismatch(piece, seal)
        is_checked = self.model is not None and self.model.checks_prefix
        if not fault:
            self.last = seal.name
        if reason:
            self.dropped.append(Dropped(piece.path, reason, seal.number))
        elif not fault:
            self.valid.append(seal.number)
        elif is_checked:
            self._fail(piece, seal, fault)
        else:
            self.valid.append(seal.number)

    def _mismatch(self, piece: PlacedBlock, seal: Seal) -> str:
        """The reason why the check fails; the first block of a request may have had any before
        it."""
        if seal.prefix != piece.before:
            return " What came before it differs from what this block was created with."
        return _UNCHAINED if self.last and seal.before != self.last else ""

    def _fail(self, piece: PlacedBlock, seal: Seal, fault: str) -> None:
        found = Dropped(piece.path, "prefix_binding_mismatch", seal.number)
        assert self.model is not None
        is_held = self.model.refuses_everywhere or not self.request.is_old_account
        if self._wanted == "drop_block":
            self.dropped.append(found)
        elif self._wanted == "error" or is_held:
            if self.refused is None:
                words = _BOUND.format(path=piece.path, kind=piece.block.get("type"))
                words += "" if CONTROLS in self.request.betas else _NEEDS_HEADER
                self.refused = Broken("prefix-bound", WireFailure(words + fault), piece.path)
        else:
            self.allowed.append(found)
            self.valid.append(seal.number)

    def _unreadable(self, seal: Seal, maker: Claude | None) -> str:
        if seal.account != self.request.account and maker is not None and maker.binds_account:
            return "organization_binding_mismatch"
        if self.model is None or maker is None:
            return "" if seal.model == self.request.model else "model_binding_mismatch"
        return "" if self.model.reads(maker) else "model_binding_mismatch"

    def find_forged(self, latest: Sequence[PlacedBlock]) -> Iterator[Broken]:
        """Blocks that are not what was signed, whatever they are bound to."""
        for piece in self._forged:
            words = f"{piece.path}: Invalid `signature` in `{piece.block.get('type')}` block"
            yield Broken("thinking-signature", WireFailure(words), piece.path)
        for piece in self._edited:
            if piece in latest:
                words = _CHANGED.format(path=piece.path)
                yield Broken("thinking-unmodified", WireFailure(words), piece.path)
            else:
                words = f"{piece.path}: Invalid `signature` in `thinking` block"
                yield Broken("thinking-signature", WireFailure(words), piece.path)


# Reading a request


def head_digest(body: Json) -> str:
    """System and tools. The order of tools is no part of it; unused deferred tools are not."""
    system = as_blocks(body.get("system"))
    called = {
        as_text(block.get("name"))
        for message in as_dicts(body.get("messages"))
        for block in _walk(as_dicts(message.get("content")))
        if block.get("type") in ("tool_use", "tool_reference", "tool_addition")
    }
    tools = [
        tool
        for tool in as_dicts(body.get("tools"))
        if not tool.get("defer_loading") or as_text(tool.get("name")) in called
    ]
    return digest("", [without_marks(system), sorted(map(_plain, tools))])


def _walk(blocks: list[Json]) -> Iterator[Json]:
    for block in blocks:
        yield block
        yield from as_dicts(block.get("content"))


def _plain(tool: Json) -> str:
    return msgspec.json.encode(without_marks(tool), order="sorted").decode()


def read_pieces(body: Json, head: str) -> tuple[list[PlacedBlock], str]:
    """The blocks of all messages, and the digest of everything but reasoning."""
    pieces, chain = [], head
    for index, message in enumerate(as_list(body.get("messages"))):
        if not isinstance(message, dict):
            continue
        role = as_text(message.get("role"))
        for at, block in enumerate(as_blocks(message.get("content"))):
            piece = PlacedBlock(f"messages.{index}.content.{at}", role, block, chain)
            pieces.append(piece)
            if block.get("type") == "compaction":
                chain = compaction.resume(block, head, _role_after(body, index, at))
            elif not piece.is_thinking:
                chain = digest(chain, [role, without_marks(block)])
    return pieces, chain


def _role_after(body: Json, index: int, at: int) -> str:
    """The role of what follows a block: the same message where it goes on, or the next one."""
    messages = as_dicts(body.get("messages"))
    here = messages[index] if index < len(messages) else {}
    if at + 1 < len(as_blocks(here.get("content"))):
        return as_text(here.get("role"))
    return as_text(messages[index + 1].get("role")) if index + 1 < len(messages) else ""


def as_blocks(content: object) -> list[Json]:
    """A message's content as blocks; a text is one of them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_dicts(content)


def without_marks(value: Any) -> Any:
    """A value without its cache marks."""
    if isinstance(value, dict):
        return {
            name: without_marks(item) for name, item in value.items() if name != "cache_control"
        }
    return [without_marks(item) for item in value] if isinstance(value, list) else value


# Single rules


def _judge_settings(request: Request, model: Claude | None) -> Iterator[Broken]:
    thinking = as_dict(request.body.get("thinking"))
    mode = as_text(thinking.get("type"))

    def breach(rule: str, words: str) -> Broken:
        return Broken(rule, WireFailure(words), "thinking")

    if "block_binding" in thinking:
        if CONTROLS not in request.betas:
            words = f"thinking.{mode}.block_binding: Extra inputs are not permitted"
            yield breach("extra-input", words)
        elif mode == "between_tools":
            words = "thinking.between_tools.block_binding: Extra inputs are not permitted"
            yield breach("extra-input", words)
    if model is None:
        return
    effort = as_text(as_dict(request.body.get("output_config")).get("effort"))
    is_refused = {
        "enabled": model.refuses_enabled,
        "disabled": model.refuses_disabled
        or (model == Claude("opus", (5, 0)) and effort in ("xhigh", "max")),
        "between_tools": model != Claude("sonnet", (5, 5)),
    }
    if is_refused.get(mode):
        words = (
            f'"thinking.type.{mode}" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
        yield breach("thinking-mode", words)
    elif mode == "adaptive" and model.refuses_adaptive:
        yield breach("thinking-mode", "adaptive thinking is not supported on this model")
    choice = as_text(as_dict(request.body.get("tool_choice")).get("type"))
    if choice in ("any", "tool") and model.refuses_forced_tools:
        words = 'tool_choice: type "tool" and "any" are not supported for this model.'
        yield Broken("forced-tools", WireFailure(words), "tool_choice")


def _judge_fields(request: Request, pieces: Sequence[PlacedBlock]) -> Iterator[Broken]:
    """Fields that the API does not know, in the places where clients leave them."""
    for piece in pieces:
        kind = as_text(piece.block.get("type"))
        for name in piece.block:
            if kind in _FIELDS and name not in _FIELDS[kind]:
                words = f"{piece.path}.{kind}.{name}: Extra inputs are not permitted"
                yield Broken("extra-input", WireFailure(words), piece.path)
    for index, message in enumerate(as_dicts(request.body.get("messages"))):
        known = {"role", "content"}
        if message.get("role") == "system":
            known |= {"output_config", *(["clear_at"] if _CLEAR_AT in request.betas else [])}
        for name in message:
            if name not in known:
                words = f"messages.{index}.{name}: Extra inputs are not permitted"
                yield Broken("extra-input", WireFailure(words), f"messages.{index}")


def _after_compaction(pieces: Sequence[PlacedBlock]) -> Sequence[PlacedBlock]:
    """The blocks that the model is shown: none before the newest compaction."""
    found = [at for at, piece in enumerate(pieces) if piece.block.get("type") == "compaction"]
    return pieces[found[-1] :] if found else pieces


def _latest(pieces: Sequence[PlacedBlock]) -> list[PlacedBlock]:
    """The blocks of the latest assistant message, its neighbours of that role included."""
    found: list[PlacedBlock] = []
    for piece in reversed(pieces):
        if piece.role == "assistant":
            found.append(piece)
        elif found:
            break
    return found[::-1]


def _judge_latest(
    latest: Sequence[PlacedBlock], pieces: Sequence[PlacedBlock], ledger: Ledger
) -> Iterator[Broken]:
    """The thinking of the latest assistant message is whole and in its order.

    With a tool result all of it must come back. Only a request without any thinking may leave it
    out: that is how a conversation goes on whose prefix was changed.
    """
    sent = [piece for piece in latest if piece.is_thinking]
    sealed = [piece.proof for piece in sent]
    calls = [
        as_text(item.block.get("id")) for item in latest if item.block.get("type") == "tool_use"
    ]
    made = next(filter(None, map(ledger.with_id, calls)), None)
    twice = len(set(sealed)) < len(sealed)
    is_changed = twice
    if made is not None:
        seals = (read_seal(text) for text in sealed)
        names = tuple(seal.name for seal in seals if seal is not None)
        others = any(piece.is_thinking for piece in pieces)
        # The same words and calls can have been said twice; any of those replies will do.
        known = [
            item for item in (made, *ledger.behind(latest[0].before)) if item.said == made.said
        ]
        is_changed |= others and all(item.names != names for item in known)
    if is_changed:
        path = sent[0].path if sent else latest[0].path
        yield Broken("thinking-unmodified", WireFailure(_CHANGED.format(path=path)), path)


def _withheld(
    pieces: Sequence[PlacedBlock], ledger: Ledger, request: Request, model: Claude | None
) -> Iterator[Withheld]:
    """Thinking that is valid at its place, for this reader, and is not there."""
    for run in _replies(pieces):
        names = {
            seal.name
            for piece in run
            if piece.is_thinking
            for seal in [read_seal(piece.proof)]
            if seal is not None
        }
        said = _words_in(run)
        made = [item for item in ledger.behind(run[0].before) if item.said == said]
        if not made or any(set(item.names) <= names for item in made):
            continue
        last, maker = made[-1], claude(made[-1].model)
        if maker is not None and model is not None and not model.reads(maker):
            continue
        if last.account != request.account:
            continue
        missing = set(last.names) - names
        is_latest = run[-1].path == _latest(pieces)[-1].path
        is_required = is_latest and any(item.block.get("type") == "tool_use" for item in run)
        for _name in missing:
            yield Withheld(run[0].path, last.number, is_required)


def _replies(pieces: Sequence[PlacedBlock]) -> Iterator[list[PlacedBlock]]:
    """Runs of assistant blocks."""
    run: list[PlacedBlock] = []
    for piece in pieces:
        if piece.role == "assistant":
            run.append(piece)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _words_of(answer: Answer) -> Any:
    return answer.text.strip(), tuple(call.id for call in answer.calls)


def _words_in(run: Sequence[PlacedBlock]) -> Any:
    texts = [as_text(item.block.get("text")) for item in run if item.block.get("type") == "text"]
    calls = (item.block for item in run if item.block.get("type") == "tool_use")
    return "".join(texts).strip(), tuple(as_text(block.get("id")) for block in calls)


def _transformation(kind: str, dropped: Dropped) -> Json:
    return {"type": kind, "path": dropped.path, "reason": dropped.reason}
