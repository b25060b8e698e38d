#!/usr/bin/env bash
# Builds the book of docs/SUMMARY.md into target/book, and checks its links. Installs mdBook into
# target/tools if it is missing, which takes minutes: `make test` checks the pages without it.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools/mdbook
mdbook=$tools/bin/mdbook

if [[ $("$mdbook" --version 2>/dev/null) != "mdbook v$version" ]]; then
    echo "== installing mdBook $version"
    cargo install --quiet --locked --force --root "$tools" --target-dir "$tools/build" mdbook --version "$version"
    rm -rf "$tools/build"
fi

scripts/book.py "$mdbook" "$target/tools/book-pages" "$target/book"
