"""The redactor that everything uses: registered values, our own shapes, and a library's rules.

Kingfisher (the extra `secrets`) knows some 500 kinds of credentials. Anyone who installs it wants
it used, so installed means used; it is loaded when the first text is looked at. If it cannot be,
our own shapes still work. What it costs and finds: docs/secrets.md.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.secrets.redaction import Redactor
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TEXT_CHARS_MIN: Final = 16
"""A shorter text holds no credential that the library could tell by itself."""


def redactor(secrets: Mapping[str, str] | None = None, *, library: bool | None = None) -> Redactor:
    """A redactor for the secrets (name → value) that the application registers.

    `library` says whether Kingfisher looks as well: by default where it is installed; True warns
    where it is not; False leaves it alone.
    """
    if library and _scanner() is None:
        warnings.warn(
            "Kingfisher cannot be used, so secrets are found by Holdfast's own shapes alone; "
            "install it with `pip install holdfast[secrets]`",
            HoldfastWarning,
            stacklevel=2,
        )
    return Redactor(secrets, find=None if library is False else find_with_library)


def find_with_library(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places where Kingfisher finds a credential; none if it cannot be used."""
    if len(text) < _TEXT_CHARS_MIN:
        return
    scanner = _scanner()
    if scanner is None:
        return
    data = text.encode(errors="replace")
    try:
        findings = scanner.scan(data)
    except Exception as error:  # a helper never hurts: our own shapes have looked already
        _warn(f"Kingfisher failed on a text, which Holdfast's own shapes have looked at: {error}")
        return
    for finding in findings:
        if finding.visible:
            start, end = finding.location["start_offset"], finding.location["end_offset"]
            yield _characters(data, text, start), _characters(data, text, end)


def _characters(data: bytes, text: str, place: int) -> int:
    return place if len(data) == len(text) else len(data[:place].decode(errors="ignore"))


_loaded: Final[list[Any]] = []
_loading: Final = threading.Lock()
"""Loading takes seconds and much memory: threads that ask at once wait for the first of them."""


def load_library() -> None:
    """Load Kingfisher now, where it is installed, and not with the first text."""
    _scanner()


def _scanner() -> Any:
    """The library, loaded once; None where it is not installed or does not start."""
    if not _loaded:
        with _loading:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _load() -> Any:
    try:
        import kingfisher_sdk

        # Compiling its rules takes seconds. Left to itself it keeps them only where HOME is set.
        cache = os.path.expanduser("~/.cache/kingfisher/rule-cache")
        return kingfisher_sdk.Scanner(kingfisher_sdk.Rules(cache_dir=cache))
    except ImportError:
        return None
    except Exception as error:  # native code with a cache of its own: whatever fails, we go on
        _warn(f"Kingfisher does not start, so Holdfast's own shapes look alone: {error}")
        return None


def _warn(text: str) -> None:
    warnings.warn(text, HoldfastWarning, stacklevel=3)
