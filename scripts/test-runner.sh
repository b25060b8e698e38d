#!/usr/bin/env bash
# Starts a test binary for `cargo test`, where there is no nextest, which starts a process for each
# test. The runner's own tests reap any child and fork while locks are held, so they go one by one.
set -euo pipefail
case $1 in
    */baton_runner-*) export RUST_TEST_THREADS=1 ;;
esac
exec "$@"
