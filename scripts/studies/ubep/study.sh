#!/usr/bin/env bash
# The UBEP studies: what its dispatch gains over CANN's, where the gain comes from and what it rests on.
#   scripts/studies/ubep/study.sh [1…9]…      all of them without a number
# Builds orrery if needed, sweeps, prints tables. Points are kept in build/studies/ubep (ORRERY_STUDIES replaces it):
# stop it and start it again, finished points are not run twice. expectations.md was written before the first run.
set -euo pipefail
# shellcheck source=scripts/studies/points.sh
source "$(dirname "${BASH_SOURCE[0]}")/../points.sh"

dispatch=(--workload deepseek-r1 --operation dispatch --align --payload control)
batches=1:256:*2

# 1: batch and size.
study_1() {
  sweep 1 "${dispatch[@]}" --topology cm384 --vary devices=16,32,64,128,256 --vary "tokens=$batches" \
    --vary algorithm=cann-bsp,ubep
  for algorithm in cann-bsp ubep; do
    table 1 --rows tokens --columns devices --where "algorithm=$algorithm" --title "Dispatch, us: $algorithm"
  done
  table 1 --rows tokens --columns devices --reduction algorithm=ubep/cann-bsp --title "ubep less than cann-bsp, %"
  "$orrery" validate --suite ubep --ranges cm384
}

# 2: schedules with 8 hot experts at 64 dies: of each die its slowest core, mean over dies.
study_2() {
  local hot=("${dispatch[@]}" --topology cm384 --devices 64 --set workload.gate.kind=HOT_EXPERTS
    --vary tokens=16,32,64,128 --vary workload.gate.hot_factor=2,4,8,16)
  sweep 2-bsp "${hot[@]}" --vary algorithm=cann-bsp
  sweep 2-ubep "${hot[@]}" --algorithm ubep --vary "algorithm.schedule=expert-major,entry-cyclic,random,balanced,hop-aware"
  table 2-bsp --rows tokens --columns hot_factor --title "Slowest core of a die, us: cann-bsp"
  for schedule in expert-major entry-cyclic random balanced hop-aware; do
    table 2-ubep --rows tokens --columns hot_factor --where "algorithm.schedule=$schedule" \
      --title "Slowest core of a die, us: ubep, $schedule"
  done
  for base in expert-major entry-cyclic; do
    table 2-ubep --rows tokens --columns hot_factor --ratio "algorithm.schedule=hop-aware/$base" --title "hop-aware : $base"
  done
}

# 3: flags.
study_3() {
  sweep 3 "${dispatch[@]}" --topology cm384 --devices 64 --algorithm ubep --vary "tokens=$batches" \
    --vary algorithm.flag=tff,dc,sp,fence,stop-and-wait
  table 3 --rows tokens --columns flag --title "Dispatch, us"
}

# 4: how many cores count.
study_4() {
  local counts=1,2,4,8,16,24,32,auto
  sweep 4 "${dispatch[@]}" --topology cm384 --algorithm ubep --vary devices=16,64,256 --vary tokens=1,8,32,128 \
    --vary "algorithm.count_cores=$counts"
  for devices in 16 64 256; do
    table 4 --rows tokens --columns count_cores --where "devices=$devices" --title "Dispatch, us: $devices dies"
  done
}

# 5: batch, ranks, experts, top-k.
study_5() {
  for vary in "tokens=$batches" devices=16,32,64,128,256 workload.experts=64,128,256,512,1024 workload.top_k=1,2,4,8,16; do
    local key=${vary%%=*} fixed=(--devices 64 --tokens 32)
    [[ "$key" != tokens ]] || fixed=(--devices 64)
    [[ "$key" != devices ]] || fixed=(--tokens 32)
    sweep "5-${key#workload.}" "${dispatch[@]}" --topology cm384 "${fixed[@]}" --vary "$vary" --vary algorithm=cann-bsp,ubep
    table "5-${key#workload.}" --rows "${key#workload.}" --columns algorithm --title "Dispatch, us: over ${key#workload.}"
  done
}

