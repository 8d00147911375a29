_holdfast_files() {
  while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -f -- "$word")
}
_holdfast() {
  local word=${COMP_WORDS[COMP_CWORD]} words='' valued='' kind=files command='' before='' each
  local -a places
  places=()
  COMPREPLY=()
  for each in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    [ "$each" = = ] && continue
    case $before in
      @{places}) places+=("$before" "${each/#\~/$HOME}") ;;
      *) case $each in
        @{given_places}) places+=("$each") ;;
        -*) ;;
        *) [ -z "$command" ] && command=$each ;;
      esac ;;
    esac
    before=$each
  done
  if [ -z "$command" ]; then
    case $before in
      @{places}) _holdfast_files ;;
      *) COMPREPLY=($(compgen -W '@{first}' -- "$word")) ;;
    esac
    return
  fi
  case $command in
    help) words='@{commands}' ;;
@{tables}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  case "$command $word" in
    help*|*" "-*) return ;;
  esac
  case $valued in
    *" $before "*) case "$command $before" in
      @{session_options}) kind=sessions ;;
      @{both_options}) kind=both ;;
    esac ;;
    *) case $command in
      @{session_commands}) kind=sessions ;;
      @{both_commands}) kind=both ;;
    esac ;;
  esac
  [ $kind = files ] || COMPREPLY=()
  [ $kind = sessions ] || _holdfast_files
  [ $kind = files ] && return
  word=${word//\\/}
  case $word in \"*|\'*) word=${word:1} ;; esac
  while IFS=$'\t' read -r each before; do
    [ "${each:0:${#word}}" = "$word" ] && COMPREPLY+=("$each")
  done < <(holdfast completion sessions ${places[@]+"${places[@]}"} 2>/dev/null)
}
complete -o filenames -F _holdfast holdfast
