"""The pages that commands write: no two tables have one label."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import run_in_process

if TYPE_CHECKING:
    from pathlib import Path

LABEL = re.compile(r"role=region aria-label='([^']*)'")
SAID = "role=region aria-label='Tools'"


def write_talks(folder: Path, count: int) -> None:
    """Write conversations that have every table: tools, files, calls, models, repeated results."""
    folder.mkdir()
    usage = {"input_tokens": 900, "output_tokens": 9}
    for number in range(count):
        lines: list[dict[str, object]] = [{"role": "user", "content": f"{SAID} {number}"}]
        for call in ("a", "b"):
            use = {"type": "tool_use", "id": call, "name": "read", "input": {"path": "x.py"}}
            result = {"type": "tool_result", "tool_use_id": call, "content": "line\n" * 400}
            said = {"role": "assistant", "content": [use], "usage": usage}
            lines += [{**said, "model": "claude-sonnet-4-5"}, {"role": "user", "content": [result]}]
        (folder / f"{number}.json").write_text(json.dumps(lines))


@pytest.mark.files_only("it reads files")
@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_two_tables_of_a_page_have_one_label(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Screen readers list tables by label; words of a conversation are no table."""
    write_talks(tmp_path / "talks", count)
    for command in ("inspect", "simulate", "evaluate"):
        page = tmp_path / f"{command}.html"
        asked = [command, str(tmp_path / "talks"), "--html", str(page)]
        done = run_in_process([*asked, "--root", str(tmp_path / "root")], capfd)
        assert done.status == 0, done.err
        labels = LABEL.findall(page.read_text())
        assert len(labels) == len(set(labels)), labels
        if command == "inspect":
            found = {label.partition(", ")[0] for label in labels}
            assert {"Tools", "Files", "Cost by model", "Repeated results"} <= found
            assert (f"Tools, conversation {count}" in labels) == (count > 1)
            assert sum(label.startswith("Tools") for label in labels) == count
