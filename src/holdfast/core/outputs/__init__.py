"""Large tool outputs: moving them out of the log, previews and excerpts."""
