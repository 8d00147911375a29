"""Reasoning items of OpenAI's Responses API: encrypted, of one organisation, and since GPT-6.2
left out, without a word, where the history before them was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_list, as_number, as_text
from holdfast.testing.loopback.binding.anthropic import gpt
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
    is_sealed_here,
    read_seal,
    write_seal,
)
from holdfast.testing.loopback.binding.tool_changes import judge_additional_tools
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.anthropic import Gpt
    from holdfast.testing.loopback.binding.judging import Ledger, Replying, Request

ENCRYPTED: Final = "reasoning.encrypted_content"
COMPACT: Final = "/responses/compact"
CIPHER: Final = "gAAAA"
ITEM_ID_CHARS: Final = 64
"""The API refuses longer ids of items."""
_COMPACTIONS: Final = frozenset({"compaction", "compaction_summary"})
_NAMES: Final = frozenset({"prompt_cache_breakpoint", "id", "status"})
_REQUIRED: Final = {"function_call": "call-has-reasoning", "message": "message-has-reasoning"}


class Item(msgspec.Struct, frozen=True):
    """An item of the input, in its place."""

    path: str
    item: Json
    before: str
    """The digest of everything before it but reasoning."""

    @property
    def kind(self) -> str:
        return as_text(self.item.get("type", "message"))

    @property
    def is_made(self) -> bool:
        """Return whether a model made it."""
        if self.kind == "message":
            return self.item.get("role") == "assistant"
        return self.kind.endswith("_call") or self.kind == "reasoning" or self.kind in _COMPACTIONS


class ResponsesBinding:
    """Encrypted reasoning, and compaction with items that no one else can read."""

    judges = frozenset({"call-has-reasoning", "message-has-reasoning"})

    def expand(self, body: Json) -> Json:
        items = as_dicts(body.get("input"))
        if not any(as_text(item.get("type")) in _COMPACTIONS for item in items):
            return body
        return {**body, "input": [_expand_item(item) for item in items]}

    def judge(self, request: Request, ledger: Ledger) -> Judged:
        head = _head(request.body)
        items, end = _read_items(request.body, head)
        model = gpt(request.model)
        broken = [
            *_judge_effort(request, model),
            *judge_additional_tools(request.body),
            *_judge_ids(items),
            *_judge_required(items, ledger, model),
        ]
        valid, dropped = [], []
        for item in items:
            if item.kind != "reasoning" and item.kind not in _COMPACTIONS:
                continue
            seal, refused = _open(item, request, model)
            if refused is not None:
                broken.append(refused)
            elif seal is not None and seal.kind == "reasoning":
                reason = _mismatch(item, seal, request, model)
                if reason:
                    dropped.append(Dropped(item.path, reason, seal.number))
                else:
                    valid.append(seal.number)
        return Judged(
            broken=tuple(broken),
            valid=tuple(valid),
            dropped=tuple(dropped),
            withheld=tuple(_withheld(items, ledger, request)),
            prefix=end,
        )

    def think(self, answer: Answer, request: Request) -> Thought:
        model, asked = gpt(request.model), as_dict(request.body.get("reasoning"))
        reasons = model is not None and model.reasons
        if model is None:
            # A name that no one knows: it reasons where it is asked to.
            reasons = bool(asked) or ENCRYPTED in as_list(request.body.get("include"))
        if not reasons or asked.get("effort") == "none" or request.path.endswith(COMPACT):
            return Thought()
        words = answer.thinking or (UNASKED if model is not None else "")
        shows = bool(asked.get("summary"))
        return Thought(words, is_hidden=not shows)

    def compose(self, answer: Answer, reply: Replying) -> Composed:
        request, judged, reply_id = reply.request, reply.judged, reply.reply_id
        if request.path.endswith(COMPACT):
            return Composed(instead=_window_of(request, answer, reply_id))
        made = []
        prefix = judged.prefix
        if _is_due(request):
            made.append(_compact(request, f"So far: {answer.text}", reply_id))
            prefix = digest(_head(request.body), _plain(made[0]))
        if not answer.thinking:
            return Composed(thoughts=tuple(made))
        seal = Seal(
            "reasoning",
            request.model,
            request.account,
            request.number,
            prefix,
            user=_user(request.body),
        )
        summary = [] if reply.thought.is_hidden else [_summary(answer.thinking)]
        item: Json = {"type": "reasoning", "id": f"rs_{reply_id}", "summary": summary}
        if ENCRYPTED in as_list(request.body.get("include")):
            item["encrypted_content"] = CIPHER + write_seal(seal)
        said = (answer.text.strip(), tuple(call.id for call in answer.calls))
        calls = [f"fc_{reply_id}_{at}" for at in range(len(answer.calls))]
        # What was not asked for encrypted cannot come back, and is missed all the same.
        reply.remember((seal.name,), said, (f"msg_{reply_id}", *calls))
        return Composed(thoughts=(*made, item))


def _compact(request: Request, summary: str, reply_id: str) -> Json:
    """An item that stands for everything before it, and that only a loopback can expand."""
    seal = Seal("compaction", request.model, request.account, request.number, summary=summary)
    return {
        "type": "compaction",
        "id": f"cmp_{reply_id}",
        "encrypted_content": CIPHER + write_seal(seal),
    }


def _window_of(request: Request, answer: Answer, reply_id: str) -> Json:
    """The reply of `/responses/compact`: the user's messages, and an item for all the rest."""
    kept = [
        item
        for item in as_dicts(request.body.get("input"))
        if item.get("type", "message") == "message" and item.get("role") == "user"
    ]
    return {
        "id": f"resp_{reply_id}",
        "object": "response.compaction",
        "output": [*kept, _compact(request, answer.text, reply_id)],
    }


