"""Slash commands: the one table that every chat surface shares."""

# isort: skip_file
from holdfast.surfaces.async_chat import AsyncChatContext as AsyncChatContext
from holdfast.surfaces.async_chat import run_command_async as run_command_async
from holdfast.surfaces.chat_context import ChatContext as ChatContext
from holdfast.surfaces.slash_commands import commands_for as commands_for
from holdfast.surfaces.slash_commands import run_command as run_command
