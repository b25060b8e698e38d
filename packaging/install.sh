#!/bin/sh
# Installs Baton from the directory of this file, without root: ./install.sh [--prefix DIR] [--uninstall]
set -eu

usage() {
    cat <<'TEXT'
usage: ./install.sh [--prefix DIR] [--uninstall]

Installs the command, its manual pages and its shell completions below DIR, by
default ~/.local. Every file is compared with SHA256SUMS first.

  --prefix DIR   install below DIR: bin/, share/man/man1/, share/…
  --uninstall    remove what an installation below DIR has written
TEXT
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

prefix=
uninstall=false
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || { echo "install.sh: --prefix needs a directory" >&2; exit 2; }
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) uninstall=true ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install.sh: unknown argument: $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set; name a directory with --prefix"
    prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac

# Every file that an installation has written, one path below the prefix in each line.
list=$prefix/share/baton/installed

remove_installed() {
    while IFS= read -r file; do
        case $file in
        /* | *..*) fail "$list names a file outside of $prefix: $file" ;;
        esac
        rm -f "$prefix/$file"
    done <"$list"
    rm -f "$list"
    rmdir "$prefix/share/baton" 2>/dev/null || true
}

if $uninstall; then
    [ -f "$list" ] || fail "there is no installation below $prefix: $list is missing"
    remove_installed
    echo "removed from $prefix; data directories (.baton) and ~/.config/baton stay"
    exit 0
fi

cd "$(dirname "$0")"
target=$(cat TARGET) || fail "TARGET is missing: run it in the unpacked directory"
machine=${BATON_INSTALL_MACHINE:-$(uname -m)}
case $target in
"$machine"-*-linux-*) [ "$(uname -s)" = Linux ] || fail "this is a build for $target, and here is $(uname -s)" ;;
*) fail "this is a build for $target, and this machine is $machine; get the tarball for it" ;;
esac
sha256sum --check --quiet SHA256SUMS || fail "files differ from SHA256SUMS; unpack the tarball again"
bin/baton --version >/dev/null || fail "bin/baton does not run here; a build for an older glibc may (docs/install.md)"

[ ! -f "$list" ] || remove_installed
mkdir -p "$prefix/share/baton"
# place FILE PATH MODE: the path is below the prefix. Renamed into place: a baton that runs keeps its file.
place() {
    mkdir -p "$(dirname "$prefix/$2")"
    cp "$1" "$prefix/$2.new"
    chmod "$3" "$prefix/$2.new"
    mv "$prefix/$2.new" "$prefix/$2"
    echo "$2" >>"$list"
}
place bin/baton bin/baton 755
for page in share/man1/*.1; do
    place "$page" "share/man/man1/${page##*/}" 644
done
place share/completions/baton.bash share/bash-completion/completions/baton 644
place share/completions/_baton share/zsh/site-functions/_baton 644
place share/completions/baton.fish share/fish/vendor_completions.d/baton.fish 644
place share/baton.toml share/baton/baton.toml 644
for program in share/fleets/*.sh; do
    place "$program" "share/baton/fleets/${program##*/}" 755
done
place LICENSE-MIT share/baton/LICENSE-MIT 644
place LICENSE-APACHE share/baton/LICENSE-APACHE 644

echo "installed $("$prefix/bin/baton" --version) below $prefix"
case :${PATH:-}: in
*":$prefix/bin:"*) ;;
*) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
