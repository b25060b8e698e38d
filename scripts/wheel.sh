#!/usr/bin/env bash
# Builds the wheels `baton-scheduler` (the binary with the Python package) and `baton-client` (the
# package alone) into target/wheels, and says hello with the first one as pip installs it: into an
# environment, for a user, into a directory and below a prefix. The release is for every glibc since
# 2.17 (2012), which zig links against. Arguments are options of `maturin build` instead, such as
# `--profile dev`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
tools=$target/tools/wheel
wheels=$target/wheels
glibc=
if (($# == 0)); then
    glibc=2.17
    set -- --release --zig --compatibility "manylinux_${glibc/./_}"
fi

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1

if ! cmp -s scripts/wheel.txt "$tools/installed.txt"; then
    echo "== installing maturin"
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install -r scripts/wheel.txt
    cp scripts/wheel.txt "$tools/installed.txt"
fi

rm -rf "$wheels"
# zig is a module of that Python.
PATH=$tools/bin:$PATH "$tools/bin/maturin" build --quiet "$@" --out "$wheels"
# Of a copy: setuptools leaves directories where it builds.
cp -r python "$place/python"
"$tools/bin/pip" wheel --no-deps --wheel-dir "$wheels" "$place/python"
scheduler=$(ls "$wheels"/baton_scheduler-*.whl)
client=$(ls "$wheels"/baton_client-*.whl)

if [[ -n $glibc ]]; then
    symbols=$("$tools/bin/auditwheel" show "$scheduler")
    grep -q "manylinux_${glibc/./_}_" <<<"$symbols" || { echo "$symbols" >&2; exit 1; }
    echo "   needs glibc $glibc"
fi

# One package, and one version.
package() { python3 -m zipfile --list "$1" | awk '$1 ~ /^baton\// { print $1, $NF }' | sort; }
diff <(package "$scheduler") <(package "$client")
version() { basename "$1" | cut -d - -f 2; }
[[ $(version "$scheduler") == $(version "$client") ]]

# Says hello with a Python that has the package, and compares the binary that it finds:
# hello BINARY PYTHON [VARIABLE...].
hello() {
    local expected=$1 python=$2
    shift 2
    (
        cd "$place"
        said=$(env -i PATH=/usr/bin:/bin "$@" "$python" - <<'PYTHON'
import baton
from baton._local import binary

with baton.up() as server:
    print(binary.find(), server.client().submit("echo hello").wait().logs(), end="")
PYTHON
        )
        [[ $said == "$expected hello" ]] || { echo "$expected: it says $said" >&2; exit 1; }
        env -i PATH=/usr/bin:/bin "$@" "$python" -m baton --version
    )
    echo "   $expected"
}

install() { "$place/env/bin/pip" install --no-index --ignore-installed "$@" "$scheduler"; }

# One that sees the packages of its Python and of the user.
python3 -m venv --system-site-packages "$place/env"
export PYTHONUSERBASE=$place/user
install --user
hello "$place/user/bin/baton" "$place/env/bin/python" PYTHONUSERBASE="$PYTHONUSERBASE"
install --target "$place/directory"
hello "$place/directory/bin/baton" python3 PYTHONPATH="$place/directory"
install --prefix "$place/prefix"
hello "$place/prefix/bin/baton" python3 PYTHONPATH="$(ls -d "$place"/prefix/lib/python3*/site-packages)"
install
hello "$place/env/bin/baton" "$place/env/bin/python"
ls "$wheels"
