"""A story, line by line in order of time, within a number of tokens.

Each line says who speaks. A call and what came of it are one line. Where there is too little room,
lines give way in fair shares: the longest and the oldest first, what a call was given before what
was said, the agent's words before the user's. Nothing is told twice, and of what was done again
the newest outcome stands.
"""

from __future__ import annotations

from collections import Counter as Counted
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from holdfast.core.extract.fair_share import fair_share
from holdfast.core.narrative.calls import LINE_CHARS
from holdfast.core.narrative.pieces import ReadTexts, Worth, rank_spans, shorten
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.narrative.digest import CallOutcome, Digest, Kind, Passage
    from holdfast.core.narrative.pieces import Ranked, ReadText
    from holdfast.core.tokens.counting import Counter

MARKS: Final[dict[Kind, str]] = {
    "user": "User: ",
    "below": "User, whole below: ",
    "above": "Summary, told above: ",
    "refusal": "User, refusing the call: ",
    "text": "Agent: ",
    "thought": "Thought: ",
    "kept thought": "Thought, in a step below: ",
    "call": "• ",
    "written": "Written: ",
    "report": "Result: ",
    "program": "Program: ",
}
_BARE_MARKS: Final = {kind: mark.rstrip() for kind, mark in MARKS.items()}
"""A space before a word is a part of it in most vocabularies."""
_KINDS: Final = {mark: kind for kind, mark in MARKS.items()}
ARROW: Final = " → "
FAILED: Final = "failed: "
_FAILED_ONCE: Final = "failed at first: "
_REFUSAL: Final = f"{ARROW}refused by the user"
_UNSAFE_LINE: Final = lazy_pattern(
    r"(?m)^(?=(?:User(?:, [a-z ]+)?|Summary, told above|Agent|Thought(?:, [a-z ]+)?|Written|Result"
    r"|Program): |• |#{1,6} )"
)

_VARYING: Final = lazy_pattern(r"[\d/\\_.]")
_TIME: Final = lazy_pattern(r"(?<!\d)\d(?:\d*+(?:\.\d++)? ?[mµn]?s\b|\d:\d\d(?::\d\d)?)")
"""Durations and times of day: they differ between two runs with the same outcome. The digit stands
before what may follow it, so that a search stops at digits alone."""
_EDGE_LINES: Final = 3
"""Lines at the ends of a result that a program may repeat in every one."""

_USER_SHARE: Final = 0.6
"""Of the room, what the user's words take at most where there is more to tell."""
_SMALL_TOKENS: Final = 3_000
_SMALL_SHARE: Final = 0.9
"""The same where there is less room than that for all of the story."""
_CALLS_SHARE: Final = 0.1
"""Of the room, what lines of calls may take before anything that was said gives way."""
_SHORT_CALLS_SHARE: Final = 0.25
"""The same where one short line for each call fits in it: a part of the calls tells less than
words do, all of them tell more."""
_USER_TOKENS_MIN: Final = 48
"""Less of a message says nothing."""
_PIECE_TOKENS: Final = 6
"""Of a message, for its mark and what stands for the rest of it."""
_CALL_CHARS_MIN: Final = 60
_CALL_CHARS: Final = 300
"""Of a call, for what its words say."""
_CHARS_MIN: Final = 24
"""A text of which less is left is left out."""
_SAMPLE_CHARS: Final = 1_000
"""Of a text, to estimate its tokens."""
_MARK_TOKENS: Final = 3
"""Of the words before a line, and its end."""
_LONG_CHARS: Final = 240
"""A longer result is told only where there is room for half of this."""
_WEIGHTS: Final[dict[str, float]] = {
    "text": 1.0,
    "answer": 2.0,
    "thought": 0.5,
    "kept thought": 1.0,
    "written": 0.4,
    "report": 0.4,
    "task": 1.5,
    "current": 4.0,
    "program": 0.1,
    "below": 1.0,
    "above": 1.0,
    "aside": 0.3,
    "call": 0.05,
    "new call": 0.3,
    "failed": 0.7,
    "once": 0.35,
    "short": 0.25,
    "long": 0.03,
}
"""Characters that a text may keep for each that a plain text of the agent may keep. `answer` is
the last word of the agent before the user speaks, `task` a result that tells what the user asked
about, `current` the newest of these, `aside` a short line before a call, `call` the end of a call
that is longer than its line, `new call` the addition for the newest. `failed`, `once` (a failure
that a later call did not repeat), `short` and `long` are outcomes."""
_NEW_CALLS: Final = 10
"""After this many calls, that addition is half: the newest edits are the state of the work."""
_NEAR_BEFORE: Final = 2
_NEAR_AFTER: Final = 3
"""Lines around a short one that may say the same."""
_NEWS_MIN: Final = 1.2
"""A short line with fewer rare words of its own announces what stands beside it and goes first."""
_USED_MIN: Final = 3.0
"""Of the rarest words, so many has the agent to take up of a result before that is told."""
_NO_NEWS: Final = 0.01
_AGE: Final = 0.5
"""The share of that which the oldest text keeps."""
_TRIES: Final = 8
_FOLDED_LINES: Final = 1_000
"""Of a very long story, the lines that are told at once."""
_FOLDED_TOKENS: Final = 20
"""In a large room they are more: one for so many of its tokens."""
_OFTEN: Final = 3
"""A line that stands in so many results is the program's and tells nothing."""


