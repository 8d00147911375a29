"""The test kit that Holdfast is tested with, for those who build on it.

`check_session_store`, `check_blob_store`   hold a store to the promises of its port
`Loopback`                                  a model provider on 127.0.0.1: rules, limits, cache
`Answer`, `Call`                            what it says
`Fault`                                     how it fails
`ScriptedModel`, `calls`                    a model that says what the test wrote down
`PostgresServer`, `S3Server`                real servers, which leave nothing behind
"""

from holdfast.testing.conformance import (
    check_blob_store,
    check_session_store,
)
from holdfast.testing.loopback import (
    Answer,
    Call,
    Fault,
    Loopback,
)
from holdfast.testing.scripted import (
    ScriptedModel,
    calls,
)
from holdfast.testing.servers import (
    PostgresServer,
    S3Server,
)

__all__ = [
    "Answer",
    "Call",
    "Fault",
    "Loopback",
    "PostgresServer",
    "S3Server",
    "ScriptedModel",
    "calls",
    "check_blob_store",
    "check_session_store",
]
