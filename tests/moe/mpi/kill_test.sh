#!/bin/bash
# SIGKILL to one process of a long run: everything is gone within five seconds, the launcher says so by its exit
# code, and no process stays behind.
#
#   kill_test.sh MPIEXEC PROGRAM ALGORITHM TRANSPORT PROCESSES VICTIM
set -u
mpiexec=$1 program=$2 algorithm=$3 transport=$4 processes=$5 victim=$6

"$mpiexec" -q --oversubscribe -n "$processes" "$program" run --topology cm384 --devices 64 --workload tiny \
  --algorithm "$algorithm" --tokens 32 --iterations 2000 --quiet --transport "$transport" &
launcher=$!

# All processes of the run, once they have begun to work.
for _ in $(seq 100); do
  children=$(pgrep -P "$launcher" -x "$(basename "$program")")
  [ "$(wc -w <<< "$children")" -eq "$processes" ] && break
  sleep 0.1
done
if [ "$(wc -w <<< "$children")" -ne "$processes" ]; then
  echo "only these processes of $processes started: $children"
  kill "$launcher"
  exit 1
fi
sleep 2
if ! kill -0 "$launcher" 2> /dev/null; then
  echo "the run ended before anybody was killed"
  exit 1
fi

begin=$(date +%s%N)
kill -KILL "$(sed -n "$((victim + 1))p" <<< "$children")"
( sleep 20; kill -KILL "$launcher" ) > /dev/null 2>&1 &
guard=$!
wait "$launcher"
code=$?
kill "$guard" 2> /dev/null

# A zombie is gone; that nobody has collected it yet is not the program's doing.
running() {
  [ -r "/proc/$1/stat" ] && [ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2> /dev/null)" != Z ]
}
elapsed() { echo $((($(date +%s%N) - begin) / 1000000)); }
left() {
  for pid in $children; do
    running "$pid" && echo "$pid"
  done
}
while [ -n "$(left)" ] && [ "$(elapsed)" -lt 5000 ]; do sleep 0.1; done
milliseconds=$(elapsed)

failed=0
[ "$code" -ne 0 ] || { echo "the launcher reports success"; failed=1; }
[ "$milliseconds" -lt 5000 ] || { echo "the run ended only after $milliseconds ms"; failed=1; }
for pid in $(left); do
  echo "process $pid is still there"
  kill -KILL "$pid"
  failed=1
done
echo "exit code $code after $milliseconds ms"
exit "$failed"
