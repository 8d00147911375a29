"""`chat`: talk to a model in a durable session."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

from holdfast.surfaces.cli.command import Command, WindowOption, option, place
from holdfast.surfaces.cli.conversations import text_in

if TYPE_CHECKING:
    from holdfast.engine.session.options import SessionOptions
    from holdfast.surfaces.chat_context import ChatContext
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.chat.view import ChatView


class ChatCommand(Command, frozen=True, kw_only=True):
    """Runs a chat."""

    example = """examples:
  holdfast chat                       the newest session, or a new one; needs no key
  holdfast chat --model anthropic:claude-sonnet-4-6
  holdfast chat my-project            by id, label, or the beginning of either
  holdfast chat --new "release notes"
  echo "What is in README.md?" | holdfast chat --json"""
    session: Annotated[
        str | None,
        place(
            "id, label or prefix (default: the newest session); with --new, the label", "SESSION"
        ),
    ] = None
    new: Annotated[bool, option("start another session")] = False
    model: Annotated[
        str | None,
        option("the model (default: HOLDFAST_MODEL, or `offline`, which needs no key)", "NAME"),
    ] = None
    system: Annotated[str, option("the system prompt", "TEXT", group="system")] = ""
    system_file: Annotated[
        str | None, option("the system prompt, from a file", "FILE", group="system")
    ] = None
    window: WindowOption = None
    found_secrets: Annotated[
        Literal["warn", "handle", "keep"],
        option(
            "what looks like a credential and is not in HOLDFAST_SECRETS: store it and warn "
            "(default), store a handle that tools resolve until the chat ends, or do not look"
        ),
    ] = "warn"
    policy: Annotated[
        str,
        option(
            "when to shorten and cut: thrifty, balanced (default), faithful, or a TOML or JSON "
            "file with thresholds",
            "NAME|FILE",
        ),
    ] = "balanced"
    background_summary: Annotated[
        bool,
        option("have the model write the summary for the next compaction ahead, while you read"),
    ] = False
    no_tools: Annotated[bool, option("give the model no tools")] = False
    allow_write: Annotated[bool, option("add a tool that writes files")] = False

    def run(self, app: App) -> int:
        # These imports are slow, and no other command needs them.
        from holdfast.surfaces.cli.chat.input import source_for
        from holdfast.surfaces.cli.chat.loop import Chat, quiet
        from holdfast.surfaces.cli.chat.view import JsonLines, Screen

        is_live = sys.stdin.isatty() and not app.out.is_json
        view: ChatView = (
            JsonLines(app.out)
            if app.out.is_json
            else Screen(app.out, is_live=is_live and sys.stdout.isatty())
        )
        with quiet(is_live=is_live):
            view.busy(f"loading {self.model or app.settings.model}")
            try:
                chat = self._context(app, view)
                self._open_session(app, chat, view)
            finally:
                view.idle()
        source = source_for(chat, app.store.local_folder, is_json=app.out.is_json)
        try:
            return Chat(chat, view, source).run()
        finally:
            view.idle()
            chat.close()

    def _context(self, app: App, view: ChatView) -> ChatContext:
        from holdfast.providers.models import model
        from holdfast.surfaces.chat_context import ChatContext

        return ChatContext(
            app.store,
            app.settings.agent,
            model(self.model or app.settings.model),
            self._options(app),
            owner=app.owner,
            audience="operator",
            listen=view.event,
        )

    def _options(self, app: App) -> SessionOptions:
        from holdfast.core.secrets.found import Secrets
        from holdfast.core.turn.options import Summary
        from holdfast.engine.session.options import SessionOptions
        from holdfast.engine.simulation.policies import read_policy
        from holdfast.surfaces.cli.chat.tools import FolderTools

        tools = [] if self.no_tools else FolderTools(".").tools(can_write=self.allow_write)
        return SessionOptions(
            system=text_in(self.system_file).strip() if self.system_file else self.system,
            tools=tools,
            window=self.window,
            policy=read_policy(self.policy),
            summary=Summary(ahead=self.background_summary),
            secrets=Secrets(dict(app.settings.secrets), found=self.found_secrets),
        )

    def _open_session(self, app: App, chat: ChatContext, view: ChatView) -> None:
        """Open the session that the arguments name, and show the banner."""
        from holdfast.engine.session.base import target_of
        from holdfast.surfaces.answers import Cell, line
        from holdfast.surfaces.cli.chat.loop import greeting, interruption

        first = False
        if self.new:
            chat.start(self.session or "")
        elif self.session:
            chat.open(app.session(self.session))
        else:
            first = chat.open_newest()
        is_new = self.new or first
        if sys.stdin.isatty() and not app.out.is_json:
            words = greeting(chat, is_new=is_new, first=first)
        else:
            words = interruption(chat)
        model = target_of(chat.session).model
        if not self.no_tools and not chat.tools:
            words.append(
                line(Cell(f"  {model} works with tools of its own; this chat gives it none", "dim"))
            )
        view.welcome(words, _facts(chat, model, is_new=is_new))


def _facts(chat: ChatContext, model: str, *, is_new: bool) -> dict[str, Any]:
    session = chat.session
    return {
        "session": session.key.session,
        "agent": chat.agent,
        "is_new": is_new,
        "model": model,
        "window": session.window,
        "tools": chat.tools,
        "folder": os.getcwd(),
    }