class Ended(Protocol):
    """A call with its outcome."""

    @property
    def outcome(self) -> str:
        """Return the words of its result."""

    @property
    def is_failed(self) -> bool:
        """Return whether it failed."""

    @property
    def is_refused(self) -> bool:
        """Return whether a person refused it."""


class StoryLine(msgspec.Struct):
    """A line of the story before it is shortened."""

    kind: Kind
    text: str
    record: str = ""
    call: str = ""
    key: str = ""
    outcome: str = ""
    is_failed: bool = False
    is_refused: bool = False
    count: int = 1
    """Calls that it tells."""
    role: str = ""
    """Its entry in the table of weights."""


def lines_of(digests: Iterable[Digest], earlier: Sequence[StoryLine] = ()) -> list[StoryLine]:
    """The lines of all that was said and done, after those that an earlier narrative has."""
    lines: list[StoryLine] = list(earlier)
    open_calls: dict[str, StoryLine] = {}
    outcomes: list[tuple[StoryLine, CallOutcome]] = []
    asked = ""
    for digest in digests:
        for passage in digest.passages:
            line = _line(passage, digest.record)
            if passage.kind == "call":
                open_calls[passage.call] = line
            elif passage.kind == "user":
                asked = passage.text.casefold()
            lines.append(line)
        outcome = digest.outcome
        if outcome is None:
            continue
        call = open_calls.pop(outcome.call, None)
        if outcome.is_prose:
            is_task = call is not None and _is_about(call.text, asked)
            lines.append(
                StoryLine(
                    "report", outcome.text, digest.record, role="task" if is_task else "report"
                )
            )
        if call is not None:
            call.is_failed, call.is_refused = outcome.is_failed, outcome.is_refused
            outcomes.append((call, outcome))
    _tell_outcomes(outcomes)
    current = next((line for line in reversed(lines) if line.role == "task"), None)
    if current is not None:
        current.role = "current"
    return _without_repeats(_with_answers(lines))


def find_kept_thoughts(digests: Iterable[Digest]) -> list[StoryLine]:
    """Return the thinking of steps that stay without it, as the last lines of a story."""
    return [
        StoryLine("kept thought", passage.text, digest.record, role="kept thought")
        for digest in digests
        for passage in digest.passages
        if passage.kind == "thought" and not passage.is_aside
    ]


def _line(passage: Passage, record: str) -> StoryLine:
    key = passage.text
    if passage.kind == "call":
        # A list of tasks replaces the one before, whatever stands in it.
        key = passage.key.partition(" ")[0] if passage.is_list else passage.key
    role = "aside" if passage.is_aside else "list" if passage.is_list else _role(passage.kind)
    return StoryLine(passage.kind, passage.text, record, passage.call, key, role=role)


def _role(kind: Kind) -> str:
    """Return the entry of a kind in the table of weights; the user's words and calls have none."""
    return kind if kind in _WEIGHTS else ""


def _is_about(call: str, asked: str) -> bool:
    """Return whether a call is given something that the user named."""
    return any(len(word) >= 4 and word in asked for word in call.casefold().split()[1:40])


