"""The metrics of a process show what providers reported about prompts."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

from holdfast.core.flow.events import EpochBegun, TroubleNoticed
from holdfast.core.models.replies import ReasoningReport
from holdfast.core.models.usage import Usage
from holdfast.core.spending.amounts import Amount
from holdfast.engine.gateway.gateway import PromptAudit
from holdfast.engine.spending.counts import CallCounts, CallLabels
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.http.metrics import audit_lines, call_lines
from holdfast.surfaces.serve_settings import ServeSettings


def test_reports_are_counters_with_the_reason_as_a_label() -> None:
    """A provider's word cannot end its label."""
    audit = PromptAudit()
    audit.take(EpochBegun("r", "system", "the system prompt was changed", 2))
    audit.take(
        TroubleNoticed("reasoning-dropped", "in words", (ReasoningReport("p", 'pre"fix\n_x'),))
    )
    audit.take(TroubleNoticed("cache-missed", "tools_changed"))
    assert [one for one in audit_lines(audit) if not one.startswith("#")] == [
        'holdfast_epochs_total{cause="system"} 1',
        'holdfast_reasoning_blocks_total{state="dropped",reason="prefix_x"} 1',
        'holdfast_cache_misses_total{reason="tools_changed"} 1',
    ]


def test_calls_are_counted_by_model_agent_and_kind() -> None:
    """What a name holds cannot end its label; owners are told apart where that is asked for."""
    counts = CallCounts()
    usage = Usage(prompt=100, cached_read=60, cached_write=10, output=5)
    for owner in ("ann", 'b"ob\n'):
        labels = CallLabels('m"1', "anthropic", "main", owner)
        counts.add(labels, "answered", [usage], Amount(105, 2_000_000_000), 1.5, 0.3)
    counts.refuse("budget", "main")
    named = 'model="m\\"1",provider="anthropic",agent="main"'
    found = call_lines(counts, by_owner=False)
    for line in (
        f'holdfast_model_calls_total{{{named},state="answered"}} 2',
        f'holdfast_model_tokens_total{{{named},kind="input"}} 60',
        f'holdfast_model_tokens_total{{{named},kind="cache_read"}} 120',
        f'holdfast_model_tokens_total{{{named},kind="cache_write"}} 20',
        f'holdfast_model_tokens_total{{{named},kind="output"}} 10',
        f"holdfast_model_cost_dollars_total{{{named}}} 4",
        f"holdfast_model_call_seconds_total{{{named}}} 3",
        f'holdfast_first_token_seconds_bucket{{{named},le="0.25"}} 0',
        f'holdfast_first_token_seconds_bucket{{{named},le="0.5"}} 2',
        'holdfast_calls_refused_total{reason="budget",agent="main"} 1',
    ):
        assert line in found, line
    by_owner = call_lines(counts, by_owner=True)
    assert f'holdfast_model_calls_total{{{named},owner="b\\"ob ",state="answered"}} 1' in by_owner


def test_every_metric_of_the_dashboard_is_exported() -> None:
    """The dashboard names metrics and labels that a server has, and leaves no metric out."""
    page = (Path(__file__).parents[3] / "deploy" / "grafana.json").read_text("utf-8")
    dashboard = json.loads(page)
    wanted = set(re.findall(r"\bholdfast_[a-z_]+", page))
    with closing(MemoryStore()) as store:
        server = build_server(ServeSettings(), store, "offline")
        text = server.metrics.text(server.gateway)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    histograms = {f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram"}
    assert wanted - kinds.keys() - histograms == set()
    shown = {name.removesuffix("_bucket") for name in wanted}
    assert kinds.keys() - shown == {"holdfast_info", "holdfast_start_time_seconds"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids) >= 10
