"""Sizes of parts and units in tokens, cached, and corrected by reported usage.

Counting is the expensive part of a projection, so a `Scale` keeps what it has weighed. It can be
handed from one projection of a session to the next; that changes how long a projection takes and
never what it says.
"""

from __future__ import annotations

import math
from operator import is_
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.extract.names import identifiers
from holdfast.core.log.records import (
    Assistant,
    InjectedContext,
    ToolResult,
    ToolUse,
    User,
    text_of,
    tool_calls,
)
from holdfast.core.models.messages import ToolAnswer, arguments_json
from holdfast.core.narrative.digest import arguments_text, digest_record
from holdfast.core.narrative.pieces import ReadTexts
from holdfast.core.refusals import is_media, pages_of
from holdfast.core.text.cut import scrub
from holdfast.core.tokens.calibration import Calibration, base_for
from holdfast.core.tokens.counting import (
    MESSAGE_TOKENS,
    Estimator,
    count_block,
    count_tool,
)
from holdfast.core.tokens.images import UNKNOWN_RULE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block, Tool
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.tokens.images import ImageRule


class Weight(msgspec.Struct, frozen=True, gc=False):
    """A counted size, before the correction."""

    counted: int
    results: int = 0
    """Tool results in it; the correction charges something for each."""
    files: int = 0
    """Pictures and documents in it: their number and size are limited, too."""
    pages: int = 0
    """Pages of the PDFs in it."""


class Correction(msgspec.Struct, frozen=True, gc=False):
    """A calibration, solved: from counted tokens to the provider's."""

    factor: float
    """Tokens of the provider for each token that was counted."""
    per_result: float
    """Tokens that the provider adds for each tool result."""

    def tokens(self, weight: Weight) -> int:
        return math.ceil(self.factor * weight.counted + self.per_result * weight.results)

    def tokens_of_each(self, weights: Iterable[Weight]) -> list[int]:
        """`tokens` of many."""
        ceil, factor, per_result = math.ceil, self.factor, self.per_result
        return [ceil(factor * item.counted + per_result * item.results) for item in weights]


