#!/usr/bin/env bash
# Installs and builds what is missing, then runs all tests: scripts/test.sh [--full] [FLAGS OF ctest]. Asks nothing.
#   --full   then all unit tests under sanitizers, and the mutants of all algorithms under --check (scripts/mutants.py):
#            an hour more on two cores
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/mpi-environment.sh"
full=false
if [[ "${1:-}" == --full ]]; then
  full=true
  shift
fi

"$root/scripts/install-dependencies.sh"
"$root/scripts/build.sh" release
# Twice as many as cores: those under mpirun wait more than they compute.
(cd "$root/build/release" && ctest --output-on-failure --parallel "$((2 * $(nproc)))" "$@" </dev/null)
if $full; then
  "$root/scripts/sanitize.sh" emu fabric devices litmus moe
  "$root/scripts/mutants.py" --seeds 1
fi