def _tell_outcomes(outcomes: Sequence[tuple[StoryLine, CallOutcome]]) -> None:
    """Give each call what its result says, without the lines that many results have."""
    texts = [
        [] if item.is_prose else [line for line in item.text.splitlines() if line.strip()]
        for _line, item in outcomes
    ]
    shapes = [[_shape(line) for line in _edges(lines)] for lines in texts]
    counts = Counted(shape for found in shapes for shape in set(found) if set(shape) - {"#", " "})
    for (line, _item), lines, found in zip(outcomes, texts, shapes, strict=True):
        edges = dict(zip(_edges(lines), found, strict=True))
        kept = (text for text in lines if counts[edges.get(text, "")] < _OFTEN)
        line.outcome = "\n".join(" ".join(text.split()) for text in kept)


def _edges(lines: Sequence[str]) -> list[str]:
    """The first and the last lines of a result, where programs put what they always say."""
    return (
        list(lines)
        if len(lines) <= 2 * _EDGE_LINES
        else [*lines[:_EDGE_LINES], *lines[-_EDGE_LINES:]]
    )


def _shape(line: str) -> str:
    """A line without what differs from call to call: paths, names and numbers."""
    return " ".join("#" if _VARYING.search(word) else word for word in line[:400].split())


def _with_answers(lines: list[StoryLine]) -> list[StoryLine]:
    """Mark the agent's last words before each message of the user."""
    last: StoryLine | None = None
    for line in lines:
        if line.kind == "text":
            last = line
        elif line.kind == "user" and last is not None:
            last.role, last = "answer", None
    if last is not None:
        last.role = "answer"
    return lines


def _without_repeats(lines: list[StoryLine]) -> list[StoryLine]:
    """Tell once what was done with the same outcome, or said, several times, at its last place. Of
    a list that is written whole the newest stands; a failure that a later call did not repeat is
    marked."""
    newest: dict[tuple[str, ...], StoryLine] = {}
    times = Counted(line.key for line in lines)
    passed: set[str] = set()
    kept: list[StoryLine] = []
    for line in reversed(lines):
        is_call = line.kind == "call"
        is_again = bool(line.key) and times[line.key] > 1
        later = newest.setdefault(_key_of(line), line) if is_again else line
        if is_call and line.is_failed and line.key in passed:
            line.role = "once"
        elif is_call and not (line.is_failed or line.is_refused):
            passed.add(line.key)
        if later is line or (line.kind == "user" and len(line.text) <= _CHARS_MIN):
            kept.append(line)
        elif is_call:
            later.count += line.count
    return kept[::-1]


def _key_of(line: StoryLine) -> tuple[str, ...]:
    """Return what two lines share where one repeats the other: a call and its outcome, but for how
    long it took and when."""
    if line.kind != "call" or line.role == "list":
        return line.kind, line.key
    return line.kind, line.key, ending_of(line)


def ending_of(call: Ended) -> str:
    """Return what two runs of a call share where they ended alike: but for how long it took and
    when."""
    ending = "refused" if call.is_refused else "failed" if call.is_failed else ""
    return f"{ending} {_TIME.sub('', call.outcome)}" if call.outcome else ending


# Within the room


class _Room(msgspec.Struct):
    """A text that may be shortened: where it is, its size, and its weight."""

    line: int
    part: Literal["text", "call", "outcome"]
    """The part of a line: words, the end of a call that is too long for its line, or an outcome."""
    chars: int
    per_char: float
    weight: float
    least: int
    """The characters below which it tells nothing."""
    order: Sequence[Ranked] | None = None
    """Its sentences, the most telling first, once it had to be shortened."""


def tell(
    lines: Sequence[StoryLine],
    room: int,
    rest: int,
    counter: Counter,
    root: str,
    texts: ReadTexts | None = None,
) -> tuple[list[str], int]:
    """The lines as they are told within `room` tokens, and the number of those left out; `rest` is
    what all but the user's may take. `texts` are those that were read before."""
    texts = ReadTexts() if texts is None else texts
    lines, folded = _fold([_below(line, root) for line in lines], room, rest, counter, texts)
    told = _tell_all(lines, room, rest, counter, texts)
    omitted = sum(line.count for line in lines) - sum(lines[at].count for at in told)
    texts.told = {_readable(lines[at].kind, text) for at, text in told.items()}
    return [_mark(lines[at], told[at]) for at in sorted(told)], omitted + folded


