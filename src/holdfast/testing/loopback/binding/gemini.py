"""Thought signatures of Gemini: on the part they came with, for their own model and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.dialects.gemini.rules import wants_signatures
from holdfast.core.dialects.gemini.validate import either
from holdfast.testing.loopback.binding.judging import (
    Broken,
    Composed,
    Judged,
    Seal,
    Thought,
    Withheld,
    digest,
    is_sealed_here,
    read_seal,
    write_seal,
)
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Answer
    from holdfast.testing.loopback.binding.judging import Kind, Ledger, Replying, Request

DUMMIES: Final = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""Signatures that the API takes for calls which it did not sign."""


class GeminiBinding:
    """Signed calls and texts."""

    judges: frozenset[str] = frozenset()

    def expand(self, body: Json) -> Json:
        return body

    def judge(self, request: Request, ledger: Ledger) -> Judged:
        broken, valid, withheld = [], [], []
        contents = as_dicts(request.body.get("contents"))
        current = _current(contents)
        for index, content in enumerate(contents):
            for at, part in enumerate(as_dicts(content.get("parts"))):
                where = f"contents.{index}.parts.{at}"
                signature = as_text(either(part, "thoughtSignature"))
                call = as_dict(either(part, "functionCall"))
                seal = read_seal(signature) if signature not in DUMMIES else None
                made = ledger.with_id(as_text(call.get("id"))) if call else None
                is_ours = is_sealed_here(signature) or request.checks_foreign
                is_known = seal is not None or not signature or signature in DUMMIES
                if (is_ours and not is_known) or (seal and not _fits(seal, part, request)):
                    broken.append(_corruption(where))
                elif seal is not None:
                    valid.append(seal.number)
                elif made is not None and made.said == _maker(request):
                    withheld.append(Withheld(where, made.number, is_required=index >= current))
        return Judged(
            broken=tuple(broken),
            valid=tuple(valid),
            withheld=tuple(withheld),
            prefix=digest("", contents),
        )

    def think(self, answer: Answer, request: Request) -> Thought:
        settings = as_dict(either(request.body, "generationConfig"))
        thinking = as_dict(either(settings, "thinkingConfig"))
        if either(thinking, "includeThoughts") is True:
            return Thought(answer.thinking)
        return Thought()

    def compose(self, answer: Answer, reply: Replying) -> Composed:
        """The first of several calls is signed, and by newer models the end of a text."""
        request = reply.request
        if answer.calls:
            call = answer.calls[0]
            seal = _seal("call", request, _call(call.name, call.arguments))
            reply.remember((seal.name,), _maker(request), (call.id,))
            return Composed(signature=write_seal(seal))
        if not answer.text or not wants_signatures(request.model):
            return Composed()
        return Composed(signature=write_seal(_seal("text", request, "")))


def _seal(kind: Kind, request: Request, said: str) -> Seal:
    model, key = _maker(request)
    return Seal(kind, model, key, request.number, said=said)


def _maker(request: Request) -> tuple[str, str]:
    return request.model, digest("", request.key)


def _current(contents: list[Json]) -> int:
    """The content that begins the current turn: the last of a user that is no result."""
    starts = [
        index
        for index, content in enumerate(contents)
        if content.get("role") != "model"
        and not any(either(part, "functionResponse") for part in as_dicts(content.get("parts")))
    ]
    return starts[-1] if starts else 0


def _fits(seal: Seal, part: Json, request: Request) -> bool:
    if (seal.model, seal.account) != _maker(request):
        return False
    call = as_dict(either(part, "functionCall"))
    if seal.kind != "call":
        return seal.kind == "text" and not call
    return seal.said == _call(as_text(call.get("name")), as_dict(call.get("args")))


def _call(name: str, arguments: Json) -> str:
    return digest("", [name, arguments])


def _corruption(where: str) -> Broken:
    return Broken("call-signature", WireFailure("Corrupted thought signature."), where)
