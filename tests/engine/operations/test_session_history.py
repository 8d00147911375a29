"""`sessions_history` as a caller meets it: cases of the seeds, attacks, and laws."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG
from tests.core.secrets.planted_secrets import TOKENS
from tests.support.runs import examples

from holdfast import Session
from holdfast.core.history.access import OPERATOR, Access, Caller
from holdfast.core.history.page import cursor as made_cursor
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Label, OutputRef, Record, Rewind, ToolResult, User
from holdfast.core.owners import NamedOwner
from holdfast.core.secrets.redaction import Redactor
from holdfast.engine.operations.session_history import History
from holdfast.errors import HoldfastWarning, NoSuchSession, StoreUnavailable
from holdfast.ports import ANY_HEAD
from holdfast.stores.audit import MemoryAudit
from holdfast.stores.in_memory import MemoryBlobs, MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

KEY = SessionKey("main", "s")
OWN = Caller("main", "s")
PHRASE = "correct horse battery staple"


class Shelf:
    """A store with one session, and a history of it."""

    def __init__(
        self,
        *records: Record,
        caller: Caller = OWN,
        cap: int = HISTORY_BYTES_MAX,
        store: MemoryStore | None = None,
    ):
        self.store = store or MemoryStore()
        self.blobs, self.audit = self.store.blobs, self.store.audit
        self.store.create(KEY, label="The notes")
        self.caller, self.cap = caller, cap
        self.add(*records)

    def add(self, *records: Record, key: SessionKey = KEY) -> list[str]:
        if not records:
            return []
        return list(self.store.append(key, list(records), expect=ANY_HEAD).ids)

    def history(self, **changed: Any) -> History:
        made: dict[str, Any] = {
            "caller": self.caller,
            "redactor": Redactor({"PHRASE": PHRASE}),
            "max_bytes": self.cap,
            **changed,
        }
        return History(self.store, **made)

    def read(self, session: Any = "current", **asked: Any) -> Any:
        text = self.history().text(session, **asked)
        assert len(text.encode()) <= self.cap
        reply = json.loads(text)
        if "bytes" in reply:
            assert reply["bytes"] == len(text.encode())
        return reply


def said(reply: Any) -> list[Any]:
    return [message["content"] for message in reply["messages"]]


def numbered(count: int, size: int = 10) -> list[Record]:
    return [User(content=f"{number:05} " + "x" * size) for number in range(count)]


def step(number: int, text: str = "out", name: str = "f") -> list[Record]:
    call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": {"n": number}}
    return [
        Assistant(content=[call]),
        ToolResult(tool_use_id=f"c{number}", name=name, content=text),
    ]


# The cases of openclaw.md, by number


def test_case_1_eighty_oversized_messages() -> None:
    """The newest that fit, all three flags, how many are missing, and a cursor to them."""
    content = [
        {"type": "thinking", "thinking": "t" * 7_000, "thinkingSignature": "s" * 4_000},
        {"type": "text", "text": "x" * 5_000},
    ]
    message = Assistant(
        content=content, usage={"input": 1, "output": 2}, extra={"details": "d" * 12_000}
    )
    shelf = Shelf(*[message] * 80)

    reply = shelf.read()

    assert reply["truncated"]
    assert reply["droppedMessages"]
    assert reply["contentTruncated"]
    assert not reply["contentRedacted"]
    assert reply["count"] == len(reply["messages"]) == 9 + (reply["count"] == 10)
    assert reply["omittedCount"] == 80 - reply["count"]
    assert reply["bytes"] <= 81_920
    assert reply["hasMore"]
    assert shelf.read(cursor=reply["cursor"])["count"] > 0


def test_case_2_one_message_with_a_huge_unknown_field() -> None:
    reply = Shelf(User(content="hello", extra={"novel": "x" * 200_000})).read()

    assert said(reply) == ["hello"]
    assert reply["contentTruncated"]
    assert not reply["droppedMessages"]
    assert "left out; ref " + reply["messages"][0]["id"] in reply["messages"][0]["novel"]


def test_case_5_a_key_is_masked_and_that_is_no_cut() -> None:
    reply = Shelf(User(content=f"use {TOKENS['OpenAI'][:43]}")).read()

    assert "[masked" in said(reply)[0]
    assert reply["contentRedacted"]
    assert not reply["contentTruncated"]
    assert not reply["truncated"]
    assert "not the real ones" in reply["notice"]


def test_case_9_only_tool_results_and_no_tools_asked_for() -> None:
    results = [ToolResult(tool_use_id=f"c{n}", content="x") for n in range(5)]

    reply = Shelf(*results).read()

    assert reply["messages"] == []
    assert not any(
        reply[name]
        for name in ("truncated", "droppedMessages", "contentTruncated", "contentRedacted")
    )
    assert (reply["hasMore"], reply["cursor"], reply["omittedCount"]) == (False, None, 0)


def test_case_10_the_limit_counts_what_is_left_when_tools_are_gone() -> None:
    """A step with ten results at the end does not use up a limit of ten."""
    calls = [
        {"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}} for number in range(10)
    ]
    results = [ToolResult(tool_use_id=f"c{number}", content="x") for number in range(10)]

    reply = Shelf(*numbered(20), Assistant(content=calls), *results).read(limit=10)

    assert reply["count"] == 10
    assert reply["messages"][-1]["role"] == "assistant"
    assert [message["role"] for message in reply["messages"][:-1]] == ["user"] * 9


def test_case_11_a_child_may_not_read_its_parent_and_a_parent_its_child() -> None:
    """A refusal is data, with a reason, and without a word of what was asked for."""
    shelf = Shelf(User(content="the parent's words"))
    for name in ("child", "sibling"):
        key = SessionKey("main", name)
        shelf.store.create(key, parent_session=str(KEY), reason="spawn")
        shelf.add(User(content=f"the {name}'s words"), key=key)
    child = shelf.history(caller=Caller("main", "child"))

    for session in ("s", "main/s", "sibling", "absent"):
        reply = child.read(session)
        assert reply["status"] == "forbidden"
        assert "Refused" in reply["error"]
        assert "words" not in str(reply)
    assert said(child.read("current")) == ["the child's words"]
    assert said(shelf.read("child")) == ["the child's words"]
    assert child.read("absent")["error"] == child.read("s")["error"]


def test_case_12_the_whole_reply_is_within_the_cap() -> None:
    shelf = Shelf(*[User(content=f"{n} " + "😀\x00" * (n % 700)) for n in range(1_000)])

    text = shelf.history().text("s", limit=1_000)

    assert len(text.encode()) <= 81_920
    assert json.loads(text)["bytes"] == len(text.encode())
    assert json.loads(text)["messages"][-1]["content"].startswith("999 ")


def test_case_13_the_error_on_the_last_line_survives() -> None:
    log = "line\n" * 10_000 + "ValueError: the last line"

    reply = Shelf(*step(1, log)).read(include_tools=True)

    assert said(reply)[-1].endswith("ValueError: the last line")


# What the system in the seeds does not do (openclaw.md 1.7)


def test_results_come_with_their_calls_or_not_at_all() -> None:
    """Whatever the cap: no result is shown without the call it answers."""
    records = [one for number in range(30) for one in step(number, "x" * 300)]
    shelf = Shelf(*records)
    for cap in range(1_500, 9_000, 333):
        reply = shelf.history(max_bytes=cap).read("s", include_tools=True)
        roles = [message["role"] for message in reply["messages"]]
        assert roles == ["assistant", "toolResult"] * (len(roles) // 2)


def test_without_tools_calls_stay_and_results_go() -> None:
    reply = Shelf(User(content="go"), *step(1), Assistant(content="done")).read()

    assert [message["role"] for message in reply["messages"]] == ["user", "assistant", "assistant"]
    assert reply["messages"][1]["content"][0]["input"] == {"n": 1}


def test_a_reply_never_repeats_an_earlier_one() -> None:
    """Reading one's own session over and over does not make the reply grow."""
    shelf = Shelf(User(content="go"))
    sizes = []
    for number in range(4):
        text = shelf.history().text("current", include_tools=True)
        sizes.append(len(text))
        shelf.add(*step(number, text, name="sessions_history"))
    last = shelf.read(include_tools=True)

    assert "go" not in said(last)[-1]
    assert abs((sizes[3] - sizes[2]) - (sizes[2] - sizes[1])) < 10
    assert sizes[3] < 2_000


