"""Reading back what was moved out of the log: by ref, in part, with secrets masked.

A ref is looked up in the session's own log, in the places where refs stand and nowhere else; what
it names is opened by its hash alone. So no one can name a path, or what another session holds, or
what a text merely mentions. The payload is verified before a character of it is delivered.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from holdfast.core.limits import (
    ID_CHARS_MAX,
    REF_CHARS,
)
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Content,
    Header,
    InjectedContext,
    OutputRef,
    Record,
    ToolResult,
    ToolUse,
    User,
    encode,
    text_of,
)
from holdfast.core.log.refs import AS_TEXT, refs_of, restore, without_refs
from holdfast.core.log.replay import SILENT_FIELDS
from holdfast.core.outputs.excerpts import Excerpt, excerpt, selection
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.images import HEAD_CHARS_MAX, sniff_size
from holdfast.engine.safe_regex import matcher
from holdfast.errors import AmbiguousName, NoSuchOutput, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.outputs.excerpts import ExcerptOptions, Selection
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import BlobStore, SessionStore

_HASH: Final = lazy_pattern("[0-9a-f]{12,64}")
_RECORD: Final = lazy_pattern(rf"@?[A-Za-z0-9][A-Za-z0-9_.:-]{{0,{ID_CHARS_MAX - 1}}}")
_SPAN: Final = ".."
"""Between the first and the last record of a range; either may be left out."""
_SAID: Final = (User, Assistant, ToolResult, ToolUse)
_READABLE: Final = ("application/json", "application/xml", "image/svg+xml")
"""Media types that are text whatever their name says."""
_HEADER_CHARS: Final = 280
"""The most characters of the first line of the tool's answer."""


class FoundOutput(msgspec.Struct, frozen=True):
    """The target of a ref: a payload outside the log, the text of a record, or of many records."""

    ref: str
    record: str
    kind: str
    bytes: int
    sha256: str | None = None
    text: str = ""
    records: frozenset[str] = frozenset()
    """The records of a range, of the session `key`."""
    key: SessionKey | None = None

    @property
    def is_text(self) -> bool:
        kind = self.kind.partition(";")[0].strip().lower()
        return "/" not in kind or kind.startswith("text/") or kind in _READABLE