# 6: what survives smaller atomic blocks. Torn reads under the adversary say which variants are right there; latency is
# without it.
study_6() {
  for block in 512 256 128 64; do
    local fabric=(--topology cm384 --devices 64 --set "fabric.atomic_block_bytes=$block")
    sweep "6-bsp-$block" "${dispatch[@]}" "${fabric[@]}" --vary tokens=1,8,32,128 --vary algorithm=cann-bsp
    sweep "6-tff-$block" "${dispatch[@]}" "${fabric[@]}" --algorithm ubep --set "algorithm.block_bytes=$block" \
      --vary tokens=1,8,32,128 --vary algorithm.flag=tff
    sweep "6-rest-$block" "${dispatch[@]}" "${fabric[@]}" --algorithm ubep --vary tokens=1,8,32,128 \
      --vary algorithm.flag=dc,fence,stop-and-wait
    table "6-bsp-$block" --rows tokens --columns algorithm --title "Dispatch, us: cann-bsp, blocks of $block bytes"
    table "6-tff-$block" "6-rest-$block" --rows tokens --columns flag \
      --title "Dispatch, us: ubep, blocks of $block bytes (tff: flags for that size)"
    sweep "6-torn-$block" --workload tiny --topology cm384 --devices 8 --adversary --algorithm ubep \
      --set "fabric.atomic_block_bytes=$block" --set workload.hidden=2048 --vary seed=1:20 \
      --vary algorithm.flag=tff,sp,dc,fence,stop-and-wait
    table "6-torn-$block" --rows flag --columns seed --title "Right under the adversary? Flags for 512, blocks of $block bytes"
  done
}

# 7: other machines.
study_7() {
  for machine in cm384 gb200-nvl72 ualink-72; do
    local on=(--topology "$machine" --devices 64)
    sweep "7-$machine-bsp" "${dispatch[@]}" "${on[@]}" --vary tokens=1,8,32,128 --vary algorithm=cann-bsp,deepep-ll,nccl-bsp
    sweep "7-$machine-ubep" "${dispatch[@]}" "${on[@]}" --algorithm ubep --vary tokens=1,8,32,128 --vary algorithm.flag=dc,fence
    table "7-$machine-bsp" --rows tokens --columns algorithm --title "Dispatch, us: $machine"
    table "7-$machine-ubep" --rows tokens --columns flag --title "Dispatch, us: $machine, ubep"
  done
}

# 8: two hops of 2500 ns, and of 1879.
study_8() {
  sweep 8 "${dispatch[@]}" --devices 64 --vary "tokens=$batches" --vary topology=cm384,cm384-short-hop2 \
    --vary algorithm=cann-bsp,ubep
  table 8 --rows tokens --columns topology --reduction algorithm=ubep/cann-bsp --title "ubep less than cann-bsp, %"
  for algorithm in cann-bsp ubep; do
    table 8 --rows tokens --columns topology --where "algorithm=$algorithm" --title "Dispatch, us: $algorithm"
  done
}

# 9: one plane of seven failed.
study_9() {
  sweep 9 "${dispatch[@]}" --topology cm384 --devices 64 --vary "tokens=$batches" --vary fabric.failed_planes=none,0 \
    --vary algorithm=cann-bsp,ubep
  for algorithm in cann-bsp ubep; do
    table 9 --rows tokens --columns failed_planes --where "algorithm=$algorithm" --title "Dispatch, us: $algorithm"
  done
  table 9 --rows tokens --columns failed_planes --reduction algorithm=ubep/cann-bsp --title "ubep less than cann-bsp, %"
}

for number in "${@:-1 2 3 4 5 6 7 8 9}"; do
  for each in $number; do
    echo "## Study $each"
    "study_$each"
  done
done
