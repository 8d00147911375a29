"""Simulation: replay a transcript under a policy, without a model."""

# isort: skip_file
from holdfast.core.evaluation.needs import facts_in as facts_in
from holdfast.engine.simulation.policies import (
    ClearResults as ClearResults,
    Compact as Compact,
    DoNothing as DoNothing,
    Holdfast as Holdfast,
    KeepTurns as KeepTurns,
    Plays as Plays,
    PolicyRequest as PolicyRequest,
    Terms as Terms,
    TrimTokens as TrimTokens,
)
from holdfast.engine.simulation.simulate import (
    Run as Run,
    offer_for as offer_for,
    rules_for as rules_for,
    simulate as simulate,
)
from holdfast.engine.simulation.transcripts import (
    ReplayCall as ReplayCall,
    Transcript as Transcript,
    TranscriptPiece as TranscriptPiece,
    text_in as text_in,
)
