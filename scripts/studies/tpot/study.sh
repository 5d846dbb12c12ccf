#!/usr/bin/env bash
# The TPOT study: what UBEP gains over CANN per output token of whole models, and which of its techniques gains it.
#   scripts/studies/tpot/study.sh [1…7]…      all of them without a number
# Builds orrery if needed, sweeps, prints tables. Points are kept in build/studies/tpot (ORRERY_STUDIES replaces it):
# stop it and start it again, finished points are not run twice. expectations.md was written before the first run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/studies/points.sh
source "$(dirname "${BASH_SOURCE[0]}")/../points.sh"

models=workload=qwen3-30b-a3b,glm-4.7,deepseek-r1,deepseek-v3.2
model=(--topology cm384 --devices 64 --operation model --iterations 4 --payload control)

# sweep_model NAME FLAG…
sweep_model() {
  sweep "$1" "${model[@]}" "${@:2}"
}

# 1: models and batches.
study_1() {
  sweep_model 1 --vary "$models" --vary tokens=8,16,32,64,128 --vary algorithm=cann-bsp,ubep
  table 1 --rows tokens --columns workload --value model.tpot_us --reduction algorithm=ubep/cann-bsp \
    --title "TPOT: ubep less than cann-bsp, %"
  for algorithm in cann-bsp ubep; do
    table 1 --rows tokens --columns workload --value model.tpot_us --where "algorithm=$algorithm" \
      --title "TPOT, us: $algorithm"
    for end in least_us most_us; do
      table 1 --rows tokens --columns workload --value "model.$end" --where "algorithm=$algorithm" \
        --title "The same by the emulated layers' spread, $end: $algorithm"
    done
  done
}

# 2: where a layer's time goes, mean over dies.
study_2() {
  study_1 >/dev/null
  for tokens in 8 128; do
    for operation in attention gate dispatch experts combine layer; do
      table 1 --rows algorithm --columns workload --where "tokens=$tokens" --value "$operation.mean" \
        --title "A layer's $operation, us: $tokens tokens"
    done
  done
}

# 3 and 4: contributions, with a flag behind each row that waits for its acknowledgement, and one behind a fence.
combinations() {
  sweep_model cann --algorithm cann-bsp --vary "$models" --vary tokens=8,32,128
  sweep_model ubep --algorithm ubep --vary "$models" --vary tokens=8,32,128 --vary algorithm.flag=tff,stop-and-wait,fence \
    --vary algorithm.schedule=hop-aware,expert-major
}
study_3() {
  combinations
  "$here/contributions.py" "$out/cann" "$out/ubep" --off stop-and-wait --title "Contributions, F against stop-and-wait"
}
study_4() {
  combinations
  "$here/contributions.py" "$out/cann" "$out/ubep" --off fence --title "Contributions, F against a fence and a flag"
}

# 5: the number of cores that count.
study_5() {
  sweep_model 5 --algorithm ubep --vary "$models" --vary tokens=8,32,128 --vary algorithm.count_cores=auto,1
  table 5 --rows tokens --columns workload --value model.tpot_us --reduction algorithm.count_cores=auto/1 \
    --title "TPOT: by the cost model less than with 1 counting core, %"
}

# 6: context.
study_6() {
  sweep_model 6 --tokens 32 --vary "$models" --vary workload.context=1024,4096,16384 --vary algorithm=cann-bsp,ubep
  table 6 --rows context --columns workload --value model.tpot_us --reduction algorithm=ubep/cann-bsp \
    --title "TPOT at 32 tokens: ubep less than cann-bsp, %"
}

# 7: assumed parameters, one at a time at the ends of their ranges, where the gain is largest.
study_7() {
  local vary
  for vary in device.poll_ns=10,100 device.barrier_ns=500,5000 device.launch_ns=1000,8000 device.matrix_efficiency=0.3,0.7 \
    device.tile_ns=300,3000 device.outstanding_stores=4,32 device.copy_ns=300,800 workload.attention.kv_bytes=1,2; do
    local key=${vary%%=*}
    sweep_model "7-$key" --workload qwen3-30b-a3b --tokens 128 --vary "$vary" --vary algorithm=cann-bsp,ubep
    table "7-$key" --rows "${key##*.}" --value model.tpot_us --reduction algorithm=ubep/cann-bsp \
      --title "Qwen3-30B, 128 tokens: ubep less than cann-bsp, %"
  done
}

for number in "${@:-1 2 3 4 5 6 7}"; do
  for each in $number; do
    echo "## Study $each"
    "study_$each"
  done
done