def test_dropping_usage_is_no_cut() -> None:
    reply = Shelf(Assistant(content="hi", usage={"input_tokens": 1})).read()

    assert not reply["truncated"]


# Limits (demand.md (d) 47)


@pytest.mark.parametrize("limit", [0, -1, "many", 1.5, True, [], {}])
def test_a_limit_that_cannot_be_meant_is_refused_as_data(limit: Any) -> None:
    reply = Shelf(*numbered(3)).read(limit=limit)

    assert reply["status"] == "invalid"
    assert "limit" in reply["error"]
    assert "messages" not in reply


@pytest.mark.parametrize(
    ("limit", "count"), [(None, 200), (1, 1), ("7", 7), (7.0, 7), (10**9, 1_000), (10**30, 1_000)]
)
def test_the_limit_is_kept_and_has_a_most(limit: Any, count: int) -> None:
    reply = Shelf(*numbered(1_200)).read(limit=limit)

    assert reply["count"] + reply["omittedCount"] == count
    assert reply["hasMore"]
    assert said(reply)[-1].startswith("01199 ")


def test_a_huge_session_of_ones_own_gives_one_page() -> None:
    reply = Shelf(*numbered(3_000, 2_000)).read(limit=10**9)

    assert 0 < reply["count"] < 50
    assert reply["omittedCount"] == 1_000 - reply["count"]


