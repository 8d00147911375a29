"""Evaluation: replay your own sessions under a policy, and find what later replies lacked."""

# isort: skip_file
from holdfast.core.evaluation.baseline import (
    Baseline as Baseline,
    Comparison as Comparison,
    compare as compare,
    read_baseline as read_baseline,
    write_baseline as write_baseline,
)
from holdfast.core.evaluation.losses import (
    LastSeen as LastSeen,
    Loss as Loss,
    ViewCut as ViewCut,
)
from holdfast.core.evaluation.report import (
    Evaluation as Evaluation,
    Figures as Figures,
    SessionEvaluation as SessionEvaluation,
)
from holdfast.engine.simulation.evaluate import (
    EvaluationSource as EvaluationSource,
    evaluate_sessions as evaluate_sessions,
)
from holdfast.engine.simulation.sessions import (
    RecordedCuts as RecordedCuts,
    SessionReplay as SessionReplay,
)
