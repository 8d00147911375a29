"""Registered secrets as handles: what is stored is a name, and only a tool gets the value.

`mask_record` puts `<secret:NAME>` in place of every registered value before a record is stored, so
neither the log nor the model sees it; `resolve` puts the value back into the arguments of a call,
for the tools that may have it. Only registered values are masked: a mere shape is a guess, and
a wrong guess in a log would break what was said. `core.secrets.found` registers guesses where the
caller asks for that.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.secrets.encodings import encodings_of, escaped_forms
from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.core.secrets.redaction import check_secret, handle
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.strings import SIGNATURES, Replacement, replace, rewritten
from holdfast.errors import BadSetting, SecretLost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_Value = TypeVar("_Value")
_Record = TypeVar("_Record", bound=msgspec.Struct)

_HANDLE: Final = lazy_pattern(
    re.escape(handle("!")).replace("!", r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
)
_NAME_CHARS: Final = 64
_FOUND: Final = "found-"
_FOUND_NAME: Final = lazy_pattern(_FOUND + r"[0-9a-f]{12}-\d+(?:\.[A-Za-z0-9-]+)?")
_JSON_STRING: Final = lazy_pattern(r'(?s)"(?:[^"\\]|\\.?)*+(?:"|\Z)')
_FIXED: Final = frozenset(
    (
        *("id", "ts", "parent", "more", "format", "version", "agent", "parent_session", "to"),
        *("parent_record", "tool_use_id", "output_ref", "first_kept", "covers", "target", "usage"),
        *("decisions", "provider", "model", "stop_reason"),
    )
)
"""Fields of records that hold ids, hashes, numbers and names of models."""
_FIXED_IN_BLOCKS: Final = ("type", "id", "tool_use_id", "call_id", "output_ref", "output_refs")
_SIGNED: Final = SIGNATURES | {"encrypted_content"}
_STRONG_CHARS: Final = 8
"""A value of this length is not in a picture or a signature by chance."""


class Secret(msgspec.Struct, frozen=True):
    """A value that is never stored or shown; `tools` are those that may have it, none means all."""

    value: str
    """The secret itself."""
    tools: tuple[str, ...] = ()
    """The tools that get the value; none means all."""

    def __repr__(self) -> str:
        return f"Secret({len(self.value)} characters, tools={self.tools!r})"


def name_of_found(run: str, number: int) -> str:
    """The name of an unregistered value: `run` are 12 random hexadecimal digits, so that
    another run never has a value for the handle."""
    return f"{_FOUND}{run}-{number}"


def maskable_fields(record: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record that may hold a secret, each with its value."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name not in _FIXED and value is not None and (name != "extra" or value):
            yield name, value


class Vault:
    """The secrets of an application, by name. Safe for threads."""

    def __init__(self, secrets: Mapping[str, str | Secret]) -> None:
        self._secrets: dict[str, Secret] = {}
        self._sealer = _Sealer({})
        self.add(secrets)

    def add(self, secrets: Mapping[str, str | Secret]) -> None:
        """Register more secrets: from now on they are masked, and resolved for tools."""
        new = {
            name: Secret(given) if isinstance(given, str) else given
            for name, given in secrets.items()
        }
        for name, secret in new.items():
            check_secret(name, secret.value)
        everything = {**self._secrets, **new}
        taken = {name for name in new if self._secrets.get(name, new[name]) != new[name]}
        if taken:
            raise BadSetting(
                f"the secret `{min(taken)}` is registered with another value",
                hint="give it another name: stored handles mean the first one",
            )
        for name in everything:
            values = everything if name in new else new
            if any(everything[other].value in handle(name) for other in values):
                raise BadSetting(
                    f"the handle of the secret `{name}` would hold the value of a secret",
                    hint="give it another name",
                )
        self._secrets.update(new)

    def __repr__(self) -> str:
        return f"Vault({', '.join(sorted(self._secrets))})"

    def __bool__(self) -> bool:
        return bool(self._secrets)

    @property
    def redactor_secrets(self) -> dict[str, str]:
        """Name → value, for a redactor."""
        return {name: secret.value for name, secret in self._secrets.items()}

    def mask_record(self, record: _Record) -> _Record:
        """A record with handles in place of values; the same object where there are none.

        Ids, hashes and signatures stay. Thinking that held a value loses its signature, because
        no provider would take it back changed.
        """
        changes = {}
        for name, value in maskable_fields(record):
            new = self.mask_value(value)
            if name == "content" and isinstance(new, list):
                new = [_restore_ids(block, old) for block, old in zip(new, value, strict=True)]
            if new != value:
                changes[name] = new
        return msgspec.structs.replace(record, **changes) if changes else record

    def mask_value(self, value: _Value) -> _Value:
        """A text or a JSON-like value with handles in place of values."""
        if not self._secrets:
            return value
        if self._sealer.count != len(self._secrets):
            self._sealer = _Sealer(dict(self._secrets))
        sealed: _Value = rewritten(value, self._sealer)
        return sealed

    def resolve(self, value: _Value, tool: str) -> _Value:
        """The arguments of a call with values in place of handles, where that tool may have them.

        A handle that is not registered, or is for other tools, stays as it is. Raises
        `SecretLost` for the handle of a value that was found in another run (`found_secrets`).
        """
        known = dict(self._secrets)
        may = {
            name: secret.value
            for name, secret in known.items()
            if not secret.tools or tool in secret.tools
        }
        opened: _Value = rewritten(value, _Opener(may, frozenset(known)))
        return opened


class _Sealer:
    """Replaces the secrets in the strings of a record by handles."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self.count = len(secrets)
        self._forms = {form: name for name, form in _handles_of_encodings(secrets).items()}
        self._forms |= {
            form: name
            for name, secret in sorted(secrets.items(), reverse=True)
            for form in (*escaped_forms(secret.value), secret.value)
        }
        longest_first = sorted(self._forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def texts(self, texts: Sequence[str]) -> list[str]:
        pieces = replace(texts, self._find_values("".join(texts)), keeps_lines=False)
        if len(pieces) > 1:  # what joining them has hidden in what another value begins with
            pieces = [
                replace([piece], self._find_values(piece), keeps_lines=False)[0] for piece in pieces
            ]
        return pieces

    def rewrite_field(self, _name: str, text: str) -> str:
        return text

    def payload(self, text: str) -> str:
        is_known = any(len(form) >= _STRONG_CHARS and form in text for form in self._forms)
        return self.texts([text])[0] if is_known else text

    def number(self, number: float) -> float:
        return number

    def too_deep(self, value: Any) -> Any:
        text = msgspec.json.encode(value).decode()
        [sealed] = self.texts([text])
        return value if sealed is text else msgspec.json.decode(sealed)

    def _find_values(self, text: str) -> list[Replacement]:
        """No two overlap, or they could not be put back."""
        found = self._find_as_written(text)
        reading = plain_reading(text)
        if reading is None:
            return found
        for start, end, words in self._find_as_written(reading.text):
            found.append(Replacement(*reading.span(start, end), words))
        kept: list[Replacement] = []
        for item in sorted(found):
            if not kept or kept[-1].end <= item.start:
                kept.append(item)
        return kept

    def _find_as_written(self, text: str) -> list[Replacement]:
        if not any(form in text for form in self._forms):
            return []
        return [
            Replacement(*match.span(), handle(self._forms[match[0]]))
            for match in self._pattern.finditer(text)
        ]


def _handles_of_encodings(secrets: Mapping[str, Secret]) -> dict[str, str]:
    """Return the encoded forms of values by names of their own, such as `KEY.hex`."""
    return {
        made: form
        for name, secret in sorted(secrets.items(), reverse=True)
        for kind, form in encodings_of(secret.value).items()
        if len(made := f"{name}.{kind}") <= _NAME_CHARS and made not in secrets
    }


class _Opener:
    """Resolves the handles in the strings of a call's arguments."""

    def __init__(self, values: Mapping[str, str], known: frozenset[str]) -> None:
        self._values = values
        self._known = known

    def texts(self, texts: Sequence[str]) -> list[str]:
        return [self._text(text) for text in texts]

    def rewrite_field(self, _name: str, text: str) -> str:
        return text

    def payload(self, text: str) -> str:
        return text

    def number(self, number: float) -> float:
        return number

    def too_deep(self, value: Any) -> Any:
        return value

    def _text(self, text: str) -> str:
        names = _HANDLE.findall(text)
        for name in names:
            is_known = name in self._known or name.rpartition(".")[0] in self._known
            if not is_known and _FOUND_NAME.fullmatch(name):
                raise SecretLost(handle(name))
        if all(self._value(name) is None for name in names):
            return text
        if _is_json(text):  # string by string, so that it is JSON afterwards, formatted as before
            return _JSON_STRING.sub(self._json_string, text)
        return _HANDLE.sub(lambda match: self._value(match[1]) or match[0], text)

    def _value(self, name: str) -> str | None:
        """Return a value, or the encoded form that the ending of a name stands for."""
        if name in self._values:
            return self._values[name]
        base, _, kind = name.rpartition(".")
        return encodings_of(self._values[base]).get(kind) if base in self._values else None

    def _json_string(self, match: re.Match[str]) -> str:
        if not _HANDLE.search(match[0]):
            return match[0]
        return json.dumps(self._text(json.loads(match[0])), ensure_ascii=False)


def _is_json(text: str) -> bool:
    """Return whether a text is an object or a list in JSON, where a value must be escaped."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _restore_ids(block: Any, before: Any) -> Any:
    """A sealed block with its ids as they were, and without a signature that no longer fits."""
    if block is before or not isinstance(block, dict):
        return block
    fixed = {name: before[name] for name in _FIXED_IN_BLOCKS if name in before}
    restored = {**block, **fixed}
    if restored == before:
        return before
    if before.get("type") in ("thinking", "reasoning"):
        return {name: item for name, item in restored.items() if name not in _SIGNED}
    return restored
