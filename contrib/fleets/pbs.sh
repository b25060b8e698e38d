#!/bin/sh
# A fleet of PBS jobs (OpenPBS, PBS Professional), for the backend `command`:
#
#   start: /usr/share/baton/fleets/pbs.sh start -q work -l select=1:ncpus=8:mem=32gb -l walltime=02:00:00
#   list: /usr/share/baton/fleets/pbs.sh list
#   stop: /usr/share/baton/fleets/pbs.sh stop "$@"
#
# What follows `start` are arguments of qsub. They must agree with the declared shape and time limit.
set -u

start() {
    # Not rerunnable: what is wanted after a failure is asked for anew.
    qsub "$@" -N "$BATON_JOB_NAME" -j oe -r n -o "${BATON_JOB_SCRIPT%.sh}.log" "$BATON_JOB_SCRIPT"
}

list() {
    # All jobs, ended ones included where the server keeps them.
    jobs=$(qstat -xf) || exit 1
    printf '%s\n' "$jobs" | awk '
        function flush() {
            if (id != "" && name ~ /^baton-/) {
                if (state ~ /^[QHWT]$/) word = "queued"
                else if (state ~ /^[RESUB]$/) word = "running"
                else if (state ~ /^[FXC]$/) {
                    # From 256 on, it was ended by a signal: deleted, or beyond its time.
                    word = (status == "" || status + 0 == 0 || status + 0 >= 256) ? "ended" : "failed"
                    if (status != "") reason = "Exit status " status
                } else word = state
                print id, name, word, reason
            }
            id = name = state = status = reason = ""
        }
        # Long values go on in lines that begin with a tab.
        /^\t/ { if (key == "comment") reason = reason substr($0, 2); next }
        /^Job Id: / { flush(); id = $3; next }
        / = / {
            key = $1
            value = $0
            sub(/^[^=]*= /, "", value)
            if (key == "Job_Name") name = value
            else if (key == "job_state") state = value
            else if (key == "Exit_status") status = value
            else if (key == "comment") reason = value
        }
        END { flush() }'
}

stop() {
    errors=$(qdel "$@" 2>&1) && return
    # Jobs that are over need no order.
    errors=$(printf '%s\n' "$errors" | grep -vE 'Unknown Job|Job has finished|invalid state') || return 0
    printf '%s\n' "$errors" >&2
    exit 1
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
start | list | stop) "$command" "$@" ;;
*)
    echo "usage: pbs.sh start [QSUB ARGUMENTS] | list | stop ID…" >&2
    exit 2
    ;;
esac
