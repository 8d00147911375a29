"""What performs: here decisions of the core are carried out, or played through without a model.

`simulation` replays a transcript under several policies; `transcripts` prepares one for it,
`policies` are what it compares, and `prompt_cache` is the provider's cache as documented.
"""
