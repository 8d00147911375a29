"""The test kit that Holdfast is tested with, for those who build on it.

`check_session_store`, `check_blob_store`   hold a store to the promises of its port
`check_audit`                               the same for an audit log
`SESSION_CHECKS`, `BLOB_CHECKS`             the promises, one by one
`PROCESS_CHECKS`                            those that take several processes
`FaultyDisk`                                a disk that is full, slow of mind or broken
`RecordingDisk`                             a disk that remembers, to crash at any byte
`KillableWriter`, `kill_at_random`          a process that appends until it is killed
`Loopback`                                  a model provider on 127.0.0.1: rules, limits, cache
`Answer`, `Call`, `Scripted`, `echo`        what it says
`Fault`                                     how it fails
`ReasoningCounts`                           what it made of the models' reasoning
`ScriptedModel`, `calls`                    a model that says what the test wrote down
`PostgresServer`, `S3Server`                real servers, which leave nothing behind
`SimulatedSession`, `Simulation`, `Kill`    a session whose process dies at a chosen effect
"""

from holdfast.providers.offline.measuring import PromptTooLong
from holdfast.testing.conformance import (
    AUDIT_CHECKS,
    BLOB_CHECKS,
    PROCESS_CHECKS,
    SESSION_CHECKS,
    AuditCheck,
    BlobCheck,
    ProcessCheck,
    SessionCheck,
    check_audit,
    check_blob_store,
    check_session_store,
)
from holdfast.testing.crash import Acknowledged, KillableWriter, kill_at_random
from holdfast.testing.disk import FOREVER, FaultyDisk, RecordingDisk, Sync, Write
from holdfast.testing.loopback import (
    OVERFLOWS,
    Answer,
    Asked,
    Brain,
    Call,
    Counts,
    Dropped,
    Fault,
    Handled,
    Loopback,
    Reasoning,
    ReasoningCounts,
    Received,
    Scripted,
    WireFailure,
    Withheld,
    echo,
)
from holdfast.testing.scripted import (
    AsyncScriptedModel,
    ScriptedModel,
    ScriptExhausted,
    calls,
)
from holdfast.testing.servers import PostgresServer, S3Server, ServerUnavailable
from holdfast.testing.simulator import (
    Kill,
    Killed,
    SimulatedClock,
    SimulatedSession,
    Simulation,
)

__all__ = [
    "AUDIT_CHECKS",
    "BLOB_CHECKS",
    "FOREVER",
    "OVERFLOWS",
    "PROCESS_CHECKS",
    "SESSION_CHECKS",
    "Acknowledged",
    "Answer",
    "Asked",
    "AsyncScriptedModel",
    "AuditCheck",
    "BlobCheck",
    "Brain",
    "Call",
    "Counts",
    "Dropped",
    "Fault",
    "FaultyDisk",
    "Handled",
    "Kill",
    "KillableWriter",
    "Killed",
    "Loopback",
    "PostgresServer",
    "ProcessCheck",
    "PromptTooLong",
    "Reasoning",
    "ReasoningCounts",
    "Received",
    "RecordingDisk",
    "S3Server",
    "ScriptExhausted",
    "Scripted",
    "ScriptedModel",
    "ServerUnavailable",
    "SessionCheck",
    "SimulatedClock",
    "SimulatedSession",
    "Simulation",
    "Sync",
    "WireFailure",
    "Withheld",
    "Write",
    "calls",
    "check_audit",
    "check_blob_store",
    "check_session_store",
    "echo",
    "kill_at_random",
]
