"""Unregistered credentials, in records that are about to be stored.

A shape is a guess, so by default a record stays as it is and the caller hears of it (`warn`).
With `handle`, each value that is found is registered for the life of the session object, under a
random name: from then on it is masked and resolved like any registered secret.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a field of a struct
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from holdfast.core.limits import FOUND_SCAN_CHARS, FOUND_VALUE_CHARS_MIN, FOUND_VALUES_MAX
from holdfast.core.log.views import MESSAGE_KEY
from holdfast.core.secrets.patterns import field_kind
from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.core.secrets.redaction import PAYLOAD_HEAD_CHARS, SHORT_TEXT_CHARS, Redactor
from holdfast.core.secrets.vault import Secret, Vault, maskable_fields, name_of_found
from holdfast.core.text.strings import rewritten
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FoundSecrets: TypeAlias = Literal["warn", "handle", "keep"]
"""The treatment of an unregistered credential: store it and report it, store a handle
and report that, or store it without looking for it."""


class Secrets(msgspec.Struct, frozen=True):
    """The secrets of a session, and the treatment of values that look like others."""

    values: Mapping[str, str | Secret] = {}
    """Values by name that are stored as handles (`<secret:NAME>`); tools get the values."""
    found: FoundSecrets = "warn"
    """Values that look like credentials and are not registered: `warn` stores them and emits
    `SecretFound`, `handle` stores a handle for the life of the session object, `keep` stores them
    without looking."""

    def __post_init__(self) -> None:
        known = get_args(FoundSecrets)
        if self.found not in known:
            raise BadSetting(
                f"`found` of `Secrets` cannot be `{self.found!r}`",
                hint=f"pass {', '.join(known)}",
            )
        if self.values:
            Vault(self.values)  # raises where a name or a value cannot be used


def secrets_of(given: Mapping[str, str | Secret] | Secrets) -> Secrets:
    """Return the option `secrets`, spelled out."""
    return given if isinstance(given, Secrets) else Secrets(given)


_Record = TypeVar("_Record", bound=msgspec.Struct)
_REDACTOR: Final = Redactor()


class SecretFinding(NamedTuple):
    """A credential in a record, without its value."""

    kind: str
    """The shape: the fixed beginning of such tokens, or words such as `private key`."""
    is_stored: bool
    """True where the value is in the log, False where a handle is in its place."""


class SecretWatch:
    """Looks for unregistered credentials, in the records of one session."""

    def __init__(self, vault: Vault, treatment: FoundSecrets = "keep", run: str = "0" * 12) -> None:
        """`run` are 12 random hexadecimal digits: the names of found values begin with them."""
        self._vault = vault
        self._treatment = treatment
        self._run = run
        self._numbers = count(1)
        self._values: set[str] = set()
        self._reported: set[SecretFinding] = set()

    def hide(self, record: _Record) -> tuple[_Record, list[SecretFinding]]:
        """A record with handles in place of registered values, and of found ones where they are to
        have handles; and what to report once it is stored."""
        record = self._vault.mask_record(record)
        if self._treatment != "handle" or not (found := find_secrets(record, chars=None)):
            return record, []
        self._register(value for _kind, value in found)
        masked = self._vault.mask_record(record)
        left = {kind for kind, _value in find_secrets(masked, chars=None)}
        return masked, [SecretFinding(kind, kind in left) for kind, _value in found]

    def look(self, record: msgspec.Struct) -> list[SecretFinding]:
        """Return what to report about a record as it is stored."""
        if self._treatment != "warn":
            return []
        return [SecretFinding(kind, True) for kind, _value in find_secrets(record)]

    def take_new(self, findings: Iterable[SecretFinding]) -> list[SecretFinding]:
        """Return the findings whose kind was not reported before, each once."""
        new = [finding for finding in dict.fromkeys(findings) if finding not in self._reported]
        self._reported.update(new)
        return new

    def _register(self, values: Iterable[str]) -> None:
        for value in values:
            is_usable = len(value.strip()) >= FOUND_VALUE_CHARS_MIN and value not in self._values
            if is_usable and len(self._values) < FOUND_VALUES_MAX:
                self._values.add(value)
                try:
                    self._vault.add({name_of_found(self._run, next(self._numbers)): value})
                except BadSetting:
                    continue  # a part of the words that handles are made of: it stays


def find_secrets(
    record: msgspec.Struct, *, chars: int | None = FOUND_SCAN_CHARS
) -> list[tuple[str, str]]:
    """Return what looks like a credential in a record: its kind and its value, each once.

    Only the first `chars` characters are looked at; None for all of them.
    """
    finder = _Finder(chars)
    for name, value in maskable_fields(record):
        if name == "extra":
            value = {key: item for key, item in value.items() if key != MESSAGE_KEY}
        rewritten(value, finder)
    return list(finder.found)


@lru_cache(maxsize=4_096)
def _is_clean(text: str) -> bool:
    """Return whether a short text has no credential: names of fields and types come again."""
    return _REDACTOR.text(text) == text


class _Finder:
    """Walks the strings of a value as masking does, and notes what would be masked."""

    def __init__(self, chars: int | None) -> None:
        self._chars = chars
        self.found: dict[tuple[str, str], None] = {}

    def texts(self, texts: Sequence[str]) -> list[str]:
        pieces = self._within_bounds(texts)
        if len(pieces) == 1 and len(pieces[0]) <= SHORT_TEXT_CHARS and _is_clean(pieces[0]):
            return list(texts)
        text = "".join(pieces)
        for span in _REDACTOR.find(pieces):
            if span.kind:  # not the beginning of a key that was cut
                value = text[span.start : span.end]
                reading = plain_reading(value)
                self.found[span.kind, reading.text if reading else value] = None
        return list(texts)

    def _within_bounds(self, texts: Sequence[str]) -> list[str]:
        if self._chars is None:
            return list(texts)
        pieces = []
        for text in texts:
            pieces.append(text[: self._chars])
            self._chars -= len(pieces[-1])
        return pieces if any(pieces) else []

    def rewrite_field(self, name: str, text: str) -> str:
        kind = field_kind(name, text) if name and self._chars != 0 else ""
        if kind:
            self.found[kind, text] = None
        return text

    def payload(self, text: str) -> str:
        if any(span.start == 0 for span in _REDACTOR.find([text[:PAYLOAD_HEAD_CHARS]])):
            self.texts([text])
        return text

    def number(self, number: float) -> float:
        return number

    def too_deep(self, value: Any) -> Any:
        self.texts([msgspec.json.encode(value).decode()])
        return value
