"""Models of fastembed: their weights come from a hub once, and texts stay on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.hub_server import HubServer, model_files

from holdfast.errors import BadSetting, ModelError
from holdfast.providers.embedders import FASTEMBED_MODEL, FastEmbedder, embedder
from holdfast.providers.embeddings import Vectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("fastembed")

_EMBED = """
import json
import sys
from holdfast.providers.embedders import embedder

model = embedder("fastembed")
for batch in sys.argv[1:]:
    for vector in model.embed(json.loads(batch)):
        print(vector.hex())
"""
"""In a process of its own: the hub's address is read when its package is imported."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    files = model_files()
    if files is None:
        pytest.skip("the packages that carry the weights are not installed")
    server = HubServer(files)
    yield server
    server.close()


def _embedded(folder: Path, address: str, *batches: list[str]) -> list[bytes]:
    environ = {
        **os.environ,
        "FASTEMBED_CACHE_PATH": str(folder),
        "HF_ENDPOINT": address,
        "HF_HOME": str(folder / "hub"),
    }
    made = subprocess.run(
        (sys.executable, "-c", _EMBED, *map(json.dumps, batches)),
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return [bytes.fromhex(line) for line in made.stdout.split()]


def test_the_weights_come_from_the_hub_once(hub: HubServer, folder: Path) -> None:
    """A paraphrase without a common word is nearer than another subject, also in a second process,
    for which there is no hub any more."""
    texts = ["My puppy will not stop barking", "The invoice is due on Friday", "a noisy young dog"]
    *first, query = _embedded(folder, hub.url, texts)
    assert any(path.endswith("/model.onnx") for path in hub.asked)
    assert [len(vector) for vector in first] == [384, 384]
    vectors = Vectors((id_, 1, vector) for id_, vector in enumerate(first))
    assert vectors.nearest(query, 1)[0][0] == 0

    seen = len(hub.asked)
    assert _embedded(folder, "http://127.0.0.1:9", texts) == [*first, query]
    assert len(hub.asked) == seen


def test_a_batch_gives_what_each_text_gives_alone(hub: HubServer, folder: Path) -> None:
    """Whatever stands beside it, and however long it is."""
    texts = ["short", "a somewhat longer text about nothing at all", "", "word " * 600]
    made = _embedded(folder, hub.url, texts, *([text] for text in texts))
    for together, alone in zip(made[: len(texts)], made[len(texts) :], strict=True):
        near = Vectors([(0, 1, together)]).similarity(alone, [0])[0]
        assert near == pytest.approx(1.0, abs=0.05)


def test_a_model_that_cannot_be_loaded_is_not_loaded_for_every_search(tmp_path: Path) -> None:
    now = [0.0]
    model = FastEmbedder("no/such-model", folder=str(tmp_path), clock=lambda: now[0])
    with pytest.raises(ModelError, match="no/such-model") as first:
        model.embed(["text"])
    with pytest.raises(ModelError) as second:
        model.embed(["text"])
    assert second.value is first.value
    now[0] += 3_600
    with pytest.raises(ModelError) as third:
        model.embed(["text"])
    assert third.value is not first.value


def test_a_name_makes_a_model_and_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    default, other = embedder("fastembed"), embedder("fastembed:BAAI/bge-small-en-v1.5")
    assert isinstance(default, FastEmbedder)
    assert default.name == f"fastembed:{FASTEMBED_MODEL}"
    assert other is not None
    assert other.name == "fastembed:BAAI/bge-small-en-v1.5"
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(BadSetting, match="not installed"):
        embedder("fastembed")
