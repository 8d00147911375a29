"""The gateway as a library: messages that are durable, then answered, each once and in order."""

# isort: skip_file
from holdfast.engine.gateway.gateway import Channel as Channel
from holdfast.engine.gateway.gateway import Gateway as Gateway
from holdfast.engine.gateway.gateway import GatewayOptions as GatewayOptions
from holdfast.engine.timers import SessionTimers as SessionTimers
from holdfast.engine.timers import TimerService as TimerService
