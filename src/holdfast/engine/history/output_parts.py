"""A part of an offloaded output as a reply of the history."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from holdfast.core.history.answers import HistoryOutput, HistoryPage
from holdfast.core.history.capped_json import NoRoom, encode, fit, with_length
from holdfast.core.history.page import MASKED, NOTICE
from holdfast.engine.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.outputs import FoundOutput
    from holdfast.ports import SessionStore


class OutputReader:
    """Reads parts of outputs as replies of at most `cap` bytes."""

    def __init__(self, store: SessionStore, redactor: Redactor, cap: int, scope: str) -> None:
        self._store = store
        self._redactor = redactor
        self._cap = cap
        self._scope = scope

    def reply(self, key: SessionKey, ref: str, offset: int, max_chars: int) -> HistoryPage:
        """A part of an offloaded payload, as much as fits."""
        redactor = _ComparingRedactor(self._redactor)
        outputs = Outputs(self._store, self._store.blobs, redactor=cast("Redactor", redactor))
        found = outputs.find(key, ref)
        part = outputs.read(key, ref, offset=offset or None, max_chars=max_chars)
        make = partial(self._page, key, found, part, is_redacted=redactor.is_redacted)
        smaller = (HistoryPage(truncated=True, messages=[]), HistoryPage(truncated=True))
        try:
            return fit(make, len(part.text), self._cap)
        except NoRoom:
            fitting = (page for page in smaller if len(encode(page)) <= self._cap)
            return next(fitting, HistoryPage())

    def _page(
        self, key: SessionKey, found: FoundOutput, part: Excerpt, chars: int, *, is_redacted: bool
    ) -> HistoryPage:
        is_cut = part.is_cut or chars < len(part.text)
        output = HistoryOutput(
            path=found.sha256 or found.ref,
            sha256=found.sha256 or UNSET,
            sha256_verified=True if found.sha256 else UNSET,
            bytes=found.bytes,
            kind=found.kind,
            truncated=is_cut,
            text=part.text[:chars],
            offset=part.offset,
            # Where nothing fits, the same offset again would lead nowhere.
            next_offset=part.offset + chars if is_cut and chars else None,
            note=part.note if part.note and not part.text else UNSET,
        )
        page = HistoryPage(
            session_key=self._redactor.text(str(key)),
            scope=self._scope,
            notice=f"{NOTICE} {MASKED}" if is_redacted else NOTICE,
            messages=[],
            output=output,
            truncated=is_cut,
            dropped_messages=False,
            content_truncated=is_cut,
            content_redacted=is_redacted,
        )
        return with_length(page)


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
