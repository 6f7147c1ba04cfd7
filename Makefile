# Everything that sets up, builds, checks, installs and shows fencepost. `make help` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

PREFIX  ?= /usr/local
LIBDIR  ?= lib
DESTDIR ?=

export CARGO_TARGET_DIR ?= $(CURDIR)/target

BUILT  := $(CARGO_TARGET_DIR)/release
STAGE  := $(CURDIR)/build/stage
# Runs a command as a user of the staged library would.
STAGED := scripts/staged
# scripts/install takes these from its environment, so that no blank or quote in a path is lost.
PLACE   = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)'

# The order is that of interest: what fails most often, and soonest, comes first.
SUITES := lint rust symbols abi c go ruby processes histories powercut faults kills tsan install readme demo

##@ Start here

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\n%s\n' 'make install and make uninstall heed PREFIX (/usr/local), LIBDIR (lib; below PREFIX unless absolute) and DESTDIR.'

.PHONY: demo
demo: ## Set up, build and run the stale-worker story across C, Go and Ruby
	@scripts/setup demo
	@$(MAKE) --no-print-directory test-demo

.PHONY: test
test: ## Set up, build and run every suite; ends with "N passed, N failed"
	@scripts/setup test
	@scripts/run-suites stage $(SUITES:%=test-%)

.PHONY: bench
bench: ## Measure against bare SQLite and other queues; ONLY="threads-* peers" ROUNDS=9 SECONDS=1
	@scripts/setup test
	@$(MAKE) --no-print-directory stage
	@$(STAGED) $(MAKE) --no-print-directory -C benches
	@$(STAGED) python3 -B benches/run --only '$(ONLY)' $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS))

.PHONY: setup
setup: ## Install what building and testing need, if anything is missing
	@scripts/setup test

##@ Build and install

.PHONY: build
build: build/lib/libfencepost.a ## Build the shared and the static library into build/lib

# Cargo itself knows whether there is something to do.
.PHONY: cargo-build
cargo-build:
	cargo build --release --locked

$(BUILT)/libfencepost.a: cargo-build ;

build/lib/libfencepost.a: $(BUILT)/libfencepost.a scripts/libraries
	scripts/libraries $(BUILT) $(@D)

.PHONY: stage
stage: build ## Install into build/stage, where the wrappers' tests find it
	@PREFIX='$(STAGE)' LIBDIR=lib DESTDIR= scripts/install install > /dev/null

# Builds nothing: root may have no toolchain, or an older one than the user who built.
.PHONY: install
install: ## Install what `make build` made: libraries, headers, fencepost.pc, a CMake package
	@$(PLACE) scripts/install install

.PHONY: uninstall
uninstall: ## Remove what `make install` with the same PREFIX, LIBDIR and DESTDIR put there
	@$(PLACE) scripts/install uninstall

.PHONY: clean
clean: ## Remove all that was built
	cargo clean
	rm -rf build bindings/c/build tests/abi/build tests/processes/build tests/histories/build tests/powercut/build
	rm -rf tests/faults/build tests/kills/build
	rm -rf benches/build benches/peers/.installed

##@ Files that are made from others and checked in

.PHONY: header
header: ## Write include/fencepost.h anew from src/abi
	FENCEPOST_WRITE_HEADER=1 cargo test --locked --test header

.PHONY: symbols
symbols: build ## Write ABI.symbols anew from the shared library
	scripts/symbols build/lib/libfencepost.so > ABI.symbols

##@ Suites (`make test` runs them all)

.PHONY: lint
lint: test-lint ## Formatters, compilers' warnings and linters of every language

.PHONY: test-lint
test-lint: stage
	@$(STAGED) scripts/lint

.PHONY: test-rust
test-rust: ## The Rust crate: unit, property, contract and documentation tests, and the header
	cargo test --locked

.PHONY: test-symbols
test-symbols: build ## The shared library exports what ABI.symbols lists and nothing else
	@scripts/test-symbols build/lib/libfencepost.so

.PHONY: test-abi
test-abi: stage ## C programs against the C ABI: the contract, bad input, threads, sanitizers
	$(STAGED) $(MAKE) -C tests/abi test

.PHONY: test-c
test-c: stage ## The C++ layer and the example
	$(STAGED) $(MAKE) -C bindings/c test

.PHONY: test-go
test-go: stage ## The Go package, under the race detector, with each Go at hand
	@$(STAGED) scripts/test-go

.PHONY: test-ruby
test-ruby: stage ## The Ruby library
	cd bindings/ruby && ../../$(STAGED) ruby test/run.rb

.PHONY: test-processes
test-processes: stage ## Many processes, forks and a second copy of SQLite on one file
	$(STAGED) $(MAKE) -C tests/processes test

.PHONY: test-histories
test-histories: stage ## What many clients were answered, against jobs that take their calls in turn (ROUNDS, SEED)
	$(STAGED) $(MAKE) -C tests/histories test

.PHONY: test-powercut
test-powercut: stage ## What power cuts leave on the disk, against every answer (ROUNDS, SEED)
	$(STAGED) $(MAKE) -C tests/powercut test

.PHONY: test-faults
test-faults: stage ## Calls of the system and allocations that fail, each in turn (SHARE, SEED)
	$(STAGED) $(MAKE) -C tests/faults test

.PHONY: test-kills
test-kills: stage ## Kills at every system call and at random, and stops past the lease (ROUNDS, SEED)
	$(STAGED) $(MAKE) -C tests/kills test

.PHONY: torture
torture: stage ## The long forms of the suites above: ROUNDS (20) with seeds from SEED (1) on, and all faults
	ROUNDS=$${ROUNDS:-20} $(STAGED) $(MAKE) -C tests/histories test
	ROUNDS=$${ROUNDS:-20} $(STAGED) $(MAKE) -C tests/powercut test
	SHARE=$${SHARE:-1} $(STAGED) $(MAKE) -C tests/faults test
	LONG=1 ROUNDS=$${ROUNDS:-20} $(STAGED) $(MAKE) -C tests/kills test

.PHONY: mutants
mutants: ## Take out each safety measure and see its test fail (ONLY)
	@python3 -B tests/mutants/run.py

.PHONY: test-tsan
test-tsan: ## Threads and forks under ThreadSanitizer, Rust's standard library included
	@scripts/tsan

.PHONY: test-install
test-install: build ## Install, move away, build C, C++ and CMake programs against it, uninstall
	@scripts/test-install

.PHONY: test-readme
test-readme: stage ## The programs in the READMEs, as they are written there
	$(STAGED) python3 -B tests/readme/run.py

.PHONY: test-demo
test-demo: stage ## The stale-worker story, without the set-up
	@$(STAGED) examples/stale-worker/run