def test_a_session_of_another_owner_is_refused() -> None:
    shelf = Shelf(User(content="mine"))
    theirs = SessionKey("main", "theirs")
    shelf.store.create(theirs, owner=NamedOwner("bob"), label="Bob's plans")
    shelf.add(User(content="secret plans"), key=theirs)
    for visibility in ("self", "tree", "agent", "all"):
        caller = Caller("main", "s", visibility=visibility, agents=("*",))
        history = shelf.history(caller=caller)
        for name in ("theirs", "main/theirs", "Bob's plans", "their"):
            assert history.read(name)["status"] == "forbidden"
        assert "Bob" not in history.sessions_text()


def test_wrong_arguments_are_refused_as_data() -> None:
    shelf = Shelf(*numbered(2))
    refused: list[dict[str, Any]] = [
        {"include_tools": "perhaps"},
        {"query": 3},
        {"query": "x " * 1_000},
        {"cursor": ["x"]},
        {"around": {}},
        {"cursor": "a", "around": "b"},
        {"query": "a", "around": "b"},
        {"output_ref_path": "a", "cursor": "b"},
        {"output_ref_path": "ab" * 32, "output_ref_offset": -1},
        {"output_ref_path": "ab" * 32, "output_ref_max_chars": 1},
    ]
    for asked in refused:
        assert shelf.read(**asked)["status"] == "invalid", asked
    odd: list[Any] = [None, 3, "", "  ", [], "../../etc/passwd", "a/b/c", "\x00", "x" * 10_000]
    for session in odd:
        reply = shelf.read(session)
        assert reply["status"] in ("invalid", "forbidden"), session
        assert len(str(reply)) < 2_000


# Pages


@given(st.integers(0, 60), st.integers(600, 6_000), st.integers(1, 20), st.booleans())
def test_pages_joined_are_all_messages(
    count: int, cap: int, limit: int, include_tools: bool
) -> None:
    """Without gap or overlap, while the session grows between the pages."""
    records: list[Record] = []
    for number in range(count):
        is_step = number % 3 == 1
        records += step(number, "y" * number) if is_step else [User(content=f"message {number}")]
    shelf = Shelf(*records, cap=cap)
    wanted = [
        record.id
        for record in shelf.store.read(KEY)
        if isinstance(record, User | Assistant)
        or (isinstance(record, ToolResult) and include_tools)
    ]
    found: list[str] = []
    cursor = ""
    for page in range(count + 2):
        reply = shelf.read("s", limit=limit, include_tools=include_tools, cursor=cursor)
        found = [message["id"] for message in reply["messages"]] + found
        shelf.add(User(content=f"said meanwhile {page}"))
        cursor = reply["cursor"]
        if not reply["hasMore"]:
            break

    assert found == wanted
    assert cursor is None


