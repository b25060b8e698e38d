#!/usr/bin/env bash
# Tests packaging/install.sh, with a small program in place of the binary: needs no build.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
source=$place/baton-0.0.0
home=$place/home
mkdir -p "$source"/bin "$source"/share/{man1,completions,fleets} "$home"
printf '#!/bin/sh\necho "baton 0.0.0"\n' >"$source/bin/baton"
chmod +x "$source/bin/baton"
for file in share/man1/baton.1 share/man1/baton-submit.1 share/completions/{baton.bash,_baton,baton.fish} \
    share/baton.toml share/fleets/pbs.sh LICENSE-MIT LICENSE-APACHE; do
    echo "$file" >"$source/$file"
done
echo "$(uname -m)-unknown-linux-gnu" >"$source/TARGET"
cp packaging/install.sh "$source/"
(cd "$source" && find . -type f -printf '%P\n' | sort | xargs sha256sum >"$place/sums" && mv "$place/sums" SHA256SUMS)

run() { env -i HOME="$home" PATH=/usr/bin:/bin "$@"; }
# refuses TEXT COMMAND...: the command fails with the text, and installs nothing.
refuses() {
    local text=$1 said
    shift
    if said=$(run "$@" 2>&1); then
        echo "it was not refused: $*" >&2
        exit 1
    fi
    [[ $said == *"$text"* ]] || { echo "$*: it says $said" >&2; exit 1; }
    [[ -z $(find "$home" -type f) ]] || { echo "$*: files are left" >&2; exit 1; }
}

refuses "this machine is riscv64" BATON_INSTALL_MACHINE=riscv64 "$source/install.sh"
refuses "unknown argument: --prefx" "$source/install.sh" --prefx /x
refuses "needs a directory" "$source/install.sh" --prefix
refuses "no installation below" "$source/install.sh" --uninstall
echo damaged >>"$source/share/man1/baton.1"
refuses "differ from SHA256SUMS" "$source/install.sh"
sed -i '$d' "$source/share/man1/baton.1"

# Twice: an installation replaces an earlier one, and forgets none of its files.
echo "== install"
said=$(run "$source/install.sh")
run "$source/install.sh" >/dev/null
[[ $said == *"installed baton 0.0.0 below $home/.local"*"add it to your PATH"* ]] || { echo "it says $said" >&2; exit 1; }
[[ $("$home/.local/bin/baton") == "baton 0.0.0" ]]
for file in share/man/man1/baton-submit.1 share/bash-completion/completions/baton share/zsh/site-functions/_baton \
    share/baton/fleets/pbs.sh; do
    [[ -f $home/.local/$file ]] || { echo "$file is missing" >&2; exit 1; }
done
echo mine >"$home/.local/bin/other"
run "$source/install.sh" --uninstall >/dev/null
[[ $(find "$home" -type f) == "$home/.local/bin/other" ]] || { find "$home" -type f >&2; exit 1; }

echo "== install below another prefix"
run PATH="$place/prefix/bin:/usr/bin:/bin" "$source/install.sh" --prefix "$place/prefix" | grep -q 'installed'
[[ -x $place/prefix/bin/baton ]]
run "$source/install.sh" --uninstall --prefix="$place/prefix" >/dev/null
[[ -z $(find "$place/prefix" -type f) ]]
