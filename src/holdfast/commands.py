"""Slash commands: the one table that every chat surface shares."""

# isort: skip_file
from holdfast.surfaces.answers import CommandAnswer as CommandAnswer
from holdfast.surfaces.chat_context import ChatContext as ChatContext
from holdfast.surfaces.slash_commands import run as run
