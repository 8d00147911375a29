"""Records: the lines of a session's log, as typed values.

`docs/format.md` describes each type as it is stored.
"""

# isort: skip_file
from holdfast.core.log.records import (
    CallFailure as CallFailure,
    CallState as CallState,
    Checkpoint as Checkpoint,
    Compaction as Compaction,
    Flush as Flush,
    Header as Header,
    InjectedContext as InjectedContext,
    Label as Label,
    Mode as Mode,
    ModelChange as ModelChange,
    OutputRef as OutputRef,
    Prune as Prune,
    Rewind as Rewind,
    Undo as Undo,
    Unknown as Unknown,
    from_json as from_json,
    to_json as to_json,
    text_of as text_of,
    tool_calls as tool_calls,
)
