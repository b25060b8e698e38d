#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own, which the tests share.
set -euo pipefail

bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
dir=$(mktemp -d "${TMPDIR:-/tmp}/baton-postgres-XXXXXX")
# The server refuses to run as root.
as=()
if ((EUID == 0)); then
    chown postgres: "$dir"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
fi
stop() {
    (cd / && "${as[@]}" "$bin/pg_ctl" stop -s -m immediate -D "$dir/data" >/dev/null 2>&1) || true
    rm -rf "$dir"
}
trap stop EXIT

(
    cd /
    "${as[@]}" "$bin/initdb" --auth=trust --username=baton --no-sync --no-instructions \
        --encoding=UTF8 --locale=C -D "$dir/data"
    "${as[@]}" "$bin/pg_ctl" start -s -w -D "$dir/data" -l "$dir/log" \
        -o "-k $dir -c listen_addresses= -c max_connections=400"
) >"$dir/start.log" 2>&1 || {
    cat "$dir/start.log" "$dir/log" >&2
    exit 1
}
export BATON_TEST_POSTGRES=$dir
"$@"
