"""Thinking as Anthropic binds it: behind its prefix, after its predecessor, for its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_list, as_number, as_text
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.testing.loopback.binding.judging import (
    UNASKED,
    Broken,
    Composed,
    Dropped,
    Judged,
    Seal,
    Thought,
    Withheld,
    digest,
    digest_text,
    is_sealed_here,
    read_seal,
    write_seal,
)
from holdfast.testing.loopback.binding.tool_changes import judge_tool_changes
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.judging import Ledger, Replying, Request


_CLAUDE: Final = lazy_pattern(
    r"claude-(fable|mythos|opus|sonnet|haiku)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)"
)
_GPT: Final = lazy_pattern(r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])(?:-([a-z]+))?")
_O: Final = lazy_pattern(r"(?:^|[:/])o([134])(?:-|$)")
_TIERS: Final = {"nano": -2, "mini": -1, "luna": 1, "terra": 2, "sol": 3, "astra": 4}
_LARGE: Final = frozenset({"fable", "mythos"})


class Claude(msgspec.Struct, frozen=True):
    """A Claude model by family and version."""

    family: str
    version: tuple[int, int]

    @property
    def is_large(self) -> bool:
        return self.family in _LARGE

    @property
    def checks_prefix(self) -> bool:
        """Return whether its thinking is bound to the prefix."""
        return self.version >= ((5, 1) if self.is_large else (5, 5))

    @property
    def refuses_everywhere(self) -> bool:
        """Return whether a changed prefix is refused for accounts of every age."""
        if self.version >= (6, 0) or self == Claude("mythos", (5, 1)):
            return True
        return self.is_large and self.version >= (5, 2)

    @property
    def thinks_unasked(self) -> bool:
        return self.version >= ((5, 5) if self.family == "haiku" else (5, 0))

    @property
    def omits_by_default(self) -> bool:
        """Return whether thinking comes without its text unless a display is asked for."""
        return self.version >= (4, 7)

    @property
    def writes_notes(self) -> bool:
        """Return whether it adds thinking of its own before calls: progress updates."""
        return self.checks_prefix

    @property
    def refuses_enabled(self) -> bool:
        return self.version >= {"opus": (4, 7), "haiku": (5, 5)}.get(self.family, (5, 0))

    @property
    def refuses_disabled(self) -> bool:
        if self.family == "haiku":
            return False
        return self.version >= ((5, 0) if self.is_large else (5, 5))

    @property
    def refuses_adaptive(self) -> bool:
        return self.version < (4, 6)

    @property
    def refuses_forced_tools(self) -> bool:
        return self.family != "haiku" and self.checks_prefix

    @property
    def binds_account(self) -> bool:
        """Return whether its thinking is read in its own account only."""
        return self.family in ("sonnet", "haiku") and self.version >= (5, 5)

    def reads(self, maker: Claude) -> bool:
        """Return whether it is given the thinking of another model."""
        if self == maker:
            return True
        if self.is_large and self.version >= (5, 2):
            return maker.is_large and maker.version == self.version
        if maker.is_large and maker.version >= (5, 2):
            return False
        if self.is_large and self.version == (5, 1):
            is_peer = maker.is_large and maker.version <= (5, 1)
            return is_peer or maker == Claude("opus", (5, 5)) or maker.version < (5, 1)
        if maker.is_large:
            return False
        match self.family, self.version:
            case "opus", (5, 5):
                return maker.version <= (5, 0) or maker == Claude("sonnet", (5, 5))
            case "sonnet", (5, 5):
                return maker == Claude("sonnet", (5, 0)) or maker.version <= (4, 8)
            case "haiku", version if version >= (5, 5):
                return False
            case _:
                return maker.version <= self.version


class Gpt(msgspec.Struct, frozen=True, order=True):
    """A GPT model by version and tier; a larger one is of a higher rank."""

    version: tuple[int, int]
    tier: int = 0

    @property
    def reasons(self) -> bool:
        return self.version >= (5, 0)

    @property
    def drops_changed(self) -> bool:
        """Return whether reasoning behind a changed history is left out."""
        return self.version >= (6, 2)

    @property
    def can_stop_reasoning(self) -> bool:
        """Return whether an effort of `none` exists."""
        if self.version >= (6, 2):
            return False
        none = (((6, 0), _TIERS["astra"]), ((6, 1), _TIERS["sol"]))
        return (self.version, self.tier) not in none

    @property
    def takes_chat_tools(self) -> str:
        """`always`, `without effort`, `with none` or `never`: function tools in Chat."""
        if self.version < (5, 2):
            return "always"
        if self.version < (5, 6):
            return "without effort"
        return "with none" if self.can_stop_reasoning else "never"


def claude(model: str) -> Claude | None:
    """A Claude model by its name; None for others, and for names without a version."""
    found = _CLAUDE.search(model)
    if found is None:
        return None
    return Claude(found[1], (int(found[2]), int(found[3] or 0)))


def gpt(model: str) -> Gpt | None:
    """A GPT model by its name; the o-series counts as the first that reasons."""
    if _O.search(model) is not None:
        return Gpt((5, 0))
    found = _GPT.search(model)
    if found is None or found[3] == "chat":
        return None
    return Gpt((int(found[1]), int(found[2] or 0)), _TIERS.get(found[3] or "", 0))


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
        return expand(body)

    def judge(self, request: Request, ledger: Ledger) -> Judged:
        model = claude(request.model)
        head = head_digest(request.body)
        pieces, end = read_pieces(request.body, head)
        shape = [
            *_judge_settings(request, model),
            *_judge_fields(request, pieces),
            *judge_tool_changes(request),
            *judge(request, pieces),
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
        made = make(answer, request, judged.prefix, head_digest(request.body))
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
    """System and tools. The order of tools is not part of it; unused deferred tools are not."""
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
                chain = resume(block, head, _role_after(body, index, at))
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