def test_forged_foreign_and_stale_cursors_are_refused() -> None:
    """With a reason, and nothing is read."""
    shelf = Shelf(*numbered(30))
    other = SessionKey("main", "other")
    shelf.store.create(other, parent_session=str(KEY), reason="spawn")
    shelf.add(*numbered(30), key=other)
    good = shelf.read(limit=5)["cursor"]
    foreign = shelf.read("other", limit=5)["cursor"]
    ids = [record.id for record in shelf.store.read(KEY)]
    stale = made_cursor(KEY, ids[-1])
    shelf.add(Rewind(to=ids[10]))
    for cursor, reason in (
        (good[:-1] + ("0" if good[-1] != "0" else "1"), "checksum"),
        ("hc1.00.000000000000", "checksum"),
        ("../../etc/passwd", "not a cursor"),
        (foreign, "another session"),
        (stale, "rewound"),
        (made_cursor(KEY, "nothing"), "rewound"),
    ):
        reply = shelf.read(cursor=cursor)
        assert reply["status"] == "invalid"
        assert reason in reply["error"]
        assert "messages" not in reply


def test_a_cursor_gives_no_right_to_read() -> None:
    shelf = Shelf(*numbered(30))
    shelf.store.create(SessionKey("main", "stranger"))
    cursor = shelf.read(limit=5)["cursor"]

    reply = shelf.history(caller=Caller("main", "stranger")).read("s", cursor=cursor)

    assert reply["status"] == "forbidden"


# Around a record


def test_a_read_around_a_record_has_both_sides() -> None:
    shelf = Shelf()
    ids = shelf.add(*numbered(41))

    reply = shelf.read(around=ids[20], limit=5)

    assert [message["id"] for message in reply["messages"]] == ids[18:23]
    assert reply["hasMore"]
    assert reply["hasNewer"]
    older = shelf.read(cursor=reply["cursor"], limit=3)
    assert [message["id"] for message in older["messages"]] == ids[15:18]


@given(st.integers(0, 40), st.integers(0, 20_000), st.integers(1, 50))
@examples(60)
def test_around_any_record_and_within_any_cap_the_anchor_is_there(
    place: int, cap: int, limit: int
) -> None:
    shelf = Shelf(cap=cap)
    ids = shelf.add(*numbered(41, 400))

    text = shelf.history().text("s", around=ids[place], limit=limit)

    assert len(text.encode()) <= cap
    reply = json.loads(text) if text else {}
    found = [message["id"] for message in reply.get("messages", ()) if "id" in message]
    if found:
        first = ids.index(found[0])
        assert found == ids[first : first + len(found)]
        assert ids[place] in found
        assert len(found) <= limit
    if "hasNewer" in reply and found:
        assert reply["hasNewer"] == (found[-1] != ids[-1])
        assert reply["hasMore"] == (found[0] != ids[0])


def test_a_read_around_a_result_shows_its_call() -> None:
    shelf = Shelf(*numbered(5))
    ids = shelf.add(*step(1))
    shelf.add(*numbered(5))

    reply = shelf.read(around=ids[1], limit=1, include_tools=True)

    assert [message["id"] for message in reply["messages"]] == ids


@pytest.mark.parametrize("around", ["nothing", "0", "@0", "../x", "\x00", "x" * 999])
def test_a_read_around_nothing_is_refused(around: str) -> None:
    reply = Shelf(*numbered(3)).read(around=around)

    assert reply["status"] in ("not_found", "invalid")


# Search


