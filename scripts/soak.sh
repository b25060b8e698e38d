#!/usr/bin/env bash
# A long test: SEEDS seeds of the real system, all of which must pass, and
# BUG_SEEDS seeds of each seeded bug, every one of which must be caught; the largest state spaces of
# the model checker. Then real processes: the
# local runner with KILLS random kill -9, three times, and a log torn at every byte; a cluster with
# CLUSTER_KILLS of each of its parts, and WORKFLOW_KILLS of any process while a workflow runs.
#
# The simulator exits with 0 if every checker passed on every seed, with 1 if one
# failed, and with another status on its own errors. For a seeded bug, 1 is
# therefore the expected status, and must not be confused with a crash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seeds=${SEEDS:-20000}
bug_seeds=${BUG_SEEDS:-2000}

sim() {
    cargo sim "$@"
}


echo "== $seeds seeds"
sim --seeds "$seeds"
sim --seeds "$seeds" --workflows
sim --seeds "$seeds" --crashes
sim --seeds "$seeds" --schedules
sim --seeds "$seeds" --fleets

bugs=$(sim --list-bugs | awk 'NF { print $1 }')
if [[ -z $bugs ]]; then
    echo "soak: the simulator lists no seeded bugs, so it proves nothing" >&2
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
missed=()
for bug in $bugs; do
    status=0
    sim --bug "$bug" --seeds "$bug_seeds" >"$log" 2>&1 || status=$?
    case $status in
        0)
            echo "missed  $bug"
            missed+=("$bug")
            ;;
        1) echo "caught  $bug" ;;
        *)
            cat "$log" >&2
            echo "soak: the simulator ended with status $status on the bug $bug" >&2
            exit 1
            ;;
    esac
done

if ((${#missed[@]} > 0)); then
    echo "soak: not caught within $bug_seeds seeds: ${missed[*]}" >&2
    exit 1
fi
echo "== the largest state spaces of the model checker"
BATON_ALL=1 cargo test --quiet --profile sim --package baton-sim --features seeded-bugs --test model_check
kills=${KILLS:-300}
for seed in 1 2 3; do
    echo "== $kills kills on real processes, seed $seed"
    BATON_SEED=$seed BATON_KILLS=$kills cargo test --quiet --package baton-cli --test local kill_loop
done
echo "== a minute of kills while schedules are due"
BATON_CHRONOS_SECONDS=60 cargo test --quiet --package baton-cli --test cluster schedules
echo "== a log torn at every byte"
BATON_ALL=1 cargo test --quiet --package baton-cli --test local torn
cluster_kills=${CLUSTER_KILLS:-100}
echo "== $cluster_kills kills of a cluster's scheduler, agent, coordinator, of the last two, and of all at once"
BATON_KILLS=$cluster_kills BATON_INSTANCES=2000 BATON_WORKERS=10 BATON_ROUNDS=30 cargo test --quiet --package baton-cli --test cluster kill_loop
echo "== $((2 * cluster_kills)) kills of agent and coordinator while attempts hold devices"
BATON_KILLS=$((2 * cluster_kills)) cargo test --quiet --package baton-cli --test cluster devices::
fleet_kills=${FLEET_KILLS:-50}
echo "== $fleet_kills kills of schedulers, pilots and the controller over a real Slurm"
BATON_KILLS=$fleet_kills BATON_INSTANCES=5000 cargo test --quiet --package baton-cli --test cluster slurm::kills -- --nocapture
quorum_seconds=${QUORUM_SECONDS:-1800}
echo "== $quorum_seconds seconds of kills, freezes and cut-offs among three schedulers on one PostgreSQL database"
BATON_QUORUM_SECONDS=$quorum_seconds BATON_INSTANCES=2000 BATON_WORKERS=5 \
    cargo test --quiet --package baton-cli --test cluster quorum::trial -- --nocapture
quorum_kills=${QUORUM_KILLS:-50}
echo "== $quorum_kills kills of the leader, and 5 leaders that freeze"
BATON_KILLS=$quorum_kills cargo test --quiet --package baton-cli --test cluster failover::another_scheduler_leads_soon -- --nocapture
BATON_KILLS=5 BATON_LEASE_SECONDS=8 \
    cargo test --quiet --package baton-cli --test cluster failover::another_scheduler_leads_after -- --nocapture
workflow_kills=${WORKFLOW_KILLS:-50}
for seed in 1 2; do
    echo "== $workflow_kills kills while a workflow runs, is halted and resumed, seed $seed"
    BATON_SEED=$seed BATON_KILLS=$workflow_kills cargo test --quiet --package baton-cli --test workflows kills
done

echo "soak passed"
