"""Digests: what each record adds to a narrative. A digest depends on its record alone.

A record is digested once, and a projection can then try many cuts without reading it again. What
a record is, its fields say: who spoke, whether a call failed, whether a person refused it, whether
a program wrote a message. No digest looks for words of a language.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.extract import tasks
from holdfast.core.extract.shell_commands import command_in, has_failed, same_command
from holdfast.core.extract.touched_files import Touch, find_touches
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    ToolResult,
    ToolUse,
    User,
    text_of,
)
from holdfast.core.log.replay import client_summary, is_from_program, user_text
from holdfast.core.models.messages import Other, Text, Thinking, ToolCall, read_blocks
from holdfast.core.narrative.calls import call_line, one_line
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json, Record

Kind = Literal[
    "user",
    "below",
    "above",
    "refusal",
    "text",
    "thought",
    "kept thought",
    "call",
    "written",
    "report",
    "program",
]
"""Who or what a passage is of: the user, the user's words that stand whole behind the narrative,
another tool's summary that stands before it, the user's words with a refused call, the agent's text
or thinking, its thinking in a step that stays without it, a tool call, prose that a call was given,
a result that reads like prose, a program in the user's role."""

_UNSAFE: Final = lazy_pattern(r"[^\w.:-]")
_SHORT_CHARS: Final = 240
"""A result up to this length is told as it is."""
_FAILED_CHARS: Final = 3_000
_REPORT_CHARS: Final = 12_000
_LONG_CHARS: Final = 1_200
_PASSAGE_CHARS: Final = 60_000
"""The longest text of anyone that is kept for a narrative, from both ends."""
_PROGRAM_CHARS: Final = 300
_SAME_SHARE: Final = 0.7
"""Thinking and text say the same where so many of the words of one stand in the other."""
_WORD: Final = lazy_pattern(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\W_]+"
)
_UNSPACED: Final = lazy_pattern(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
)
_SPACED_WORD: Final = lazy_pattern(r"[^\W_]+")
_FOREIGN: Final = lazy_pattern(r"[^\W\x00-\x7f]")
"""Part of a word, and not in ASCII."""
_LOWER: Final = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
"""ASCII in lower case, with spaces for everything between words."""
_TELLING: Final = lazy_pattern(r"(?!\s*(?:```|~~~))[\W_]*+.")
_DRAWN: Final = lazy_pattern(r"[^\w\n.#`]")
"""A sign whose runs are drawn lines or white space."""
_RUNS: Final = ("   ", "---", "===", "***", "~~~", "───", "━━━", "═══")
"""Most texts have none of them, which is known in no time."""
_NUMBERED: Final = lazy_pattern(r"(?m)^ *\d+(?:→|\t|: ?|\|)")
_SIGN: Final = lazy_pattern(r"[^\w\s.,;:!?'\"()*`#…。，、；：！？（）«»¿¡–—-]")
_FENCES: Final = ("```", "~~~")
_REPORT_CHARS_MIN: Final = 200
_PROSE_CHARS: Final = 4_000
"""Of a text that may be prose, from its start."""
_GLANCE_CHARS: Final = 800
_QUOTED: Final = lazy_pattern(r"`[^`\n]{1,200}`")
"""Code that a sentence quotes: its signs do not make the text code."""
_CODE: Final = "{}[]=<>/|$+"
"""The most frequent of these signs, which are counted in no time."""
_CODE_SIGNS: Final = 0.06
"""Code, listings and logs have more signs than this at their very start: the rest need not be
read."""
_SIGNS_MAX: Final = 0.02
_WORDS_A_LINE: Final = 6
_COMMIT: Final = lazy_pattern(r"\b(?:git|hg|jj|svn)\b[^\n;&|]{0,200}?\b(?:commit|ci)\b")
"""The commands by which the four version control systems in use store changes."""
_MESSAGE: Final = lazy_pattern(
    r"<<-?[ ]*['\"]?(?:EOF|EOT|END|MSG)['\"]?\n([^\0]{1,8000}?)\n[ \t]*(?:EOF|EOT|END|MSG)\b"
    r"|\"([^\"$]{1,8000})\"|'([^']{1,8000})'"
)
"""A message as a shell is given it: a document behind `<<`, or a text in quotes."""
_START_CHARS: Final = 60
"""Of an argument that is told by itself, on the line of its call."""


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Something that was said or done, as it would be told with all the room there is."""

    kind: Kind
    text: str
    call: str = ""
    """The id of a call."""
    key: str = ""
    """Calls with the same key do the same thing again."""
    is_list: bool = False
    """True where a call writes a whole list of tasks."""
    is_aside: bool = False
    """True for one line of the agent before a call, which mostly announces it."""


class CallOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a call."""

    call: str
    is_failed: bool = False
    is_refused: bool = False
    text: str = ""
    """The result, where it is short, failed, or reads like prose."""
    is_prose: bool = False


