"""`mcp`: serves sessions, outputs and memory to a client of the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from holdfast.core.history.access import EVERY, Caller, Visibility
from holdfast.core.log.ids import check_name
from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import Command, WindowOption, option

if TYPE_CHECKING:
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.surfaces.cli.app import App


class McpCommand(Command, frozen=True, kw_only=True):
    """Serves one client."""

    example = """examples:
  claude mcp add holdfast -- holdfast mcp --root ~/.sessions
  holdfast mcp --root ~/.sessions --owner alice --read-only"""
    read_only: Annotated[bool, option("offer no tool that changes something")] = False
    approver: Annotated[
        str,
        option(
            "the person in whose name the client may approve and deny calls that wait: of one that "
            "asks this person each time (default: it may not)",
            "NAME",
        ),
    ] = ""
    session: Annotated[
        str | None, option("the client's own session, which it may name `current`", "ID")
    ] = None
    visibility: Annotated[
        Visibility,
        option(
            "the sessions that it may read: its own, those that descend from it, those of its "
            "agent (default), or those of every agent; always of one owner"
        ),
    ] = "agent"
    model: Annotated[
        str | None,
        option(
            "the model that sessions are planned for and compacted with (default: plan for the "
            "model that answered last, and compact without a model)",
            "NAME",
        ),
    ] = None
    window: WindowOption = None
    words_only: Annotated[bool, option("search by words alone, without vectors")] = False
    embedder: Annotated[
        str | None,
        option(
            "the model for vectors (default: HOLDFAST_EMBEDDER, or none)",
            "NAME",
        ),
    ] = None

    def run(self, app: App) -> None:
        caller = self._caller(app)
        try:
            from holdfast.surfaces.mcp.server import McpClient, build_server
            from holdfast.surfaces.mcp.transports import serve_stdio
        except ImportError as error:
            raise UsageError(
                f"`holdfast mcp` needs a package that is not installed: {error.name or error}",
                hint="pip install 'holdfast[mcp]'",
            ) from error
        from holdfast.engine.memory.vectors import VectorWorker, mask_embedder
        from holdfast.engine.redactor import redactor
        from holdfast.engine.workspace.context import ContextSettings
        from holdfast.engine.workspace.workspace import CallerWorkspace
        from holdfast.providers.models import model

        client = McpClient(caller, self.read_only, self.approver)
        masks = redactor(app.settings.secrets)
        name = self.embedder or app.settings.embedder
        embedder = None if self.words_only else mask_embedder(name, masks)
        worker = VectorWorker(app.store.search_index, embedder) if embedder else None
        context = ContextSettings(model(self.model) if self.model else None, self.window)

        def workspace_of(caller: Caller) -> CallerWorkspace:
            return CallerWorkspace(
                app.store, caller, redactor=masks, embedder=embedder, worker=worker, context=context
            )

        try:
            serve_stdio(build_server(lambda _request: client, workspace_of), masks.value)
        finally:
            if worker is not None:
                worker.close()

    def _caller(self, app: App) -> Caller:
        """The identity of the client: an agent, and the owner that it works for."""
        if self.session is not None:
            check_name("session", self.session)
        elif self.visibility in ("self", "tree"):
            raise UsageError(
                f"--visibility {self.visibility} needs the client's own session",
                hint="add --session ID, or choose --visibility agent",
            )
        agents = (EVERY,) if self.visibility == "all" else ()
        return Caller(
            app.settings.agent,
            self.session,
            owner=app.owner_of_new,
            visibility=self.visibility,
            agents=agents,
        )
