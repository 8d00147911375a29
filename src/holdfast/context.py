"""Context: from a log to a request that fits, and everything that a cut leaves behind."""

# isort: skip_file
from holdfast.core.checkpoint.capture import capture as capture
from holdfast.core.checkpoint.render import (
    injection as injection,
    render as render,
)
from holdfast.core.checkpoint.state import State as State
from holdfast.core.narrative.carryover import carry_over as carry_over
from holdfast.engine.context_tool import (
    context_declaration as context_declaration,
    context_tool as context_tool,
)
from holdfast.core.limits import (
    CHECKPOINT_CUT_CHARS as CHECKPOINT_CUT_CHARS,
    EXCERPT_CHARS as EXCERPT_CHARS,
    HISTORY_BYTES_MAX as HISTORY_BYTES_MAX,
    OFFLOAD_TEXT_CHARS as OFFLOAD_TEXT_CHARS,
    PREVIEW_CHARS as PREVIEW_CHARS,
)
from holdfast.core.outputs.offload import (
    Room as Room,
    offload_result as offload_result,
    room_for as room_for,
)
from holdfast.core.outputs.preview import preview as preview
from holdfast.core.projection.policy import (
    POLICIES as POLICIES,
    Policy as Policy,
    PromptCache as PromptCache,
)
from holdfast.core.projection.project import (
    Plan as Plan,
    project as project,
)
from holdfast.core.projection.request import (
    Pressure as Pressure,
    ProjectionRequest as ProjectionRequest,
)
from holdfast.core.projection.sizes import (
    Correction as Correction,
    Scale as Scale,
)
from holdfast.core.projection.view import ProjectionCache as ProjectionCache
from holdfast.core.text.cut import (
    Cut as Cut,
    cut as cut,
)
from holdfast.engine.session.checkpoints import (
    record_of as record_of,
    save as save,
    take as take,
)
from holdfast.engine.session.prepare import (
    Prepared as Prepared,
    prepare as prepare,
)
