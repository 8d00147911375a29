"""Replaying a transcript under several policies, without a model.

`transcripts` prepares a transcript, `policies` are what is compared, `prompt_cache` is the
provider's cache as documented.
"""
