#!/usr/bin/env bash
# Starts a test binary for `cargo test`, where there is no nextest, which starts a process for each
# test. Tests that reap any child of their process, or fork while others hold locks, go one by one.
set -euo pipefail
case $1 in
    */baton_runner-* | */host-*) export RUST_TEST_THREADS=1 ;;
esac
exec "$@"