def _expand_item(item: Json) -> Json:
    if as_text(item.get("type")) not in _COMPACTIONS:
        return item
    seal = _seal_of(item)
    summary = seal.summary if seal is not None else ""
    words = f"[The conversation so far]\n{summary}"
    return {"type": "message", "role": "user", "content": words}


def _head(body: Json) -> str:
    """Everything but the input that the history before a reasoning item counts by."""
    text = as_dict(body.get("text"))
    effort = as_dict(body.get("reasoning")).get("effort")
    return digest("", [body.get("instructions"), body.get("tools"), text.get("format"), effort])


def _read_items(body: Json, head: str) -> tuple[list[Item], str]:
    given = body.get("input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
    items, chain = [], head
    for index, item in enumerate(listed):
        if not isinstance(item, dict):
            continue
        found = Item(f"input[{index}]", item, chain)
        items.append(found)
        if found.kind in _COMPACTIONS:
            chain = digest(head, _plain(item))
        elif found.kind != "reasoning":
            chain = digest(chain, _strip_marks(item))
    return items, chain


def _plain(item: Json) -> Json:
    return {name: item.get(name) for name in ("type", "encrypted_content")}


def _strip_marks(value: Any) -> Any:
    """A value without cache marks, and without the ids that a client may leave out."""
    if isinstance(value, dict):
        return {name: _strip_marks(item) for name, item in value.items() if name not in _NAMES}
    return [_strip_marks(item) for item in value] if isinstance(value, list) else value


def _user(body: Json) -> str:
    return as_text(body.get("safety_identifier")) or as_text(body.get("user"))


def _seal_of(item: Json) -> Seal | None:
    return read_seal(as_text(item.get("encrypted_content")).removeprefix(CIPHER))


def _open(item: Item, request: Request, model: Gpt | None) -> tuple[Seal | None, Broken | None]:
    """The seal of an item; refused where it was changed, or is of another organisation."""
    content = as_text(item.item.get("encrypted_content"))
    if not content:
        return None, None
    seal = _seal_of(item.item)
    is_ours = is_sealed_here(content.removeprefix(CIPHER)) or request.checks_foreign
    is_foreign = seal is not None and seal.account != request.account
    drops = model is not None and model.drops_changed and item.kind == "reasoning"
    if (seal is None and is_ours) or (is_foreign and not drops):
        shown = f"{content[:4]}...{content[-4:]}"
        failure = WireFailure(
            f"The encrypted content {shown} could not be verified. Reason: Encrypted content could "
            "not be decrypted or parsed.",
            code="invalid_encrypted_content",
        )
        return None, Broken("encrypted-content-verified", failure, item.path)
    return seal, None


def _mismatch(item: Item, seal: Seal, request: Request, model: Gpt | None) -> str:
    if model is None or not model.drops_changed:
        return ""
    maker = gpt(seal.model)
    if seal.account != request.account:
        return "organization_binding_mismatch"
    if seal.user != _user(request.body):
        return "end_user_binding_mismatch"
    if maker is not None and maker > model:
        return "model_binding_mismatch"
    return "" if seal.prefix == item.before else "prefix_binding_mismatch"


def _judge_effort(request: Request, model: Gpt | None) -> Iterator[Broken]:
    effort = as_dict(request.body.get("reasoning")).get("effort")
    if model is not None and effort in ("none", "minimal") and not model.can_stop_reasoning:
        words = f"Unsupported value: '{effort}' is not supported with the '{request.model}' model."
        failure = WireFailure(words, param="reasoning.effort", code="unsupported_value")
        yield Broken("reasoning-effort", failure, "reasoning.effort")


def _judge_ids(items: Sequence[Item]) -> Iterator[Broken]:
    for item in items:
        found = as_text(item.item.get("id"))
        if len(found) > ITEM_ID_CHARS:
            words = (
                f"Invalid '{item.path}.id': string too long. Expected a string with maximum "
                f"length {ITEM_ID_CHARS}, but got a string with length {len(found)} instead."
            )
            failure = WireFailure(words, param=f"{item.path}.id", code="string_above_max_length")
            yield Broken("item-id-length", failure, item.path)


def _judge_required(items: Sequence[Item], ledger: Ledger, model: Gpt | None) -> Iterator[Broken]:
    """An item that came with reasoning, and is sent with its id, needs that reasoning before it.

    The server knows its own items; of others, a model that reasons wants it. A model that does
    not reason makes items without.
    """
    has_reasoned = False
    for item in items:
        if item.kind == "reasoning":
            has_reasoned = True
        elif not item.is_made:
            has_reasoned = False
        item_id = as_text(item.item.get("id"))
        if item.kind not in _REQUIRED or not item.is_made or has_reasoned:
            continue
        if not item_id.startswith(("fc_", "msg_")):
            continue
        made = ledger.with_id(item_id)
        if made is not None or (not _is_from_here(item_id) and model is not None and model.reasons):
            words = (
                f"Item '{item_id}' of type '{item.kind}' was provided without its required "
                f"'reasoning' item: 'rs_{item_id.partition('_')[2]}'."
            )
            yield Broken(_REQUIRED[item.kind], WireFailure(words, param="input"), item.path)


def _is_from_here(item_id: str) -> bool:
    """Return whether an id looks like one of a loopback: a number and a digest."""
    return item_id.partition("_")[2].partition("_")[0][:6].isdigit()


def _withheld(items: Sequence[Item], ledger: Ledger, request: Request) -> Iterator[Withheld]:
    """Reasoning that is valid at its place and is not there."""
    run: list[Item] = []
    for item in [*items, None]:
        if item is not None and item.is_made:
            run.append(item)
            continue
        if run:
            yield from _missing(run, ledger, request)
        run = []


def _missing(run: Sequence[Item], ledger: Ledger, request: Request) -> Iterator[Withheld]:
    sent = {
        seal.name
        for item in run
        if item.kind == "reasoning"
        for seal in [_seal_of(item.item)]
        if seal is not None
    }
    made = [entry for entry in ledger.behind(run[0].before) if entry.said == _words_of(run)]
    model, here = gpt(request.model), request.account
    made = [entry for entry in made if entry.account == here]
    if not made or any(set(entry.names) <= sent for entry in made):
        return
    maker = gpt(made[-1].model)
    if model is not None and maker is not None and not _may_read(model, maker):
        return
    yield Withheld(run[0].path, made[-1].number)


def _may_read(model: Gpt, maker: Gpt) -> bool:
    """Return whether a model is given another one's reasoning. No document says so of those before
    GPT-6.2."""
    return maker == model or (model.drops_changed and maker < model)


def _words_of(run: Sequence[Item]) -> Any:
    texts, calls = [], []
    for item in run:
        content = item.item.get("content")
        if item.kind == "message" and isinstance(content, str):
            texts.append(content)
        elif item.kind == "message":
            texts += [
                as_text(part.get("text") or part.get("refusal")) for part in as_dicts(content)
            ]
        elif item.kind == "function_call":
            calls.append(as_text(item.item.get("call_id")))
    return "".join(texts).strip(), tuple(calls)


def _is_due(request: Request) -> bool:
    for edit in as_dicts(request.body.get("context_management")):
        value = as_number(edit.get("compact_threshold"))
        if edit.get("type") == "compaction" and value is not None and request.tokens > value:
            return True
    return False


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}
