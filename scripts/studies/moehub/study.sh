#!/usr/bin/env bash
# The MoE-Hub study: what a hub gains over software, which of its parts gains it, and when the hub itself is the bottleneck.
#   scripts/studies/moehub/study.sh [1…5]…      all of them without a number
# Builds orrery if needed, sweeps, prints tables. Points are kept in build/studies/moehub (ORRERY_STUDIES replaces it):
# stop it and start it again, finished points are not run twice. expectations.md was written before the first run.
set -euo pipefail
# shellcheck source=scripts/studies/points.sh
source "$(dirname "${BASH_SOURCE[0]}")/../points.sh"

models=workload=mixtral-8x7b,qwen2-57b-a14b,phi-3.5-moe,deepseek-v2,dbrx
layer=(--topology hgx-h100-hub --operation layer --align --payload control --set workload.shared_experts=0)
hub=("${layer[@]}" --algorithm moe-hub --devices 8)

# 1: layers by software and with the hub.
study_1() {
  for tokens in 256 2048; do
    sweep "1-$tokens" "${layer[@]}" --tokens "$tokens" --vary devices=2,4,8 --vary "$models" \
      --vary algorithm=megatron-a2a,nccl-bsp,tutel,fastermoe,moe-hub
    for devices in 2 4 8; do
      table "1-$tokens" --where "devices=$devices" --rows workload --columns algorithm --value layer.max \
        --title "Layer, $tokens tokens on each of $devices GPUs, us"
    done
  done
}

# 2: the parts of the hub.
study_2() {
  for tokens in 256 2048; do
    sweep "2-$tokens" "${hub[@]}" --tokens "$tokens" --vary "$models" \
      --vary algorithm.hub=allocation,packets,availability,all
    table "2-$tokens" --rows workload --columns hub --value layer.max --title "Layer, $tokens tokens on each of 8 GPUs, us"
  done
}

# 3: how fast the hub must be.
study_3() {
  for variant in all availability; do
    sweep "3-$variant" "${hub[@]}" --tokens 2048 --set "algorithm.hub=$variant" \
      --vary workload=qwen2-57b-a14b,deepseek-v2 --vary device.hub.service_ns=0,0.5,2,5,10,20,50
    table "3-$variant" --rows service_ns --columns workload --value layer.max --title "Layer, hub=$variant, 2,048 tokens, us"
  done
}

# 4: how large its packets must be.
study_4() {
  sweep 4 "${hub[@]}" --tokens 2048 --vary workload=qwen2-57b-a14b,deepseek-v2 \
    --vary device.hub.packet_bytes=256,512,1024,2048,4096,8192
  table 4 --rows packet_bytes --columns workload --value layer.max --title "Layer, 2,048 tokens, us"
}

# 5: how large its table must be.
study_5() {
  sweep 5 "${hub[@]}" --tokens 2048 --vary workload=qwen2-57b-a14b,deepseek-v2 \
    --vary device.hub.entries=0,32,16,8,4,1 --vary device.hub.miss_ns=50,500
  for miss in 50 500; do
    table 5 --where "miss_ns=$miss" --rows entries --columns workload --value layer.max \
      --title "Layer, 2,048 tokens, misses of $miss ns, us"
  done
}

wanted=("$@")
[[ $# -gt 0 ]] || wanted=(1 2 3 4 5)
for study in "${wanted[@]}"; do "study_$study"; done
