#!/bin/bash
# A scheduler as a chain of Slurm jobs, where login nodes end processes and without root: each job runs the
# scheduler until its time limit, and its successor, which waits with --dependency=afterany, takes over.
#
#   scheduler-chain.sh start DIR [OPTION OF SBATCH…]     the first job; prints its id
#   scheduler-chain.sh env DIR                           the variables for `baton`, as lines for `eval`
#   scheduler-chain.sh stop DIR                          no further job; the work of workers goes on
#
# DIR is on a file system that all nodes share, and belongs to you alone. It has
#
#   data/         the store of the scheduler. One job at a time uses it
#   url           the address for clients, of the present job
#   address       the address for workers, of the present job: `baton worker --scheduler @DIR/address`
#   admin.token   for clients
#   worker.token  for workers
#   fleets/       logs and states of the workers of fleets
#   chain.log     what the jobs have printed
#
# Options of sbatch are those of every job, such as --partition=long --time=1-00:00:00 --cpus-per-task=2.
# Variables, read by `start` and kept for the chain:
#
#   BATON                   the binary [baton]
#   BATON_CHAIN_LOST_AFTER  how long work goes on between two jobs; longer than one waits in the queue [4h]
#   BATON_CHAIN_NOTICE      seconds before its time limit at which a job makes room for the next one [60]
#   BATON_CHAIN_HOST        the name by which others reach a node [its `hostname -f`]
#   BATON_CHAIN_OPTIONS     further options of `baton scheduler`, separated by spaces
set -u

fail() {
    echo "scheduler-chain: $1" >&2
    exit 1
}

# One name for all jobs of a chain.
name() {
    echo "baton-chain-$(printf %s "$dir" | cksum | cut -d ' ' -f 1)"
}

# The ids of the chain's jobs.
jobs_of() {
    squeue --user="$(id -un)" --noheader --name="$(name)" --format=%i "$@"
}

# Submits one job of the chain, with further options of sbatch before its own.
submit() {
    local options=()
    mapfile -t options <"$dir/options"
    # The copy in DIR: in a job, $0 is a copy of Slurm's, which goes with it.
    sbatch --parsable --no-requeue --job-name="$(name)" --signal="B:TERM@$notice" \
        --output="$dir/chain.log" --open-mode=append "$@" "${options[@]}" "$dir/chain.sh" run "$dir"
}

# Replaces a file at once, so that no reader sees half of it.
write() {
    cat >"$1.new" && mv -f "$1.new" "$1"
}

start() {
    umask 077
    mkdir -p "$dir/data" "$dir/fleets" || exit 1
    dir=$(cd "$dir" && pwd -P) || exit 1
    chmod 700 "$dir"
    baton=$(command -v "${BATON:-baton}") || fail "there is no ${BATON:-baton}; put it into PATH, or set BATON"
    notice=${BATON_CHAIN_NOTICE:-60}
    local alive
    alive=$(jobs_of) || exit 1
    [ -z "$alive" ] || fail "the chain of $dir has jobs: $alive; end it with: $0 stop $dir"
    for role in admin worker; do
        [ -s "$dir/$role.token" ] ||
            "$baton" token create --role "$role" --name "chain-$role" --data "$dir/data" -o "$dir/$role.token" || exit 1
    done
    {
        printf 'baton=%q\n' "$baton"
        printf 'lost_after=%q\n' "${BATON_CHAIN_LOST_AFTER:-4h}"
        printf 'notice=%q\n' "$notice"
        printf 'host=%q\n' "${BATON_CHAIN_HOST:-}"
        printf 'extra=%q\n' "${BATON_CHAIN_OPTIONS:-}"
    } | write "$dir/settings"
    for option in "$@"; do printf '%s\n' "$option"; done | write "$dir/options"
    cp "$0" "$dir/chain.sh.new" && mv -f "$dir/chain.sh.new" "$dir/chain.sh" || exit 1
    rm -f "$dir/stopped"
    submit
}

stop() {
    : >"$dir/stopped" || exit 1
    # First what waits, so that nothing takes over from what ends.
    scancel --user="$(id -un)" --name="$(name)" --state=PENDING
    scancel --user="$(id -un)" --name="$(name)" --state=RUNNING --batch --signal=TERM
}

# Prints the ready line's port behind this key.
port() {
    sed -n 's/.*"'"$1"'":"[^"]*:\([0-9][0-9]*\)".*/\1/p' "$2"
}

# Runs the scheduler once, and tells where it is.
serve() {
    local ready=$dir/ready.$SLURM_JOB_ID
    rm -f "$ready"
    # shellcheck disable=SC2086 # the options are separated by spaces
    "$baton" scheduler --data "$dir/data" --listen 0.0.0.0:0 --worker-listen 0.0.0.0:0 --json \
        --lost-after "$lost_after" --fleet-dir "$dir/fleets" --fleet-binary "$baton" \
        --fleet-token-file "$dir/worker.token" --fleet-address "@$dir/address" $extra >"$ready" &
    scheduler=$!
    # The signal may have come before.
    [ -z "$ending" ] || kill -TERM "$scheduler" 2>/dev/null
    while [ ! -s "$ready" ] && kill -0 "$scheduler" 2>/dev/null; do sleep 0.2; done
    if [ -s "$ready" ]; then
        echo "$host:$(port workers "$ready")" | write "$dir/address"
        echo "http://$host:$(port url "$ready")" | write "$dir/url"
        echo "job $SLURM_JOB_ID: scheduler at $(cat "$dir/url")"
    fi
    rm -f "$ready"
    # A signal ends `wait`, but not the scheduler, which closes its store.
    while kill -0 "$scheduler" 2>/dev/null; do wait "$scheduler"; done
}

run() {
    scheduler= ending=
    # SIGTERM ends the scheduler in order, and no work: workers keep theirs for the next job.
    trap 'ending=1; [ -z "$scheduler" ] || kill -TERM "$scheduler" 2>/dev/null' TERM
    [ -n "$host" ] || host=$(hostname -f 2>/dev/null || hostname)
    # At the beginning: this job may be killed with its node.
    until [ -e "$dir/stopped" ] || submit --dependency="afterany:$SLURM_JOB_ID"; do
        sleep 10 &
        wait $!
        [ -z "$ending" ] || break
    done
    until [ -n "$ending" ] || [ -e "$dir/stopped" ]; do
        serve
        # It has ended by itself: the store is in use, or the disk is full. The same job tries again, so that
        # Slurm sees no storm of jobs.
        [ -n "$ending" ] || { sleep 10 & wait $!; }
    done
    echo "job $SLURM_JOB_ID: ended"
}

[ $# -ge 2 ] || fail "usage: $0 start|env|stop DIR; the beginning of this file has more"
verb=$1 dir=$2
shift 2
case $verb in
start) start "$@" ;;
env | stop | run)
    dir=$(cd "$dir" 2>/dev/null && pwd -P) && [ -s "$dir/settings" ] || fail "there is no chain in this directory"
    # shellcheck source=/dev/null
    . "$dir/settings"
    case $verb in
    env)
        [ -s "$dir/url" ] || fail "its first job has not started yet"
        printf 'export BATON_URL=%q BATON_TOKEN_FILE=%q\n' "$(cat "$dir/url")" "$dir/admin.token"
        ;;
    *) "$verb" ;;
    esac
    ;;
*) fail "unknown: $verb" ;;
esac
