"""Context: from a log to a request that fits, and everything that a cut leaves behind."""

# isort: skip_file
from holdfast.core.checkpoint.render import render_checkpoint as render_checkpoint
from holdfast.core.narrative.carryover import carry_over as carry_over
from holdfast.engine.context_tool import (
    context_declaration as context_declaration,
    context_tool as context_tool,
)
from holdfast.core.projection.project import Plan as Plan
from holdfast.core.projection.request import ProjectionRequest as ProjectionRequest
from holdfast.engine.session.checkpoints import (
    checkpoint_record as checkpoint_record,
    save_checkpoint as save_checkpoint,
    take_checkpoint as take_checkpoint,
)
from holdfast.engine.session.prepare import prepare_request as prepare_request
