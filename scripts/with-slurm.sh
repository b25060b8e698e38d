#!/usr/bin/env bash
# Runs a command beside a Slurm of its own: a controller and four nodes on this host, with three
# partitions. Everything is in a temporary directory, and ends with the command.
#
# The command finds SLURM_CONF, and in $BATON_TEST_SLURM the directory with the controller's pid
# (slurmctld.pid), its logs, and `start-controller`, which starts it again. BATON_SLURM_CONF has
# further lines for its slurm.conf.
set -euo pipefail

export PATH=$PATH:/usr/sbin:/sbin
{ command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null ||
    "$(dirname "$0")/tools.sh"

dir=$(mktemp -d "${TMPDIR:-/tmp}/baton-slurm-XXXXXX")
nodes=(n0 n1 n2 n3)

# Kills a daemon by its pid file, and waits until it runs no more: a container may not reap it.
kill_daemon() {
    local pid
    pid=$(cat "$1" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null || return 0
    while [[ $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) == [RSDTt] ]]; do sleep 0.01; done
}

stop() {
    trap - EXIT
    for daemon in "${nodes[@]/#/slurmd-}" slurmctld munged; do kill_daemon "$dir/$daemon.pid"; done
    # Jobs outlive them; each has the configuration in its environment.
    local jobs
    for _ in {1..50}; do
        jobs=$(env -u SLURM_CONF grep -lsaF "SLURM_CONF=$dir/" /proc/[0-9]*/environ) || true
        [[ -n $jobs ]] || break
        for job in $jobs; do kill -KILL "$(cut -d / -f 3 <<<"$job")" 2>/dev/null || true; done
        sleep 0.01
    done
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "Slurm does not start: $1" >&2
    tail -n 20 "$dir"/*.log >&2 2>/dev/null || true
    exit 1
}

user=$(id -un)
host=$(hostname -s)
# Ports outside of the range from which the kernel gives ports to clients.
mapfile -t ports < <(
    python3 - "$((${#nodes[@]} + 1))" <<'PYTHON'
import random
import socket
import sys

held = []
while len(held) < int(sys.argv[1]):
    it = socket.socket()
    try:
        it.bind(("", random.randrange(20000, 32000)))
        held.append(it)
    except OSError:
        it.close()
for it in held:
    print(it.getsockname()[1])
PYTHON
)

mkdir "$dir/state"
dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 status=none
chmod 0600 "$dir/munge.key"
munged --force --num-threads=2 --key-file="$dir/munge.key" --socket="$dir/munge.sock" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munged.seed" \
    >"$dir/munged-start.log" 2>&1 || fail munged

{
    cat <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=16
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=0
ReturnToService=2
MessageTimeout=5
MinJobAge=600
KillWait=2
CompleteWait=0
JobAcctGatherType=jobacct_gather/none
CONF
    for i in "${!nodes[@]}"; do
        echo "NodeName=${nodes[i]} NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[i + 1]} CPUs=4 RealMemory=4000 State=UNKNOWN"
    done
    echo "PartitionName=low Nodes=n[0-3] Default=YES MaxTime=INFINITE State=UP PriorityTier=1"
    echo "PartitionName=scavenge Nodes=n[0-3] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL"
    echo "PartitionName=high Nodes=n[0-3] MaxTime=INFINITE State=UP PriorityTier=2"
    echo "${BATON_SLURM_CONF:-}"
} >"$dir/slurm.conf"
export SLURM_CONF=$dir/slurm.conf BATON_TEST_SLURM=$dir

cat >"$dir/start-controller" <<'START'
#!/bin/sh
SLURM_CONF=$(dirname "$0")/slurm.conf exec slurmctld
START
chmod +x "$dir/start-controller"

"$dir/start-controller" >"$dir/start.log" 2>&1 || fail slurmctld
for node in "${nodes[@]}"; do
    mkdir -p "$dir/spool-$node"
    slurmd -N "$node" >>"$dir/start.log" 2>&1 || fail "slurmd of $node"
done
for _ in {1..1200}; do
    [[ $(sinfo -h -N -p low -t idle -o %N 2>/dev/null | wc -l) == "${#nodes[@]}" ]] && break
    sleep 0.05
done
[[ $(sinfo -h -N -p low -t idle -o %N | wc -l) == "${#nodes[@]}" ]] || fail "its nodes are not idle"
"$@"
