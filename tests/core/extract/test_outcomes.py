"""Lines of actions: commands with their results, failures with what fixed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.extract.carryover import carry_over
from holdfast.core.extract.digest import Digest, digest_record
from holdfast.core.extract.outcomes import action_lines, find_outcome
from holdfast.core.extract.shell_commands import is_look
from holdfast.core.log.records import Record, ToolResult, ToolUse
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


def ran(*steps: tuple[str, Json, str, bool]) -> list[Record]:
    """Calls with their results: the tool, its arguments, the text, and whether it is an error."""
    records: list[Record] = []
    for number, (tool, arguments, text, is_error) in enumerate(steps):
        call = f"c{number}"
        records.append(ToolUse(tool_use_id=call, name=tool, input=arguments, id=f"u{number}"))
        records.append(
            ToolResult(tool_use_id=call, content=text, is_error=is_error, id=f"r{number}")
        )
    return records


def lines_of(records: list[Record]) -> list[str]:
    return action_lines([found for one in records if (found := digest_record(one)) is not None])


def bash(command: str, text: str = "", *, is_error: bool = False) -> tuple[str, Json, str, bool]:
    return ("bash", {"command": command}, text, is_error)


def edit(path: str) -> tuple[str, Json, str, bool]:
    return ("edit_file", {"path": path, "new_string": "x"}, "ok", False)


def test_a_command_stands_with_its_result() -> None:
    assert lines_of(ran(bash("cd /srv && make test 2>&1 | tail -5", "12 passed in 3 s"))) == [
        "make test → 12 passed in 3 s"
    ]


def test_a_failure_names_what_fixed_it() -> None:
    failed = bash("make test", "E  assert 1 == 2\n2 failed, 10 passed\nFAILED")
    lines = lines_of(
        ran(failed, edit("src/a.py"), edit("src/b.py"), bash("make test", "12 passed"))
    )
    assert lines == [
        "make test → failed: 2 failed, 10 passed; worked after edit_file src/a.py,"
        " edit_file src/b.py"
    ]


def test_a_fix_is_told_also_when_the_command_worked_again() -> None:
    steps = [bash("make", "error: it is broken", is_error=True), edit("a.py")]
    lines = lines_of(ran(*steps, bash("make", "built"), bash("make", "built again")))
    assert lines == ["make → failed: error: it is broken; worked after edit_file a.py"]


def test_a_failure_that_was_not_fixed_says_what_failed() -> None:
    lines = lines_of(ran(bash("cargo build", "error: no such crate `qux`\nExit code: 101")))
    assert lines == ["cargo build → failed: error: no such crate `qux`"]


def test_an_earlier_fix_is_no_fix_of_a_later_failure() -> None:
    steps = [edit("old.py"), bash("make", "error: it is broken", is_error=True), bash("make", "ok")]
    assert lines_of(ran(*steps)) == ["make → failed: error: it is broken; worked later"]


def test_a_change_that_worked_is_in_the_files_and_not_here() -> None:
    assert lines_of(ran(edit("src/a.py"))) == []


@pytest.mark.parametrize(
    "command",
    [
        *("ls -la", "git status", "git -C /srv/app log --oneline -5", "cat a.py | head -40"),
        *(
            'grep -n "a\\|b" src; wc -l src/*',
            "sed -n 1,20p a.py",
            "find . -name '*.py' 2>/dev/null",
        ),
        *("FOO=1 env", "sudo cat /etc/hosts", 'echo "a > b"'),
    ],
)
def test_a_look_is_no_action(command: str) -> None:
    assert is_look(command)
    assert lines_of(ran(bash(command, "whatever it said"))) == []


@pytest.mark.parametrize(
    "command",
    [
        *("make", "git commit -m 'cat'", "cat > a.py << 'EOF'\nx\nEOF", "echo hi > a.txt"),
        *("sed -i s/a/b/ a.py", "find . -name '*.pyc' -delete", "ls && rm -r build", "git push"),
    ],
)
def test_what_may_change_something_is_no_look(command: str) -> None:
    assert not is_look(command)
    assert lines_of(ran(bash(command, "done with it")))


def test_a_silent_result_has_no_outcome() -> None:
    assert lines_of(ran(bash("make install", "(no output)"))) == ["make install"]


texts = st.text(max_size=80) | st.sampled_from(
    ["FAILED", "Exit code: 1", "a → b", "; worked after all", "error: no\n\n", "\x1b[31mERROR x"]
)
steps = st.lists(
    st.one_of(
        st.builds(bash, texts, texts, is_error=st.booleans()),
        st.builds(edit, st.sampled_from(["a.py", "/srv/b.py"])),
    ),
    max_size=8,
)


@given(steps, steps)
@example([bash("make", "FAILED to build it")], [edit("a.py"), bash("make", "built")])
@examples(200)
def test_lines_go_on_from_an_earlier_carry_over(
    before: list[tuple[str, Json, str, bool]], after: list[tuple[str, Json, str, bool]]
) -> None:
    """Read at once or in two pieces, the same commands are listed, each on one line."""
    at_once = lines_of(ran(*before, *after))
    first = lines_of(ran(*before))
    digests = [found for one in ran(*after) if (found := digest_record(one)) is not None]
    in_two = action_lines([Digest("", actions=tuple(first)), *digests])
    assert [line.partition(" → ")[0] for line in in_two] == [
        line.partition(" → ")[0] for line in at_once
    ]
    assert all(line.splitlines() == [line] for line in at_once)


def test_a_fix_is_found_across_a_cut() -> None:
    counter = Estimator()
    first = carry_over(
        ran(bash("make", "error: it does not build", is_error=True)),
        cap_tokens=500,
        counter=counter,
    )
    assert "make → failed: error: it does not build" in first.text
    assert "## Errors" not in first.text  # told once
    then = ran(edit("a.py"), bash("make", "built"))
    second = carry_over(then, cap_tokens=500, counter=counter, previous=first.text)
    assert "failed: error: it does not build; worked after edit_file a.py" in second.text


def test_the_outcome_of_a_huge_result_is_its_end() -> None:
    result = ToolResult(tool_use_id="c", content="line\n" * 100_000 + "all 3 tests passed")
    assert find_outcome(result).line == "all 3 tests passed"
