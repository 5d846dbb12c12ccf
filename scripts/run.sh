#!/usr/bin/env bash
# The main job: DeepSeek-R1's MoE layer with CANN's dispatch and combine on 64 dies of a CloudMatrix384, as one
# process per core (at most 4). Installs and builds what is missing first. Asks nothing.
#   scripts/run.sh [-n PROCESSES] [FLAGS OF orrery run]
# A flag replaces its default below. Another topology takes all of its devices, another workload its own tokens.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/mpi-environment.sh"

processes=$(nproc)
((processes <= 4)) || processes=4
if [[ "${1:-}" == -n ]]; then
  processes=${2:?run.sh: -n needs a number of processes}
  shift 2
fi

# given FLAG ARGUMENT…: is FLAG among the arguments?
given() {
  local flag=$1 argument
  shift
  for argument in "$@"; do
    [[ "$argument" == "$flag" || "$argument" == "$flag="* ]] && return 0
  done
  return 1
}
defaults=()
# default FLAG VALUE OWNER: VALUE unless FLAG is given, or the flag OWNER that VALUE makes sense for.
default() {
  local flag=$1 value=$2 owner=$3
  given "$flag" "${arguments[@]}" || given "$owner" "${arguments[@]}" || defaults+=("$flag" "$value")
}
arguments=("$@")
default --topology cm384 --topology
default --devices 64 --topology
default --workload deepseek-r1 --workload
default --tokens 128 --workload
default --algorithm cann-bsp --algorithm
default --iterations 3 --iterations
default --seed 1 --seed

"$root/scripts/install-dependencies.sh"
"$root/scripts/build.sh" release orrery
echo "mpirun -n $processes orrery run ${defaults[*]} ${arguments[*]}" >&2
launch "$processes" "$root/build/release/bin/orrery" run "${defaults[@]}" "${arguments[@]}"