class Outputs:
    """Reads what the sessions of a store hold outside their logs, by ref."""

    def __init__(
        self, store: SessionStore, blobs: BlobStore, *, redactor: Redactor | None = None
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._redactor = redactor

    def find(self, key: SessionKey, ref: str) -> FoundOutput:
        """Find the target of a ref in a session. Raises `NoSuchOutput`; opens nothing.

        A ref is the beginning of a hash, the id of a record, or `FIRST..LAST`, the records of a
        range on the way to the head, of which either end may be left out.
        """
        if _SPAN in ref:
            return self._find_range(key, ref)
        is_hash = _HASH.fullmatch(ref) is not None
        if not is_hash and not _RECORD.fullmatch(ref):
            raise NoSuchOutput(ref, key.session, "that is neither a hash nor the id of a record")
        found: dict[str, FoundOutput] = {}
        for record in self._newest_first(key):
            if record.id == ref:
                return _find_in_record(record)
            for held in refs_of(record) if is_hash else ():
                if held.sha256.startswith(ref):
                    found[held.sha256] = _find_by_ref(held, record)
            # Shorter ones could be made to fit two payloads: they have to be the only one.
            if found and len(ref) >= REF_CHARS:
                break
        if len(found) > 1:
            raise AmbiguousName("output", ref, sorted(found))
        if not found:
            raise NoSuchOutput(ref, key.session, "none of its records holds it")
        return next(iter(found.values()))

    def _find_range(self, key: SessionKey, ref: str) -> FoundOutput:
        first, _, last = ref.partition(_SPAN)
        if any(end and not _RECORD.fullmatch(end) for end in (first, last)):
            raise NoSuchOutput(ref, key.session, "that is neither a hash nor the id of a record")
        kept: set[str] = set()
        is_inside, is_ended = not last, not first
        for record in self._store.back(key):
            is_inside = is_inside or record.id == last
            if is_inside and isinstance(record, _SAID):
                kept.add(record.id)
            if is_inside and record.id == first:
                is_ended = True
                break
        if not is_inside or not is_ended:
            missing = cut(first if is_inside else last, 80).text
            why = f"record `{missing}` is not on the way to its newest one"
            raise NoSuchOutput(ref, key.session, why)
        return FoundOutput(ref, last or first, "records", 0, records=frozenset(kept), key=key)

    def read(self, key: SessionKey, ref: str, **part: Unpack[ExcerptOptions]) -> Excerpt:
        """A part of an output."""
        wanted = selection(**part)
        return self._read(self.find(key, ref), wanted)

    def text(self, key: SessionKey, ref: str) -> Iterator[str]:
        """All of an output as text, in pieces, with secrets masked."""
        return self._text(self.find(key, ref))

    def payload(self, key: SessionKey, ref: str) -> Iterator[bytes]:
        """All of an output as it was stored, in pieces, nothing masked: for its owner."""
        return self._payload(self.find(key, ref))

    def answer(self, key: SessionKey, ref: str, **part: Unpack[ExcerptOptions]) -> str:
        """`read` as one text for a model: a line about which part this is, then the part.

        Both together have at most `max_chars`.
        """
        wanted = selection(**part)
        room = wanted.max_chars - min(_HEADER_CHARS, wanted.max_chars // 2)
        found = self._read(self.find(key, ref), msgspec.structs.replace(wanted, max_chars=room))
        header = f"[{found.kind or 'output'}, ref {found.ref}: {found.note}]"
        if not found.text:
            return cut(header, wanted.max_chars, keep="head").text
        return f"{cut(header, wanted.max_chars - len(found.text) - 1).text}\n{found.text}"

    def _read(self, found: FoundOutput, wanted: Selection) -> Excerpt:
        if not found.is_text:
            return self._about(found)
        match = matcher(wanted.pattern) if wanted.pattern else None
        if wanted.counts_from_end:
            wanted = wanted.count_from_start(self._count_lines(found))
        return excerpt(
            self._text(found),
            wanted,
            ref=found.ref,
            kind=found.kind,
            size=found.bytes,
            match=match,
        )

    def _text(self, found: FoundOutput) -> Iterator[str]:
        pieces = _decode_chunks(self._payload(found))
        return pieces if self._redactor is None else self._redactor.stream(pieces)

    def _payload(self, found: FoundOutput) -> Iterator[bytes]:
        if found.key is not None:
            return self._range(found.key, found.records)
        if found.sha256 is None:
            return iter((found.text.encode(),))
        return self._blobs.chunks(found.sha256, size=found.bytes)

    def _range(self, key: SessionKey, ids: frozenset[str]) -> Iterator[bytes]:
        for entry in self._store.read_all(key):
            if entry.record.id in ids:
                yield _label_record(entry.record).encode()

    def _count_lines(self, found: FoundOutput) -> int:
        """As many as there will be to select from: masking leaves line ends alone."""
        ends, last = 0, b"\n"
        for chunk in self._payload(found):
            ends += chunk.count(b"\n")
            last = chunk[-1:] or last
        return ends + (last != b"\n")

    def _about(self, found: FoundOutput) -> Excerpt:
        """Describe an output that is not text."""
        head = b""
        for chunk in self._payload(found):  # to its end: a damaged one is refused
            if len(head) < HEAD_CHARS_MAX:
                head += chunk[: HEAD_CHARS_MAX - len(head)]
        size = sniff_size(msgspec.to_builtins(head))
        pixels = f", {size.width} × {size.height} pixels" if size else ""
        note = (
            f"{found.bytes:,} bytes{pixels}: not text, so nothing is shown here; "
            f"`holdfast output {found.ref} -o FILE` writes it to a file"
        )
        return Excerpt(found.ref, found.kind, "", bytes=found.bytes, note=note)

    def _newest_first(self, key: SessionKey) -> Iterator[Record]:
        """The records of a session: from the head back, then those on abandoned branches."""
        yield from self._store.back(key)
        for entry in self._store.read_all(key):
            if entry.standing == "branch" and not isinstance(entry.record, Header):
                yield entry.record


def payload_of(blobs: BlobStore) -> Callable[[OutputRef], bytes]:
    """Return the function that gives whole payloads by ref, for records that get them back."""
    return lambda ref: b"".join(blobs.chunks(ref.sha256, size=ref.bytes))


def whole(record: Record, blobs: BlobStore) -> Record:
    """A record with everything that was moved out of it, for who has no blobs; what cannot be had
    stays as it is."""
    get = payload_of(blobs)
    record = restore(record, get)
    if isinstance(record, User | ToolResult) and isinstance(record.content, list):
        record = msgspec.structs.replace(record, content=list(map(without_refs, record.content)))
    if not isinstance(record, ToolResult) or record.output_ref is None:
        return record
    try:
        text = get(record.output_ref).decode(errors="replace")
    except StoreError:
        return record
    blocks = record.content[1:] if isinstance(record.content, list) else []
    content = [{"type": "text", "text": text}, *blocks] if blocks else text
    return msgspec.structs.replace(record, content=content, output_ref=None)


def _find_by_ref(held: OutputRef, record: Record) -> FoundOutput:
    kind = "text" if held.kind in ("", AS_TEXT) else held.kind
    return FoundOutput(held.sha256[:REF_CHARS], record.id, kind, held.bytes, held.sha256)


def _find_in_record(record: Record) -> FoundOutput:
    if isinstance(record, ToolResult) and record.output_ref is not None:
        return _find_by_ref(record.output_ref, record)
    text, kind = _record_text(record)
    text = scrub(text)
    return FoundOutput(record.id, record.id, kind, len(text.encode()), text=text)


def _label_record(record: Record) -> str:
    """The text of a record among others, behind a line that names it."""
    text = scrub(_record_text(record)[0])
    refs = "".join(f", ref {held.sha256[:REF_CHARS]}" for held in refs_of(record))
    return f"[record {record.id}, {record.kind}{refs}]\n{text.rstrip()}\n"


def _record_text(record: Record) -> tuple[str, str]:
    """Return the text of a record, and its kind."""
    if (
        set(record.extra) - SILENT_FIELDS
    ):  # fields that this version does not know are what it says, too
        return _indent(encode(record)), "json"
    match record:
        case User(content=content) | Assistant(content=content) | ToolResult(content=content):
            if _is_plain(content):
                return text_of(content), "text"
            return _indent(msgspec.json.encode(content)), "json"
        case Compaction(summary=text) | InjectedContext(text=text):
            return text, "text"
        case _:
            return _indent(encode(record)), "json"  # no text of its own: the whole record


def _is_plain(content: Content) -> bool:
    return not isinstance(content, list) or all(
        block.get("type") == "text" and isinstance(block.get("text"), str) for block in content
    )


def _indent(line: bytes) -> str:
    return msgspec.json.format(line, indent=2).decode()


def _decode_chunks(chunks: Iterable[bytes]) -> Iterator[str]:
    decoder: Any = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)
