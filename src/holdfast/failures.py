"""Failures: what a provider's error means, and what to do about it."""

# isort: skip_file
from holdfast.core.failures.classify import (
    Failure as Failure,
    Symptoms as Symptoms,
    classify as classify,
)
from holdfast.core.failures.rules import Rule as Rule
from holdfast.providers.failures import name_failure as name_failure
