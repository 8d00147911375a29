"""A cut tells what was said and done, in any language and with any tool."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.narrative.sessions import FILLER, LANGUAGES, Log, probes, working_session
from tests.support.runs import examples

from holdfast.core.log.records import Assistant, Compaction
from holdfast.core.narrative import pieces, story
from holdfast.core.narrative.carryover import (
    NAMES,
    OLDER,
    STORY,
    carry_digests,
    carry_over,
    prose_of,
    read_back,
)
from holdfast.core.narrative.digest import digest_record, reads_as_prose
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    from holdfast.core.narrative.state import WorkState

COUNTER = Estimator()
WITHIN = 700
"""Characters within which the strings of a probe must stand."""
NONSENSE = {
    "fetch": "glorp",
    "read": "vexit",
    "edit": "quandle",
    "run": "zibbet",
    "search": "morfin",
    "list": "trazzle",
}


def answered(text: str, language: str) -> list[bool]:
    """Whether each probe can be answered from a text."""
    return [
        any(_near(text, group, at) for at in _places(text, group[0])) for group in probes(language)
    ]


def _places(text: str, wanted: str) -> list[int]:
    found, at = [], text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _near(text: str, group: tuple[str, ...], at: int) -> bool:
    around = text[max(0, at - WITHIN) : at + len(group[0]) + WITHIN]
    return all(item in around for item in group)


@pytest.mark.parametrize("language", LANGUAGES)
def test_twelve_probes_are_answered_in_every_language(language: str) -> None:
    text = carry_over(working_session(language), cap_tokens=2_400, counter=COUNTER).text
    assert answered(text, language) == [True] * 12


@pytest.mark.parametrize("language", LANGUAGES)
def test_tools_that_nobody_has_heard_of_are_told_as_well(language: str) -> None:
    plain = carry_over(working_session(language), cap_tokens=1_600, counter=COUNTER).text
    renamed = carry_over(
        working_session(language, NONSENSE), cap_tokens=1_600, counter=COUNTER
    ).text
    lost = sum(answered(plain, language)) - sum(answered(renamed, language))
    assert lost <= 1


def test_every_call_is_told_where_a_line_for_each_fits_a_quarter() -> None:
    log = Log({})
    log.user("Go.")
    for number in range(60):
        log.call(f"tool_{number}", FILLER, place=f"place-{number}", is_error=number % 7 == 3)
    text = carry_over(log.records, cap_tokens=60 * 4 * 24, counter=COUNTER).text
    assert [n for n in range(60) if f"• tool_{n} place-{n}" not in text] == []


def test_a_refused_call_is_told_as_refused_with_the_words_of_the_user() -> None:
    log = Log({})
    log.call("send", "not run", to="all", is_error=True, refused="ask Ines first")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert "• send all → refused by the user\nUser, refusing the call: ask Ines first" in text
    assert "failed" not in text


def test_a_refused_call_is_told_where_not_all_calls_are_at_this_cut_and_the_next() -> None:
    """Its words stand without it, or what it was given seems to have been done."""
    log = Log({})
    log.call("send", "not run", to="all", is_error=True, refused="ask Ines first")
    log.call("drop", "not run", place="attic", is_error=True, refused="")
    for number in range(200):
        log.call("look", FILLER, place=f"shelf-{number}")
    text = ""
    for _cut in range(2):
        text = carry_over(log.records, cap_tokens=900, counter=COUNTER, previous=text).text
        assert "• look shelf-0" not in text
        assert "• send all → refused by the user\nUser, refusing the call: ask Ines first" in text
        assert "• drop attic → refused by the user" in text
        del log.records[:4]


def test_thinking_that_announces_a_call_is_not_told_beside_it() -> None:
    log = Log({})
    for number, thought in enumerate(("Now to the lantern shelf:", "The lantern is broken.")):
        said: dict[str, Any] = {"type": "thinking", "thinking": thought}
        use = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {"at": number}}
        log.records.append(Assistant(content=[said, use], id=f"a{number}"))
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert "Now to the lantern shelf" not in text
    assert "Thought: The lantern is broken." in text


def test_the_thinking_of_a_step_that_stays_without_it_is_told_once() -> None:
    """It ends with the cut; at the next one, the step itself tells it."""
    log = Log({})
    log.user("Mend the lamp.")
    said = {"type": "thinking", "thinking": "The socket waits.\nFirst the copper, as it is known."}
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "attic"}}
    step = digest_record(Assistant(content=[said, use], id="a1"))
    assert step is not None
    before = [found for record in log.records if (found := digest_record(record)) is not None]
    first = carry_digests(before, cap_tokens=400, counter=COUNTER, kept=[step], thoughts=[step])
    assert "Thought, in a step below: The socket waits.\nFirst the copper" in first.text
    second = carry_digests([step], cap_tokens=400, counter=COUNTER, previous=first.text)
    assert second.text.count("First the copper") == 1
    assert "in a step below" not in second.text


def test_a_ticket_that_quotes_code_is_told_as_words() -> None:
    """Its signs stand between backticks; the same lines without them are code."""
    rule = "- The state of `Cart[{n}]` is one of `{{:open, :closed}}` and `/a/b_{n}.ex` reads it."
    ticket = "\n".join(rule.format(n=n) for n in range(8))
    assert reads_as_prose(ticket)
    assert not reads_as_prose(ticket.replace("`", ""))


def test_a_newer_outcome_of_the_same_command_stands_and_the_older_is_marked() -> None:
    log = Log({})
    log.call("run", "2 errors in cart", command="check all", is_error=True)
    log.call("run", "fine now", command="check all")
    log.call("run", "fine now", command="check all")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert "• run check all → failed at first: 2 errors in cart" in text
    assert "• run check all ×2 → fine now" in text
    assert "`check all`: fine now" in text


def test_an_earlier_outcome_that_differs_is_told_although_nothing_says_that_it_failed() -> None:
    """Behind a pipe the status is that of the last program: only the words differ."""
    log = Log({})
    for result in ("boom: a lock was held twice", "ran in 0.34s", "held at 12:03"):
        log.call("run", result, command="check all")
    log.call("run", "not run", command="check all", is_error=True, refused="not now")
    log.call("run", "ran in 3s", command="check all")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert "• run check all → boom: a lock was held twice" in text
    assert "• run check all ×2 → ran in 3s" in text
    assert "• run check all → held at 12:03" in text
    assert "• run check all → refused by the user\nUser, refusing the call: not now" in text


def test_the_place_of_another_tools_summary_is_told_as_long_as_it_stands_above() -> None:
    """What is told before its place is older than it, what is told behind is newer."""
    log = Log({})
    summary = "1. Pending:\n- paint the shelf"
    log.user("Paint the shelf green.")
    log.records.append(Compaction(summary=summary, id="theirs"))
    log.agent("The shelf is painted now.")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER, previous=summary).text
    place = "Summary, told above: 29 characters"
    assert text.startswith(f"{OLDER}\n1. Pending:\n- paint the shelf")
    assert f"User: Paint the shelf green.\n{place}\nAgent: The shelf is painted now." in text
    again = carry_over([], cap_tokens=400, counter=COUNTER, previous=text).text
    assert place in again
    newer = carry_over([], cap_tokens=400, counter=COUNTER, previous=text, prose="### Goal\nx").text
    assert "told above" not in newer


def test_prose_that_a_call_was_given_is_told_with_its_reasons() -> None:
    log = Log({})
    plan = "\n".join(
        f"Step {n}. We move part {n} behind the gate, because the old order loses what came before."
        for n in range(12)
    )
    log.call("keep", "ok", place="/notes/plan.md", body=plan)
    log.call("keep", "ok", place="/src/code.py", body=FILLER)
    text = carry_over(log.records, cap_tokens=1_500, counter=COUNTER).text
    assert "Written: Step 0. We move part 0 behind the gate" in text
    assert "part 11 behind the gate" in text
    assert text.count("Written: ") == 1


def test_the_message_of_a_commit_is_told() -> None:
    log = Log({})
    reason = "Prices are compared after the discount. " * 6 + "The gross sum stays for the export."
    files = " ".join(f"src/folder_{n}/file_{n}.py" for n in range(12))
    log.call("run", "ok", command=f"git add {files} && git commit -m '{reason}'")
    text = carry_over(log.records, cap_tokens=600, counter=COUNTER).text
    assert "The gross sum stays for the export." in text


def test_a_file_with_numbered_lines_is_named_and_not_copied() -> None:
    log = Log({})
    log.call("read", "\n".join(f"{n:4d}\tvalue_{n} = {n}" for n in range(200)), path="/a/b.py")
    text = carry_over(log.records, cap_tokens=2_000, counter=COUNTER).text
    assert "• read /a/b.py" in text
    assert "value_1 =" not in text


def test_lines_that_many_results_have_tell_nothing() -> None:
    log = Log({})
    for number in range(5):
        log.call(
            "run",
            f"result {number * number} of it\nThe folder was reset to /tmp/{number}",
            n=number,
        )
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert "was reset" not in text


def test_the_state_names_files_that_no_commit_followed() -> None:
    log = Log({})
    log.call("edit", "ok", path="/a/b/one.py", old="x = 1\n", new="x = 2\n")
    log.call("run", "done", command="git commit -am wip")
    log.call("edit", "ok", path="/a/b/two.py", old="y = 1\n", new="y = 2\n")
    state = read_back(carry_over(log.records, cap_tokens=600, counter=COUNTER).text).state
    assert state.uncommitted == ("/a/b/two.py",)
    assert state.changed == ("/a/b/one.py",)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=80) | st.sampled_from(
    ("User: hello", "## Open items", "• call", "a\n\n\nb", "[… 3 of 9 characters cut …]", "x" * 900)
)


@examples(60)
@given(said=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=12), cap=st.integers(0, 900))
def test_any_cap_holds_and_what_was_told_can_be_told_again(
    said: list[tuple[str, str, str]], cap: int
) -> None:
    """L3: the cap includes every marker. A carry-over of a carry-over adds no line of its own."""
    log = Log({})
    for user, agent, result in said:
        log.user(user)
        log.agent(agent)
        log.call("tool", result, given=user)
    made = carry_over(log.records, cap_tokens=cap, counter=COUNTER)
    assert COUNTER.count(made.text) == made.tokens <= cap
    again = carry_over([], cap_tokens=cap, counter=COUNTER, previous=made.text)
    assert again.tokens <= cap
    before, after = read_back(made.text), read_back(again.text)
    assert len(after.lines) <= len(before.lines)
    assert {line.text for line in before.lines if line.kind == "user"} >= {
        line.text for line in after.lines if line.kind == "user" and "…" not in line.text
    }


def test_names_that_calls_were_given_are_listed_where_they_stand_nowhere_else() -> None:
    log, words = Log({}), "some plain words of a file\n" * 30
    for number in range(40):
        body = f"{words}\nheron_shelf_{number}(lantern.copperHook)\n{words}"
        log.call("edit", "ok", path=f"/a/b/{number}.py", old=body, new=f"{body} more")
    made = carry_over(log.records, cap_tokens=1_500, counter=COUNTER).text
    story, listed = made.split(f"{NAMES}\n")
    names = listed.split()
    assert names[0] == "lantern.copperHook"  # of all calls
    assert "heron_shelf_39" in names
    assert "heron_shelf_0" not in names
    assert [name for name in names if name in story] == []
    assert COUNTER.count(listed) <= 150
    assert [name for name in names if name.startswith("/a/b/")] == []  # told below its folder
    again = carry_over([], cap_tokens=1_500, counter=COUNTER, previous=made).text
    assert again.split(f"{NAMES}\n")[1].split() == names


def test_ten_cuts_in_a_row_keep_the_first_words() -> None:
    """Each cut sees the carry-over before it and the records since, and nothing else."""
    previous = None
    for number in range(10):
        log = Log({})
        log.user(f"request {number}: mind the heron_{number} in the {number}. shelf")
        log.agent(f"The heron_{number} goes to shelf {number}, because it is the only free one.")
        for step in range(10):
            log.call("look", FILLER, place=f"shelf-{number}-{step}")
        previous = carry_over(log.records, cap_tokens=900, counter=COUNTER, previous=previous).text
    assert previous is not None
    assert all(f"mind the heron_{n} in the {n}. shelf" in previous for n in range(10))


def test_a_commit_in_another_folder_stores_nothing_of_this_one() -> None:
    log = Log({})
    log.call("edit", "ok", path="/a/b/one.py", old="x = 1\n", new="x = 2\n")
    log.call("run", "done", command="cd /a/other && git commit -am wip")
    state = read_back(carry_over(log.records, cap_tokens=600, counter=COUNTER).text).state
    assert state.uncommitted == ("/a/b/one.py",)

    log.call("run", "done", command="git -C /a/b commit -am wip")
    state = read_back(carry_over(log.records, cap_tokens=600, counter=COUNTER).text).state
    assert state.uncommitted == ()


def test_the_last_check_says_the_end_of_its_output_and_claims_no_success() -> None:
    """Behind a pipe to `tail`, the status of a call says nothing about the tests."""
    log = Log({})
    for _run in range(2):
        output = "\n".join((*(f"step {n} of it" for n in range(90)), "2 of 90 broken"))
        log.call("run", output, command="check all | tail -99")
    (check,) = read_back(
        carry_over(log.records, cap_tokens=900, counter=COUNTER).text
    ).state.check.splitlines()
    assert check.startswith("`check all | tail -99`: …")
    assert check.endswith("2 of 90 broken")


def test_a_push_that_was_made_before_is_no_check() -> None:
    log = Log({})
    for said in ("3 passed", "4 passed"):
        log.call("run", said, command="make test")
        log.call("run", "done", command="git push origin main")
    assert read_back(carry_over(log.records, cap_tokens=600, counter=COUNTER).text).state.check == (
        "`make test`: 4 passed"
    )


def test_a_check_is_known_by_its_parts() -> None:
    """`lint && test` is the last check where the parts were run before; what only shows something
    is none, however often it is run."""
    log = Log({})
    for command, outcome in (
        ("make lint", "clean"),
        ("make test", "2 failed"),
        ("git status", "1 file"),
        ("cd /srv/app && make lint && make test", "all 7 passed"),
        ("git status", "1 file"),
        ("make package", "built"),
    ):
        log.call("run", outcome, command=command)
    text = carry_over(log.records, cap_tokens=1_000, counter=COUNTER).text
    check = text.split("## Last check\n")[1].splitlines()[0]
    assert check == "`cd /srv/app && make lint && make test`: all 7 passed"


@pytest.mark.parametrize("seed", range(5))
def test_the_state_is_the_one_after_what_stays_wherever_the_cut_is(seed: int) -> None:
    """An open task that the newest part closes is not open; a file that it changes is named."""
    random = Random(seed)
    log = Log({})
    for number in range(14):
        path, old, new = f"/a/b/{random.randrange(4)}.py", f"x = {number}\n", f"x = {number + 1}\n"
        todos = [
            {"content": f"task {n}", "status": random.choice(["pending", "completed"])}
            for n in range(3)
        ]
        match random.randrange(4):
            case 0:
                log.call("edit", "ok", path=path, old=old, new=new)
            case 1:
                log.call("run", "done", command="git commit -am wip")
            case 2:
                log.call("plan", "ok", todos=todos)
            case _:
                log.call("run", f"result {number}", command="check all")
    digests = [found for record in log.records if (found := digest_record(record)) is not None]

    def state_of(cut: int) -> WorkState:
        text = carry_digests(
            digests[:cut], kept=digests[cut:], cap_tokens=3_000, counter=COUNTER
        ).text
        return msgspec.structs.replace(read_back(text).state, paths=())

    whole = state_of(len(digests))
    assert whole.changed or whole.uncommitted
    assert [cut for cut in range(len(digests)) if state_of(cut) != whole] == []


def test_headings_of_the_agent_are_no_summary_at_the_next_cut() -> None:
    log = Log({})
    log.user("plan it")
    log.agent("A plan follows.\n\n### Steps\nFirst the heron, then the shelf.")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert not prose_of(text)
    again = carry_over([], cap_tokens=400, counter=COUNTER, previous=text).text
    assert again.startswith(STORY)
    assert again.count("First the heron") == 1


def test_a_summary_that_steps_follow_is_marked_as_older_once() -> None:
    previous = "### Open\n- paint the shelf"
    for number in range(3):
        log = Log({})
        log.agent(f"The shelf {number} is painted now, and it is dry.")
        text = carry_over(log.records, cap_tokens=400, counter=COUNTER, previous=previous).text
        assert text.startswith(f"{OLDER}\n### Open\n- paint the shelf")
        assert text.count(OLDER) == 1
        previous = text
    assert prose_of(previous) == "### Open\n- paint the shelf"


def test_a_summary_that_a_client_goes_on_from_is_kept_by_its_sections() -> None:
    sections = "\n\n".join(
        f"{n}. Section {n}:\n" + "\n".join(f"- item {n}.{k} of the work" for k in range(40))
        for n in range(1, 7)
    )
    log = Log({})
    log.user(f"Preamble. {sections}")
    field = {"meta": True, "client_summary": sections}
    log.records[-1] = msgspec.structs.replace(log.records[-1], extra=field)
    log.agent("Read it.")
    text = carry_over(log.records, cap_tokens=2_000, counter=COUNTER).text
    assert prose_of(text).startswith("1. Section 1:")
    assert all(f"{n}. Section {n}:\n- item {n}.0 of the work" in text for n in range(1, 7))
    assert "Preamble" not in text
    again = carry_over([], cap_tokens=1_000, counter=COUNTER, previous=text).text
    assert all(f"{n}. Section {n}:" in prose_of(again) for n in range(1, 7))


def test_of_a_long_result_the_line_that_the_agent_took_up_is_told() -> None:
    """Nothing marks it: no error field, and the line stands between others."""
    log = Log({})
    log.user("Find out why the lamp flickers.")
    shelf = [f"shelf_{n} = {{part: {n * 7}}}" for n in range(30)]
    found = "zinc socket oxidised beneath the copper lantern"
    log.call("inspect", "\n".join([*shelf[:15], found, *shelf[15:]]), place="attic")
    log.agent("Oxidised zinc below the lantern: I replace that socket.")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert f"• inspect attic → … {found}" in text
    assert "shelf_" not in text


def test_a_list_of_paths_is_told_however_often_there_is_one() -> None:
    log = Log({})
    for word in ("ash", "elm", "oak", "fir"):
        log.call("find", f"Found 2 files\nsrc/{word}_1.go\nsrc/{word}_2.go", word=word)
    text = carry_over(log.records, cap_tokens=600, counter=COUNTER).text
    assert "• find elm → src/elm_1.go src/elm_2.go" in text


def test_a_plan_is_told_without_its_blocks_of_code() -> None:
    code = "\n".join(f"    if (part[{n}] != {{}}) {{ return <{n}>; }}" for n in range(60))
    steps = [f"We move part {n} behind the gate, as the order loses what comes." for n in range(6)]
    plan = "\n\n".join(f"{step}\n\n```go\n{code}\n```" for step in steps)
    log = Log({})
    log.call("keep", "ok", place="/notes/plan.md", body=plan)
    text = carry_over(log.records, cap_tokens=800, counter=COUNTER).text
    assert f"Written: {steps[0]}" in text
    assert steps[5] in text
    assert "return <5>" not in text


def test_an_edit_tells_first_what_it_adds_and_the_newest_tells_most() -> None:
    log = Log({})
    for number in range(24):
        old = "\n".join(f"old line {number} {n} of the wall" for n in range(6))
        new = "\n".join(f"new line {number} {n} of the gate" for n in range(6))
        log.call("edit", "ok", path=f"/src/{number}.txt", old=old, new=new)
    text = carry_over(log.records, cap_tokens=3_000, counter=COUNTER).text
    edits = [line for line in text.splitlines() if line.startswith("• edit")]
    assert all(" + new line" in line for line in edits)
    assert "new line 23 5 of the gate − old line 23 0" in edits[-1]
    assert len(edits) == 24
    assert 3 * len(edits[-1]) > 4 * len(edits[0])


def test_a_decision_in_the_middle_of_a_long_text_stays() -> None:
    """Sentences whose rare words are used later stay; those that say what is said often go."""
    log = Log({})
    often = [f"Then I look at the file and think about it again, part {n}." for n in range(40)]
    decision = "The lighthouse needs a copper lantern because tin corrodes."
    log.agent(" ".join([*often[:20], decision, *often[20:]]))
    for number in range(12):
        log.agent(f"Then I look at the file and think about it again, step {number}.")
    log.call("order", FILLER, item="copper lantern for the lighthouse")
    text = carry_over(log.records, cap_tokens=400, counter=COUNTER).text
    assert decision in text


def test_a_deleted_file_is_not_listed_as_changed() -> None:
    log = Log({})
    log.call("write_file", "done", path="/src/heron.py", content="x = 1")
    log.call("write_file", "done", path="/src/shelf.py", content="x = 1")
    log.call("run", "", command="cd /src && rm -f heron.py")
    state = read_back(carry_over(log.records, cap_tokens=600, counter=COUNTER).text).state
    assert (*state.changed, *state.uncommitted) == ("/src/shelf.py",)


@pytest.mark.parametrize("seed", range(3))
def test_rules_inside_long_messages_of_the_user_stay(seed: int) -> None:
    """Of messages that do not fit whole, the sentences stay that are said nowhere else, in any
    language and through several cuts; what is said again and again goes."""
    random = Random(seed)
    talk = [
        " ".join("".join(random.choices("kamilotersan", k=5)) for _word in range(9)) + "."
        for _sentence in range(8)
    ]
    rules, previous = [], None
    for turn in range(6):
        log = Log({})
        for number in range(4):
            rules.append(f"Quorv {turn}{number} hesten_{turn}{number} umla brenn{turn}{number}.")
            said = random.choices(talk, k=30)
            said.insert(15, rules[-1])
            log.user(" ".join(said))
            log.call("look", FILLER, place=f"shelf-{turn}-{number}")
        previous = carry_over(
            log.records, cap_tokens=1_100, counter=COUNTER, previous=previous
        ).text
    assert previous is not None
    assert [rule for rule in rules if rule not in previous] == []


def test_the_story_of_a_long_log_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at once has a bound, whatever the length of a log that was never cut; every
    line is told or counted, and the first words of the user are there."""
    read: list[int] = []
    begin = pieces.Worth.__init__

    def count(worth: pieces.Worth, texts: Any) -> None:
        read.append(len(texts))
        begin(worth, texts)

    monkeypatch.setattr(pieces.Worth, "__init__", count)
    monkeypatch.setattr(story, "_FOLDED_LINES", 40)
    most = []
    for rounds in (60, 240):
        log = Log({})
        for number in range(rounds):
            log.user(f"Please see to brenn{number} of the quorv.")
            log.call("look", f"{FILLER} {number}", place=f"shelf-{number}")
            log.agent(f"The shelf {number} has hesten_{number}, which is umla{number}.")
        lines = story.lines_of(filter(None, map(digest_record, log.records)))
        read.clear()
        told, omitted = story.tell(lines, 400, 400, COUNTER, root="")
        most.append(max(read))
        assert len(told) + omitted == sum(line.count for line in lines)
        assert "brenn0 " in told[0]
        assert story.tell(lines, 400, 400, COUNTER, root="") == (told, omitted)
    assert max(most) <= 150, most
