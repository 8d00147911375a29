"""Memory: search over sessions and notes, the tools that offer it, and running summaries."""

# isort: skip_file
from holdfast.core.memory.hits import Hit as Hit
from holdfast.engine.memory.anthropic_tool import memory_tool as memory_tool
from holdfast.engine.memory.tools import memory_tools as memory_tools
from holdfast.providers.embedders import CallableEmbedder as CallableEmbedder
from holdfast.providers.embedders import OpenAIEmbedder as OpenAIEmbedder
