#!/usr/bin/env bash
# Installs the programs that the tests call, where they are missing. Quiet when all
# is there.
set -euo pipefail

missing=()
# Injects faults into system calls.
command -v strace >/dev/null || missing+=(strace)
# Steps the clock of one process.
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing+=(faketime)
# Network namespaces, and loss of packets between them.
{ command -v ip && command -v tc; } >/dev/null || missing+=(iproute2)

if ((${#missing[@]} == 0)); then
    exit 0
fi
if ((EUID != 0)); then
    echo "make test needs ${missing[*]}: install them, or run it once as root" >&2
    exit 1
fi
echo "== installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
