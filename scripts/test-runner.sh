#!/usr/bin/env bash
# Runs every test of a binary in a process of its own, RUST_TEST_THREADS at a time, for `cargo test`
# where there is no nextest. Tests may reap any child of their process, and fork while others hold
# locks; in one process they would disturb each other.
set -euo pipefail

run_one() {
    local output
    if ! output=$("$1" --exact "$2" 2>&1); then
        printf 'FAILED %s\n%s\n' "$2" "$output"
        return 1
    fi
}
export -f run_one

binary=$1
tests=$("$binary" --list --format terse | sed -n 's/: test$//p')
[[ -n $tests ]] || exit 0
echo "$(wc -l <<<"$tests") tests of ${binary##*/}"
xargs -d '\n' -P "${RUST_TEST_THREADS:-4}" -I{} bash -c 'run_one "$@"' _ "$binary" {} <<<"$tests"
