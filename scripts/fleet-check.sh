#!/usr/bin/env bash
# A campaign of a recorded space, evaluated by two workers. In the middle, the service and one of
# the workers are killed (kill -9) and started again. The log must then say what the log of the same
# campaign says that one process ran: the same genomes, verdicts and times, in the same order.
#
#   scripts/fleet-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/tune" ./cmd/tune
table=$PWD/internal/tables/testdata/synthetic.json
cd "$dir"
job=(--backend replay --seed 5 --evaluations 400 --window 16 "$table")
log() { ./tune query 'index >= 0' --store "$1" --sort index --format csv | cut -d, -f6- | sed 's/,[0-9T:.Z-]*$//; s/^\([^,]*,[^,]*\),[^,]*,/\1,/'; }

./tune run "${job[@]}" --store alone.db >alone.out

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free) broker=$(free)
serve() {
  ./tune serve --listen "127.0.0.1:$port" --fleet "127.0.0.1:$broker" --store fleet.db --token-file admin.token >>serve.out 2>>serve.err &
  service=$!
  pids+=("$service")
  for _ in $(seq 100); do
    ./tune list --server "http://127.0.0.1:$port" --token-file admin.token >/dev/null 2>&1 && return
    sleep .1
  done
  cat serve.err
  return 1
}
work() {
  ./tune worker --name "$1" --server "http://127.0.0.1:$port" --token-file admin.token --backend replay --latency 60ms --slots 4 >>"$1.log" 2>&1 &
  pids+=("$!")
}
told() { ./tune query 'verdict != "pending"' --count --server "http://127.0.0.1:$port" --token-file admin.token 2>/dev/null || echo 0; }
until_told() {
  for _ in $(seq 600); do
    [ "$(told)" -ge "$1" ] && return
    sleep .1
  done
  echo "after a minute there are $(told) results and not $1"
  cat serve.err ./*.log
  return 1
}

serve
work one
first=$!
work two
for _ in $(seq 100); do
  ./tune run "${job[@]}" --device fleet --server "http://127.0.0.1:$port" --token-file admin.token >run.out 2>run.err &
  run=$!
  sleep .5
  kill -0 "$run" 2>/dev/null && break # else no worker was there yet
done
until_told 100
kill -9 "$service" "$first"
sleep 1
serve
work one
until_told 400
for _ in $(seq 100); do
  ./tune list --server "http://127.0.0.1:$port" --token-file admin.token | grep finished >/dev/null && break
  sleep .1
done
kill "$service"
wait "$service"
[ "$(log alone.db | wc -l)" -eq 401 ] # with the line of names
diff <(log alone.db) <(log fleet.db)
./tune check --store fleet.db
echo "400 candidates by two workers, the service and one worker killed in the middle: the log is that of one process"
