"""Evaluation: replay your own sessions under a policy, and find what later replies lacked."""

# isort: skip_file
from holdfast.engine.simulation.evaluate import (
    EvaluationSource as EvaluationSource,
    evaluate_sessions as evaluate_sessions,
)
