"""Slash commands: the one table that every chat surface shares."""

# isort: skip_file
from holdfast.surfaces.answers import CommandAnswer as CommandAnswer
from holdfast.surfaces.async_chat import AsyncChatContext as AsyncChatContext
from holdfast.surfaces.async_chat import run_async as run_async
from holdfast.surfaces.chat_context import ChatContext as ChatContext
from holdfast.surfaces.slash_commands import as_message as as_message
from holdfast.surfaces.slash_commands import commands_for as commands_for
from holdfast.surfaces.slash_commands import complete as complete
from holdfast.surfaces.slash_commands import find as find
from holdfast.surfaces.slash_commands import is_command as is_command
from holdfast.surfaces.slash_commands import run as run
from holdfast.surfaces.slash_commands.command import SlashCommand as SlashCommand
