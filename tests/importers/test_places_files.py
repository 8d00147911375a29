"""Files are read up to a stated size, and no further."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import UsageError
from holdfast.importers import places
from holdfast.importers.common import parsing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [99, 100, 101, 100_000])
def test_a_file_over_the_limit_is_refused_with_the_limit(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error states the limit; a file of that size is read whole."""
    monkeypatch.setattr(parsing, "UNPACKED_BYTES_MAX", 100)
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b"x" * size)
    if size <= 100:
        assert places.load(str(path)) == b"x" * size
        return
    with pytest.raises(UsageError, match="more than 100 bytes") as raised:
        places.load(str(path))
    assert raised.value.hint
