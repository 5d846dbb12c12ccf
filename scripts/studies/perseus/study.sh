#!/usr/bin/env bash
# The Perseus studies: what signals cost where a proxy fences, and what is left of it when they are grouped.
#   scripts/studies/perseus/study.sh [1…8] [a] [b]      all of them without a name
# Builds orrery if needed, sweeps, prints tables. Points are kept in build/studies/perseus (ORRERY_STUDIES replaces it):
# stop it and start it again, finished points are not run twice. expectations.md was written before the first run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/studies/points.sh
source "$(dirname "${BASH_SOURCE[0]}")/../points.sh"

# A transfer is a thread block's, so many cores have one each.
micro=(--topology perlmutter --workload tiny --algorithm put-signal --set algorithm.cores=96 --align --payload control)
layer=(--topology perlmutter --workload qwen3-30b-a3b --algorithm flashmoe --align --payload control)
nodes=8,16,32,64 # devices: 2, 4, 8 and 16 nodes of 4

# 1: puts alone against puts with a signal each.
study_1() {
  sweep 1-size "${micro[@]}" --devices 32 --set algorithm.concurrent=96 --vary algorithm.bytes=1024,4096,16384,65536,262144 \
    --vary algorithm.signaling=none,coupled,reordered,decoupled
  table 1-size --rows bytes --columns signaling --value put.max --title "96 transfers, 8 nodes, us"
  table 1-size --rows bytes --value put.max --ratio signaling=none/coupled --title "efficiency: none : coupled"
  sweep 1-concurrent "${micro[@]}" --devices 32 --set algorithm.bytes=4096 --vary algorithm.concurrent=1,4,16,32,96 \
    --vary algorithm.signaling=none,coupled,reordered,decoupled
  table 1-concurrent --rows concurrent --columns signaling --value put.max --title "4 KiB, 8 nodes, us"
  table 1-concurrent --rows concurrent --value put.max --ratio signaling=none/coupled \
    --title "efficiency: none : coupled"
  sweep 1-nodes "${micro[@]}" --set algorithm.bytes=4096 --set algorithm.concurrent=96 --vary "devices=$nodes" \
    --vary algorithm.signaling=none,coupled,reordered,decoupled
  table 1-nodes --rows devices --columns signaling --value put.max --title "96 transfers of 4 KiB, us"
}

# 2: fences and latency over the group size: 128 experts on 32 devices, 112 of them on other nodes.
study_2() {
  sweep 2 "${layer[@]}" --devices 32 --tokens 256 --set algorithm.signaling=decoupled \
    --vary algorithm.group=1,2,4,7,14,28,destination
  table 2 --rows group --value layer.max --title "Layer, us"
  table 2 --rows group --value counters.fences --title "Fences, all devices and both phases"
}

# 3: the two techniques, and the fence flag, over the number of nodes.
study_3() {
  sweep 3 "${layer[@]}" --tokens 256 --vary "devices=$nodes" --vary algorithm.signaling=coupled,reordered,decoupled
  sweep 3-flag "${layer[@]}" --tokens 256 --set algorithm.ordering=nic-fence --vary "devices=$nodes" \
    --vary algorithm.signaling=reordered,decoupled
  table 3 --rows devices --columns signaling --value layer.max --title "Layer, us: the proxy fences"
  table 3-flag --rows devices --columns signaling --value layer.max --title "Layer, us: the NIC orders by a flag"
}

# 4: other transports.
study_4() {
  sweep 4 "${layer[@]}" --devices 32 --tokens 256 --vary device.nic_preset=libfabric-proxy,ibrc,ibgda \
    --vary algorithm.signaling=coupled,reordered,decoupled
  table 4 --rows nic_preset --columns signaling --value layer.max --title "Layer, us"
}

# 5: skewed routing.
study_5() {
  sweep 5 "${layer[@]}" --devices 32 --tokens 256 --set workload.gate.kind=ZIPF --vary workload.gate.zipf_s=0,0.5,1,1.5 \
    --vary algorithm.signaling=coupled,decoupled
  table 5 --rows zipf_s --columns signaling --value layer.max --title "Layer, us"
}