def test_a_search_finds_all_words_newest_first_and_in_order() -> None:
    shelf = Shelf()
    for number in range(50):
        words = "red apple" if number % 5 == 0 else "green apple"
        shelf.add(User(content=f"{number} {words}"))

    reply = shelf.read(query="APPLE red", limit=3)

    assert said(reply) == ["35 red apple", "40 red apple", "45 red apple"]
    assert reply["matches"] == 3
    assert reply["hasMore"]
    older = shelf.read(query="APPLE red", limit=30, cursor=reply["cursor"])
    assert said(older) == [f"{number} red apple" for number in range(0, 35, 5)]
    assert not older["hasMore"]
    assert shelf.read(query="blue")["matches"] == 0


def test_a_search_is_no_oracle_for_secrets() -> None:
    """Whether a guess is right or wrong, the reply is the same."""
    key = TOKENS["GitHub"]
    shelf = Shelf(User(content=f"deploy with {PHRASE} and {key}"), User(content="deploy is done"))
    for guess in ("battery", "horse staple", key, key[:10], key[6:20], PHRASE):
        right, wrong = shelf.read(query=guess), shelf.read(query="never said anywhere")
        assert right["messages"] == wrong["messages"] == []
        assert {name: right[name] for name in right if name != "bytes"} == {
            name: wrong[name] for name in wrong if name != "bytes"
        }
    assert shelf.read(query="deploy")["matches"] == 2


def test_a_match_in_a_long_text_is_shown() -> None:
    shelf = Shelf(User(content="x " * 30_000 + "NEEDLE" + " y" * 30_000))

    [content] = said(shelf.read(query="needle"))

    assert "NEEDLE" in content
    assert len(content) <= 4_000


def test_pages_of_a_search_that_fill_up_go_on_where_they_end() -> None:
    shelf = Shelf(*numbered(40, 3_000), cap=10_000)
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        reply = shelf.read(query="xxx", cursor=cursor)
        found = [text[:5] for text in said(reply)] + found
        cursor = reply["cursor"]

    assert found == [f"{number:05}" for number in range(40)]


# Outputs


def offloaded(shelf: Shelf, text: str) -> tuple[str, list[str]]:
    sha256 = shelf.blobs.put(text.encode())
    ref = OutputRef(sha256=sha256, bytes=len(text.encode()), kind="text", lines=1)
    call, result = step(1, "preview")
    assert isinstance(result, ToolResult)
    stored = ToolResult(tool_use_id="c1", name="f", content="preview", output_ref=ref)
    return sha256, shelf.add(call, stored)


def test_an_output_is_read_by_its_path_verified_and_within_the_cap() -> None:
    """150,000 characters in pages; the seed's numbers for how much at once."""
    shelf = Shelf()
    text = "".join(f"line {number:06}\n" for number in range(12_500))
    sha256, ids = offloaded(shelf, text)
    shown = shelf.read(include_tools=True)["messages"][-1]["outputRef"]
    assert shown["path"] == sha256

    reply = shelf.read(output_ref_path=shown["path"])

    assert reply["output"]["sha256"] == sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert reply["output"]["sha256Verified"] is True
    assert reply["output"]["text"] == text[:20_000]
    assert reply["output"]["nextOffset"] == 20_000
    assert reply["truncated"]
    for asked, size in ((256, 256), (300, 300), (10**9, None), ("500", 500)):
        output = shelf.read(output_ref_path=sha256, output_ref_max_chars=asked)["output"]
        assert size is None or len(output["text"]) == size
    joined, offset = "", cast("int | None", 0)
    while offset is not None:
        asked_for = {"output_ref_offset": offset, "output_ref_max_chars": 120_000}
        output = shelf.read(output_ref_path=sha256[:16], **asked_for)["output"]
        joined, offset = joined + output["text"], output["nextOffset"]
    assert joined == text
    assert shelf.read(output_ref_path=ids[1])["output"]["text"] == text[:20_000]


@given(st.integers(0, 2_000))
@examples(40)
def test_an_output_fits_any_cap(cap: int) -> None:
    shelf = Shelf()
    sha256, _ids = offloaded(shelf, '"\x00😀' * 400)

    text = shelf.history(max_bytes=cap).text("s", output_ref_path=sha256)

    assert len(text.encode()) <= cap
    assert cap < 2 or isinstance(json.loads(text), dict)


