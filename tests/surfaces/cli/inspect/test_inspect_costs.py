"""Costs of Codex and Gemini CLI transcripts agree with a sum that shares no code with ours."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from genai_prices import Usage, calc_price
from tests.shared_data import need_data
from tests.support.cli import run_in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

CENT = 0.01
PLACES = {
    "gemini-cli/*": "gemini",
    "format-samples/gemini/*": "gemini",
    "format-samples/codex/*": "codex",
    "format-samples/codex_*": "codex",
}


class PaidCall(NamedTuple):
    """What a transcript says about one call, in the words of the price list."""

    provider: str
    model: str
    at: str
    input: int
    cached: int
    output: int

    def dollars(self) -> float:
        try:
            day = datetime.fromisoformat(self.at)
        except ValueError:
            day = None
        usage = Usage(
            input_tokens=self.input, cache_read_tokens=self.cached, output_tokens=self.output
        )
        price = calc_price(
            usage, self.model, provider_id=self.provider, genai_request_timestamp=day
        )
        return float(price.total_price)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file: one document, or a line each; a damaged line is none."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [row for row in found if isinstance(row, dict)]


def codex_calls(path: Path) -> Iterator[PaidCall]:
    """Each `token_count` is one call of the model that the newest `turn_context` names; without
    one it has no price."""
    model = ""
    for row in rows_of(path):
        payload = row.get("payload") or {}
        if row.get("type") == "turn_context":
            model = payload.get("model") or model
        last = (payload.get("info") or {}).get("last_token_usage") or {}
        if payload.get("type") == "token_count" and last.get("total_tokens") and model:
            used = last["input_tokens"], last["cached_input_tokens"], last["output_tokens"]
            yield PaidCall("openai", model, str(row["timestamp"]), *used)


def gemini_calls(path: Path) -> Iterator[PaidCall]:
    """Each message with `tokens` is one call; thinking is paid as output."""
    rows = rows_of(path)
    messages = rows[0].get("messages", rows)
    for row in messages:
        tokens = row.get("tokens")
        if tokens and row.get("model"):
            prompt = tokens["input"] + tokens.get("tool", 0)
            output = tokens["output"] + tokens.get("thoughts", 0)
            cached = tokens.get("cached", 0)
            at = str(row["timestamp"])
            yield PaidCall("google", row["model"], at, prompt, cached, output)


def test_costs_agree_with_an_independent_sum(capfd: pytest.CaptureFixture[str]) -> None:
    """Within a cent for each transcript; and some of them cost something."""
    data = need_data() / "agents"
    readers = {"codex": codex_calls, "gemini": gemini_calls}
    sums, faults = {}, {}
    for pattern, kind in PLACES.items():
        for path in sorted(data.glob(pattern)):
            expected = sum(call.dollars() for call in readers[kind](path))
            done = run_in_process(["inspect", str(path), "--json"], capfd)
            assert done.status == 0, done.err
            shown = done.json["spent"]["cost"] or 0.0
            sums[path.name] = expected
            if abs(expected - shown) > min(CENT, 0.01 * max(expected, shown)):
                faults[path.name] = (expected, shown)
    assert faults == {}
    assert sum(map(bool, sums.values())) >= 6
