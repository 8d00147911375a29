"""The offline model: uses tools, quotes, summarises by rules, and never claims more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conversations import digests_of, messy_logs

from holdfast.core.compaction import summary_request
from holdfast.core.log.records import Assistant, Compaction, Record, ToolResult, User
from holdfast.core.memory import notes
from holdfast.core.models.messages import Tool
from holdfast.core.models.usage import read_usage
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.tokens.counting import Estimator
from holdfast.core.window import Window
from holdfast.engine.session.prepare import prepare_request
from holdfast.errors import BadSetting
from holdfast.providers.models import async_model, model
from holdfast.providers.offline.answers import ABOUT, NOTHING
from holdfast.providers.offline.measuring import PromptTooLong
from holdfast.providers.offline.model import OfflineModel
from holdfast.providers.offline.summaries import TranscriptEntry, summarise
from holdfast.providers.replies import partial_of
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.replies import Delta, Reply

READ = Tool(
    "read_file",
    "Reads a file",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
CLOCK = Tool("get_time", "Tells the time", {"type": "object", "properties": {}})
TOOLS = (READ, CLOCK)


class Talk:
    """A conversation with the offline model, as an engine would hold it."""

    def __init__(self, results: dict[str, str] | None = None, **settings: Any) -> None:
        self.model = OfflineModel(**settings)
        self.records: list[Record] = []
        self.results = results or {}
        self.rounds = 0

    def say(self, text: str) -> str:
        self.records.append(User(content=text))
        while True:
            reply = self.ask()
            self.rounds += 1
            self.records.append(
                Assistant(
                    content=reply.content,
                    provider=reply.provider,
                    model=reply.model,
                    usage=reply.raw_usage,
                )
            )
            if not reply.calls:
                return reply.text
            for call in reply.calls:
                path = str(call.arguments.get("path", call.name))
                found = self.results.get(path)
                content = f"no such file: {path}" if found is None else found
                self.records.append(
                    ToolResult(tool_use_id=call.id, content=content, is_error=found is None)
                )

    def ask(self, *more: Record, tools: Sequence[Tool] = TOOLS) -> Reply:
        request = prepare_request(
            ProjectionRequest(
                [*self.records, *more], self.model.window, self.model.target, tools=tools
            )
        ).request
        return self.model.send(request)


def test_says_what_it_is() -> None:
    """It introduces itself as what it is, with the tools it can be told to use."""
    said = Talk().say("Hello, who are you?")

    assert said.startswith(ABOUT)
    assert "read_file(path=…)" in said


def test_quotes_what_was_said() -> None:
    """A question is answered with the sentence that answers it, and who said it."""
    talk = Talk()
    talk.say("The staging server is called heron. Its port is 8443.")
    talk.say("Ada owns the billing code.")

    assert "“Its port is 8443.” (you, message 1)" in talk.say("Which port does staging have?")
    assert "Ada owns the billing code." in talk.say("Who owns billing?")


def test_does_not_know_what_nobody_said() -> None:
    """Without a sentence that fits it says that it does not know."""
    talk = Talk()
    talk.say("The port is 8443.")

    assert talk.say("What is the capital of France?").startswith(NOTHING)


def test_does_not_quote_itself() -> None:
    """Its own answers are no source: asked again, it quotes the person, not the quote."""
    talk = Talk()
    talk.say("The port is 8443.")
    first = talk.say("Which port is it?")

    assert talk.say("Which port is it?") == first
    assert first.count("8443") == 1


def test_uses_tools_and_tells_what_came_back() -> None:
    """A request for tools is calls; the results are told once, with their size, and that is it."""
    talk = Talk({"a.txt": "first line\nsecond line\n" + "more\n" * 10, "get_time": '{"hour": 9}'})

    said = talk.say("read_file(path='a.txt') read_file(path='missing.txt') get_time()")

    assert talk.rounds == 2
    assert "Back from `read_file(path=a.txt)`: 12 lines, 73 characters" in said
    assert "first line" in said
    assert "Back from `read_file(path=missing.txt)`: it failed: no such file: missing.txt" in said
    assert "an object with `hour` (JSON)" in said


def test_answers_the_rest_from_the_results() -> None:
    """What else was asked is looked for in what came back."""
    talk = Talk({"notes.md": "# Notes\nThe key is in the safe.\nThe safe is blue.\n"})

    said = talk.say("read_file(path='notes.md') and tell me where the key is")

    assert "“The key is in the safe.” (read_file(path=notes.md))" in said
    assert "Nothing in it" in talk.say(
        "read_file(path='notes.md') and tell me what the password was"
    )


def test_quotes_what_a_summary_has_kept() -> None:
    """After a cut, what the summary says of a person's words is still found, and named as that."""
    said = "> The port is 8443.\n\n> read_file(path='a.txt')"
    cut = Compaction(
        summary=f"### Goal\n- Ship it.\n\n## What happened so far, in order\n{said}", id="c"
    )
    talk = Talk({"ports.md": "All ports are open. Port after port."})
    talk.records = [cut, User(content="And now?"), Assistant(content="Well.")]
    talk.say("read_file(path='ports.md')")

    said = talk.say("Which port is it?")

    assert "“The port is 8443.” (the summary of the earlier messages)" in said