def test_the_ref_of_every_cut_leads_to_the_rest() -> None:
    """A long text, arguments, a list, a picture: whatever was cut can be read by its marker."""
    call = {"type": "tool_use", "id": "c1", "name": "write", "input": {"body": "b" * 9_000}}
    picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
    shelf = Shelf(
        User(content="u" * 9_000),
        Assistant(content=[call]),
        ToolResult(tool_use_id="c1", name="write", content="r" * 9_000),
        User(content=[{"type": "text", "text": f"{number}"} for number in range(900)]),
        User(content=[picture]),
    )
    wanted = ("u" * 9_000, "b" * 9_000, "r" * 9_000, "\n450\n", PNG)

    for message, text in zip(shelf.read(include_tools=True)["messages"], wanted, strict=True):
        [ref] = set(re.findall(r"ref\"?[: ]+\"?([0-9a-f]{18})", json.dumps(message)))
        assert ref == message["id"]
        assert text in shelf.read(output_ref_path=ref)["output"]["text"]


def test_pages_of_an_output_come_to_an_end_whatever_the_cap() -> None:
    """Where there is no room for a character, nobody is sent to the same place again."""
    shelf = Shelf()
    sha256, _ids = offloaded(shelf, "x" * 3_000)
    for cap in range(2, 900, 97):
        offset: int | None = 0
        for _page in range(3_001):
            reply = shelf.history(max_bytes=cap).read(
                "s", output_ref_path=sha256, output_ref_offset=offset
            )
            offset = reply.get("output", {}).get("nextOffset")
            if offset is None:
                break
        assert offset is None


def test_an_output_is_redacted_and_says_so() -> None:
    shelf = Shelf()
    sha256, _ids = offloaded(shelf, f"token {PHRASE} and {TOKENS['Anthropic']}\n" * 50)

    reply = shelf.read(output_ref_path=sha256)

    assert PHRASE not in str(reply)
    assert TOKENS["Anthropic"] not in str(reply)
    assert reply["contentRedacted"]
    plain, _ids = offloaded(shelf, "nothing to hide\n" * 50)
    assert not shelf.read(output_ref_path=plain)["contentRedacted"]


def test_a_damaged_or_missing_output_is_an_error_without_text() -> None:
    class Damaged(MemoryBlobs):
        def chunks(self, sha256: str, *, size: int | None = None) -> Any:
            return super().chunks("00" * 32, size=size)

    shelf = Shelf(store=MemoryStore(blobs=Damaged()))
    sha256, _ids = offloaded(shelf, "x" * 1_000)

    reply = shelf.read("s", output_ref_path=sha256)

    assert reply["status"] == "not_found"  # it is gone, and trying again brings nothing
    assert "xxx" not in str(reply)


@pytest.mark.parametrize(
    "ref",
    [
        *("../../etc/passwd", "/etc/passwd", "%2e%2e%2fetc", "\x00", "tool-output/x.json"),
        *("00" * 32, "ab", "x" * 5_000, "@0/../x"),
    ],
)
def test_what_the_session_does_not_hold_is_refused(ref: str) -> None:
    """Paths in every spelling, and payloads that are there but are another session's."""
    shelf = Shelf(User(content="hello " + "cd" * 32))
    theirs = shelf.blobs.put(b"another session's")
    for asked in (ref, theirs, theirs[:16]):
        reply = shelf.read(output_ref_path=asked)
        assert reply["status"] in ("not_found", "invalid")
        assert "another session's" not in str(reply)


# Names


def test_sessions_are_found_by_id_label_and_key() -> None:
    shelf = Shelf(User(content="hello"))
    for name in ("current", "s", "main/s", "The notes", "The no"):
        assert said(shelf.read(name)) == ["hello"], name


def test_a_session_that_vanishes_meanwhile_betrays_no_other() -> None:
    """The store's own error names sessions that are near; the reply does not."""

    class Vanishing(MemoryStore):
        def back(self, key: SessionKey, *_args: Any, **_more: Any) -> Any:
            raise NoSuchSession(str(key), ["s-of-somebody-else"])

    store = Vanishing()
    store.create(KEY)
    reply = History(store, caller=OWN).read("s")

    assert reply["status"] == "forbidden"
    assert "somebody" not in str(reply)


