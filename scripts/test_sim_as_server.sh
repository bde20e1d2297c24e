#!/usr/bin/env bash
# One real evaluation on this machine: simulator and model as two processes joined by one TCP socket.
#
# Installs what it needs, runs the episodes, ends with the table of results and where they lie, and exits
# as the evaluation did. These variables change what it does (what they default to):
#
#   TASK (put_cup_in_box)  SCENE (study)  BENCH_CONFIG (clean)   task and config bench_demo_<SCENE>_<BENCH_CONFIG>
#   EVAL_TEST_NUM (5)      episodes
#   CKPT_NAME              a checkpoint by name (the shipped one)
#   PORT (29761)
#   DIRECTION (sim-server) sim-server: the simulator listens and the model dials; model-server: the reverse
#
# Ctrl-C ends both; a second Ctrl-C ends them at once.
set -euo pipefail
case ${1:-} in
  "") ;;
  -h | --help)
    sed -n '2,/^set -euo/{/^set -euo/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *)
    echo "error: this script takes no arguments, only variables; --help lists them." >&2
    exit 2
    ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

task=${TASK:-put_cup_in_box}
scene=${SCENE:-study}
config=bench_demo_${scene}_${BENCH_CONFIG:-clean}
setting=simserver_${scene}_${BENCH_CONFIG:-clean}
port=${PORT:-29761}
direction=${DIRECTION:-sim-server}
export EVAL_TEST_NUM=${EVAL_TEST_NUM:-5} USE_EVAL_SEEDS=${USE_EVAL_SEEDS:-1}
if [[ $direction != sim-server && $direction != model-server ]]; then
  echo "error: DIRECTION is '$direction'; it is sim-server (the simulator listens) or model-server." >&2
  exit 2
fi

"$here/bootstrap.sh"
# shellcheck source=scripts/_env.sh
source "$here/_env.sh"
cd "$REPO"

# Whoever listens would find out too, but the other program might already be talking to a stranger by then.
python - "$port" <<'PYTHON' || exit
import sys

from robopro_eval.transport.addresses import parse_port
from robopro_eval.transport.errors import TransportError
from robopro_eval.transport.sockets import listen

try:
    listen("0.0.0.0", parse_port(sys.argv[1])).close()
except (ValueError, TransportError) as problem:
    print(f"error: {problem} (PORT chooses another port)", file=sys.stderr)
    sys.exit(1)
PYTHON

log=$REPO/runs/$setting/model_$(date +%Y%m%d-%H%M%S).log
mkdir -p "$(dirname "$log")"
arguments=(--port "$port" --task_name "$task" --task_config "$config" --ckpt_setting "$setting" --seed 0 --policy_name dxvla)
if [[ $direction == sim-server ]]; then
  export SIM_AS_SERVER=1 MODEL_AS_CLIENT=1 SIM_SERVER_BIND=${SIM_SERVER_BIND:-0.0.0.0} SIM_SERVER_HOST=localhost SIM_SERVER_PORT=$port
else
  unset SIM_AS_SERVER MODEL_AS_CLIENT SIM_SERVER_PORT
  export MODEL_SERVER_BIND=localhost MODEL_SERVER_HOST=localhost
fi

# Job control gives each program a process group of its own. Without it, bash would start them deaf to
# Ctrl-C; with it, Ctrl-C reaches only this script, which passes it on.
set -m
sim="" model=""
is_running() { [[ -n $1 ]] && kill -0 "$1" 2>/dev/null; }
stop() { # PID: asks, waits five seconds, insists
  local _
  is_running "$1" || return 0
  kill -TERM "$1" 2>/dev/null || return 0
  for _ in {1..50}; do
    is_running "$1" || return 0
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
}
trap 'stop "$sim"; stop "$model"' EXIT
trap 'kill -INT "$sim" 2>/dev/null || true' INT
trap 'kill -TERM "$sim" 2>/dev/null || true; exit 143' TERM HUP

echo "==> $task ($config), $EVAL_TEST_NUM episodes; the model's own output goes to $log"
eval-model "${arguments[@]}" </dev/null >"$log" 2>&1 &
model=$!
eval-sim "${arguments[@]}" </dev/null &
sim=$!

model_failed=0 sim_code="" model_code=""
while [[ -z $sim_code ]]; do
  # `wait` also returns when Ctrl-C arrives; then the program is still there and the loop waits on.
  if [[ -z $model_code ]]; then
    wait -n "$sim" "$model" || true
  else
    wait "$sim" || true
  fi
  if [[ -z $model_code ]] && ! is_running "$model"; then
    model_code=0
    wait "$model" || model_code=$?
    if [[ $model_code != 0 ]] && is_running "$sim"; then
      model_failed=1
      echo "error: the model stopped with exit code $model_code; the end of $log:" >&2
      tail -n 15 "$log" >&2
      kill -INT "$sim" 2>/dev/null || true
    fi
  fi
  if ! is_running "$sim"; then
    sim_code=0
    wait "$sim" || sim_code=$?
  fi
done

# A model that dialled ends by itself when the simulator says goodbye; one that listens would serve on.
if [[ $direction == sim-server && $sim_code == 0 ]]; then
  for _ in {1..50}; do
    is_running "$model" || break
    sleep 0.1
  done
fi
stop "$model"
if [[ $sim_code != 0 && $model_failed == 0 && -s $log ]]; then
  echo "the end of $log:" >&2
  tail -n 15 "$log" >&2
fi
[[ $model_failed == 0 ]] || exit 1
exit "$sim_code"