class Digest(msgspec.Struct, frozen=True):
    """The part of one record in a narrative, and to the state after it."""

    record: str
    passages: tuple[Passage, ...] = ()
    outcome: CallOutcome | None = None
    calls: tuple[tuple[str, tuple[Touch, ...]], ...] = ()
    """The ids of its calls that name files, with those files."""
    commands: tuple[tuple[str, str], ...] = ()
    """The ids of its calls that run a command, with the command."""
    listed: tuple[tasks.Task, ...] | None = None
    """The list of tasks that it writes in place of the one before."""
    changes: tuple[tuple[str, tasks.Change], ...] = ()
    """The ids of its calls that change one task, with the change."""
    new_task: str = ""
    """The id that a result gives to a new task."""
    done: tuple[str, ...] = ()
    """Tasks that the record ticks off."""
    outputs: tuple[str, ...] = ()
    """The output that it holds by reference."""
    summary: str = ""
    """The summary of its own that a client goes on from."""


def digest_record(record: Record) -> Digest | None:
    """Return what a record can add to a narrative; None for records that no model sees."""
    match record:
        case User():
            return _digest_user(record)
        case InjectedContext(is_meter=True):
            return None  # it holds only where it stood
        case InjectedContext():
            text = one_line(record.text, _PROGRAM_CHARS)
            return Digest(record.id, (Passage("program", text),) if text else ())
        case Assistant():
            return _digest_reply(record)
        case ToolUse():
            arguments = record.input if isinstance(record.input, dict) else {}
            return _with_calls(Digest(record.id), [(record.tool_use_id, record.name, arguments)])
        case ToolResult():
            return _digest_result(record)
        case Compaction(covers=None, summary=summary) if summary.strip():
            return Digest(record.id, (_mark_of(summary),))
        case _:  # boundaries, labels and notes hold nothing that is in the context
            return None


def arguments_text(value: Any) -> str:
    """Every text in a call's arguments, without the escapes that JSON would add."""
    match value:
        case str():
            return value
        case dict():
            return "\n".join(filter(None, map(arguments_text, value.values())))
        case list():
            return "\n".join(filter(None, map(arguments_text, value)))
        case bool() | None:
            return ""
        case _:  # numbers
            return str(value)


def words_of(text: str) -> set[str]:
    """The distinct words of a text; in scripts without spaces, its characters."""
    if not text.isascii():
        text = text.replace("…", " ")  # the one sign of most texts that were shortened
        if not text.isascii() and _FOREIGN.search(text) is None:  # its other signs part words
            text = text.encode("ascii", "replace").decode()
    if text.isascii():
        return set(text.translate(_LOWER).split())
    pattern = _WORD if _UNSPACED.search(text) else _SPACED_WORD
    return set(pattern.findall(text.casefold()))


def plain(text: str) -> str:
    """A text without lines that have no word and without drawn lines; of a very long one, its
    ends."""
    text = _telling_lines(cut(scrub(text), _PASSAGE_CHARS, marker=ellipsis).text)
    return (_shorten_runs(text) if any(run in text for run in _RUNS) else text).strip()


def _shorten_runs(text: str) -> str:
    """Return a text with two signs for each run of the same sign."""
    for sign in set(text):
        if _DRAWN.match(sign):
            while 3 * sign in text:
                text = text.replace(3 * sign, 2 * sign)
    return text


def _telling_lines(text: str) -> str:
    return "\n".join(filter(_TELLING.match, text.splitlines()))


