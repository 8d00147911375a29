"""Events: everything a session reports while it works.

Subscribe with `session.on(handler, Kind)`; a handler may return `Deny` where the
event allows it.
"""

# isort: skip_file
from holdfast.core.flow.events import (
    TurnWaiting as TurnWaiting,
    TurnStarted as TurnStarted,
    TurnFinished as TurnFinished,
    TurnFailed as TurnFailed,
    TurnCancelled as TurnCancelled,
    Interrupted as Interrupted,
    CallStarted as CallStarted,
    CallFinished as CallFinished,
    CallFailed as CallFailed,
    ToolStarted as ToolStarted,
    ApprovalAsked as ApprovalAsked,
    ToolFinished as ToolFinished,
    OutputOffloaded as OutputOffloaded,
    OffloadFailed as OffloadFailed,
    PictureScaled as PictureScaled,
    ScalingFailed as ScalingFailed,
    SecretFound as SecretFound,
    CheckpointSaved as CheckpointSaved,
    SessionReset as SessionReset,
    MemoryRecalled as MemoryRecalled,
    PruneStarted as PruneStarted,
    Pruned as Pruned,
    EpochBegun as EpochBegun,
    CompactionStarted as CompactionStarted,
    CompactionFinished as CompactionFinished,
    BackgroundSummary as BackgroundSummary,
    FlushStarted as FlushStarted,
    FlushFinished as FlushFinished,
    WindowLearned as WindowLearned,
    TroubleNoticed as TroubleNoticed,
    Event as Event,
)
from holdfast.core.flow.effects import Deny as Deny
