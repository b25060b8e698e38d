#!/usr/bin/env bash
# The part of package-test.sh that runs inside of the container, as root, under its systemd.
set -euo pipefail
trap 'echo "failed in line $LINENO"; journalctl --no-pager -n 40 -u baton-scheduler -u baton-worker' ERR
export DEBIAN_FRONTEND=noninteractive
tasks=100

step() { echo "== $*"; }
expect() { # expect TEXT COMMAND...: the command prints the text
    local expected=$1 found
    shift
    found=$("$@" 2>&1) || true
    [[ $found == "$expected" ]] || { echo "$*: expected $expected, found $found" >&2; return 1; }
}
# until_true COMMAND...: waits for a condition, for two minutes.
until_true() {
    local deadline=$((SECONDS + 120))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || { echo "in vain: $*" >&2; return 1; }
        sleep 0.2
    done
}
running() { [[ $(pgrep --count --full --exact 'sleep 100000') == "$1" ]]; }
ended() { [[ $(baton history --json --all | grep -c '"DONE"') -ge $1 ]]; }
main_pid() { systemctl show --property MainPID --value "$1"; }
# All files and users, to find what a purge leaves; less what dpkg, systemd and this test write.
inventory() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /dev -o -path /test \
        -o -path /var/log -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/lib/systemd \) -prune -o -print |
        grep -v -e '^/etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-$' -e '^/etc/\.pwd\.lock$' | LC_ALL=C sort
    getent passwd | cut -d : -f 1
    getent group | cut -d : -f 1
}

inventory >/test/before
step "install"
dpkg --install /test/old.deb
systemd-analyze verify --man=no baton-scheduler.service baton-worker.service
for unit in baton-scheduler baton-worker; do
    expect disabled systemctl is-enabled $unit
    expect inactive systemctl is-active $unit
done
baton config check /etc/baton/baton.toml
baton --version

step "start"
systemctl enable --quiet --now baton-scheduler baton-worker
for unit in baton-scheduler baton-worker; do
    echo "$unit: $(systemctl is-active $unit), as $(ps -o user= -p "$(main_pid $unit)"), exposure $(systemd-analyze security --no-pager $unit | tail -n 1 | sed 's/.*: //')"
done

step "$tasks tasks"
baton submit --cpu 0.001 --array "1-$tasks" -- sh -c 'sleep 100000 & echo $! >pid; wait $!; test -e /test/done-all'
until_true running $tasks
pgrep --full --exact 'sleep 100000' | sort >/test/pids
scheduler=$(main_pid baton-scheduler) worker=$(main_pid baton-worker)

step "upgrade while they run"
started=$SECONDS
dpkg --install /test/new.deb
echo "upgraded to $(dpkg-query --show --showformat '${Version}' baton) in $((SECONDS - started)) s"
[[ $(main_pid baton-scheduler) != "$scheduler" && $(main_pid baton-worker) != "$worker" ]]
echo "scheduler $scheduler -> $(main_pid baton-scheduler), worker $worker -> $(main_pid baton-worker)"
pgrep --full --exact 'sleep 100000' | sort | diff /test/pids -
echo "the same $tasks processes run"
until_true sh -c 'baton workers | grep -q HEALTHY'
[[ $(baton arena --json --all | grep -c '"RUNNING"') -ge $tasks ]]
echo "the scheduler has all $tasks"

step "they end, and are seen to end"
touch /test/done-all
pkill --full --exact 'sleep 100000'
until_true ended $tasks
baton history --all --json >/test/history.json
for ((task = 1; task <= tasks; task++)); do
    baton show "i$task" | grep -q '^attempts   1$' || { echo "i$task ran more than once" >&2; false; }
done
echo "DONE $(grep -c '"DONE"' /test/history.json), in one attempt each"

step "remove, with work running"
baton submit --cpu 0.001 -- sleep 100000
until_true running 1
dpkg --remove baton
running 0
echo "its work has ended"
expect inactive systemctl is-active baton-worker
[[ -n $(ls /var/lib/baton) ]]
[[ -e /etc/baton/baton.toml ]]
ls -d /etc/baton /var/lib/baton*

step "purge"
dpkg --purge baton
systemctl daemon-reload
inventory >/test/after
diff /test/before /test/after
echo "nothing is left"
touch /test/passed