def _tell_all(
    lines: list[StoryLine], room: int, rest: int, counter: Counter, texts: ReadTexts
) -> dict[int, str]:
    """Return the words of each line, without its mark."""
    users = {at: line for at, line in enumerate(lines) if line.kind in ("user", "refusal")}
    others = [at for at in range(len(lines)) if at not in users]
    sizes = {at: _size(line, line.text, counter) for at, line in users.items()}
    tokens = {at: _estimate(lines[at].text, counter) for at in others}
    outcomes = {at: _estimate(text, counter) for at in others if (text := _outcome(lines[at]))}
    wanted = sum(tokens.values()) + sum(outcomes.values()) + _MARK_TOKENS * len(others)
    spare = max(0, room - min(wanted, rest))
    share = _USER_SHARE if room >= _SMALL_TOKENS else _SMALL_SHARE
    words = [texts[_text_of(line)].words for line in lines]
    results = {at: texts[lines[at].outcome].words for at in outcomes}
    worth = Worth([said | results[at] if at in results else said for at, said in enumerate(words)])
    for at in results:
        if len(lines[at].outcome) > _LONG_CHARS and (
            used := _find_used(lines, at, words, worth, texts)
        ):
            lines[at] = msgspec.structs.replace(lines[at], outcome=used)
            outcomes[at] = _estimate(used, counter)
    said = _tell_users(users, sizes, max(int(room * share), spare), counter, worth, texts)
    left = min(rest, room - _size_of_all(lines, said, counter))
    return {**said, **_tell_others(lines, tokens, outcomes, left, counter, words, worth, texts)}