def test_an_exact_id_is_found_without_listing_anything() -> None:
    class Unlisted(MemoryStore):
        def sessions(self, **_filters: Any) -> Any:
            raise AssertionError("all sessions were listed")

    store = Unlisted()
    store.create(KEY)
    store.append(KEY, [User(content="hello")], expect=ANY_HEAD)

    for caller, name in ((OWN, "s"), (OWN, "current"), (OPERATOR, "main/s"), (OPERATOR, "s")):
        assert said(History(store, caller=caller).read(name)) == ["hello"]


def test_the_operator_is_told_what_is_missing() -> None:
    shelf = Shelf(caller=OPERATOR)

    reply = shelf.read("The note5")

    assert reply["status"] == "not_found"
    assert "The notes" in reply["error"]


# Listing


def test_the_list_has_what_may_be_read_and_says_its_scope() -> None:
    shelf = Shelf(*numbered(3))
    child, other = SessionKey("main", "child"), SessionKey("else", "other")
    shelf.store.create(child, parent_session=str(KEY), reason="spawn", label=f"child {PHRASE}")
    shelf.store.create(other)

    reply = shelf.history().sessions()

    assert {row["sessionKey"] for row in reply["sessions"]} == {"main/s", "main/child"}
    assert PHRASE not in str(reply)
    assert reply["contentRedacted"]
    assert reply["scope"] == "tree of main/s"
    assert reply["bytes"] == len(shelf.history().sessions_text().encode())
    notes = next(row for row in reply["sessions"] if row["sessionKey"] == "main/s")
    assert (notes["label"], notes["agent"], notes["messages"]) == ("The notes", "main", 3)
    for row in reply["sessions"]:
        assert "status" not in shelf.read(row["sessionKey"])


def test_a_list_is_within_its_cap() -> None:
    shelf = Shelf(caller=OPERATOR)
    for number in range(60):
        shelf.store.create(SessionKey("main", f"n{number}"), label="x" * 100)
    for cap in (0, 1, 2, 30, 100, 500, 3_000, 81_920):
        text = shelf.history(max_bytes=cap).sessions_text()
        assert len(text.encode()) <= cap
    reply = shelf.history(max_bytes=3_000).sessions()
    assert reply["count"] + reply["omittedCount"] == 61
    assert reply["truncated"]
    assert shelf.history().sessions(limit=3)["count"] == 3
    assert shelf.history().sessions(limit=0)["status"] == "invalid"


# The audit log


def test_every_access_is_in_the_audit_log() -> None:
    shelf = Shelf(User(content="hello"))
    shelf.store.create(SessionKey("else", "other"))
    shelf.read()
    shelf.read("s", query="hello")
    shelf.read("else/other")
    shelf.read(cursor="forged")
    shelf.read(output_ref_path="00" * 32)
    shelf.history().sessions()

    noted = shelf.audit.entries().accesses

    assert [(one.action, one.is_allowed) for one in noted] == [
        ("read", True),
        ("search", True),
        ("read", False),
        ("read", False),
        ("output", False),
        ("list", True),
    ]
    assert [one.target for one in noted[:3]] == ["current", "s", "else/other"]
    assert all((one.agent, one.session) == ("main", "s") for one in noted)
    assert noted[0].bytes > 0
    assert noted[2].bytes == 0
    assert "hello" not in str(noted)


class DeadAudit(MemoryAudit):
    def note(self, access: Access) -> None:
        raise StoreUnavailable("the disk is full")


def test_what_cannot_be_recorded_is_not_given() -> None:
    class Unrecorded(MemoryStore):
        audit = DeadAudit()

    shelf = Shelf(User(content="hello"), store=Unrecorded())

    for reply in (shelf.read("s"), shelf.history().sessions()):
        assert reply["status"] == "error"
        assert "hello" not in str(reply)
        assert "audit log" in reply["error"]
    with pytest.warns(HoldfastWarning, match="disk is full"):
        reply = shelf.history(caller=OPERATOR).read("s")
    assert said(reply) == ["hello"]


