"""A client's request, read as far as its log and its size need it."""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.messages import read_tools
from holdfast.core.proxy.atoms import leading_terms, read_atoms
from holdfast.core.proxy.digests import digest_of, extend_chain, start_chain
from holdfast.core.proxy.error_body import ProxyProblem
from holdfast.core.proxy.identity import find_client_id, stable_system
from holdfast.core.proxy.reply_limit import OUTPUT_FIELDS, read_output_limit
from holdfast.core.proxy.terms import text_of_system
from holdfast.core.text.nesting import is_too_deep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.models.messages import Tool
    from holdfast.core.proxy.digests import Atom
    from holdfast.core.proxy.identity import ClientId
    from holdfast.core.proxy.known_prefix import KnownPrefix

_ITEMS: Final[Mapping[str, str]] = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
"""The field of a body that holds the conversation."""
_SYSTEM_FIELDS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_TERMS: Final = (
    *("model", "system", "instructions", "tools", "thinking", "reasoning"),
    *OUTPUT_FIELDS,
    *("generationConfig", "toolConfig", "safetySettings", "cachedContent"),
)
"""Fields that a conversation keeps from one request to the next, for the log."""


class ClientRequest(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """A request for a reply of a model, as it came."""

    dialect: DialectName
    upstream: str
    headers: dict[str, str]
    """With small names."""
    session: str = ""
    """The session that the path names."""
    data: bytes
    path_model: str = ""
    """The model, where the address names it."""
    known: KnownPrefix | None = None
    """The beginning of the body, where a request before had it."""

    @cached_property
    def body(self) -> Json:
        """The JSON of the body. Raises `ProxyProblem` where it is none."""
        return _decode(self.data)

    @cached_property
    def short(self) -> tuple[int, Json]:
        """The number of messages that are known, and the body without them."""
        data = self.known.shorten(self.data, self.items_field) if self.known else None
        if self.known is not None and data is not None:
            try:
                return self.known.count, _decode(data)
            except ProxyProblem:  # the error of the whole body names its place
                pass
        return 0, self.body

    @property
    def items_field(self) -> str:
        return _ITEMS[self.dialect]

    @cached_property
    def items(self) -> list[Any]:
        """The whole conversation: messages, or items of the Responses API.

        Raises `ProxyProblem` where the body belongs to another dialect.
        """
        return self._items_of(self.body)

    @cached_property
    def new_items(self) -> tuple[int, list[Any]]:
        """The index of the first item that is not known, and the items from there on."""
        count, body = self.short
        return (count, self._items_of(body)) if count else (0, self.items)

    def items_from(self, index: int) -> list[Any]:
        """The items from an index on. Parses the whole body only where it has to."""
        first, items = self.new_items
        return items[index - first :] if index >= first else self.items[index:]

    @property
    def item_count(self) -> int:
        first, items = self.new_items
        return first + len(items)

    @property
    def leading(self) -> list[Any]:
        """The items at the beginning that are instructions."""
        if self.known is not None and self.short[0]:
            return self.known.leading
        return self.items[: leading_terms(self.items)] if self.dialect != "anthropic" else []

    def _items_of(self, body: Json) -> list[Any]:
        found = body.get(self.items_field)
        if isinstance(found, str) and self.dialect == "openai-responses":
            return [{"type": "message", "role": "user", "content": found}]
        if isinstance(found, list):
            return found
        if found is None and self.dialect == "openai-responses":
            return []
        other = next((name for name in _ITEMS.values() if name in body), "")
        raise ProxyProblem(
            400,
            f"the body has no list `{self.items_field}`, and this address takes requests of the "
            f"dialect `{self.dialect}`",
            f"it has `{other}`: send it to the address of that API" if other else "",
            code="wrong_dialect",
        )

    @property
    def fields(self) -> Json:
        """The body, of which the messages may be missing."""
        return self.short[1]

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
        return read_output_limit(self.fields, self.dialect)

    @property
    def holds_history(self) -> bool:
        """False where the provider holds a part of the history, so that nothing can be cut."""
        names = ("cachedContent", "cached_content")
        return not any(self.fields.get(name) for name in names)

    @cached_property
    def atoms(self) -> list[Atom]:
        first, items = self.new_items
        known = self.known.atoms if self.known is not None and first else []
        return [*known, *read_atoms(items, self.dialect, first)]

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
        if self.dialect != "anthropic" and self.system:
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


def _decode(data: bytes) -> Json:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProxyProblem(
            400, f"the body is no JSON: {error}", "send a JSON object", code="bad_json"
        ) from error
    if not isinstance(body, dict):
        raise ProxyProblem(400, "the body is no JSON object", code="bad_json")
    if is_too_deep(body):
        raise ProxyProblem(400, "the body is nested too deeply", code="bad_json")
    return body
