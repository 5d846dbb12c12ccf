# shellcheck shell=bash
# To be sourced: what Open MPI needs to run in a container, as root, on fewer cores than processes; and
# `launch N PROGRAM…`, which starts a program as N processes.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

launch() {
  local processes=$1
  shift
  local options=(-n "$processes")
  # -q: when processes end with an error, their own message is the only one. Open MPI alone has it.
  if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    options=(-q --oversubscribe "${options[@]}")
  fi
  mpirun "${options[@]}" "$@"
}