def test_others_are_not_told_about_the_store() -> None:
    class Broken(MemoryStore):
        def back(self, *_args: Any, **_more: Any) -> Any:
            raise StoreUnavailable("/srv/secret/place is read-only")

    store = Broken()
    store.create(KEY)
    for caller, is_told in ((OWN, False), (OPERATOR, True)):
        reply = History(store, caller=caller).read("main/s")
        assert reply["status"] == "error"
        assert ("/srv/secret/place" in reply["error"]) is is_told


# Laws


@given(st.integers(0, 2_000), st.integers(0, 30))
@examples(60)
def test_no_call_raises_and_every_reply_is_within_its_cap(cap: int, seed: int) -> None:
    shelf = Shelf(*numbered(5, 100), *step(1, PHRASE), cap=cap)
    asked = (
        {},
        {"limit": 0},
        {"limit": 3},
        {"query": "x"},
        {"cursor": "forged"},
        {"around": "nothing"},
        {"include_tools": True},
        {"output_ref_path": "ab" * 32},
    )[seed % 8]
    for session in ("s", "absent", "x" * 300):
        text = shelf.history().text(session, **asked)
        assert len(text.encode()) <= cap
        assert PHRASE not in text
        assert text == "" if cap < 2 else json.loads(text) is not None


def test_hostile_history_gives_one_page_and_no_key() -> None:
    """80 messages of 24 KB with every kind of key planted: one call, 80 KiB, none of them."""
    keys = list(TOKENS.values())
    records: list[Record] = []
    for number in range(80):
        key = keys[number % len(keys)]
        text = f"{number} " + "filler words " * 850 + f" export TOKEN={key} " + "more " * 2_000
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"env": key}}
        records.append(Assistant(content=[{"type": "text", "text": text}, call]))
    shelf = Shelf(*records)

    text = shelf.history().text("s", include_tools=True)

    assert len(text.encode()) <= 81_920
    assert not [key for key in keys if key in text]
    assert json.loads(text)["messages"][-1]["content"][0]["text"].startswith("79 ")
    assert json.loads(text)["contentRedacted"]


# As tools, and on real files


def test_the_tools_have_the_names_of_the_seed() -> None:
    history, listing = Shelf().history().tools()

    assert history.tool.name == "sessions_history"
    assert listing.tool.name == "sessions_list"
    assert list(history.tool.parameters["properties"]) == [
        *("sessionKey", "limit", "includeTools", "query", "cursor", "around"),
        *("outputRefPath", "outputRefMaxChars", "outputRefOffset"),
    ]
    assert history.tool.parameters["required"] == ["sessionKey"]


def test_a_model_can_call_the_tools() -> None:
    """In a session of its own, with the caller that the application set."""
    shelf = Shelf(User(content="what was said before"))
    tools = shelf.history().tools()
    with Session.open("s", model="offline", store=shelf.store, tools=tools) as session:
        session.say('sessions_history(sessionKey="current", includeTools=true, limit=5)')
        session.say("sessions_list()")
        session.say('sessions_history(sessionKey="current", limit=0)')
    results = [one for one in shelf.store.read(KEY) if isinstance(one, ToolResult)]
    first, second, third = (json.loads(str(one.content)) for one in results)

    assert said(first)[0] == "what was said before"
    assert [row["sessionKey"] for row in second["sessions"]] == ["main/s"]
    assert third["status"] == "invalid"


@pytest.mark.files_only("it looks at the files")
def test_the_newest_page_of_files_is_read_back_from_their_end(tmp_path: Any) -> None:
    """Blobs and the audit log are those of the root, and labels do not stand in the way."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
        store.append(KEY, [*numbered(300), Label(label="named")], expect=ANY_HEAD)
        history = History(store, caller=OWN, redactor=Redactor())

        reply = history.read("named", limit=2)

        assert [text[:5] for text in said(reply)] == ["00298", "00299"]
        assert history.read("s", output_ref_path="ab" * 32)["status"] == "not_found"
    assert (tmp_path / "audit.jsonl").read_bytes().count(b"\n") == 2
