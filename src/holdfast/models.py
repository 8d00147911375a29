"""Models: clients by name, the messages they take, the replies they give, windows and prices."""

# isort: skip_file
from holdfast.core.models.dialects import Target as Target
from holdfast.core.dialects.registry import target as target
from holdfast.core.models.messages import (
    Tool as Tool,
    ToolCall as ToolCall,
)
from holdfast.core.models.prices import Price as Price
from holdfast.core.models.replies import Delta as Delta
from holdfast.ports import (
    AsyncModel as AsyncModel,
    Model as Model,
)
from holdfast.providers.callables import from_callable as from_callable
from holdfast.providers.command_line.model import CommandLineModel as CommandLineModel
from holdfast.providers.known_models.lookup import (
    price_of as price_of,
    window_of as window_of,
)
from holdfast.providers.replies import (
    partial_of as partial_of,
    read_reply as read_reply,
)
