"""Tokens: exact counts where a vocabulary is known, estimates elsewhere, and what usage teaches."""

# isort: skip_file
from holdfast.core.tokens.counting import Estimator as Estimator
from holdfast.providers.tokenizers import counter_for as counter_for
