#!/usr/bin/env bash
# Installs, upgrades, removes and purges a Debian package under a systemd of its own, in a container with
# its own network: package-test.sh PACKAGE.deb. An upgrade must not cost running work. Needs root,
# debootstrap, systemd-nspawn and lintian; the base system is kept in target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

deb=$(realpath "${1:?usage: package-test.sh PACKAGE.deb}")
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
base=$target/tools/debian
suite=bookworm
((EUID == 0)) || { echo "the package test needs root" >&2; exit 1; }
for program in debootstrap systemd-nspawn lintian; do
    command -v "$program" >/dev/null || { echo "the package test needs $program: apt-get install debootstrap systemd-container lintian" >&2; exit 1; }
done

echo "== lintian"
lintian --no-cfg --fail-on error --allow-root "$deb"

place=$(mktemp -d)
# Never of a failed start: the container's own mounts end with it.
trap 'rm -rf --one-file-system "$place"' EXIT
dpkg-deb --raw-extract "$deb" "$place/package"

if [[ ! -e $base/complete ]]; then
    echo "== base system ($suite)"
    rm -rf "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase --include=dbus,procps,systemd,systemd-sysv "$suite" "$base" >"$place/debootstrap.log" 2>&1 ||
        { tail -n 20 "$place/debootstrap.log" >&2; exit 1; }
    touch "$base/complete"
fi
root=$place/root
cp -a "$base" "$root"
rm -f "$root/complete"
: >"$root/etc/machine-id"

# The same files with a higher version.
mkdir "$root/test"
cp "$deb" "$root/test/old.deb"
version=$(dpkg-deb --field "$deb" Version)
sed -i "s/^Version: .*/Version: $version+1/" "$place/package/DEBIAN/control"
dpkg-deb --build -Zgzip -z1 "$place/package" "$root/test/new.deb" >/dev/null
cp scripts/package-test-inside.sh "$root/test/inside.sh"
cat >"$root/etc/systemd/system/package-test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/bash /test/inside.sh
ExecStopPost=/usr/bin/systemctl --no-block poweroff
StandardOutput=file:/test/log
StandardError=inherit
TimeoutStartSec=infinity
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../package-test.service "$root/etc/systemd/system/multi-user.target.wants/"

touch "$root/test/log"
tail --follow --lines=+1 "$root/test/log" &
follower=$!
timeout "${LIMIT:-600}" systemd-nspawn --quiet --directory "$root" --boot --register=no --keep-unit --private-network \
    --link-journal=no >"$place/console" 2>&1 </dev/null || true
kill "$follower"
[[ -e $root/test/passed ]] || { tail -n 20 "$place/console" >&2; echo "the package test failed" >&2; exit 1; }
