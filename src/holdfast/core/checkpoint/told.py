"""The newest lines of a narrative, kept record by record, for texts that grow with their session.

A checkpoint and a running summary say what happened with the same reader as a cut
(`core.narrative`). A cut has the records at hand; these two go on from what they knew before, so
each line is kept by itself, bounded, and going on gives the lines that reading everything would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.narrative.digest import Kind, digest_record
from holdfast.core.narrative.story import StoryLine, ending_of, lines_of, tell
from holdfast.core.text.cut import cut, ellipsis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.secrets.redaction import Redactor

_CHARS_PER_TOKEN: Final = 4
_WHOLE_TOKENS: Final = 10_000
"""More than a line has."""
_WITHOUT_ROLE: Final = frozenset(("user", "refusal", "call"))


class ToldLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that was said or done."""

    record: str
    """The newest record that says it."""
    kind: Kind
    text: str
    times: int = 1
    call: str = ""
    """The id of a call."""
    outcome: str = ""
    is_failed: bool = False
    is_refused: bool = False


class ToldLines:
    """The newest lines, oldest first."""

    def __init__(
        self,
        lines: Iterable[ToldLine],
        omitted: int,
        most: int,
        chars: int,
        digest: Callable[[Record], Digest | None] = digest_record,
    ) -> None:
        """`digest` is `digest_record`, or what has its results."""
        self._digest = digest
        self._lines = {_key(line): line for line in lines}
        self.omitted = omitted
        """Older lines that are not kept."""
        self._most = most
        self._chars = chars

    @property
    def lines(self) -> tuple[ToldLine, ...]:
        return tuple(self._lines.values())

    def feed(self, record: Record) -> None:
        """Add what a record says, and give its call the outcome that a result has."""
        digest = self._digest(record)
        if digest is None:
            return
        outcome = digest.outcome
        if outcome is not None:
            called = next(
                (x for x in reversed(self._lines.values()) if x.call == outcome.call), None
            )
            if called is not None and outcome.call:
                told = msgspec.structs.replace(
                    called,
                    outcome=self._shorten(outcome.text),
                    is_failed=outcome.is_failed,
                    is_refused=outcome.is_refused,
                )
                del self._lines[_key(called)]
                self._add(told)
        for passage in digest.passages:
            if passage.kind not in ("program", "above"):
                self._add(
                    ToldLine(
                        record.id, passage.kind, self._shorten(passage.text), call=passage.call
                    )
                )

    def _add(self, line: ToldLine) -> None:
        """Add a line at the end. What is said again, or done again with the same outcome, is told
        once; an earlier outcome that differs stays."""
        same = self._lines.pop(_key(line), None)
        times = line.times + (same.times if same is not None else 0)
        self._lines[_key(line)] = msgspec.structs.replace(line, times=times)
        if len(self._lines) > self._most:
            del self._lines[next(iter(self._lines))]
            self.omitted += 1

    def _shorten(self, text: str) -> str:
        return cut(" ".join(text.split()), self._chars, keep="head", marker=ellipsis).text


def _key(line: ToldLine) -> tuple[str, str, str]:
    return line.kind, line.text, ending_of(line)


class CharCounter:
    """Counts a token for every four characters: a text within `n` tokens has `4 n` characters."""

    name = "characters"
    is_exact = False

    def count(self, text: str) -> int:
        return -(-len(text) // _CHARS_PER_TOKEN)


def tell_lines(
    lines: Sequence[ToldLine], chars: int, redactor: Redactor | None = None
) -> tuple[list[str], int]:
    """The lines as a narrative has them, in at most `chars` characters with their line ends, and
    the number of those left out."""
    story = lines_of((), [_story_line(line, redactor) for line in lines])
    if not story or chars <= 0:
        return [], len(lines)
    # The newest stands whole, or as much of it as there is room for.
    whole, _none = tell(story[-1:], _WHOLE_TOKENS, _WHOLE_TOKENS, CharCounter(), root="")
    newest = cut("".join(whole), chars, keep="head", marker=ellipsis).text
    room = max(0, chars - len(newest) - 1) // _CHARS_PER_TOKEN
    told, omitted = tell(story[:-1], room, room, CharCounter(), root="")
    return [*told, newest], omitted


def _story_line(line: ToldLine, redactor: Redactor | None) -> StoryLine:
    text, outcome = line.text, line.outcome
    if redactor is not None:
        text, outcome = redactor.text(text), redactor.text(outcome)
    return StoryLine(
        line.kind,
        text,
        line.record,
        line.call,
        key=text,
        outcome=outcome,
        is_failed=line.is_failed,
        is_refused=line.is_refused,
        role="" if line.kind in _WITHOUT_ROLE else line.kind,
        count=line.times if line.kind == "call" else 1,
    )
