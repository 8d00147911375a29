"""Conversations without tools, from benchmarks of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    finish,
    is_text,
    listing,
    mapping,
    mappings,
    names_for,
    text_or_empty,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_DATE: Final = lazy_pattern(r"(\d{4})[-/](\d\d)[-/](\d\d)(?: \(\w+\))?(?: (\d\d:\d\d))?")


def _date(value: object) -> float:
    found = _DATE.match(text_or_empty(value))
    if not found:
        return 0.0
    return seconds(f"{found[1]}-{found[2]}-{found[3]}T{found[4] or '00:00'}:00")


# LongMemEval


def detect_longmemeval(source: Source) -> bool:
    found = mappings(source.value) if isinstance(source.value, list) else []
    return any("haystack_sessions" in item for item in found[:4])


def read_longmemeval(source: Source) -> list[Imported]:
    sessions: dict[str, Draft] = {}
    questions = mappings(source.value)
    repeats = 0
    for question in questions:
        ids = listing(question.get("haystack_session_ids"))
        dates = listing(question.get("haystack_dates"))
        for place, turns in enumerate(listing(question.get("haystack_sessions"))):
            name = str(ids[place]) if place < len(ids) else f"{source.stem}-{len(sessions)}"
            if name in sessions:
                repeats += 1
                continue
            ts = _date(dates[place]) if place < len(dates) else 0.0
            sessions[name] = _turns(mappings(turns), ts)
    done = list(sessions.items()) or [(source.stem, Draft())]
    done[0][1].skip("question", "a test question; no part of a conversation", len(questions))
    done[0][1].skip("session", "another question has it too", repeats)
    return finish(source, "longmemeval", done)


def _turns(turns: list[Json], ts: float) -> Draft:
    draft = Draft()
    for turn in turns:
        extra = {"has_answer": True} if turn.get("has_answer") is True else {}
        if turn.get("role") == "user":
            draft.user(blocks.content_of(turn.get("content")) or "", ts=ts, extra=extra)
        else:
            draft.assistant(blocks.content_of(turn.get("content")) or "", ts=ts, extra=extra)
    return draft


LONGMEMEVAL: Final = Importer(
    "longmemeval", "LongMemEval (haystack sessions)", detect_longmemeval, read_longmemeval
)


# RealMem


def detect_realmem(source: Source) -> bool:
    found = mappings(mapping(source.value).get("dialogues"))
    return any("dialogue_turns" in item for item in found[:4])


def read_realmem(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    for dialogue in mappings(mapping(source.value).get("dialogues")):
        draft = Draft()
        draft.label = text_or_empty(dialogue.get("session_identifier"))
        ts = _date(dialogue.get("current_time"))
        for turn in mappings(dialogue.get("dialogue_turns")):
            content = blocks.content_of(turn.get("content")) or ""
            query = text_or_empty(turn.get("query_id"))
            extra = {"query_id": query} if query else {}
            if turn.get("speaker") == "User":
                draft.user(content, ts=ts, extra=extra)
            else:
                draft.assistant(content, ts=ts, extra=extra)
        memories = len(listing(dialogue.get("extracted_memory")))
        draft.skip("extracted memory", "a note about the conversation", memories)
        sessions.append((text_or_empty(dialogue.get("session_uuid")) or source.stem, draft))
    return finish(source, "realmem", sessions)


REALMEM: Final = Importer("realmem", "RealMem dialogues", detect_realmem, read_realmem)


# QMSum: everybody in a meeting is a person.


def detect_qmsum(source: Source) -> bool:
    return any("meeting_transcripts" in item for item in source.head[:4])


def read_qmsum(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    meetings = [line.value for line in source.lines] or mappings([source.value])
    for meeting, name in zip(meetings, names_for(source.stem, len(meetings)), strict=True):
        draft = Draft()
        for speech in mappings(meeting.get("meeting_transcripts")):
            speaker = text_or_empty(speech.get("speaker")) or None
            draft.user(blocks.content_of(speech.get("content")) or "", name=speaker)
        for what in ("specific_query_list", "general_query_list", "topic_list"):
            count = len(listing(meeting.get(what)))
            draft.skip(what, "a test question; no part of a conversation", count)
        sessions.append((name, draft))
    return finish(source, "qmsum", sessions)


QMSUM: Final = Importer("qmsum", "QMSum meetings", detect_qmsum, read_qmsum)


# MemoryCode: a mentor (the user) and a mentee.


def detect_memorycode(source: Source) -> bool:
    value = mapping(source.value)
    return "mentor" in mapping(value.get("context")) and isinstance(value.get("sessions"), list)


def read_memorycode(source: Source) -> list[Imported]:
    value = mapping(source.value)
    context = mapping(value.get("context"))
    mentor, mentee = (text_or_empty(context.get(name)) for name in ("mentor", "mentee"))
    found = mappings(value.get("sessions"))
    sessions: list[tuple[str, Draft]] = []
    for session, name in zip(found, names_for(source.stem, len(found)), strict=True):
        draft = Draft()
        for speaker, said in _script(text_or_empty(session.get("text")), mentor, mentee):
            if speaker == mentee:
                draft.assistant(said)
            else:
                draft.user(said, name=speaker or None)
        tests = len(listing(session.get("session_regex")))
        draft.skip("test", "a check of the answers; no part of a conversation", tests)
        sessions.append((name, draft))
    return finish(source, "memorycode", sessions or [(source.stem, Draft())])


def _script(text: str, *names: str) -> list[tuple[str, str]]:
    """Speeches of a play: a name, or its first letter, and a colon begin one."""
    known = {name[:1]: name for name in names} | {name: name for name in names}
    said: list[tuple[str, str]] = []
    for line in text.split("\n"):
        start, colon, words = line.partition(":")
        speaker = known.get(start.strip(" *"), "") if colon else ""
        if speaker:
            said.append((speaker, words.strip()))
        elif said:
            said[-1] = (said[-1][0], f"{said[-1][1]}\n{line}".rstrip())
        elif line.strip():
            said.append(("", line.strip()))
    return said


MEMORYCODE: Final = Importer(
    "memorycode", "MemoryCode dialogues", detect_memorycode, read_memorycode
)


# MemoryBank: one history a person, by day.


def detect_memorybank(source: Source) -> bool:
    people = [item for item in mapping(source.value).values() if isinstance(item, dict)]
    return any(
        isinstance(person.get("history"), dict) and "name" in person for person in people[:4]
    )


def read_memorybank(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    for place, (name, person) in enumerate(mapping(source.value).items()):
        for day, turns in mapping(mapping(person).get("history")).items():
            draft = Draft()
            draft.label = f"{name} {day}"
            for turn in mappings(turns):
                draft.user(text_or_empty(turn.get("query")), ts=_date(day))
                draft.assistant(text_or_empty(turn.get("response")), ts=_date(day))
            who = name if name.isascii() else f"person-{place + 1}"
            sessions.append((f"{source.stem}-{who}-{day}", draft))
    return finish(source, "memorybank", sessions)


MEMORYBANK: Final = Importer(
    "memorybank", "MemoryBank histories", detect_memorybank, read_memorybank
)


# GoodAI LTM: one conversation with many tests in it.

_SENT, _ANSWERED = (0, 3), (4, 5)


def detect_goodai(source: Source) -> bool:
    return any(
        isinstance(item.get("type"), int)
        and "test_id" in item
        and isinstance(item.get("data"), dict)
        for item in source.head[:8]
    )


def read_goodai(source: Source) -> list[Imported]:
    draft = Draft()
    for line in source.lines:
        event = line.value
        data, ts = mapping(event.get("data")), seconds(event.get("timestamp"))
        message = data.get("message")
        test = text_or_empty(event.get("test_id"))
        extra: Json = {"test_id": test} if test else {}
        if data.get("is_question") is True:
            extra["is_question"] = True
        if event.get("type") in _SENT and is_text(message):
            draft.user(message, ts=ts, extra=extra)
        elif event.get("type") in _ANSWERED and is_text(message):
            draft.assistant(message, ts=ts, extra=extra)
        else:
            draft.skip(f"event of type {event.get('type')}", "the test's own bookkeeping")
    return [draft.finish(source, "goodai-ltm")]


GOODAI: Final = Importer("goodai-ltm", "GoodAI LTM logs", detect_goodai, read_goodai)

IMPORTERS: Final = (LONGMEMEVAL, REALMEM, QMSUM, MEMORYCODE, MEMORYBANK, GOODAI)
