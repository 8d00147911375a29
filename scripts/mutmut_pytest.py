"""Let mutmut 3.8 read the ids of tests with our pytest (`-p scripts.mutmut_pytest`)."""

from __future__ import annotations

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
