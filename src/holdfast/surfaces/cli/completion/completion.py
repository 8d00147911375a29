"""`completion`: scripts that complete commands, options, sessions and files in a shell."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.log.listing import title_of
from holdfast.surfaces.cli.app import App, Verb, add_common

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holdfast.ports import SessionInfo

_EXAMPLE: Final = """examples:
  holdfast completion bash >> ~/.bashrc
  holdfast completion zsh >> ~/.zshrc
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish"""
_OFFERED_MAX: Final = 200
"""Sessions that are offered: the most recently active, so that a key press reads one page."""
_ACTIVE: Final = frozenset("$`\\!")
"""Characters that bash does not quote when it inserts a name; `$(…)` in a label would be run."""
_PLACES: Final = ("--root", "--owner", "--agent")
"""Options that decide which sessions there are; the scripts pass them on."""


Kind = Literal["files", "sessions", "both"]
"""The names that a shell offers for a word that is no option."""


class CommandWords(msgspec.Struct, frozen=True):
    """The words that a shell completes after a command."""

    options: tuple[str, ...]
    """Long options, those that all commands have included."""
    word: Kind
    """The kind of a word that is no option."""
    values: dict[str, Kind]
    """The kind of the value of each option that has one, also of short options."""


def words_by_command() -> dict[str, CommandWords]:
    """Return the words of each command, as its parser has them."""
    from holdfast.surfaces.cli import COMMANDS

    found = {}
    for module, commands in COMMANDS.items():
        for command in commands:
            parser = argparse.ArgumentParser(prog=command)
            add_common(parser, is_default_set=False)
            verb: Verb = import_module(module).VERBS[command]
            verb.add_arguments(parser)
            found[command] = _words(parser)
    return found


def _words(parser: argparse.ArgumentParser) -> CommandWords:
    actions = list(_actions(parser))
    optional = [action for action in actions if action.option_strings]
    places = [str(action.metavar) for action in actions if not action.option_strings]
    return CommandWords(
        options=_long(optional),
        word=_kind(" ".join(places)),
        values={
            name: _kind(str(action.metavar))
            for action in optional
            if action.nargs != 0
            for name in action.option_strings
        },
    )


def _kind(metavar: str) -> Kind:
    if "SESSION" not in metavar:
        return "files"
    return "both" if "FILE" in metavar else "sessions"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of the commands inside it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action


def _long(actions: list[argparse.Action]) -> tuple[str, ...]:
    names = {name for action in actions for name in action.option_strings}
    return tuple(sorted(name for name in names if name.startswith("--")))


def session_names(infos: list[SessionInfo]) -> dict[str, str]:
    """Return what a session is called on the command line, and what a person knows it by.

    Ids come first, then labels. An id has its agent where sessions of several are listed.
    """
    has_agents = len({info.key.agent for info in infos}) > 1
    ids = [str(info.key) if has_agents else info.key.session for info in infos]
    names = {
        name: title_of(info.label) or info.title for name, info in zip(ids, infos, strict=True)
    }
    for name, info in zip(ids, infos, strict=True):
        if info.label and info.label not in names:
            names[info.label] = name
    return names


def _bash(words: Mapping[str, CommandWords]) -> str:
    tables = "\n".join(
        f"    {name}) words='{' '.join(found.options)}' valued=' {' '.join(found.values)} ' ;;"
        for name, found in words.items()
    )
    first = " ".join([*sorted([*words, "help"]), *_common_options()])
    return rf"""_holdfast_files() {{
  while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -f -- "$word")
}}
_holdfast() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words='' valued='' kind=files command='' before='' each
  local -a places
  places=()
  COMPREPLY=()
  for each in "${{COMP_WORDS[@]:1:$((COMP_CWORD - 1))}}"; do
    [ "$each" = = ] && continue
    case $before in
      {"|".join(_PLACES)}) places+=("$before" "${{each/#\~/$HOME}}") ;;
      *) case $each in
        {"|".join(f"{name}=*" for name in _PLACES)}) places+=("$each") ;;
        -*) ;;
        *) [ -z "$command" ] && command=$each ;;
      esac ;;
    esac
    before=$each
  done
  if [ -z "$command" ]; then
    case $before in
      {"|".join(_PLACES)}) _holdfast_files ;;
      *) COMPREPLY=($(compgen -W '{first}' -- "$word")) ;;
    esac
    return
  fi
  case $command in
    help) words='{" ".join(sorted(words))}' ;;
{tables}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  case "$command $word" in
    help*|*" "-*) return ;;
  esac
  case $valued in
    *" $before "*) case "$command $before" in
      {_either(_options_of(words, "sessions"))}) kind=sessions ;;
      {_either(_options_of(words, "both"))}) kind=both ;;
    esac ;;
    *) case $command in
      {_either([name for name in words if words[name].word == "sessions"])}) kind=sessions ;;
      {_either([name for name in words if words[name].word == "both"])}) kind=both ;;
    esac ;;
  esac
  [ $kind = files ] || COMPREPLY=()
  [ $kind = sessions ] || _holdfast_files
  [ $kind = files ] && return
  word=${{word//\\/}}
  case $word in \"*|\'*) word=${{word:1}} ;; esac
  while IFS=$'\t' read -r each before; do
    [ "${{each:0:${{#word}}}}" = "$word" ] && COMPREPLY+=("$each")
  done < <(holdfast completion sessions ${{places[@]+"${{places[@]}}"}} 2>/dev/null)
}}
complete -o filenames -F _holdfast holdfast
"""


def _either(patterns: list[str]) -> str:
    """Return one pattern of a shell that fits where one of these does."""
    return "|".join(pattern.replace(" ", "\\ ") for pattern in patterns)


def _options_of(words: Mapping[str, CommandWords], kind: Kind) -> list[str]:
    """Return each command with each of its options whose value is of a kind."""
    return [
        f"{name} {option}"
        for name, found in words.items()
        for option, each in found.values.items()
        if each == kind
    ]


def _common_options() -> list[str]:
    """Return the long options that are accepted before a command."""
    parser = argparse.ArgumentParser(prog="holdfast")
    add_common(parser, is_default_set=False)
    return [*_long(parser._actions), "--version"]


def _zsh(words: Mapping[str, CommandWords]) -> str:
    """zsh runs completions of bash; what somebody's .zshrc has loaded is not loaded again."""
    return (
        "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit }\n"
        "(( $+functions[complete] )) || { autoload -U +X bashcompinit && bashcompinit }\n"
        + _bash(words)
    )


