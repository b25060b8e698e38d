#!/usr/bin/env bash
# Checks the types of the Python client, and runs its tests against a real server: the debug
# binary, or BATON_BIN.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
tools=$target/tools/python
export BATON_BIN=${BATON_BIN:-$target/debug/baton}
[[ -x $BATON_BIN ]] || { echo "$BATON_BIN is missing: run \`cargo build\`" >&2; exit 1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The environment is in the target directory, and is rebuilt when the list changes.
if ! cmp -s scripts/python.txt "$tools/installed.txt"; then
    echo "== installing mypy and pytest"
    {
        python3 -m venv --clear "$tools" &&
            "$tools/bin/pip" install --disable-pip-version-check -r scripts/python.txt
    } >"$log" 2>&1 || {
        cat "$log" >&2
        echo "the tests of the Python client need mypy and pytest, and pip cannot install them" >&2
        exit 1
    }
    cp scripts/python.txt "$tools/installed.txt"
fi

# No caches in the tree: the checks of the repository would find them.
cd python
export PYTHONDONTWRITEBYTECODE=1
quietly() {
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
}
quietly "$tools/bin/mypy" --cache-dir "$target/tools/mypy-cache"
quietly "$tools/bin/pytest" -p no:cacheprovider "$@"
