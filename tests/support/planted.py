"""A session in which a later reply needs four things that were said long before."""

from __future__ import annotations

from typing import Any

from holdfast.core.log.records import Assistant, Compaction, Record, ToolResult, User

INSTRUCTION = "Never push to the main branch without asking me first."
TASK = "Rotate the staging certificates"
PATH = "deploy/ansible/rollout_plan.yml"
VALUE = "7f3a9c2e41"
PLANTED = {
    "instruction": INSTRUCTION,
    "task": TASK,
    "file": PATH,
    "value": VALUE,
}
"""One loss of each kind, by kind."""


def planted_session(*, steps: int = 30, lines: int = 60, cut_at: int | None = None) -> list[Record]:
    """An agent at work; the last reply uses what the beginning said.

    `cut_at` puts a compaction with a useless summary after so many steps.
    """
    records: list[Record] = []
    now = 1_000_000.0

    def add(record: type[Record], **fields: Any) -> None:
        records.append(record(id=f"r{len(records):05}", ts=now, **fields))

    def call(name: str, **arguments: Any) -> None:
        use = {"type": "tool_use", "id": f"c{len(records)}", "name": name, "input": arguments}
        add(Assistant, content=[use], model="claude-sonnet-5-5")

    def result(text: str) -> None:
        add(ToolResult, tool_use_id=f"c{len(records) - 1}", content=text)

    add(User, content=f"{INSTRUCTION} Could you look at the rollout?")
    call("todo_write", todos=[{"content": TASK, "status": "pending"}])
    result("ok")
    call("glob", pattern="*.yml")
    result(f"{PATH}\n")
    call("bash", command="git rev-parse HEAD")
    result(f"commit {VALUE}\n")
    for step in range(steps):
        now += 20.0
        call("bash", command=f"run part {step}")
        result("\n".join(f"line {line} of part {step} is fine" for line in range(lines)))
        if step % 5 == 4:
            add(Assistant, content=f"Part {step} is fine.", model="claude-sonnet-5-5")
            add(User, content="And the next part?")
        if step == cut_at:
            add(Compaction, summary="The agent worked on the rollout.")
    add(User, content="Can you finish it?")
    call("edit", path=PATH, text=f"commit: {VALUE}")
    result("done")
    add(Assistant, content="All done.", model="claude-sonnet-5-5")
    return records
