"""A client's request, read as far as its log and its size need it."""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.client import OUTPUT_FIELDS
from holdfast.core.dialects.common.digests import digest_of, extend_chain, start_chain
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.models.messages import read_tools
from holdfast.core.proxy.identity import find_client_id, stable_system, text_of_system
from holdfast.engine.proxy.request_body import RequestBody

if TYPE_CHECKING:
    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.models.messages import Tool
    from holdfast.core.proxy.identity import ClientId

_SYSTEM_FIELDS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_TERMS: Final = (
    *("model", "system", "instructions", "tools", "thinking", "reasoning"),
    *OUTPUT_FIELDS,
    *("generationConfig", "toolConfig", "safetySettings", "cachedContent"),
)
"""Fields that a conversation keeps from one request to the next, for the log."""


class ClientRequest(RequestBody, frozen=True, dict=True, kw_only=True):
    """A request for a reply of a model, as it came."""

    upstream: str
    headers: dict[str, str]
    """With small names."""
    session: str = ""
    """The session that the path names."""
    path_model: str = ""
    """The model, where the address names it."""
    can_join: bool = True
    """False where the reply comes in a form in which rounds cannot be joined."""
    sent: bytes | None = None
    """The bytes that the client sent, where `data` is what they hold without compression."""

    @property
    def as_sent(self) -> bytes:
        """The bytes that go on to the provider where nothing is changed."""
        return self.data if self.sent is None else self.sent

    @property
    def provider(self) -> str:
        """The provider as the log names it."""
        return "google" if self.upstream == "gemini" else self.upstream

    @property
    def model(self) -> str:
        model = self.path_model or self.fields.get("model")
        return model if isinstance(model, str) else ""

    @cached_property
    def client(self) -> ClientId:
        return find_client_id(self.headers, self.fields, self.session)

    @cached_property
    def system(self) -> str:
        """The system prompt, wherever the dialect has it."""
        given = next((self.fields[n] for n in _SYSTEM_FIELDS if n in self.fields), None)
        texts = [text_of_system(given)]
        texts += [text_of_system(item.get("content")) for item in self.leading]
        return "\n\n".join(filter(None, texts))

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        return read_tools(self.fields.get("tools"))

    @property
    def output_tokens(self) -> int | None:
        """The tokens that the client allows for the reply."""
        return find_dialect(self.dialect).body.read_output_limit(self.fields)

    @property
    def holds_history(self) -> bool:
        """False where the provider holds a part of the history, so that nothing can be cut."""
        names = ("cachedContent", "cached_content")
        return not any(self.fields.get(name) for name in names)

    @cached_property
    def atoms(self) -> list[Atom]:
        first, items = self.new_items
        known = self.known.atoms if self.known is not None and first else []
        return [*known, *find_dialect(self.dialect).items.read_atoms(items, first)]

    @cached_property
    def chains(self) -> list[bytes]:
        """The chain after each atom."""
        is_known = self.known is not None and self.short[0] > 0
        chains = list(self.known.chains) if self.known is not None and is_known else []
        chain = chains[-1] if chains else start_chain()
        for atom in self.atoms[len(chains) :]:
            chain = extend_chain(chain, (atom.digest,))
            chains.append(chain)
        return chains

    @property
    def opening(self) -> str:
        """The digest of the first message, by which conversations without an id are found."""
        first = self.atoms[0].item
        digests = [atom.digest for atom in takewhile(lambda a: a.item == first, self.atoms)]
        return extend_chain(start_chain(self.client.scope), digests).hex()

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The fields that come with every call and seldom change."""
        found: dict[str, Any] = {n: self.fields[n] for n in _TERMS if n in self.fields}
        if self.path_model:
            found["model"] = self.path_model
        if self.system and not find_dialect(self.dialect).body.has_system_field:
            found["system"] = self.system
        return found

    @cached_property
    def term_digests(self) -> dict[str, str]:
        return {
            name: digest_of(
                stable_system(text_of_system(value)) if name == "system" else value
            ).hex()
            for name, value in self.terms.items()
        }
