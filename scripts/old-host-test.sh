#!/usr/bin/env bash
# Installs the wheel of a release with pip on the oldest Debian that the mirrors still have, and says hello there:
# old-host-test.sh WHEEL. Needs root and debootstrap; the base system is kept in target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$(realpath "${1:?usage: old-host-test.sh WHEEL}")
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
suite=bullseye
base=$target/tools/debian-$suite
((EUID == 0)) || { echo "the test of an old host needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "the test of an old host needs debootstrap: apt-get install debootstrap" >&2; exit 1; }

place=$(mktemp -d)
trap 'rm -rf --one-file-system "$place"' EXIT
if [[ ! -e $base/complete ]]; then
    echo "== base system ($suite)"
    rm -rf "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase --include=python3-venv "$suite" "$base" >"$place/debootstrap.log" 2>&1 ||
        { tail -n 20 "$place/debootstrap.log" >&2; exit 1; }
    touch "$base/complete"
fi
root=$place/root
cp -a "$base" "$root"
cp "$wheel" "$root/tmp/"

echo "== pip install, and hello"
# Its own processes and mounts end with it.
unshare --pid --fork --kill-child --mount --net sh -c 'ip link set lo up && exec "$@"' - chroot "$root" bash -euc '
    mount -t proc proc /proc
    mount -t devtmpfs dev /dev
    getconf GNU_LIBC_VERSION
    python3 --version
    python3 -m venv /env
    /env/bin/pip install --quiet --no-index /tmp/*.whl
    cd /root
    /env/bin/python - <<PYTHON
import baton

with baton.up() as server:
    print(server.client().submit("echo hello").wait().logs(), end="")
PYTHON
    /env/bin/baton version
    echo "task: hello
run: echo hello again" >hello.yaml
    /env/bin/baton run hello.yaml --quiet
'
