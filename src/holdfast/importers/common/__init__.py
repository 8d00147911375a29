"""Building blocks of importers: sources, drafts, content blocks and parsing."""
