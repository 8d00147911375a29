"""Embedders by name, by function, or as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.text.cut import cut
from holdfast.errors import BadSetting
from holdfast.providers.callable_embedder import CallableEmbedder
from holdfast.providers.embeddings import find_embedder, is_available

if TYPE_CHECKING:
    from holdfast.providers.callable_embedder import EmbedTexts
    from holdfast.providers.embeddings import Embedder

EMBEDDERS: Final = ("auto", "off", "minilm", "openai:NAME")
"""The names that `embedder` takes. Behind a NAME, `@http://host/v1` names another server."""


def embedder(name: str, *, api_key: str | None = None, **options: Any) -> Embedder | None:
    """An embedding model by name; None where words alone are to be compared.

    `auto` is MiniLM where the extra `vectors` is installed. The key of `openai:NAME` is `api_key`,
    or that of OPENAI_API_KEY; `options` are those of `OpenAIEmbedder`.
    """
    from holdfast.config import provider_key
    from holdfast.providers.models import read_name
    from holdfast.providers.openai_embedder import BASE_URL, OpenAIEmbedder

    kind = name.strip()
    if kind == "off":
        return None
    if kind == "auto":
        return find_embedder()
    if kind == "minilm":
        if not is_available():
            raise BadSetting(
                "the embedding model `minilm` is not installed",
                hint="pip install 'holdfast[vectors]'",
            )
        return find_embedder()
    if not kind.startswith("openai:"):
        raise BadSetting(
            f"no embedding model `{cut(name, 80).text}`",
            hint=f"use one of {', '.join(EMBEDDERS)}; behind a NAME, `@http://host/v1` names a "
            "server",
        )
    named = read_name(kind)
    url = options.pop("base_url", None) or named.base_url or BASE_URL
    key = provider_key("OPENAI_API_KEY") if api_key is None else api_key
    if not key and url == BASE_URL:
        raise BadSetting(
            "there is no key for the embedding model", hint="set OPENAI_API_KEY, or pass `api_key`"
        )
    return OpenAIEmbedder(named.name, base_url=url, api_key=key, **options)


def as_embedder(given: Embedder | EmbedTexts | str | None) -> Embedder | None:
    """Return an embedder for a name or a function; an embedder as it is.

    The name of a function is that of its module and its own. One that has none is refused: vectors
    of two models must not have the same name.
    """
    if given is None or isinstance(given, str):
        return None if given is None else embedder(given)
    if callable(getattr(given, "embed", None)) and isinstance(getattr(given, "name", None), str):
        found: Embedder = given  # type: ignore[assignment]
        return found
    name = f"{getattr(given, '__module__', '')}.{getattr(given, '__qualname__', '')}"
    if not callable(given) or name.startswith((".", "None.")) or name.endswith("."):
        hint = "pass a function in CallableEmbedder(call, name), or an object with name and embed"
        raise BadSetting("this is not an embedder, or it has no name", hint=hint)
    if "<" in name:
        raise BadSetting(
            f"the embedder `{name}` has no name of its own",
            hint="pass CallableEmbedder(call, name=…), with the name and version of the model",
        )
    return CallableEmbedder(given, name)
