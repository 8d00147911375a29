"""The library beside our own shapes: used where it is installed, missed by nobody where not."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.core.secrets.planted_secrets import HARMLESS, TOKENS, made

from holdfast.engine import redactor as redacting
from holdfast.engine.redactor import find_with_library, redactor
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

ONLY_THE_LIBRARY = "CLO" + "JARS_" + made("clojars", "abcdefghijklmnop0123456789", 60)


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", None)
    redacting._loaded.clear()
    yield
    redacting._loaded.clear()


def test_library_finds_what_our_shapes_do_not_know() -> None:
    """In characters, whatever stands before; and it is masked like anything else."""
    pytest.importorskip("kingfisher_sdk")
    for before in ("", "plain ", "日本語 😀 ", "\ud800 "):
        text = f"{before}the key {ONLY_THE_LIBRARY} here"
        [(start, end)] = find_with_library(text)
        assert text[start:end] == ONLY_THE_LIBRARY
        masked = redactor().text(text)
        assert ONLY_THE_LIBRARY[6:-4] not in masked
        assert masked.startswith(f"{before}the key [masked: CLOJ")
        assert redactor().text(masked) is masked
    assert redactor(library=False).text(ONLY_THE_LIBRARY) is ONLY_THE_LIBRARY


def test_library_takes_ordinary_text_for_what_it_is() -> None:
    """Short texts are not even shown to it."""
    assert list(find_with_library("sk-short")) == []
    for text in HARMLESS:
        if "://" not in text:
            assert redactor().text(text) is text


@pytest.mark.usefixtures("without_library")
def test_without_the_library_our_shapes_do_the_work() -> None:
    """Nobody is told who did not ask for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        masked = redactor({"NAME": "registered"}).text(f"{TOKENS['GitHub']} registered")
    assert masked.endswith("] [masked: NAME]")
    assert TOKENS["GitHub"] not in masked


@pytest.mark.usefixtures("without_library")
def test_library_that_was_asked_for_and_is_missing_is_told() -> None:
    """With what to do."""
    with pytest.warns(HoldfastWarning, match=r"holdfast\[secrets\]"):
        asked = redactor(library=True)
    assert asked.text(f"{TOKENS['GitHub']} ") != f"{TOKENS['GitHub']} "


def test_library_that_fails_does_not_hurt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what it finds and says not to be shown."""

    class Scanner:
        def __init__(self, rules: object) -> None:
            pass

        def scan(self, data: bytes) -> list[SimpleNamespace]:
            if b"fail" in data:
                raise TimeoutError
            place = {"start_offset": 0, "end_offset": 4}
            return [SimpleNamespace(visible=False, location=place)]

    library = SimpleNamespace(Scanner=Scanner, Rules=lambda cache_dir: None)
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", library)
    redacting._loaded.clear()
    try:
        words, hidden = "this will fail now", "this will not, but is hidden"
        with pytest.warns(HoldfastWarning, match="Kingfisher failed on a text"):
            assert redactor().text(words) is words
        with pytest.warns(HoldfastWarning, match="Kingfisher failed on a text"):
            assert TOKENS["GitHub"] not in redactor().text(f"{words} {TOKENS['GitHub']}")
        assert redactor().text(hidden) is hidden
        assert TOKENS["GitHub"] not in redactor().text(f"{hidden} {TOKENS['GitHub']}")
    finally:
        redacting._loaded.clear()


def test_threads_load_the_library_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose first requests come together: loading takes seconds and much memory."""
    loads: list[int] = []
    begun = threading.Barrier(4, timeout=20)

    class Scanner:
        def __init__(self, _rules: object) -> None:
            loads.append(1)
            time.sleep(0.05)  # as the real one, it lets other threads run

        def scan(self, _data: bytes) -> list[object]:
            return []

    def ask() -> None:
        begun.wait()
        redactor().text("a text that is long enough")

    library = SimpleNamespace(Scanner=Scanner, Rules=lambda cache_dir: None)
    monkeypatch.setitem(sys.modules, "kingfisher_sdk", library)
    redacting._loaded.clear()
    try:
        threads = [threading.Thread(target=ask) for _number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        redacting._loaded.clear()
    assert len(loads) == 1
