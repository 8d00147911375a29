"""Records: the lines of a session's log, as typed values.

`docs/format.md` describes each type as it is stored.
"""

# isort: skip_file
from holdfast.core.log.records import (
    Assistant as Assistant,
    CallFailure as CallFailure,
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
    Record as Record,
    Rewind as Rewind,
    ToolResult as ToolResult,
    ToolUse as ToolUse,
    Undo as Undo,
    Unknown as Unknown,
    User as User,
    Json as Json,
    from_json as from_json,
    to_json as to_json,
    text_of as text_of,
    tool_calls as tool_calls,
)
from holdfast.core.log.ids import SessionKey as SessionKey
