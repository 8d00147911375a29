"""`completion`: scripts that complete commands, their options and files in a shell."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.surfaces.cli.app import App, Verb, add_common

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXAMPLE: Final = """examples:
  holdfast completion bash >> ~/.bashrc
  holdfast completion zsh >> ~/.zshrc
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish"""


def options_by_command() -> dict[str, list[str]]:
    """Return the long options of each command, those that all have included."""
    from holdfast.surfaces.cli import COMMANDS

    found = {}
    for module, commands in COMMANDS.items():
        for command in commands:
            parser = argparse.ArgumentParser(prog=command)
            add_common(parser, is_default_set=False)
            verb: Verb = import_module(module).VERBS[command]
            verb.add_arguments(parser)
            found[command] = sorted(name for name in _options(parser) if name.startswith("--"))
    return found


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of a parser and of the commands inside it."""
    names = list(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                names += _options(inner)
    return sorted(set(names))


def _bash(options: Mapping[str, list[str]]) -> str:
    cases = "\n".join(
        f"    {name}) words='{' '.join(found)}' ;;" for name, found in options.items()
    )
    return f"""_holdfast() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=''
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(sorted([*options, "help"]))}' -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
    help) words='{" ".join(sorted(options))}' ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  case "${{COMP_WORDS[1]}} $word" in
    help*|*" "-*) ;;
    *) COMPREPLY+=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _holdfast holdfast
"""


def _zsh(options: Mapping[str, list[str]]) -> str:
    """zsh runs completions of bash; what somebody's .zshrc has loaded is not loaded again."""
    return (
        "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit }\n"
        "(( $+functions[complete] )) || { autoload -U +X bashcompinit && bashcompinit }\n"
        + _bash(options)
    )


def _fish(options: Mapping[str, list[str]]) -> str:
    from holdfast.surfaces.cli import COMMANDS

    helps = {name: text for commands in COMMANDS.values() for name, text in commands.items()}
    helps["help"] = "Show the help of a command"
    lines = [
        f"complete -c holdfast -n __fish_use_subcommand -f -a {name} -d '{_quote(helps[name])}'"
        for name in sorted(helps)
    ]
    names = " ".join(sorted(options))
    lines.append(f"complete -c holdfast -n '__fish_seen_subcommand_from help' -f -a '{names}'")
    lines += [
        f"complete -c holdfast -n '__fish_seen_subcommand_from {name}' -l {option[2:]}"
        for name, found in options.items()
        for option in found
    ]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """Return a text as it stands between the single quotes of fish."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


_SHELLS: Final[dict[str, Callable[[Mapping[str, list[str]]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(_SHELLS))


def _completion(args: argparse.Namespace, app: App) -> int:
    script = _SHELLS[args.shell](options_by_command())
    if app.out.is_json:
        app.out.json({"shell": args.shell, "script": script})
    else:
        app.out.text(script)
    return 0


VERBS = {
    "completion": Verb(_add_completion, _completion, _EXAMPLE),
}
