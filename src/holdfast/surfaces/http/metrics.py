"""Counts for Prometheus, in its text format."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from holdfast import __version__
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.spending.counts import FIRST_TOKEN_BUCKETS, Latency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.spending.budgets import BudgetUse
    from holdfast.engine.gateway.gateway import Gateway, PromptAudit
    from holdfast.engine.spending.counts import CallCounts, CallLabels

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Seconds."""
_NAME_CHARS: Final = 200
"""Of the name of a model or an owner."""
_LABEL_CHARS: Final = 64
"""Of a provider's word: longer ones are no reason but a text."""


class Metrics:
    """Requests of this process."""

    def __init__(self) -> None:
        self.by_owner = False
        """Calls of models are counted by owner as well."""
        self._started = time.time()
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[float, int] = defaultdict(int)
        self._sum = 0.0
        self._count = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[(method, route, status)] += 1
        self._sum += seconds
        self._count += 1
        for bound in _BUCKETS:
            if seconds <= bound:
                self._seconds[bound] += 1

    @property
    def start_time(self) -> float:
        """When this process started, in seconds since 1970."""
        return self._started

    def errors(self) -> dict[int, int]:
        """Return the number of answers by status, of those that are errors."""
        found: dict[int, int] = defaultdict(int)
        for (_method, _route, status), number in list(self._requests.items()):
            if status >= 400:
                found[status] += number
        return dict(sorted(found.items()))

    def text(self, gateway: Gateway) -> str:
        """Return everything there is to measure now."""
        lines = [
            "# HELP holdfast_info The version of the server.",
            "# TYPE holdfast_info gauge",
            f'holdfast_info{{version="{__version__}"}} 1',
            "# HELP holdfast_start_time_seconds When this process started.",
            "# TYPE holdfast_start_time_seconds gauge",
            f"holdfast_start_time_seconds {self._started:.3f}",
            "# HELP holdfast_http_requests_total Requests that were answered.",
            "# TYPE holdfast_http_requests_total counter",
        ]
        for (method, route, status), number in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"holdfast_http_requests_total{{{labels}}} {number}")
        lines += [
            "# HELP holdfast_http_request_seconds The time until a request was answered.",
            "# TYPE holdfast_http_request_seconds histogram",
            *(
                f'holdfast_http_request_seconds_bucket{{le="{bound:g}"}} {self._seconds[bound]}'
                for bound in _BUCKETS
            ),
            f'holdfast_http_request_seconds_bucket{{le="+Inf"}} {self._count}',
            f"holdfast_http_request_seconds_sum {self._sum:.6f}",
            f"holdfast_http_request_seconds_count {self._count}",
            "# HELP holdfast_turns_running Turns that run in this process.",
            "# TYPE holdfast_turns_running gauge",
            f"holdfast_turns_running {gateway.running}",
            "# HELP holdfast_sessions_open Sessions that this process holds open.",
            "# TYPE holdfast_sessions_open gauge",
            f"holdfast_sessions_open {len(gateway.sessions)}",
            "# HELP holdfast_watchers Clients that follow sessions.",
            "# TYPE holdfast_watchers gauge",
            f"holdfast_watchers {gateway.live.count()}",
            "# HELP holdfast_messages Messages in the queues, by state.",
            "# TYPE holdfast_messages gauge",
        ]
        for state, number in sorted(gateway.store.queues.counts("inbox", owner=ANY_OWNER).items()):
            lines.append(f'holdfast_messages{{queue="inbox",state="{state}"}} {number}')
        lines += audit_lines(gateway.audit)
        lines += call_lines(gateway.meter.counts, by_owner=self.by_owner)
        lines += budget_lines(gateway.meter.uses())
        lines += [
            "# HELP holdfast_service_up Services of this process that receive messages.",
            "# TYPE holdfast_service_up gauge",
        ]
        for service in gateway.services:
            found = service.status
            is_up = int(found.state == "running")
            lines.append(f'holdfast_service_up{{service="{found.name}"}} {is_up}')
        return "\n".join(lines) + "\n"


def audit_lines(audit: PromptAudit) -> list[str]:
    """Return counters of epochs, and of what providers reported about requests."""
    lines = [
        "# HELP holdfast_epochs_total Epochs that neither a compaction nor a prune began.",
        "# TYPE holdfast_epochs_total counter",
    ]
    for cause, number in sorted(audit.epochs.items()):
        lines.append(f'holdfast_epochs_total{{cause="{cause}"}} {number}')
    lines += [
        "# HELP holdfast_reasoning_blocks_total Reasoning that a provider did not accept.",
        "# TYPE holdfast_reasoning_blocks_total counter",
    ]
    for (state, reason), number in sorted(audit.reasoning.items()):
        labels = f'state="{state}",reason="{_label(reason)}"'
        lines.append(f"holdfast_reasoning_blocks_total{{{labels}}} {number}")
    lines += [
        "# HELP holdfast_cache_misses_total Prompt caches that a provider reported as missed.",
        "# TYPE holdfast_cache_misses_total counter",
    ]
    for reason, number in sorted(audit.cache_misses.items()):
        lines.append(f'holdfast_cache_misses_total{{reason="{_label(reason)}"}} {number}')
    compactions: dict[_Labels, float] = {
        (("agent", agent), ("reason", reason), ("method", method)): number
        for (agent, reason, method), number in audit.compactions.items()
    }
    by_agent = {
        "holdfast_prunes_total": ("Times that old results were shortened.", audit.prunes),
        "holdfast_refusals_total": ("Replies that a model or a policy refused.", audit.refusals),
    }
    lines += _series("holdfast_compactions_total", "Compactions.", compactions)
    for name, (about, counts) in by_agent.items():
        lines += _series(name, about, {(("agent", each),): n for each, n in counts.items()})
    return lines


