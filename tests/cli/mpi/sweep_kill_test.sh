#!/bin/bash
# SIGKILL to a random process of a sweep at twenty random moments, each time resumed: at the end its lines are those
# of an undisturbed sweep, the host section aside. None is missing, none is there twice, none is torn.
#
#   sweep_kill_test.sh PROGRAM FOLDER [LAUNCHER…]
set -u
program=$1 folder=$2
shift 2
launcher=("$@")
kills_wanted=20
sweep=(sweep --topology cm384 --devices 16 --algorithm cann-bsp --vary tokens=1:50 --vary seed=1:4 --quiet)

rm -rf "$folder"
mkdir -p "$folder"
lines() { sed -E 's/,"host":\{[^}]*\}//' "$1/points.jsonl" | sort; }
fail() { echo "$*"; exit 1; }

"$program" "${sweep[@]}" --out "$folder/undisturbed" || fail "the undisturbed sweep failed"
lines "$folder/undisturbed" > "$folder/expected.txt"
[ "$(wc -l < "$folder/expected.txt")" -eq 200 ] || fail "the undisturbed sweep has not 200 points"

compare() {
  lines "$1" > "$folder/got.txt"
  diff "$folder/expected.txt" "$folder/got.txt" > "$folder/diff.txt" || fail "$1 differs: $(head -c 2000 "$folder/diff.txt")"
}

# Its state is read once: a process may be gone at any moment.
alive() {
  local state
  state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2> /dev/null) && [ -n "$state" ] && [ "$state" != Z ]
}

kills=0 round=0 resumed=0
while [ "$kills" -lt "$kills_wanted" ]; do
  out=$folder/round$round
  "${launcher[@]}" "$program" "${sweep[@]}" --out "$out" --resume 2> "$folder/stderr.txt" &
  main=$!
  sleep "0.$((RANDOM % 9))$((RANDOM % 10))"
  processes=("$main")
  [ ${#launcher[@]} -eq 0 ] || mapfile -t -O 1 processes < <(pgrep -P "$main" -x "$(basename "$program")")
  victim=${processes[RANDOM % ${#processes[@]}]}
  if alive "$main" && kill -KILL "$victim" 2> /dev/null; then
    kills=$((kills + 1))
    for process in "${processes[@]}"; do
      for _ in $(seq 300); do
        alive "$process" || break
        sleep 0.1
      done
      alive "$process" || continue
      kill -KILL "$process"
      # A launcher that lost a process may hang in its own end (Open MPI 4.1 with PMIx 4.2, in PMIx_server_finalize).
      # Ours must be gone all the same.
      [ ${#launcher[@]} -gt 0 ] && [ "$process" = "$main" ] || fail "process $process outlived its sweep by 30 s"
      echo "the launcher hung and was killed"
    done
    wait "$main" 2> /dev/null
    resumed=$((resumed + 1))
  else
    wait "$main" || fail "a sweep that nobody killed failed: $(cat "$folder/stderr.txt")"
    compare "$out"
    round=$((round + 1))
  fi
done
"${launcher[@]}" "$program" "${sweep[@]}" --out "$folder/round$round" --resume || fail "the last resumption failed"
compare "$folder/round$round"
echo "$kills kills, $((round + 1)) sweeps finished, all as the undisturbed one"