def _fish(words: Mapping[str, CommandWords]) -> str:
    from holdfast.surfaces.cli import COMMANDS

    helps = {name: text for commands in COMMANDS.values() for name, text in commands.items()}
    helps["help"] = "Show the help of a command"
    lines = [
        _FISH_SESSIONS,
        *(
            f"complete -c holdfast -n __fish_use_subcommand -f -a {name} -d '{_quote(helps[name])}'"
            for name in sorted(helps)
        ),
    ]
    names = " ".join(sorted(words))
    lines.append(f"complete -c holdfast -n '__fish_seen_subcommand_from help' -f -a '{names}'")
    for name, found in words.items():
        start = f"complete -c holdfast -n '__fish_seen_subcommand_from {name}'"
        if found.word != "files":
            lines.append(f"{start} {_FISH_OFFERS[found.word]}")
        lines += [f"{start} {_fish_option(option, found)}" for option in _spellings(found)]
    return "\n".join(lines) + "\n"


def _spellings(words: CommandWords) -> list[str]:
    """Return the long options, and those short ones whose values are offered."""
    return [*words.options, *(name for name in words.values if not name.startswith("--"))]


def _fish_option(option: str, words: CommandWords) -> str:
    name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
    return f"{name} -r {_FISH_OFFERS[words.values[option]]}" if option in words.values else name


_FISH_OFFERS: Final[dict[Kind, str]] = {
    "files": "-F",
    "sessions": "-f -k -a '(__holdfast_sessions)'",
    "both": "-F -k -a '(__holdfast_sessions)'",
}
_FISH_SESSIONS: Final = f"""function __holdfast_sessions
  command -q holdfast; or return
  set -l places
  set -l before
  for each in (commandline -opc)
    switch $each
      case {" ".join(f"'{name}=*'" for name in _PLACES)}
        set -a places $each
      case '*'
        contains -- "$before" {" ".join(_PLACES)}; and set -a places $before $each
    end
    set before $each
  end
  holdfast completion sessions $places 2>/dev/null
end"""


def _quote(text: str) -> str:
    """Return a text as it stands between the single quotes of fish."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


_SHELLS: Final[dict[str, Callable[[Mapping[str, CommandWords]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=[*_SHELLS, "sessions"],
        help="the shell to print a script for; `sessions` prints the names that scripts offer",
    )


def _completion(args: argparse.Namespace, app: App) -> int:
    if args.what == "sessions":
        return _sessions(app)
    script = _SHELLS[args.what](words_by_command())
    if app.out.is_json:
        app.out.json({"shell": args.what, "script": script})
    else:
        app.out.text(script)
    return 0


def _sessions(app: App) -> int:
    """Print a line for each name: the name, a tab, and what the session is known by.

    A name is left out where it has to be masked, or a terminal or shell would not take it as it is.
    """
    infos = app.store.sessions(owner=app.owner, limit=_OFFERED_MAX)
    names = {
        name: app.out.mask(about)
        for name, about in session_names(infos).items()
        if name.isprintable() and _ACTIVE.isdisjoint(name) and app.out.mask(name) == name
    }
    if app.out.is_json:
        app.out.json(names)
    else:
        for name, about in names.items():
            app.out.line(f"{name}\t{about}")
    return 0


VERBS = {
    "completion": Verb(_add_completion, _completion, _EXAMPLE),
}
