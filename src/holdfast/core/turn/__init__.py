"""The flow of a turn: model calls, tool results, compaction and recovery."""