def _digest_user(record: User) -> Digest:
    summary = client_summary(record)
    above = (_mark_of(summary),) if summary else ()
    if is_from_program(record):
        if summary:
            return Digest(record.id, above, summary=summary)
        text = one_line(text_of(record.content), _PROGRAM_CHARS)
        return Digest(record.id, (Passage("program", text),) if text else ())
    # With the line ends it will have when it is read back.
    said = "\n".join(user_text(record).splitlines())
    passages = (Passage("user", said),) if said else ()
    return Digest(record.id, (*above, *passages), summary=summary)


def _mark_of(summary: str) -> Passage:
    """Return a mark for the place in the story where a summary was gone on from."""
    return Passage("above", summary_size(summary))


def summary_size(text: str) -> str:
    """Return the words of such a mark, which tell one summary from another."""
    return f"{len(text.strip()):,} characters"


def _digest_reply(record: Assistant) -> Digest:
    blocks = read_blocks(record.content)
    summaries = [block.words for block in blocks if isinstance(block, Other)]
    texts = [*filter(None, summaries), *(block.text for block in blocks if isinstance(block, Text))]
    thoughts = [block.text for block in blocks if isinstance(block, Thinking)]
    calls = [
        (block.id, block.name, block.arguments) for block in blocks if isinstance(block, ToolCall)
    ]
    boxes = tasks.checkboxes("\n".join(texts))
    said = _speech(plain("\n".join(thoughts)), plain("\n".join(texts)), is_last=not calls)
    digest = Digest(
        record.id,
        passages=tuple(said),
        # Ticked boxes alone are not a list: they report on tasks that were listed before.
        listed=tuple(boxes) if tasks.open_texts(boxes) else None,
        done=tuple(box.text for box in boxes if box.status == "done"),
    )
    return _with_calls(digest, calls)


def _speech(thought: str, text: str, *, is_last: bool) -> list[Passage]:
    """Thinking and text, once where they say the same, without the line that announces a call: the
    call that follows says it."""
    thought, said = (
        "" if not is_last and _announces(words) else words for words in (thought, text)
    )
    passages = []
    if thought and said:
        inner, outer = words_of(thought), words_of(said)
        if len(outer & inner) >= _SAME_SHARE * len(inner):
            thought = ""
        elif not is_last and len(outer & inner) >= _SAME_SHARE * len(outer):
            said = ""
    if thought:
        passages.append(Passage("thought", thought, is_aside=not is_last and _is_line(thought)))
    if said:
        passages.append(Passage("text", said, is_aside=not is_last and _is_line(said)))
    return passages


def _announces(text: str) -> bool:
    return _is_line(text) and text.endswith((":", "："))


def _is_line(text: str) -> bool:
    return "\n" not in text and len(text) <= _SHORT_CHARS


def _with_calls(
    digest: Digest,
    calls: Iterable[tuple[str, str, Json]],
) -> Digest:
    told = list(digest.passages)
    touched: list[tuple[str, tuple[Touch, ...]]] = []
    commands: list[tuple[str, str]] = []
    changes: list[tuple[str, tasks.Change]] = []
    listed = digest.listed
    for call_id, tool, arguments in calls:
        touches = find_touches(tool, arguments)
        if touches:
            touched.append((call_id, touches))
        command = command_in(tool, arguments)
        if command:
            commands.append((call_id, command))
        written = tasks.whole_list(arguments)
        listed = listed if written is None else written
        change = tasks.entry_change(tool, arguments) if written is None else None
        if change is not None:
            changes.append((call_id, change))
        key = same_command(command) or " ".join(scrub(arguments_text(arguments)).split())
        prose = _prose_in(arguments, command) if written is None else {}
        short = {name: one_line(value, _START_CHARS) for name, value in prose.items() if name}
        line = f"{_UNSAFE.sub('', tool) or 'call'} {call_line({**arguments, **short})}".rstrip()
        told.append(Passage("call", line, call_id, f"{tool} {key}", written is not None))
        told += [Passage("written", text) for text in prose.values()]
    return msgspec.structs.replace(
        digest,
        passages=tuple(told),
        calls=tuple(touched),
        commands=tuple(commands),
        listed=listed,
        changes=tuple(changes),
    )


