#!/usr/bin/env bash
# Builds everything that a release has into target/dist: wheels, Debian package, tarball with its
# installer, SBOM, SHA256SUMS. `make dist` calls it. Arguments choose steps of: wheel deb tarball sbom.
# PROFILE=dev packs the debug binary, for trying a package in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=${PROFILE:-release}
triple=$(rustc -vV | sed -n 's/^host: //p')
# maturin builds for a target if zig links.
case $profile in
release) built=$target/$triple/release ;;
dev) built=$target/debug ;;
*) echo "PROFILE is release or dev, not $profile" >&2; exit 2 ;;
esac
dist=$target/dist
package=$built/package
(($# > 0)) || set -- wheel deb tarball sbom
for step in "$@"; do
    [[ $step =~ ^(wheel|deb|tarball|sbom)$ ]] || { echo "no step $step: wheel, deb, tarball, sbom" >&2; exit 2; }
done

# What `baton version` names. Without a repository (a tarball of the source) there is none.
commit=$(git rev-parse --short HEAD 2>/dev/null || true)
if [[ $profile == release && -n $commit && ! -v BATON_COMMIT ]]; then
    export BATON_COMMIT=$commit
fi
# The date of what is packed, not of the packing: the same source gives the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# The binary of the wheel is that of all packages.
echo "== build ($profile), and wheels"
options=()
[[ $profile == release ]] || options=(--profile "$profile")
scripts/wheel.sh "${options[@]}"
baton=$built/baton
version=$("$baton" --version | cut -d ' ' -f 2)
mkdir -p "$dist"

echo "== manual pages, completions, configuration"
rm -rf "$package"
mkdir -p "$package/completions"
"$baton" man --dir "$package/man" >/dev/null
"$baton" completions bash >"$package/completions/baton.bash"
"$baton" completions zsh >"$package/completions/_baton"
"$baton" completions fish >"$package/completions/baton.fish"
"$baton" config init - >"$package/baton.toml"

# Writes SHA256SUMS of all files in and below a directory.
sums() {
    local sums
    rm -f "$1/SHA256SUMS"
    sums=$(cd "$1" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum)
    echo "$sums" >"$1/SHA256SUMS"
}

deb() {
    local tools=$target/tools/cargo-deb release=3.8.0
    if [[ $("$tools/bin/cargo-deb" --version 2>/dev/null) != "cargo-deb $release" ]]; then
        echo "== installing cargo-deb $release"
        cargo install --quiet --locked --force --root "$tools" --target-dir "$tools/build" cargo-deb --version "$release"
        rm -rf "$tools/build"
    fi
    echo "== Debian package"
    gzip -9n >"$package/changelog.gz" <<TEXT
baton ($version) unstable; urgency=medium

  * Built from version $version; CHANGELOG.md of the source has the changes.

 -- The Baton authors <$(maintainer)>  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
TEXT
    rm -f "$dist"/baton_"$version"_*.deb
    local speed=(--no-strip)
    [[ $profile == release ]] || speed=(--strip --fast)
    rm -rf "$package/man-compressed"
    cp -r "$package/man" "$package/man-compressed"
    gzip -9n "$package"/man-compressed/*.1
    local of=()
    [[ $profile == release ]] && of=(--target "$triple")
    "$tools/bin/cargo-deb" --quiet --no-build "${speed[@]}" --locked --package baton-cli --profile "$profile" \
        "${of[@]}" --output "$dist"
}

# The address in the package's own description.
maintainer() { sed -n 's/^maintainer = ".*<\(.*\)>"$/\1/p' crates/cli/Cargo.toml; }

tarball() {
    echo "== tarball"
    local name=baton-$version-$triple
    rm -rf "${package:?}/$name"
    mkdir -p "$package/$name/bin" "$package/$name/share"
    cp "$baton" "$package/$name/bin/"
    [[ $profile == release ]] || strip "$package/$name/bin/baton"
    cp -r "$package/man" "$package/$name/share/man1"
    cp -r "$package/completions" "$package/$name/share/completions"
    cp "$package/baton.toml" "$package/$name/share/"
    cp -r contrib/fleets "$package/$name/share/fleets"
    cp contrib/slurm/scheduler-chain.sh "$package/$name/share/fleets/slurm-chain.sh"
    cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$package/$name/"
    cp packaging/install.sh "$package/$name/"
    echo "$triple" >"$package/$name/TARGET"
    sums "$package/$name"
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --directory "$package" "$name" | gzip -9n >"$dist/$name.tar.gz"
    rm -r "${package:?}/$name"
}

wheel() {
    rm -f "$dist"/*.whl
    cp "$target"/wheels/*.whl "$dist/"
}

sbom() {
    echo "== SBOM"
    cargo xtask sbom "$triple" >"$dist/baton-$version.cdx.json"
}

for step in "$@"; do
    "$step"
done
echo "== SHA256SUMS"
sums "$dist"
ls -l "$dist"
