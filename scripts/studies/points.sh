# shellcheck shell=bash
# To be sourced by a study: $root, $orrery (built if needed) and $out, the folder of its points, which ORRERY_STUDIES
# replaces; sweep and table.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${ORRERY_STUDIES:-$root/build/studies/$(basename "$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)")}
orrery=${ORRERY:-$root/build/release/bin/orrery}
[[ -n "${ORRERY:-}" ]] || { "$root/scripts/install-dependencies.sh" && "$root/scripts/build.sh" release orrery; } >&2
mkdir -p "$out"

# sweep NAME FLAG…: keeps its points in $out/NAME. A run that fails on purpose, as torn reads do, is a point like any other.
sweep() {
  local name=$1
  shift
  local resume=()
  [[ -e "$out/$name" ]] && resume=(--resume)
  "$orrery" sweep "$@" --out "$out/$name" --quiet "${resume[@]}" >&2 || [[ $? == 1 || $? == 3 ]]
}

# table NAME… FLAG…
table() {
  local points=()
  while [[ "$1" != --* ]]; do
    points+=("$out/$1")
    shift
  done
  "$root/scripts/studies/table.py" "${points[@]}" "$@"
}
