"""A model provider on this machine for the tests: it keeps the rules, and fails when it is told.

It prints its address, then reads commands from its input, one JSON a line, and answers each.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from holdfast.core.models.messages import ToolCall
from holdfast.testing import Answer, Call, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.loopback import Asked

FAULTS: dict[str, Callable[[], Fault]] = {
    "overflow": Fault.overflow,
    "rate-limit": lambda: Fault.rate_limited(0),
    "cut": lambda: Fault.reset_within("text"),
    "cut-call": lambda: Fault.reset_within("call"),
}


def read(part: int) -> str:
    """Read a part."""
    time.sleep(0.2)
    return f"part {part}"


def brain(asked: Asked) -> Answer:
    """Call the first tool twice for each message, then answer."""
    if asked.tools:
        calls = [
            each for said in asked.messages for each in said.blocks if isinstance(each, ToolCall)
        ]
        part = calls[-1].arguments["part"] + 1 if asked.results and calls else 0
        if part < 2:
            return Answer("", (Call(asked.tools[0].name, {"part": part}),), thinking="Which part?")
    return Answer(f"Answer {asked.number}.", thinking="That is all of it.")


def main() -> None:
    """Serve until the input ends."""
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with Loopback(brain, limit=limit) as loopback:
        print(json.dumps({"url": loopback.url}), flush=True)
        for line in sys.stdin:
            command = json.loads(line)
            for name in command.get("fail", ()):
                loopback.fail_next(FAULTS[name]())
            report = {
                "requests": len(loopback.requests),
                "invalid": [str(each.violations or each.reasoning) for each in loopback.invalid],
                "overLimit": len(loopback.over_limit),
                "refusedReasoning": loopback.reasoning.refused,
                "withheld": loopback.reasoning.withheld,
            }
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
