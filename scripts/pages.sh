#!/usr/bin/env bash
# Opens the pages of a real server in a real Chromium: the debug binary, or BATON_BIN.
# `scripts/pages.sh --screenshots DIR` also writes a picture of every page.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
tools=$target/tools/pages
export BATON_BIN=${BATON_BIN:-$target/debug/baton}
[[ -x $BATON_BIN ]] || { echo "$BATON_BIN is missing: run \`cargo build\`" >&2; exit 1; }

if [[ ${1:-} == --screenshots ]]; then
    BATON_SCREENSHOTS=$(realpath -m "$2")
    export BATON_SCREENSHOTS
    shift 2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The environment is in the target directory, and is rebuilt when the list changes.
if ! cmp -s scripts/pages.txt "$tools/installed.txt"; then
    echo "== installing playwright and axe"
    {
        python3 -m venv --clear "$tools" &&
            "$tools/bin/pip" install --disable-pip-version-check -r scripts/pages.txt
    } >"$log" 2>&1 || {
        cat "$log" >&2
        echo "the tests of the pages need playwright, and pip cannot install it" >&2
        exit 1
    }
    cp scripts/pages.txt "$tools/installed.txt"
fi

cd crates/web/browser
export PYTHONDONTWRITEBYTECODE=1
"$tools/bin/pytest" -q -p no:cacheprovider "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
tail -n 1 "$log"
