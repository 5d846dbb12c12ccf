#!/usr/bin/env bash
# Unit tests under AddressSanitizer and UndefinedBehaviorSanitizer: scripts/sanitize.sh FOLDER…, e.g. emu moe.
# Builds them in build/asan-ubsan; a program's tests are dealt to as many processes as there are cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/mpi-environment.sh

targets=()
for folder in "$@"; do
  targets+=("orrery_${folder}_tests")
done
scripts/build.sh asan-ubsan "${targets[@]}"

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
shards=$(nproc)
export GTEST_TOTAL_SHARDS=$shards UBSAN_OPTIONS=print_stacktrace=1
for target in "${targets[@]}"; do
  pids=()
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_SHARD_INDEX=$shard "build/asan-ubsan/tests/$target" --gtest_brief=1 >"$logs/$shard" 2>&1 </dev/null &
    pids+=($!)
  done
  for ((shard = 0; shard < shards; ++shard)); do
    if ! wait "${pids[$shard]}"; then
      cat "$logs/$shard"
      echo "FAILED: $target, shard $shard of $shards"
      exit 1
    fi
  done
  echo "$target: clean"
done
