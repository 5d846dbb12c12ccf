#!/usr/bin/env bash
# Configures and builds a preset: scripts/build.sh [PRESET [TARGET]…]. The preset is release by default; the
# build lies in build/PRESET. Prints only what went wrong.
#   ORRERY_JOBS=N   compiles N files at once (default: the cores there are, as memory allows)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
shift || true
targets=()
for target in "$@"; do
  targets+=(--target "$target")
done

options=()
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
# A compiler takes about 1 GiB for the largest files.
memory_gib=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=$(nproc)
((memory_gib >= jobs)) || jobs=$((memory_gib > 1 ? memory_gib : 1))

log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: '$*' failed" >&2
    exit 1
  fi
}
echo "building build/$preset" >&2
run cmake --preset "$preset" "${options[@]}"
run cmake --build "build/$preset" --parallel "${ORRERY_JOBS:-$jobs}" "${targets[@]}"
