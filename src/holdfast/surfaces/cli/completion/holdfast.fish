function __holdfast_sessions
  command -q holdfast; or return
  set -l places
  set -l before
  for each in (commandline -opc)
    switch $each
      case @{given_places}
        set -a places $each
      case '*'
        contains -- "$before" @{places}; and set -a places $before $each
    end
    set before $each
  end
  holdfast completion sessions $places 2>/dev/null
end
