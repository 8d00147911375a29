"""A part of an offloaded output as a reply of the history."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.core.history.capped_json import encode_with_length, first_within, largest
from holdfast.core.history.page import MASKED, NOTICE
from holdfast.engine.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.history.request import HistoryRequest
    from holdfast.engine.outputs import FoundOutput
    from holdfast.ports import BlobStore, SessionStore


class OutputReader:
    """Reads parts of outputs as replies of at most `cap` bytes."""

    def __init__(
        self, store: SessionStore, blobs: BlobStore, redactor: Redactor, cap: int, scope: str
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._redactor = redactor
        self._cap = cap
        self._scope = scope

    def reply(self, key: SessionKey, request: HistoryRequest) -> str:
        """A part of an offloaded payload, as much as fits."""
        redactor = _ComparingRedactor(self._redactor)
        outputs = Outputs(self._store, self._blobs, redactor=cast("Redactor", redactor))
        found = outputs.find(key, request.output_ref)
        part = outputs.read(
            key, request.output_ref, offset=request.offset or None, max_chars=request.chars
        )
        reply = partial(self._as_json, key, found, part, is_redacted=redactor.is_redacted)
        chars = largest(
            len(part.text), lambda count: len(encode_with_length(reply(count))) <= self._cap
        )
        smaller = ({"truncated": True, "messages": []}, {"truncated": True})
        return first_within(
            (encode_with_length(reply(chars)), *map(msgspec.json.encode, smaller)), self._cap
        )

    def _as_json(
        self, key: SessionKey, found: FoundOutput, part: Excerpt, chars: int, *, is_redacted: bool
    ) -> Json:
        is_cut = part.is_cut or chars < len(part.text)
        output: Json = {"path": found.sha256 or found.ref}
        if found.sha256:
            output |= {"sha256": found.sha256, "sha256Verified": True}
        output |= {"bytes": found.bytes, "kind": found.kind, "truncated": is_cut}
        output |= {"text": part.text[:chars], "offset": part.offset}
        # Where nothing fits, the same offset again would lead nowhere.
        output["nextOffset"] = part.offset + chars if is_cut and chars else None
        if part.note and not part.text:
            output["note"] = part.note
        return {
            "sessionKey": self._redactor.text(str(key)),
            "scope": self._scope,
            "notice": f"{NOTICE} {MASKED}" if is_redacted else NOTICE,
            "messages": [],
            "output": output,
            "truncated": is_cut,
            "droppedMessages": False,
            "contentTruncated": is_cut,
            "contentRedacted": is_redacted,
        }


class _ComparingRedactor:
    """A redactor that knows afterwards whether it changed anything."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before, self._after = hashlib.sha256(), hashlib.sha256()

    @property
    def is_redacted(self) -> bool:
        return self._before.digest() != self._after.digest()

    def stream(self, chunks: Iterable[str]) -> Iterator[str]:
        for text in self._redactor.stream(self._note(chunks)):
            self._after.update(text.encode(errors="replace"))
            yield text

    def _note(self, chunks: Iterable[str]) -> Iterator[str]:
        for text in chunks:
            self._before.update(text.encode(errors="replace"))
            yield text