# 6: whole layers of four models, each device with the same tokens: weak scaling. "decoupled" is all of Perseus: by
# destination, behind its puts by a flag that the NIC obeys.
models=qwen3-30b-a3b,gpt-oss-120b,deepseek-v3,llama-4-scout
study_6() {
  local common=(--topology perlmutter --algorithm flashmoe --align --payload control)
  for tokens in 16 256; do
    sweep "6-$tokens" "${common[@]}" --tokens "$tokens" --vary "workload=$models" --vary "devices=$nodes" \
      --vary algorithm.signaling=coupled,reordered
    sweep "6-$tokens-perseus" "${common[@]}" --tokens "$tokens" --vary "workload=$models" --vary "devices=$nodes" \
      --set algorithm.ordering=nic-fence --vary algorithm.signaling=decoupled
    for signaling in coupled reordered decoupled; do
      table "6-$tokens" "6-$tokens-perseus" --rows workload --columns devices --where "signaling=$signaling" \
        --value layer.max --title "Layer, $tokens tokens per device, us: $signaling"
    done
    table "6-$tokens" "6-$tokens-perseus" --rows workload --columns devices --value layer.max \
      --ratio signaling=coupled/decoupled --title "coupled : Perseus, $tokens tokens"
  done
}

# 7: the layer as alpha + beta * tokens.
study_7() {
  sweep 7 "${layer[@]}" --vary tokens=4,8,16,32,64,128,256,512,1024 --vary "devices=$nodes" \
    --vary algorithm.signaling=coupled,reordered
  sweep 7-perseus "${layer[@]}" --vary tokens=4,8,16,32,64,128,256,512,1024 --vary "devices=$nodes" \
    --set algorithm.ordering=nic-fence --vary algorithm.signaling=decoupled
  "$here/alpha_beta.py" "$out/7" "$out/7-perseus" --rows devices --columns signaling --title "Layer of Qwen3-30B"
  table 7 7-perseus --rows tokens --columns devices --value layer.max --ratio signaling=coupled/decoupled \
    --title "coupled : Perseus"
}

# 8: Triton-distributed's all-to-all over the number of tokens; every variant's points are a sweep of their own.
study_8() {
  local a2a=(--topology perlmutter --workload qwen3-30b-a3b --algorithm triton-a2a --align --payload control --devices 32
    --operation dispatch --vary tokens=1,4,16,64,256)
  sweep 8-coupled "${a2a[@]}" --vary algorithm.version=v1,v2
  sweep 8-source "${a2a[@]}" --set algorithm.release=trust-order --vary algorithm.version=v1,v2
  sweep 8-reordered "${a2a[@]}" --set algorithm.signaling=reordered --vary algorithm.version=v1,v2
  sweep 8-destination "${a2a[@]}" --set algorithm.signaling=decoupled --vary algorithm.version=v1,v2
  sweep 8-all "${a2a[@]}" --set algorithm.signaling=decoupled --set algorithm.group=32 --vary algorithm.version=v1,v2
  sweep 8-flag "${a2a[@]}" --set algorithm.ordering=nic-fence --vary algorithm.version=v1,v2
  for variant in source coupled reordered destination all flag; do
    table "8-$variant" --rows tokens --columns version --value dispatch.max --title "Dispatch, us: $variant"
  done
}

# a: is it the fences? Concurrency at a fixed topology, topology at fixed concurrency, the fence's scope at both fixed.
study_a() {
  sweep a "${micro[@]}" --set algorithm.bytes=4096 --vary algorithm.concurrent=8,96 --vary devices=8,64 \
    --vary device.nic.fence=DESTINATION,ENDPOINT --vary algorithm.signaling=none,coupled
  for devices in 8 64; do
    for signaling in none coupled; do
      table a --rows concurrent --columns fence --where "devices=$devices" --where "signaling=$signaling" --value put.max \
        --title "us: $signaling, $((devices / 4)) nodes"
    done
  done
}

# b: where grouping stops helping: size, compute, message rate.
study_b() {
  sweep b-size "${micro[@]}" --devices 32 --set algorithm.concurrent=32 \
    --vary algorithm.bytes=4096,16384,65536,262144,1048576 --vary algorithm.signaling=coupled,decoupled
  table b-size --rows bytes --value put.max --reduction signaling=decoupled/coupled \
    --title "decoupled less than coupled, %, by size"
  sweep b-compute "${layer[@]}" --devices 32 --tokens 256 --vary device.matrix_efficiency=0.5,0.1,0.02,0.005 \
    --vary algorithm.signaling=coupled,decoupled
  table b-compute --rows matrix_efficiency --value layer.max --reduction signaling=decoupled/coupled \
    --title "decoupled less than coupled, %, by the matrix units' efficiency"
  sweep b-rate "${micro[@]}" --devices 32 --set algorithm.concurrent=32 --set algorithm.bytes=4096 \
    --vary device.nic.message_ns=10,1000,10000 --vary algorithm.signaling=coupled,decoupled
  table b-rate --rows message_ns --value put.max --reduction signaling=decoupled/coupled \
    --title "decoupled less than coupled, %, by the time between two requests"
}

for name in "${@:-1 2 3 4 5 6 7 8 a b}"; do
  for each in $name; do
    echo "## Study $each"
    "study_$each"
  done
done
