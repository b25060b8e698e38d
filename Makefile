# One command does everything that CI does: `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The steps share one target directory and its lock; running them side by side
# would only mix their output.
.NOTPARALLEL:
.PHONY: help test tools fmt-check shipped lint unit unit-shipped unit-server unit-core doctest doc \
        xtask-checks api python wheel dist install-test package-test old-host-test book pages screenshots sim-smoke soak bench bench-slurm fmt states golden clean

# How many seeds `make test` simulates; `make soak` takes many more.
SEEDS ?= 300

# Where cargo puts what it builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)
DEBUG := $(TARGET)/debug

# How many bytes the release binary may have.
SIZE_MAX := 20000000

# How many tests run at once.
THREADS ?= 6

TEST_FEATURES := baton-server/openapi,baton-sim/seeded-bugs

# What is tested with the features that ship.
SHIPPED := --workspace --exclude baton-server --exclude baton-core --exclude baton-sim

# The variable that makes cargo start test binaries by another program.
TEST_RUNNER = CARGO_TARGET_$(shell rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER

# Runs the tests of some packages: $(call run_tests,PACKAGES AND FEATURES[,PROFILE]). With nextest
# where it is installed: building it takes longer than it saves.
run_tests = if cargo nextest --version >/dev/null 2>&1; then \
	    scripts/with-postgres.sh cargo nextest run --locked --cargo-quiet --status-level fail --no-fail-fast --test-threads $(THREADS) \
	        $(if $(2),--cargo-profile $(2)) $(1); \
	else \
	    $(TEST_RUNNER)=$(CURDIR)/scripts/test-runner.sh RUST_TEST_THREADS=$(THREADS) scripts/with-postgres.sh cargo test --quiet --locked --no-fail-fast --lib --bins --tests \
	        $(if $(2),--profile $(2)) $(1); \
	fi

# rustup puts cargo here; a shell that has not been restarted may not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

test: tools fmt-check shipped lint unit doctest doc xtask-checks api python install-test pages sim-smoke ## everything that CI checks
	@echo "all checks passed"

tools: ## install what the tests need, where it is missing
	@command -v cargo >/dev/null || { echo "cargo is missing: install a Rust toolchain first" >&2; exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || rustup --quiet component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup --quiet component add clippy
	@scripts/tools.sh

fmt-check: tools ## is the code formatted?
	@echo "== format"
	@cargo fmt --all --check

# What users get, with exactly its features, and without a warning. Every end-to-end test drives this
# file: `unit-shipped` fails if building the tests has changed it.
shipped: tools ## the binary, as it ships
	@echo "== build"
	@mkdir -p $(TARGET)
	@cargo build --quiet --locked --package baton-cli 2>&1 | tee $(TARGET)/build.log
	@! grep -q '^warning' $(TARGET)/build.log
	@sha256sum $(DEBUG)/baton >$(DEBUG)/baton.$$$$ && mv $(DEBUG)/baton.$$$$ $(DEBUG)/baton.shipped

lint: tools ## clippy, warnings denied, with the features of the tests
	@echo "== lint"
	@cargo clippy --quiet --locked --workspace --features $(TEST_FEATURES) --all-targets -- -D warnings

unit: unit-shipped unit-server unit-core ## unit and integration tests

# These wait for processes and disks more than they compute, so more of them run than there are cores.
unit-shipped: shipped
	@echo "== tests"
	@$(call run_tests,$(SHIPPED))
	@sha256sum --check --quiet $(DEBUG)/baton.shipped || \
	    { echo "the tests ran another baton than the one that ships: a dev-dependency turns a feature on; see cargo tree -e features" >&2; exit 1; }

# With the generator of the API's description, and tokio's clock for tests.
unit-server: tools
	@echo "== tests of the server"
	@$(call run_tests,--package baton-server --features openapi)

# With the seeded bugs, optimised.
unit-core: tools
	@echo "== tests of the core and the simulator"
	@$(call run_tests,--package baton-core --package baton-sim --features baton-sim/seeded-bugs,sim)

# Of the same packages as the tests, so that nothing is built again with other features.
doctest: tools ## the examples in the docs
	@echo "== doc tests"
	@cargo test --quiet --locked --doc --profile sim --package baton-core --package baton-sim --features baton-sim/seeded-bugs
	@cargo test --quiet --locked --doc $(SHIPPED)

doc: tools ## the API docs, warnings denied
	@echo "== docs"
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps

xtask-checks: tools ## generated pages, layers, tidiness, the protocol page
	@echo "== repository checks"
	@cargo xtask states --check
	@cargo xtask api --check
	@cargo xtask arrows
	@cargo xtask circles
	@cargo xtask licences
	@cargo xtask tidy
	@cargo xtask protocol-doc

api: shipped ## a real server against the description of its API
	@echo "== api"
	@scripts/api.sh

python: shipped ## the Python client against a real server
	@echo "== python"
	@scripts/python.sh

pages: shipped ## the pages in a browser
	@echo "== pages"
	@scripts/pages.sh

wheel: ## the wheels for pip, with the release binary; each way to install them
	@scripts/wheel.sh

dist: ## what a release has, in target/dist: wheels, Debian package, tarball, SBOM, SHA256SUMS
	@scripts/dist.sh

install-test: ## the installer of the tarball
	@echo "== installer"
	@scripts/install-test.sh

package-test: ## the Debian package of target/dist under systemd: installed, upgraded, removed; needs root
	@scripts/package-test.sh "$$(ls -t $(TARGET)/dist/baton_*.deb | head -1)"

old-host-test: ## the wheel of target/wheels on an older Debian; needs root
	@scripts/old-host-test.sh "$$(ls $(TARGET)/wheels/baton_scheduler-*.whl)"

book: ## the book of docs/ in target/book, by mdBook, with its links checked
	@scripts/book.sh

screenshots: shipped ## a picture of every page, in target/screenshots
	@scripts/pages.sh --screenshots $(TARGET)/screenshots -k 'accessible or telephone'

sim-smoke: unit-core ## a short simulation; SEEDS=300
	@echo "== simulation"
	@$(TARGET)/sim/baton-sim --seeds $(SEEDS) --workers 10 --instances 200 & large=$$!; \
	    for kind in "" --workflows --schedules --fleets; do $(TARGET)/sim/baton-sim --seeds $(SEEDS) $$kind; done; \
	    wait $$large

soak: tools ## a long simulation, every seeded bug, and hundreds of kills
	@scripts/soak.sh

bench: tools ## what Baton costs on this machine
	@cargo build --quiet --locked --release
	@echo "== size"; size=$$(stat -c %s $(TARGET)/release/baton); echo "$$size bytes"; \
	    [[ $$size -le $(SIZE_MAX) ]] || { echo "the binary has more than $(SIZE_MAX) bytes: see docs/design/build.md" >&2; exit 1; }
	@for what in throughput latency backlog submit recovery dag local; do echo "== $$what"; $(TARGET)/release/baton bench $$what; done

# Slurm by its own guide for high throughput: no accounting, quiet logs, short memory of ended jobs.
bench-slurm: tools ## short tasks on a fleet of Slurm, beside the same as its job array; BENCH="--count 1000 --json"
	@cargo build --quiet --locked --release
	@BATON_SLURM_CONF=$$'MaxArraySize=100001\nMaxJobCount=100000\nMinJobAge=2\nSlurmctldDebug=error\nSlurmdDebug=error' \
	    scripts/with-slurm.sh scripts/bench-slurm.py $(TARGET)/release/baton $(BENCH)

fmt: tools ## format the code
	@cargo fmt --all

states: tools ## write docs/states from the tables
	@cargo xtask states

golden: tools ## rewrite the golden files; read the diff before committing it
	@BATON_REWRITE=1 cargo test --quiet --profile sim --package baton-sim --features seeded-bugs --test sim golden
	@BATON_REWRITE=1 cargo test --quiet --package baton-files
	@BATON_REWRITE=1 cargo test --quiet --package baton-cli --bins --test clients -- every_help every_key
	@BATON_REWRITE=1 cargo test --quiet --package baton-server --features openapi --lib --test server -- committed pages
	@cargo xtask api

clean: ## remove what was built
	@cargo clean --quiet
