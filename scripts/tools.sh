#!/usr/bin/env bash
# Installs the programs that the tests need, if they are missing. Silent otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

missing=()
# Injects faults into system calls.
command -v strace >/dev/null || missing+=(strace)
# Steps the clock of one process.
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing+=(faketime)
# Network namespaces, and loss of packets between them.
{ command -v ip && command -v tc; } >/dev/null || missing+=(iproute2)
# The commands in the documents.
command -v curl >/dev/null || missing+=(curl)
# The pages, in a browser.
command -v chromium >/dev/null || missing+=(chromium)
# A store for several schedulers.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
# A pooler between schedulers and that store.
{ command -v pgbouncer || ls /usr/sbin/pgbouncer; } >/dev/null 2>&1 || missing+=(pgbouncer)
# A cluster for fleets of workers.
{ command -v slurmctld || ls /usr/sbin/slurmctld; } >/dev/null 2>&1 || missing+=(slurm-wlm)
{ command -v munged || ls /usr/sbin/munged; } >/dev/null 2>&1 || missing+=(munge)
# Hosts for them.
ls /usr/sbin/sshd >/dev/null 2>&1 || missing+=(openssh-server)
command -v ssh >/dev/null || missing+=(openssh-client)
# The packages from pip below.
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)

if ((${#missing[@]} > 0)); then
    if ((EUID != 0)); then
        echo "make test needs ${missing[*]}: install them, or run it once as root" >&2
        exit 1
    fi
    echo "== installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
fi

# install NAME PROGRAM: installs scripts/NAME.txt into an environment in the target directory,
# separate from the system's Python; again when the list changes. A list has all dependencies.
install() {
    local python=${CARGO_TARGET_DIR:-target}/tools/$1
    cmp -s "scripts/$1.txt" "$python/installed.txt" && return
    echo "== installing $2"
    {
        python3 -m venv --clear "$python" &&
            "$python/bin/pip" install --disable-pip-version-check --no-deps -r "scripts/$1.txt"
    } >"$log" 2>&1 || {
        cat "$log" >&2
        echo "make test needs $2, and pip cannot install it" >&2
        exit 1
    }
    cp "scripts/$1.txt" "$python/installed.txt"
}

# Tests the HTTP API against its description.
install schemathesis schemathesis
# Generates a Python client from that description.
install clients openapi-python-client
# A store for collected logs.
install s3 moto
# Generates a TypeScript client, where npm is.
node=${CARGO_TARGET_DIR:-target}/tools/node
if command -v npm >/dev/null && ! cmp -s scripts/clients/package-lock.json "$node/installed.json"; then
    echo "== installing openapi-typescript"
    mkdir -p "$node"
    cp scripts/clients/package.json scripts/clients/package-lock.json "$node"
    npm ci --prefix "$node" --no-audit --no-fund >"$log" 2>&1 || {
        cat "$log" >&2
        echo "npm cannot install openapi-typescript" >&2
        exit 1
    }
    cp scripts/clients/package-lock.json "$node/installed.json"
fi