def test_a_summary_is_no_matter_for_the_next() -> None:
    """Asked at the end of a conversation, an earlier summary goes on as what it was."""
    names = "src/one.py " * 3
    cut = Compaction(
        summary=f"### Decisions\n- We chose SQLite.\n\n## Exact names\n{names}", id="c"
    )
    talk = Talk()
    talk.records = [cut, *worked()]

    said = talk.ask(User(content=summary_request.ask_riding("", 400))).text

    assert "### Decisions\n- We chose SQLite." in said
    assert "conversation so far" not in said
    assert "src/one.py" not in said


def test_asks_for_what_is_missing() -> None:
    """A tool without its argument is not called."""
    talk = Talk()
    assert "lacks `path`" in talk.say("read_file()")
    assert talk.rounds == 1


def test_calls_have_ids_of_their_own() -> None:
    """The same request twice in a conversation makes calls with different ids."""
    talk = Talk({"a.txt": "x"})
    talk.say("read_file(path='a.txt')")
    talk.say("read_file(path='a.txt')")

    ids = [
        block["id"]
        for record in talk.records
        if isinstance(record, Assistant)
        for block in record.content or ()
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    assert len(ids) == len(set(ids)) == 2


def test_same_request_same_reply() -> None:
    """It is deterministic, across instances."""
    first, second = Talk({"a.txt": "x"}), Talk({"a.txt": "x"})
    for said in ("hello", "The port is 1.", "read_file(path='a.txt')", "which port?"):
        assert first.say(said) == second.say(said)
    assert first.records == second.records


def test_streams_what_it_says() -> None:
    """Told in pieces, it is the same; what a listener raises ends it and keeps what was told."""
    talk = Talk()
    request = prepare_request(
        ProjectionRequest([User(content="hello")], Window(32_000), talk.model.target)
    ).request
    heard: list[Delta] = []

    reply = talk.model.send(request, heard.append)

    assert len(heard) > 5
    assert "".join(delta.text for delta in heard) == reply.text

    def stop(_delta: Delta) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        talk.model.send(request, stop)
    partial = partial_of(caught.value)
    assert partial is not None
    assert reply.text.startswith(partial.text)


def test_reports_usage_that_grows_and_is_cached() -> None:
    """The meter moves: the prompt grows with the conversation, and its beginning is cached."""
    talk = Talk()
    talk.say("A long story. " * 400)
    talk.say("And another. " * 400)
    usages = [
        read_usage(record.usage, "holdfast")
        for record in talk.records
        if isinstance(record, Assistant)
    ]

    first, second = usages
    assert first is not None
    assert second is not None
    assert second.prompt > first.prompt > 1_000
    assert first.cached_read == 0
    assert second.cached_read >= first.prompt * 0.9
    assert second.output


def test_refuses_what_is_larger_than_its_window() -> None:
    """A request over its window is refused as Anthropic does it, with both numbers."""
    small = OfflineModel(window=2_000)
    request = {"messages": [{"role": "user", "content": "word " * 5_000}]}

    with pytest.raises(PromptTooLong, match=r"prompt is too long: \d+ tokens > 2000 maximum"):
        small.send(request)


def test_keeps_to_the_output_cap() -> None:
    """A reply longer than asked for ends at the cap and says so."""
    talk = Talk()
    request = prepare_request(
        ProjectionRequest([User(content="hello")], Window(32_000), talk.model.target)
    ).request

    reply = talk.model.send({**request, "max_tokens": 9})

    assert (reply.stop, reply.stop_reason) == ("length", "max_tokens")
    assert Estimator().count(reply.text) <= 12


def worked() -> list[Record]:
    """A conversation worth summarising."""
    said: list[Record] = [
        User(
            content="Please fix the login bug in src/auth/login.py. Never touch the billing code."
        ),
        Assistant(content="I found the cause in src/auth/login.py: the token expires after 900 s."),
        User(content="We decided to use a refresh token because users complained."),
        Assistant(content="The clock of the server was not the cause."),
        Assistant(content="I fixed src/auth/login.py and added tests in tests/test_login.py."),
        ToolResult(tool_use_id="x", content="2 passed", name="bash"),
        User(content="Next, the release notes are still to do."),
    ]
    filler = "The meeting went on for a while and people talked about many other things. " * 12
    return [*said, Assistant(content=filler), User(content="What remains?")]


@pytest.mark.parametrize("rides", [True, False])
def test_summaries_are_accepted(rides: bool) -> None:
    """Asked either way, the summary has the headings, keeps its cap and passes the judge."""
    records = worked()
    talk = Talk()
    if rides:
        talk.records = records
        reply = talk.ask(User(content=summary_request.ask_riding("", 300)))
    else:
        piece = summary_request.parts(digests_of(records), 4_000, 1, Estimator())[0]
        asked = summary_request.ask(piece, cap_tokens=300)
        reply = talk.ask(User(content=asked))

    verdict = summary_request.judge(reply, covered=records, cap_tokens=300, counter=Estimator())

    assert verdict.text is not None, verdict.reason
    for kept in (
        "### Constraints\n- Never touch the billing code.",
        "We decided to use a refresh token",
        "src/auth/login.py",
        "### Ruled out\n- The clock of the server was not the cause.",
        "release notes are still to do",
    ):
        assert kept in verdict.text


def test_summaries_carry_the_previous_one() -> None:
    """What an earlier summary said goes on under its heading."""
    previous = "### Goal\n- Ship version 2.\n### Decisions\n- We chose SQLite."
    piece = summary_request.parts(digests_of(worked()), 4_000, 1, Estimator())[0]

    reply = Talk().ask(User(content=summary_request.ask(piece, previous=previous, cap_tokens=400)))

    assert "Ship version 2." in reply.text
    assert "We chose SQLite." in reply.text
    assert reply.text.count("### Goal") == 1


def test_summaries_stay_bounded_over_many_rounds() -> None:
    """Ten summaries, each made from the one before: the size does not grow."""
    previous = ""
    for number in range(10):
        entries = [
            TranscriptEntry("user", f"Request {number}: never change file_{number}.py."),
            TranscriptEntry("assistant", "I changed something else. " * 30),
        ]
        previous = summarise(entries, cap_tokens=200, counter=Estimator(), previous=previous)
        assert Estimator().count(previous) <= 200
    assert "file_9.py" in previous


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(messy_logs(), st.integers(20, 800))
def test_summaries_keep_their_cap(records: list[Record], cap: int) -> None:
    """Of any history, whatever is in it."""
    pieces = summary_request.parts(digests_of(records), 3_000, 1, Estimator())
    if not pieces:
        return
    asked = summary_request.ask(pieces[0], cap_tokens=cap)
    reply = OfflineModel().send({"messages": [{"role": "user", "content": asked}]})

    counter = counter_for("offline")
    assert counter.count(reply.text) <= max(cap, counter.count(NOTHING))


@pytest.mark.parametrize("rides", [True, False])
def test_notes_are_what_was_laid_down(rides: bool) -> None:
    """Asked for notes, it lists standing rules and decisions; known ones are not repeated."""
    records = worked()
    piece = "" if rides else summary_request.parts(digests_of(records), 4_000, 1, Estimator())[0]
    talk = Talk()
    talk.records = records if rides else []

    found = notes.read_notes(talk.ask(User(content=notes.ask_for_notes(piece))))

    assert "Never touch the billing code." in found
    assert "We decided to use a refresh token because users complained." in found
    again = talk.ask(User(content=notes.ask_for_notes(piece, known=found)))
    assert again.text == notes.SILENT


def test_lists_in_a_narrative_are_no_known_notes() -> None:
    """Only what is between the tags for it is known: a list that somebody wrote is not."""
    said = "- Never touch the billing code.\n- Always write British spelling."
    piece = summary_request.parts(digests_of([User(content=said)]), 4_000, 1, Estimator())[0]
    found = notes.read_notes(Talk().ask(User(content=notes.ask_for_notes(piece))))
    assert found == ["Never touch the billing code.", "Always write British spelling."]


def test_courtesies_and_signs_of_a_cut_are_in_no_summary() -> None:
    """A goal says something, and an earlier summary's gaps are not told as news."""
    entries = [
        TranscriptEntry("user", "Thank you. Clear enough. Draft the release notes."),
        *(TranscriptEntry("assistant", f"I wrote page {n} of the notes.") for n in range(20)),
    ]
    previous = "### Goal\n- Good.\n- Ship it.\n### Progress\n- [… 4 lines left out …]"
    text = summarise(entries, cap_tokens=200, counter=Estimator(), previous=previous)
    assert "- Ship it.\n- Draft the release notes." in text
    assert not any(word in text for word in ("Good.", "Clear enough", "Thank you", "left out"))


def test_no_notes_is_silence() -> None:
    """Where nothing was laid down, it answers with the silent word."""
    talk = Talk()
    talk.say("hello")
    assert talk.ask(User(content=notes.ask_for_notes())).text == notes.SILENT


def test_by_name_and_awaited() -> None:
    """`offline` is it, with the window that is stated; the awaited one says the same."""
    small = model("offline", window=20_000)
    assert isinstance(small, OfflineModel)
    assert small.window.tokens == 20_000
    request = prepare_request(
        ProjectionRequest([User(content="hello")], small.window, small.target)
    ).request

    async def awaited() -> Reply:
        return await async_model("offline").send(request)

    assert asyncio.run(awaited()).text == small.send(request).text
    with pytest.raises(BadSetting, match="takes no name"):
        model("offline:7b")
