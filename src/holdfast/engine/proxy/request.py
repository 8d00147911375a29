"""A client's request, read as far as its log and its size need it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.messages import read_tools
from holdfast.core.proxy.atoms import (
    Atom,
    digest_of,
    extend_chain,
    leading_terms,
    read_atoms,
    start_chain,
)
from holdfast.core.proxy.error_body import ProxyProblem
from holdfast.core.proxy.identity import find_client_id, stable_system
from holdfast.core.proxy.terms import text_of_system
from holdfast.core.text.nesting import is_too_deep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.models.messages import Tool
    from holdfast.core.proxy.identity import ClientId

_ITEMS: Final[Mapping[str, str]] = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
}
"""The field of a body that holds the conversation."""
_OUTPUT_FIELDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_TERMS: Final = (
    "model",
    "system",
    "instructions",
    "tools",
    "thinking",
    "reasoning",
    *_OUTPUT_FIELDS,
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

    @cached_property
    def body(self) -> Json:
        """The JSON of the body. Raises `ProxyProblem` where it is none."""
        try:
            body = msgspec.json.decode(self.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProxyProblem(
                400, f"the body is no JSON: {error}", "send a JSON object", code="bad_json"
            ) from error
        if not isinstance(body, dict):
            raise ProxyProblem(400, "the body is no JSON object", code="bad_json")
        if is_too_deep(body):
            raise ProxyProblem(400, "the body is nested too deeply", code="bad_json")
        return body

    @property
    def items_field(self) -> str:
        return _ITEMS[self.dialect]

    @cached_property
    def items(self) -> list[Any]:
        """The conversation: messages, or items of the Responses API.

        Raises `ProxyProblem` where the body belongs to another dialect.
        """
        found = self.body.get(self.items_field)
        if isinstance(found, str) and self.dialect == "openai-responses":
            return [{"type": "message", "role": "user", "content": found}]
        if isinstance(found, list):
            return found
        if found is None and self.dialect == "openai-responses":
            return []
        other = next((name for name in _ITEMS.values() if name in self.body), "")
        raise ProxyProblem(
            400,
            f"the body has no list `{self.items_field}`, and this address takes requests of the "
            f"dialect `{self.dialect}`",
            f"it has `{other}`: send it to the address of that API" if other else "",
            code="wrong_dialect",
        )

    @property
    def model(self) -> str:
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def is_streamed(self) -> bool:
        return self.body.get("stream") is True

    @property
    def client(self) -> ClientId:
        return find_client_id(self.headers, self.body, self.session)

    @cached_property
    def system(self) -> str:
        """The system prompt, wherever the dialect has it."""
        given = self.body.get("system", self.body.get("instructions"))
        texts = [text_of_system(given)]
        if self.dialect != "anthropic":
            leading = self.items[: leading_terms(self.items)]
            texts += [text_of_system(item.get("content")) for item in leading]
        return "\n\n".join(filter(None, texts))

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        return read_tools(self.body.get("tools"))

    @property
    def output_tokens(self) -> int | None:
        """The tokens that the client allows for the reply."""
        for name in _OUTPUT_FIELDS:
            value = self.body.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    @property
    def output_field(self) -> str:
        default = {"openai-responses": "max_output_tokens"}.get(self.dialect, "max_tokens")
        return next((name for name in _OUTPUT_FIELDS if name in self.body), default)

    @cached_property
    def atoms(self) -> list[Atom]:
        return read_atoms(self.items, self.dialect)

    @cached_property
    def chains(self) -> list[bytes]:
        """The chain after each atom."""
        chain = start_chain()
        chains = []
        for atom in self.atoms:
            chain = extend_chain(chain, (atom.digest,))
            chains.append(chain)
        return chains

    @property
    def opening(self) -> str:
        """The digest of the first message, by which conversations without an id are found."""
        first = [atom.digest for atom in self.atoms if atom.item == self.atoms[0].item]
        return extend_chain(start_chain(self.client.scope), first).hex()

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The fields that come with every call and seldom change."""
        found: dict[str, Any] = {n: self.body[n] for n in _TERMS if n in self.body}
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
