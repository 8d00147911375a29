"""Tokens: exact counts where a vocabulary is known, estimates elsewhere, and what usage teaches."""

# isort: skip_file
from holdfast.core.tokens.calibration import (
    Base as Base,
    CLAUDE_BASE as CLAUDE_BASE,
    Calibration as Calibration,
    MARGIN_SHARE as MARGIN_SHARE,
    MARGIN_TOKENS as MARGIN_TOKENS,
    base_for as base_for,
    margin as margin,
    predict as predict,
)
from holdfast.core.tokens.counting import (
    Counter as Counter,
    Estimator as Estimator,
    MESSAGE_TOKENS as MESSAGE_TOKENS,
    count_block as count_block,
    count_message as count_message,
    count_results as count_results,
    strips_thinking as strips_thinking,
)
from holdfast.core.tokens.estimate import (
    estimate as estimate,
    thousandths as thousandths,
)
from holdfast.core.tokens.images import image_rule as image_rule
from holdfast.providers.tokenizers import (
    Vocabulary as Vocabulary,
    counter_for as counter_for,
)