def _prose_in(arguments: Json, command: str | None) -> dict[str, str]:
    """Return the arguments of a call that read as prose, a document or a prompt, by name, and under
    no name the message of a commit: they say what the agent means as much as its own words do."""
    texts = {
        name: _without_blocks(value)
        for name, value in arguments.items()
        if isinstance(value, str) and len(value) >= _REPORT_CHARS_MIN
    }
    found = {name: plain(text) for name, text in texts.items() if reads_as_prose(text)}
    if not found and command and (match := _COMMIT.search(command[:4_000])) is not None:
        quoted = _MESSAGE.search(command, match.end(), match.end() + _PROSE_CHARS)
        message = plain(next(filter(None, quoted.groups()), "")) if quoted is not None else ""
        found = {"": message} if len(message) >= _REPORT_CHARS_MIN else {}
    return found


def _digest_result(record: ToolResult) -> Digest:
    text = scrub(text_of(record.content))
    is_failed = has_failed(record)
    passages: tuple[Passage, ...] = ()
    told, is_prose = "", False
    if record.refused is not None:
        if record.refused.strip():
            passages = (Passage("refusal", plain(record.refused), record.tool_use_id),)
    elif len(text) <= _SHORT_CHARS:
        told = plain(text)
    elif is_failed:
        told = cut(plain(text), _FAILED_CHARS, marker=ellipsis).text
    elif reads_as_prose(text):
        told, is_prose = cut(plain(text), _REPORT_CHARS, marker=ellipsis).text, True
    elif not _is_listing(text):
        edges = cut(text, 2 * _LONG_CHARS, marker=ellipsis).text
        told = cut(_telling_lines(edges), _LONG_CHARS, marker=ellipsis).text
    return Digest(
        record.id,
        passages=passages,
        outcome=CallOutcome(
            record.tool_use_id, is_failed, record.refused is not None, told, is_prose
        ),
        new_task=tasks.new_id(text),
        outputs=_output(record),
    )


def _is_listing(text: str) -> bool:
    """Return whether a text is the content of a file with the numbers of its lines: the file can be
    read again, and its first and last lines tell nothing."""
    start = text[:_LONG_CHARS]
    if _NUMBERED.search(start, 0, _SHORT_CHARS) is None:
        return False
    return 2 * len(_NUMBERED.findall(start)) > start.count("\n") > 2


def reads_as_prose(text: str) -> bool:
    """Return whether a text is sentences rather than code, a listing or a log: long lines of
    words, and hardly a sign that sentences do not have."""
    if len(text) < _REPORT_CHARS_MIN:
        return False
    start = _without_quotes(text[:_GLANCE_CHARS])
    if sum(map(start.count, _CODE)) > _CODE_SIGNS * len(start):
        return False
    sample = text[:_PROSE_CHARS]
    if _is_listing(text):
        sample = _NUMBERED.sub("", sample)
    lines = [line for line in sample.splitlines() if line.strip()]
    said = _without_quotes(sample)
    if not lines or sum(map(said.count, _CODE)) > _SIGNS_MAX * len(said):
        return False
    if _count_signs(start) > _CODE_SIGNS * len(start):
        return False
    if _count_signs(said) > _SIGNS_MAX * len(said):
        return False
    words = sample.split() if sample.isascii() else _WORD.findall(sample)
    return len(words) >= _WORDS_A_LINE * len(lines)


def _count_signs(text: str) -> int:
    """Return how many signs a text has that sentences do not have."""
    if text.isascii():
        return len(text) - len(text.encode().translate(None, _ascii_signs()))
    return len(_SIGN.findall(text))


@functools.cache
def _ascii_signs() -> bytes:
    return bytes(code for code in range(128) if _SIGN.match(chr(code)))


def _without_blocks(text: str) -> str:
    """Return a document without its fenced blocks of code: the rest says what they are for."""
    if not any(fence in text for fence in _FENCES):
        return text
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        start = line.lstrip()[:3]
        if fence:
            fence = "" if start == fence else fence
        elif start in _FENCES:
            fence = start
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_quotes(text: str) -> str:
    return _QUOTED.sub("", text) if "`" in text else text


def commits(command: str) -> bool:
    """Return whether a command stores changes in a version control system."""
    return _COMMIT.search(command[:4_000]) is not None


def _output(record: ToolResult) -> tuple[str, ...]:
    ref = record.output_ref
    if ref is None:
        return ()
    name = _UNSAFE.sub("", record.name or "") or "a tool"
    return (f"{ref.sha256[:REF_CHARS]}: {name}, {ref.chars or ref.bytes:,} characters",)