_Labels: TypeAlias = "tuple[tuple[str, str], ...]"


def call_lines(counts: CallCounts, *, by_owner: bool) -> list[str]:
    """Return counters of model calls, by model, provider and agent, and by owner where asked."""

    def name(labels: CallLabels) -> _Labels:
        named = (("model", labels.model), ("provider", labels.provider), ("agent", labels.agent))
        return (*named, ("owner", labels.owner)) if by_owner else named

    found = counts.snapshot()
    calls: dict[_Labels, float] = defaultdict(float)
    tokens: dict[_Labels, float] = defaultdict(float)
    sums: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))
    for (labels, state), number in found.calls.items():
        calls[(*name(labels), ("state", state))] += number
    for (labels, kind), number in found.tokens.items():
        tokens[(*name(labels), ("kind", kind))] += number
    for labels, seconds in found.seconds.items():
        sums["seconds"][name(labels)] += seconds
        sums["cost"][name(labels)] += found.cost(labels)
        sums["unpriced"][name(labels)] += found.unpriced[labels]
    refused: dict[_Labels, float] = {
        (("reason", reason), ("agent", agent)): number
        for (reason, agent), number in found.refused.items()
    }
    return [
        *_series("holdfast_model_calls_total", "Calls of models, by their end.", calls),
        *_series("holdfast_model_tokens_total", "Tokens of calls, by kind.", tokens),
        *_series("holdfast_model_cost_dollars_total", "Cost, by list price.", sums["cost"]),
        *_series(
            "holdfast_model_unpriced_tokens_total",
            "Tokens of models without a known price.",
            sums["unpriced"],
        ),
        *_series("holdfast_model_call_seconds_total", "The time of calls.", sums["seconds"]),
        *_series("holdfast_calls_refused_total", "Calls that were not made.", refused),
        *_latency_lines(found, name),
    ]


def _latency_lines(counts: CallCounts, name: Callable[[CallLabels], _Labels]) -> list[str]:
    merged: dict[_Labels, Latency] = {}
    for named, latency in counts.first.items():
        merged.setdefault(name(named), Latency()).join(latency)
    metric = "holdfast_first_token_seconds"
    lines = [f"# HELP {metric} The time to the first part of a streamed reply."]
    lines.append(f"# TYPE {metric} histogram")
    for labels, latency in sorted(merged.items()):
        for bound, number in zip(FIRST_TOKEN_BUCKETS, latency.buckets, strict=True):
            lines.append(f"{metric}_bucket{_text((*labels, ('le', f'{bound:g}')))} {number}")
        lines.append(f"{metric}_bucket{_text((*labels, ('le', '+Inf')))} {latency.count}")
        lines.append(f"{metric}_sum{_text(labels)} {latency.sum:.6f}")
        lines.append(f"{metric}_count{_text(labels)} {latency.count}")
    return lines


def budget_lines(uses: Iterable[BudgetUse]) -> list[str]:
    """Return gauges of every budget that somebody spends of."""
    series: dict[str, dict[_Labels, float]] = defaultdict(dict)
    for use in uses:
        named = (("payer", use.payer), ("name", use.name), ("span", use.span), ("unit", use.unit))
        for what in ("limit", "spent", "held", "resets"):
            series[what][named] = getattr(use, what)
    return [
        *_series("holdfast_budget_limit", "The limit of a budget.", series["limit"], "gauge"),
        *_series("holdfast_budget_spent", "Spent of it.", series["spent"], "gauge"),
        *_series("holdfast_budget_held", "Held for running calls.", series["held"], "gauge"),
        *_series(
            "holdfast_budget_reset_timestamp_seconds",
            "When it begins again.",
            series["resets"],
            "gauge",
        ),
    ]


def _series(
    metric: str, about: str, values: Mapping[_Labels, float], kind: str = "counter"
) -> list[str]:
    lines = [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}"]
    return lines + [f"{metric}{_text(key)} {values[key]:.12g}" for key in sorted(values)]


def _text(labels: _Labels) -> str:
    """Labels in the format: what could end one is escaped."""
    pairs = []
    for name, value in labels:
        shown = value[:_NAME_CHARS].replace("\\", r"\\").replace('"', r"\"")
        shown = "".join(char if char.isprintable() else " " for char in shown)
        pairs.append(f'{name}="{shown}"')
    return "{" + ",".join(pairs) + "}"


def _label(text: str) -> str:
    """A provider's word as the value of a label."""
    return "".join(char for char in text[:_LABEL_CHARS] if char.isalnum() or char in "_-")
