"""A model provider on 127.0.0.1 that keeps the rules of the real ones, and fails as it is told."""

from holdfast.testing.loopback.asking import Answer, Asked, Brain, Call, Scripted, echo
from holdfast.testing.loopback.binding import Dropped, Reasoning, ReasoningCounts, Withheld
from holdfast.testing.loopback.exchange import Received
from holdfast.testing.loopback.faults import OVERFLOWS, Counts, Fault, WireFailure
from holdfast.testing.loopback.outgoing import Handled
from holdfast.testing.loopback.server import Loopback

__all__ = [
    "OVERFLOWS",
    "Answer",
    "Asked",
    "Brain",
    "Call",
    "Counts",
    "Dropped",
    "Fault",
    "Handled",
    "Loopback",
    "Reasoning",
    "ReasoningCounts",
    "Received",
    "Scripted",
    "WireFailure",
    "Withheld",
    "echo",
]
