# One command does everything that CI does: `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The steps share one target directory and its lock; running them side by side
# would only mix their output.
.NOTPARALLEL:
.PHONY: help test tools fmt-check lint unit doctest doc xtask-checks api python sim-smoke \
        soak bench fmt states golden clean

# How many seeds `make test` simulates; `make soak` takes many more.
SEEDS ?= 300

# rustup puts cargo here; a shell that has not been restarted may not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

test: tools fmt-check lint unit doctest doc xtask-checks api python sim-smoke ## everything that CI checks
	@echo "all checks passed"

tools: ## install what the tests need, where it is missing
	@command -v cargo >/dev/null || { echo "cargo is missing: install a Rust toolchain first" >&2; exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || rustup --quiet component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup --quiet component add clippy
	@scripts/tools.sh

fmt-check: tools ## is the code formatted?
	@echo "== format"
	@cargo fmt --all --check

lint: tools ## clippy, warnings denied
	@echo "== lint"
	@cargo clippy --quiet --workspace --all-targets -- -D warnings

# Building nextest takes longer than it saves on a machine that lacks it.
unit: tools ## unit and integration tests
	@echo "== tests"
	@if cargo nextest --version >/dev/null 2>&1; then \
	    cargo nextest run --cargo-quiet --workspace --status-level fail; \
	else \
	    cargo test --quiet --workspace --lib --bins --tests; \
	fi

doctest: tools ## the examples in the docs
	@echo "== doc tests"
	@cargo test --quiet --workspace --doc

doc: tools ## the API docs, warnings denied
	@echo "== docs"
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps

xtask-checks: tools ## generated pages, layers, tidiness, the protocol page
	@echo "== repository checks"
	@cargo xtask states --check
	@cargo xtask arrows
	@cargo xtask tidy
	@cargo xtask protocol-doc

# With the binary of the tests, which is there already.
api: tools ## a real server against the description of its API
	@echo "== api"
	@cargo test --quiet --workspace --lib --bins --tests --no-run
	@scripts/api.sh

# The same.
python: api ## the Python client against a real server
	@echo "== python"
	@scripts/python.sh

sim-smoke: tools ## a short simulation; SEEDS=300
	@echo "== simulation"
	@cargo run --quiet --release --package baton-sim -- --seeds $(SEEDS)
	@cargo run --quiet --release --package baton-sim -- --seeds $(SEEDS) --workers 10 --instances 200
	@cargo run --quiet --release --package baton-sim -- --seeds $(SEEDS) --workflows
	@cargo run --quiet --release --package baton-sim -- --seeds $(SEEDS) --schedules

soak: tools ## a long simulation, every seeded bug, and hundreds of kills
	@scripts/soak.sh

bench: tools ## what Baton costs on this machine
	@cargo build --quiet --release
	@for what in throughput latency backlog submit recovery dag local; do echo "== $$what"; target/release/baton bench $$what; done

fmt: tools ## format the code
	@cargo fmt --all

states: tools ## write docs/states from the tables
	@cargo xtask states

golden: tools ## rewrite the golden files; read the diff before committing it
	@BATON_REWRITE=1 cargo test --quiet --package baton-sim --features seeded-bugs --test sim golden
	@BATON_REWRITE=1 cargo test --quiet --package baton-files
	@BATON_REWRITE=1 cargo test --quiet --package baton-server --test server pages

clean: ## remove what was built
	@cargo clean --quiet
