"""A model that may be elsewhere is given no secrets; the one in this process needs no mask."""

from __future__ import annotations

from tests.engine.memory.test_vectors import Listening

from holdfast.engine.memory.vectors import MaskedEmbedder, mask_embedder
from holdfast.engine.redactor import redactor
from holdfast.providers.embedders import FastEmbedder


def test_secrets_do_not_reach_the_model() -> None:
    """Registered values and those of a known shape; once is enough."""
    masks = redactor({"OWN": "correct horse battery"})
    heard = Listening()
    model = mask_embedder(heard, masks)
    assert isinstance(model, MaskedEmbedder)
    assert model.name == heard.name
    assert len(model.embed(["a correct horse battery", "sk-ant-api03-" + "A1b2" * 20])) == 2
    assert "correct horse" not in heard.texts[0]
    assert "A1b2A1b2" not in heard.texts[1]
    assert mask_embedder(model, masks) is model
    assert mask_embedder(None, masks) is None
    own = FastEmbedder()
    assert mask_embedder(own, masks) is own
