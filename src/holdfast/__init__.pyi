# isort: skip_file
# The public names of `holdfast`, each stated once: type checkers read them here, and
# `holdfast.__getattr__` finds their modules here.

from holdfast.core.history.access import (
    Caller as Caller,
    OPERATOR as OPERATOR,
)
from holdfast.core.log.ids import (
    CallKey as CallKey,
    SessionKey as SessionKey,
)
from holdfast.core.log.records import (
    Assistant as Assistant,
    Record as Record,
    ToolResult as ToolResult,
    User as User,
)
from holdfast.core.models.replies import Reply as Reply
from holdfast.core.window import Window as Window
from holdfast.core.projection.policy import (
    Policy as Policy,
)
from holdfast.core.secrets.found import Secrets as Secrets
from holdfast.core.secrets.redaction import Redactor as Redactor
from holdfast.core.secrets.vault import (
    Secret as Secret,
    Vault as Vault,
)
from holdfast.core.turn.options import (
    Limits as Limits,
    Summary as Summary,
)
from holdfast.engine.erasing import (
    erase as erase,
    erase_owner as erase_owner,
)
from holdfast.engine.operations.session_history import History as History
from holdfast.engine.history.reseed import reseed as reseed
from holdfast.engine.memory.search import Memory as Memory
from holdfast.engine.outputs import Outputs as Outputs
from holdfast.engine.redactor import redactor as redactor
from holdfast.engine.session.async_session import AsyncSession as AsyncSession
from holdfast.engine.session.options import SessionOptions as SessionOptions
from holdfast.engine.session.session import Session as Session
from holdfast.engine.session.status import Status as Status
from holdfast.engine.tool_values import ToolOutput as ToolOutput
from holdfast.engine.tools import tool as tool
from holdfast.errors import (
    HoldfastError as HoldfastError,
    ModelError as ModelError,
)
from holdfast.providers.models import (
    async_model as async_model,
    model as model,
)
from holdfast.stores.jsonl.store import JsonlStore as JsonlStore

__version__: str
__all__: list[str]
_MOVED: dict[str, str]