class Scale:
    """Weighs with one counter and one rule for pictures, and remembers."""

    def __init__(self, counter: Counter | None = None, images: ImageRule = UNKNOWN_RULE) -> None:
        self.counter: Counter = counter or Estimator()
        self.images = images
        # By identity, and the part is kept with its weight: an address is not used again while
        # what lived there is still held.
        self._parts: dict[int, tuple[MessagePart, Weight]] = {}
        self._units: dict[int, tuple[ContextUnit, Weight]] = {}
        self._digests: dict[int, tuple[Record, Digest | None]] = {}
        self._names: dict[int, tuple[Record, frozenset[str]]] = {}
        self.texts = ReadTexts()
        """The texts that a cut tells, as they were read, until it is stored; those that it told as
        they are, until the next one is."""

    def names(self, record: Record) -> frozenset[str]:
        """Return every name in a message or a result, and in the arguments of calls."""
        found = self._names.get(id(record))
        if found is None:
            found = self._names[id(record)] = (record, _names_of(record))
        return found[1]

    def digests(self, records: Iterable[Record]) -> list[Digest]:
        """The digests of records that add to a carry-over."""
        known, none = self._digests.get, ()
        found = ((known(id(rec), none) or (rec, self._digest(rec)))[1] for rec in records)
        return [item for item in found if item is not None]

    def part(self, part: MessagePart) -> Weight:
        found = self._parts.get(id(part))
        if found is not None:
            return found[1]
        weight = self._weigh(part.blocks)
        self._parts[id(part)] = (part, weight)
        return weight

    def block(self, block: Block) -> Weight:
        return self._weigh((block,))

    def unit(self, unit: ContextUnit) -> Weight:
        """All parts, and what the messages they become add."""
        found = self._units.get(id(unit))
        if found is not None:
            return found[1]
        weights = [self.part(part) for part in unit.parts]
        messages = 2 if len(unit.parts) > 1 else 1
        weight = Weight(
            sum(item.counted for item in weights) + messages * MESSAGE_TOKENS,
            sum(item.results for item in weights),
            sum(item.files for item in weights),
            sum(item.pages for item in weights),
        )
        self._units[id(unit)] = (unit, weight)
        return weight

    def weights(self, units: Iterable[ContextUnit]) -> list[Weight]:
        """`unit` of many, most of which were weighed before."""
        get, unknown = self._units.get, (None, None)
        return [get(id(unit), unknown)[1] or self.unit(unit) for unit in units]

    def units(self, units: Iterable[ContextUnit]) -> Weight:
        counted = results = 0
        for unit in units:
            weight = self.unit(unit)
            counted += weight.counted
            results += weight.results
        return Weight(counted, results)

    def text(self, text: str) -> int:
        return self.counter.count(text) + MESSAGE_TOKENS if text else 0

    def tools(self, tools: Sequence[Tool]) -> int:
        return sum(count_tool(tool, self.counter) for tool in tools)

    @property
    def cache_size(self) -> int:
        """Return the number of cached sizes."""
        records = len(self._digests) + len(self._names)
        return len(self._parts) + len(self._units) + records + len(self.texts)

    def keep(self, records: Sequence[Record]) -> None:
        """Let go of what was weighed and is of none of these records."""
        here, ids = set(map(id, records)), {record.id for record in records}
        self._parts = {at: it for at, it in self._parts.items() if it[0].record in ids}
        self._units = {at: it for at, it in self._units.items() if it[0].first in ids}
        self._digests = {at: it for at, it in self._digests.items() if at in here}
        self._names = {at: it for at, it in self._names.items() if at in here}
        self.texts = self.texts.next()

    def base(self, model: str) -> Calibration:
        """Return the starting correction for a model."""
        return Calibration(base=base_for(model, is_exact=self.counter.is_exact))

    def _digest(self, record: Record) -> Digest | None:
        made = digest_record(record)
        self._digests[id(record)] = (record, made)
        return made

    def _weigh(self, blocks: tuple[Block, ...]) -> Weight:
        counted = results = files = pages = 0
        for block in blocks:
            counted += count_block(block, self.counter, self.images)
            inside: Sequence[Block] = (block,)
            if type(block) is ToolAnswer:
                results += 1
                inside = block.content
            for piece in inside:
                if is_media(piece):
                    files += 1
                    pages += pages_of(piece)
        return Weight(counted, results, files, pages)


class WeighedUnits:
    """The weights of the newest units, added up. Where the next ones begin with them, only what
    comes behind is weighed."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._units: list[ContextUnit] = []
        self._sums = [Weight(0)]
        """The weight of the first units, by their number."""

    def first(self, units: list[ContextUnit], end: int) -> Weight:
        """Return `Scale.units` of the first units."""
        known, end = self._units, min(end, len(units))
        if len(known) > end or not all(map(is_, known, units)):
            known, self._sums = [], self._sums[:1]
        for unit in units[len(known) : end]:
            added, before = self._scale.unit(unit), self._sums[-1]
            total = Weight(before.counted + added.counted, before.results + added.results)
            self._sums.append(total)
        self._units = units[:end]
        return self._sums[end]


def bytes_of(unit: ContextUnit) -> int:
    """About how many bytes a unit takes in a request, arguments as the text some dialects want."""
    total = 0
    for part in unit.parts:
        total += len(msgspec.json.encode(part.blocks))
        for block in part.blocks:
            arguments = getattr(block, "arguments", None)
            if arguments:
                total += len(msgspec.json.encode(arguments_json(arguments)))
    return total


def water_level(sizes: Sequence[int], room: int) -> float:
    """The most that each may have so that all of them fit; short ones leave theirs to the rest."""
    left = room
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = left / (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return float(max(sizes, default=0))


def _names_of(record: Record) -> frozenset[str]:
    match record:
        case ToolResult() | User():
            text = text_of(record.content)
        case Assistant():
            calls = tool_calls(record.content)
            texts = [
                text_of(record.content),
                *(arguments_text(call.get("input")) for call in calls),
            ]
            text = "\n".join(texts)
        case InjectedContext():
            text = record.text
        case ToolUse():
            text = arguments_text(record.input)
        case _:  # boundaries, labels and notes hold nothing that is in the context
            return frozenset()
    return frozenset(identifiers(scrub(text)))
