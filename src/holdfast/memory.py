"""Memory: search over sessions and notes, the tools that offer it, and running summaries."""

# isort: skip_file
from holdfast.core.memory.hits import Hit as Hit, NeighbourTurn as NeighbourTurn
from holdfast.core.memory.hits import passages as passages
from holdfast.core.memory.running_summary import (
    Sidecar as Sidecar,
    advance as advance,
    render as render,
)
from holdfast.core.memory.search_terms import terms as terms
from holdfast.engine.memory.anthropic_tool import memory_tool as memory_tool
from holdfast.engine.memory.notes import refresh as refresh
from holdfast.engine.memory.search import Memory as Memory
from holdfast.engine.memory.tools import memory_tools as memory_tools
from holdfast.providers.callable_embedder import CallableEmbedder as CallableEmbedder
from holdfast.providers.embedders import embedder as embedder
from holdfast.providers.openai_embedder import OpenAIEmbedder as OpenAIEmbedder
from holdfast.providers.embeddings import (
    Embedder as Embedder,
    Vectors as Vectors,
    find_embedder as find_embedder,
)
