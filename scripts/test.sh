#!/usr/bin/env bash
# Installs and builds what is missing, then runs all tests: scripts/test.sh [FLAGS OF ctest]. Asks nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/mpi-environment.sh"

"$root/scripts/install-dependencies.sh"
"$root/scripts/build.sh" release
cd "$root/build/release"
ctest --output-on-failure --parallel "$(nproc)" "$@" </dev/null
