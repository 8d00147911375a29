"""Counts for Prometheus, in its text format."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from holdfast import __version__
from holdfast.core.owners import ANY_OWNER

if TYPE_CHECKING:
    from holdfast.engine.gateway.gateway import Gateway, PromptAudit

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Seconds."""
_LABEL_CHARS: Final = 64
"""Of a provider's word: longer ones are no reason but a text."""


class Metrics:
    """Requests of this process."""

    def __init__(self) -> None:
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
    return lines


def _label(text: str) -> str:
    """A provider's word as the value of a label."""
    return "".join(char for char in text[:_LABEL_CHARS] if char.isalnum() or char in "_-")
