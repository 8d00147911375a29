"""Registered secrets as handles: what is stored is a name, and only a tool gets the value.

`sealed` puts `<secret:NAME>` in place of every registered value before a record is stored, so
neither the log nor the model sees it; `opened` puts the value back into the arguments of a call,
for the tools that may have it. Only registered values are sealed: a mere shape is a guess, and a
wrong guess in a log would break what was said.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.secrets.encodings import escaped_forms
from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.core.secrets.redaction import check_secret, handle
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.spans import Replacement, replace
from holdfast.core.text.strings import SIGNATURES, rewritten
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Value = TypeVar("_Value")
_Record = TypeVar("_Record", bound=msgspec.Struct)

_HANDLE: Final = lazy_pattern(
    re.escape(handle("!")).replace("!", r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
)
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
    tools: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Secret({len(self.value)} characters, tools={self.tools!r})"


class Vault:
    """The secrets of an application, by name."""

    def __init__(self, secrets: Mapping[str, str | Secret]) -> None:
        self._secrets = {
            name: Secret(one) if isinstance(one, str) else one for name, one in secrets.items()
        }
        for name, secret in self._secrets.items():
            check_secret(name, secret.value)
            if any(other.value in handle(name) for other in self._secrets.values()):
                raise BadSetting(
                    f"the handle of the secret `{name}` would hold the value of a secret",
                    hint="give it another name",
                )
        self._sealer = _Sealer(
            {
                form: name
                for name, secret in sorted(self._secrets.items(), reverse=True)
                for form in (*escaped_forms(secret.value), secret.value)
            }
        )

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
        for field in msgspec.structs.fields(record):
            value = getattr(record, field.name)
            if field.name in _FIXED or value is None or (field.name == "extra" and not value):
                continue
            new = self.mask_value(value)
            if field.name == "content" and isinstance(new, list):
                new = [_restore_ids(one, old) for one, old in zip(new, value, strict=True)]
            if new != value:
                changes[field.name] = new
        return msgspec.structs.replace(record, **changes) if changes else record

    def mask_value(self, value: _Value) -> _Value:
        """A text or a JSON-like value with handles in place of values."""
        sealed: _Value = rewritten(value, self._sealer) if self._secrets else value
        return sealed

    def resolve(self, value: _Value, tool: str) -> _Value:
        """The arguments of a call with values in place of handles, where that tool may have them.

        A handle that nobody registered, or that is for other tools, stays as it is.
        """
        may = {
            name: secret.value
            for name, secret in self._secrets.items()
            if not secret.tools or tool in secret.tools
        }
        opened: _Value = rewritten(value, _Opener(may)) if may else value
        return opened


class _Sealer:
    """Replaces the secrets in the strings of a record by handles."""

    def __init__(self, forms: Mapping[str, str]) -> None:
        self._forms = forms
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
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


class _Opener:
    """Resolves the handles in the strings of a call's arguments."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

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
        if not any(name in self._values for name in _HANDLE.findall(text)):
            return text
        if _is_json(text):  # string by string, so that it is JSON afterwards, formatted as before
            return _JSON_STRING.sub(self._json_string, text)
        return _HANDLE.sub(lambda match: self._values.get(match[1], match[0]), text)

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
