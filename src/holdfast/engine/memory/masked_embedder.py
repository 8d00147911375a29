"""An embedder that is given no secrets: the model may be on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.providers.embedders import as_embedder
from holdfast.providers.embeddings import MiniLM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.secrets.redaction import Redactor
    from holdfast.providers.callable_embedder import EmbedTexts
    from holdfast.providers.embeddings import Embedder


class MaskedEmbedder:
    """Masks texts before it gives them to another embedder, which keeps its name."""

    def __init__(self, embedder: Embedder, redactor: Redactor) -> None:
        self._embedder = embedder
        self._redactor = redactor
        if hasattr(embedder, "batch_size"):
            self.batch_size = embedder.batch_size

    @property
    def name(self) -> str:
        return self._embedder.name

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text, with its secrets masked."""
        return self._embedder.embed([self._redactor.text(text) for text in texts])


def mask_embedder(given: Embedder | EmbedTexts | str | None, redactor: Redactor) -> Embedder | None:
    """Return an embedder for a name, a function or an embedder, to which no secret is given.

    The model of the extra `vectors` runs in this process, and needs no mask.
    """
    found = as_embedder(given)
    if found is None or isinstance(found, MiniLM | MaskedEmbedder):
        return found
    return MaskedEmbedder(found, redactor)
