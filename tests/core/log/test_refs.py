"""Whatever could be the hash of a payload is found in stored bytes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.refs import hex_runs, possible_hashes

DIGITS = st.integers(0, 140).map(lambda count: (b"0123456789abcdef" * 9)[:count])
OTHERS = st.sampled_from([b"", b" ", b"g", b"A", b"\n", b'"', b"\xff", b"\0", b"/", b":", b"`"])


@given(st.lists(st.tuples(DIGITS, OTHERS), max_size=8))
def test_every_run_of_digits_is_found(parts: list[tuple[bytes, bytes]]) -> None:
    """Runs of 64 digits and more, whole, in their order; and each hash that a run may hold."""
    data = b"".join(digits + other for digits, other in parts)
    runs = [found.decode() for found in re.findall(rb"[0-9a-f]{64,}", data)]
    assert list(hex_runs(data)) == runs
    assert list(possible_hashes(data)) == [
        run[start : start + 64] for run in runs for start in range(len(run) - 63)
    ]
