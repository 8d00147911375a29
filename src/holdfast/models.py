"""Models: clients by name, the messages they take, the replies they give, windows and prices."""

# isort: skip_file
from holdfast.core.models.dialects import Target as Target
from holdfast.core.dialects.registry import target as target
from holdfast.core.models.messages import (
    Block as Block,
    Message as Message,
    Prompt as Prompt,
    Text as Text,
    Thinking as Thinking,
    Tool as Tool,
    ToolAnswer as ToolAnswer,
    ToolCall as ToolCall,
    read_blocks as read_blocks,
    read_pieces as read_pieces,
)
from holdfast.core.models.prices import (
    Price as Price,
    PriceTier as PriceTier,
)
from holdfast.core.models.replies import (
    Delta as Delta,
    Reply as Reply,
)
from holdfast.core.models.usage import (
    Usage as Usage,
    read_usage as read_usage,
)
from holdfast.core.models.window import budget_for as budget_for
from holdfast.core.window import Window as Window
from holdfast.ports import (
    AsyncModel as AsyncModel,
    Model as Model,
)
from holdfast.providers.callables import from_callable as from_callable
from holdfast.providers.command_line.model import CommandLineModel as CommandLineModel
from holdfast.providers.known_models.lookup import (
    DEFAULT_MODEL as DEFAULT_MODEL,
    default_price as default_price,
    price_of as price_of,
    window_of as window_of,
)
from holdfast.providers.models import (
    async_model as async_model,
    model as model,
)
from holdfast.providers.replies import (
    partial_of as partial_of,
    read_reply as read_reply,
)
from holdfast.providers.requests import (
    render as render,
    validate as validate,
)