def _fold(
    lines: list[StoryLine], room: int, rest: int, counter: Counter, texts: ReadTexts
) -> tuple[list[StoryLine], int]:
    """Tell the oldest lines of a very long story first, some at a time, and go on from what is told
    of them, as cuts on the way would have: what is read at once has a bound. Returns the lines,
    and the number of those left out."""
    older: list[StoryLine] = []
    omitted = start = 0
    step = max(_FOLDED_LINES, room // _FOLDED_TOKENS)
    while len(lines) - start > 2 * step:
        both = [*older, *lines[start : start + step]]
        key = (room, rest, *map(msgspec.structs.astuple, both))
        if key not in texts.folded:
            told = _tell_all(both, room, rest, counter, ReadTexts())
            texts.folded[key] = (
                [_as_told(both[at], told[at]) for at in sorted(told)],
                sum(line.count for line in both) - sum(both[at].count for at in told),
            )
        older, left_out = texts.folded[key]
        omitted += left_out
        start += step
    return [*older, *lines[start:]], omitted


def _as_told(line: StoryLine, text: str) -> StoryLine:
    """A line as it was told, to be told again; a call has its outcome in its text."""
    if line.kind != "call":
        return msgspec.structs.replace(line, text=text)
    text = text.removesuffix(_REFUSAL) if line.is_refused else text
    return msgspec.structs.replace(line, text=text, outcome="", is_failed=False, count=1)


def _tell_users(
    users: dict[int, StoryLine],
    sizes: dict[int, int],
    room: int,
    counter: Counter,
    worth: Worth,
    texts: ReadTexts,
) -> dict[int, str]:
    """The user's messages: whole where they fit, else the longest shortened first, to the sentences
    that tell most."""
    if sum(sizes.values()) <= room:
        return {at: line.text for at, line in users.items()}
    said = {at: texts[line.text] for at, line in users.items()}
    times = Counted(sentence.text for text in said.values() for sentence in text.sentences)
    orders = {at: rank_spans(text, at, worth, times) for at, text in said.items()}
    least = _that_fit(users, sizes, room, orders)
    # Beyond the least of each, which it has in any case.
    share = fair_share([sizes[at] - size for at, size in least.items()], room - sum(least.values()))
    told = {}
    for at in least:
        line = users[at]
        chars = len(line.text)
        text = line.text
        size, most = sizes[at], least[at] + share
        while size > most and chars > 0:
            chars = min(chars * 9 // 10, chars * most // size)
            text = shorten(line.text, chars, orders[at])
            size = _size(line, text, counter)
        if chars > 0:
            told[at] = text
    return told


def _that_fit(
    users: dict[int, StoryLine], sizes: dict[int, int], room: int, orders: dict[int, list[Ranked]]
) -> dict[int, int]:
    """The messages of which each still gets enough room for its most telling sentence, with that
    room. Where there are too many, those go that say least, and the first goes last."""
    need: dict[int, int] = {}
    value: dict[int, float] = {}
    for at, line in users.items():
        density, (start, end) = orders[at][0]
        value[at] = density
        best = int(sizes[at] * (end - start) / max(1, len(line.text))) + _PIECE_TOKENS
        need[at] = min(sizes[at], best, _USER_TOKENS_MIN)
    total = sum(need.values())
    for at in (*sorted(list(users)[1:], key=lambda at: -value[at]), *list(users)[:1]):
        if total <= room:
            break
        total -= need.pop(at)
    return need


def _estimate(text: str, counter: Counter) -> int:
    """The tokens of a text; of a long one, as many as its beginning has for each character. What
    is written in the end is counted."""
    start = counter.count(text[:_SAMPLE_CHARS])
    return max(1, start * len(text) // _SAMPLE_CHARS if len(text) > _SAMPLE_CHARS else start)


def _tell_others(
    lines: Sequence[StoryLine],
    tokens: dict[int, int],
    outcomes: dict[int, int],
    room: int,
    counter: Counter,
    said: Sequence[set[str]],
    worth: Worth,
    texts: ReadTexts,
) -> dict[int, str]:
    if room <= 0 or not tokens:
        return {}
    calls = [at for at in tokens if lines[at].kind == "call"]
    words = [at for at in tokens if lines[at].kind != "call"]
    last = max(1, len(lines) - 1)
    rooms = []
    for at in words:
        line = lines[at]
        weight = _WEIGHTS[line.role]
        if line.role == "aside":
            weight *= _share_of_news(said, at, worth)
        room_of = _room_of(at, line.text, tokens[at], weight, at / last)
        # A part of what a program said tells nothing.
        rooms.append(
            msgspec.structs.replace(room_of, least=room_of.chars)
            if line.kind == "program"
            else room_of
        )
    for at in calls:
        if outcome := _outcome(lines[at]):
            weight = _WEIGHTS[_outcome_role(lines[at])]
            rooms.append(_room_of(at, outcome, outcomes[at], weight, at / last, part="outcome"))
    cap, calls = _call_chars(lines, calls, tokens, room)
    kept = set(calls)
    rooms = [item for item in rooms if item.part != "outcome" or item.line in kept]
    for age, at in enumerate(reversed(calls)):
        line = lines[at]
        if len(line.text) > cap:
            weight = _WEIGHTS["call"] + _WEIGHTS["new call"] * 0.5 ** (age / _NEW_CALLS)
            ends = _room_of(at, line.text, tokens[at], weight, at / last, part="call")
            rooms.append(msgspec.structs.replace(ends, chars=ends.chars - cap))
    aim, told = room, {}
    for _again in range(_TRIES):
        taken = sum(_call_tokens(len(lines[at].text), tokens[at], cap) for at in calls)
        level = _level(rooms, aim - taken)
        told = _write(lines, calls, rooms, cap, level, worth, texts)
        size = _size_of_all(lines, told, counter)
        if size > room:  # counts of pieces are not quite those of the whole
            aim = min(aim - 1, int(aim * room / size * 0.98))
        else:
            return told
    return _newest(lines, told, room, counter)


def _text_of(line: StoryLine) -> str:
    """Return the text of a line; of a call the start, without the name of its tool, which says
    nothing."""
    return _readable(line.kind, line.text)


def _readable(kind: Kind, text: str) -> str:
    return text if kind != "call" else text[:_CALL_CHARS].partition(" ")[2]


def _share_of_news(said: Sequence[set[str]], at: int, worth: Worth) -> float:
    """The share of its weight that a short line keeps: of one that mostly says what its neighbours
    say, as an announced call, next to nothing."""
    near = [*said[max(0, at - _NEAR_BEFORE) : at], *said[at + 1 : at + 1 + _NEAR_AFTER]]
    news = said[at].difference(*near)
    return 1.0 if worth.count_rare(news) >= _NEWS_MIN else _NO_NEWS


def _find_used(
    lines: Sequence[StoryLine],
    at: int,
    words: Sequence[set[str]],
    worth: Worth,
    texts: ReadTexts,
) -> str:
    """Return the lines of a long result that the agent took up at once: what comes next has their
    rare words, and the call has not."""
    result = texts[lines[at].outcome]
    later = result.words.intersection(chain.from_iterable(words[at + 1 : at + 1 + _NEAR_AFTER]))
    later -= texts[lines[at].text].words
    least = _USED_MIN * worth.rarest
    if worth.of(later, at) < least:
        return ""
    ranked: list[Ranked] = []
    for (start, end), _text, news, known in result.sentences:
        value = worth.of((news | known) & later, at)
        if value >= least:
            ranked.append((-value / (end - start), (start, end)))
    return shorten(result.text, _LONG_CHARS, sorted(ranked)) if ranked else ""


def _newest(
    lines: Sequence[StoryLine], told: dict[int, str], room: int, counter: Counter
) -> dict[int, str]:
    """As many of the newest lines as fit."""
    kept = {}
    for at in sorted(told, reverse=True):
        room -= _size(lines[at], told[at], counter)
        if room < 0:
            break
        kept[at] = told[at]
    return kept


def _outcome_role(line: StoryLine) -> str:
    if line.is_failed:
        return "once" if line.role == "once" else "failed"
    return "short" if len(line.outcome) <= _LONG_CHARS else "long"


def _room_of(
    at: int,
    text: str,
    tokens: int,
    weight: float,
    age: float,
    *,
    part: Literal["text", "call", "outcome"] = "text",
) -> _Room:
    weight *= _AGE + (1 - _AGE) * age
    chars = max(1, len(text))
    is_long = part == "outcome" and chars > _LONG_CHARS
    least = min(chars, _LONG_CHARS // 2 if is_long else _CHARS_MIN)
    return _Room(at, part, chars, tokens / chars, weight, least)


def _call_chars(
    lines: Sequence[StoryLine], calls: list[int], tokens: dict[int, int], room: int
) -> tuple[int, list[int]]:
    """The characters that each call has before words give way, and the calls that can be told: all
    of them where one short line for each fits, else those that the user refused and the newest."""
    share = int(room * _CALLS_SHARE)

    sizes = [(len(lines[at].text), tokens[at]) for at in calls]

    def tokens_with(chars: int) -> int:
        return sum([_call_tokens(length, size, chars) for length, size in sizes])

    low, high = _CALL_CHARS_MIN, LINE_CHARS
    while high - low > 8:
        middle = (low + high) // 2
        low, high = (middle, high) if tokens_with(middle) <= share else (low, middle)
    if tokens_with(low) <= room * _SHORT_CALLS_SHARE:
        return low, calls
    kept: list[int] = []
    for at in sorted(calls, key=lambda at: (not lines[at].is_refused, -at)):
        share -= _call_tokens(len(lines[at].text), tokens[at], low)
        if share < 0:
            break
        kept.append(at)
    return low, sorted(kept)


def _call_tokens(length: int, tokens: int, chars: int) -> int:
    return (int(tokens * (chars / length)) if chars < length else tokens) + 4


def _level(rooms: Sequence[_Room], room: float) -> float:
    """The characters for each unit of weight at which all of them fill the room."""
    active = list(rooms)
    by_fill = sorted(active, key=lambda item: item.chars / item.weight)
    while active:
        level = _water(active, by_fill, room - 4.0 * len(active))
        dropped = [item for item in active if item.weight * level < item.least]
        if not dropped:
            return level
        # The least of them go, and what they had is shared out again.
        dropped.sort(key=lambda item: item.weight)
        gone = set(map(id, dropped[: max(1, len(dropped) // 4)]))
        active = [item for item in active if id(item) not in gone]
        by_fill = [item for item in by_fill if id(item) not in gone]
    return 0.0


def _water(rooms: Sequence[_Room], by_fill: Sequence[_Room], room: float) -> float:
    """`by_fill` are the same rooms, those first that are full first."""
    if sum([item.chars * item.per_char for item in rooms]) <= room:
        return float("inf")
    slope = sum([item.weight * item.per_char for item in rooms])
    for item in by_fill:
        if slope <= 0 or item.chars / item.weight * slope >= room:
            break
        room -= item.chars * item.per_char
        slope -= item.weight * item.per_char
    return max(0.0, room / slope) if slope > 0 else float("inf")


def _write(
    lines: Sequence[StoryLine],
    calls: Sequence[int],
    rooms: Sequence[_Room],
    cap: int,
    level: float,
    worth: Worth,
    texts: ReadTexts,
) -> dict[int, str]:
    told: dict[int, str] = {}
    outcomes: dict[int, str] = {}
    more: dict[int, int] = {}
    for item in rooms:
        line = lines[item.line]
        chars = item.chars if level == float("inf") else int(item.weight * level)
        if chars < item.least:
            continue
        if item.part == "outcome":
            outcomes[item.line] = _short(texts[_outcome(line)], chars, item, worth)
        elif item.part == "call":
            more[item.line] = chars
        else:
            told[item.line] = _short(texts[line.text], chars, item, worth)
    for at in calls:
        line = lines[at]
        text = cut(line.text, cap + more.get(at, 0), keep="head", marker=ellipsis).text
        if line.count > 1:
            text += f" ×{line.count}"
        text += _tell_outcome(line, outcomes.get(at, ""))
        told[at] = " ".join(text.split())
    return told


def _short(text: ReadText, chars: int, item: _Room, worth: Worth) -> str:
    if len(text.text) <= chars:
        return text.text
    if item.order is None:
        item.order = rank_spans(text, item.line, worth)
    return shorten(text.text, chars, item.order)


def _tell_outcome(line: StoryLine, text: str) -> str:
    if line.is_refused:
        return _REFUSAL
    if line.is_failed:
        mark = _FAILED_ONCE if line.role == "once" else FAILED
        return f"{ARROW}{mark}{text}".rstrip(": ")
    return f"{ARROW}{text}" if text else ""


def _outcome(line: StoryLine) -> str:
    return "" if line.is_refused else line.outcome


def _size(line: StoryLine, text: str, counter: Counter) -> int:
    """The tokens of a line with a text. The text is counted without its mark, as the record was
    that it is of, or the carry-over before: most are counted once."""
    return counter.count(text) + counter.count(_BARE_MARKS[line.kind]) + 1


def _size_of_all(lines: Sequence[StoryLine], told: dict[int, str], counter: Counter) -> int:
    return sum([_size(lines[at], text, counter) for at, text in told.items()])


def _mark(line: StoryLine, text: str) -> str:
    """A line with its mark; a line of the text that looks like another's is set in."""
    if line.kind != "call":
        find = _UNSAFE_LINE.search if "\n" in text else _UNSAFE_LINE.match
        text = _UNSAFE_LINE.sub(" ", text) if find(text) else text
    return f"{MARKS[line.kind]}{text}"


def _below(line: StoryLine, root: str) -> StoryLine:
    if not root or line.kind != "call":
        return line
    return msgspec.structs.replace(
        line,
        text=line.text.replace(f"{root}/", ""),
        outcome=line.outcome.replace(f"{root}/", ""),
    )


def read_lines(texts: Iterable[str]) -> list[StoryLine]:
    """The lines that `tell` made, as lines that can be shortened further."""
    lines: list[StoryLine] = []
    stays = True
    for text in texts:
        # All marks but that of calls end with a colon and a space, and have no other.
        mark = MARKS["call"] if text[:2] == MARKS["call"] else text[: text.find(": ") + 2]
        kind = _KINDS.get(mark)
        if kind is not None:
            stays = kind not in ("below", "kept thought")
            if stays:
                lines.append(StoryLine(kind, text[len(mark) :], role=_role(kind)))
        elif lines and stays:
            lines[-1].text += f"\n{text}"
    for line in lines:
        line.key = line.text
        if line.kind == "call" and line.text.endswith(_REFUSAL):
            line.is_refused, line.text = True, line.text.removesuffix(_REFUSAL)
    return lines
