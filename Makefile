# pawl: the one entry point. `make` alone says what there is.
SHELL := /bin/bash
PG_MAJOR ?= $(shell scripts/pg-major)
PG_MAJOR := $(PG_MAJOR)
PG_CONFIG ?= /usr/lib/postgresql/$(PG_MAJOR)/bin/pg_config
JOBS ?= 2
# Without it ccache, where it is used, keeps nothing that was compiled with precompiled headers.
CCACHE_SLOPPINESS ?= pch_defines,time_macros
export PG_MAJOR PG_CONFIG JOBS CCACHE_SLOPPINESS

MODULE := $(MAKE) --no-print-directory -C build/module -f ../../extension/module.mk PG_CONFIG='$(PG_CONFIG)'

# One set for every variant. Commits do not wait for the disk, so that what is compared is work and not fsync; vacuum
# runs between the measurements and not in them.
BENCH_SETTINGS := -c shared_buffers=1GB -c max_wal_size=16GB -c checkpoint_timeout=1h -c synchronous_commit=off \
	-c autovacuum=off \
    -c wal_level=replica

# As a server that runs for long.
SOAK_SETTINGS := -c shared_buffers=1GB -c max_wal_size=16GB -c checkpoint_timeout=1h -c synchronous_commit=off \
    -c autovacuum_naptime=2s -c max_connections=1100

.PHONY: help deps benchdeps build programs install uninstall all installcheck demo demo-scale psql test test-all \
	mutate bench soak deb dist docs clean
.NOTPARALLEL:

help: ## this list
	@echo "pawl: state machines enforced on PostgreSQL tables"
	@echo
	@awk -F ' *## *' '/^[a-z-]+:.*##/ { sub(/:.*/, "", $$1); printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PG_CONFIG=...   build for another PostgreSQL (default: Debian's PostgreSQL $(PG_MAJOR))"

deps: ## install the Debian packages that are missing (by sudo when you are not root)
	@scripts/install-packages test

build: ## compile the module and join the install scripts, all under build/
	@scripts/install-packages build
	@mkdir -p build/module
	@$(MODULE) -s -j$(JOBS) all

programs: ## compile the client library, the daemon pawld and the command line pawl, under build/programs
	@scripts/install-packages programs
	@mkdir -p build
	@cmake -S . -B build/programs -DPAWL_PROGRAMS=ON -DPAWL_CORE='$(wildcard $(CURDIR)/build/module/obj)' \
		>build/programs.log 2>&1 || { cat build/programs.log; exit 1; }
	@cmake --build build/programs -j$(JOBS) 2>&1 | tee build/programs.log | \
		sed -nu -E 's/^\[ *[0-9]+%\] Building CXX object .*\.dir\/(.*)\.o$$/  compile  \1/p'; \
	    [ $${PIPESTATUS[0]} -eq 0 ] || { cat build/programs.log; exit 1; }

install: build ## install into the system's PostgreSQL (DESTDIR is honoured); then CREATE EXTENSION pawl
	@$(MODULE) -s install

uninstall: ## take it out of the system's PostgreSQL again
	@mkdir -p build/module
	@$(MODULE) -s uninstall

# The names that PGXN's client uses. installcheck needs the server and a superuser of PGHOST, PGUSER and so on.
all: build

installcheck:
	@scripts/check-installed $(TESTS)

demo: build ## a help desk of 21,348 events, replayed; four workers, 5,000 jobs; real workflows; 32,530 rows of a real file; 120 trips that are undone where they cannot be made (ACT=1 to 5: one of them; STAY=1: then the console)
	@scripts/install-packages demo
	@scripts/private-postgres run examples/demo $(ACT)

demo-scale: build programs ## ten thousand workflows in three databases; one is killed and a namespace moves while they run
	@scripts/private-postgres run examples/scale/demo

psql: build ## psql on a private, throw-away PostgreSQL that has pawl installed
	@scripts/private-postgres run --interactive scripts/try-psql

benchdeps:
	@scripts/install-packages bench

# Servers, drivers and files have one encoding, and messages one language, whatever the caller's locale is.
test: export LANG := C.UTF-8
test: export LC_ALL := C.UTF-8
test: export LANGUAGE :=
test: deps build programs ## every test; ONLY="unit pgtap ..." some sections, TESTS="claims ..." some tests (test/README.md); closes with "N passed, N failed"
	@scripts/private-postgres run --memory scripts/run-tests $(ONLY)

test-all: export PAWL_FULL ?= 1
test-all: export PAWL_LONG ?= 1
test-all: export FUZZ_RUNS ?= 1000000
test-all: test ## make test with the full matrix of the enforcement, soaks and long fuzzing: hours

mutate: deps ## break the sources on purpose, one change at a time: each must fail a test mapped to it; MUTATE="name ... --resume" (test/README.md); an hour
	@test/mutation/run $(MUTATE)

bench: benchdeps build programs ## compare with bare UPDATE, C and plpgsql triggers, Statesman; writes bench/RESULTS.md (BENCH_QUICK=1: a glance; BENCH_PEERS: bench/README.md)
	@scripts/private-postgres run --durable $(BENCH_SETTINGS) bench/run

soak: benchdeps build ## long and large: bursts with autovacuum, ten million log entries, 10,000 bindings, 1,000 connections; writes bench/SOAK.md (BENCH_QUICK=1: a glance)
	@scripts/private-postgres run --durable $(SOAK_SETTINGS) bench/soak

deb: ## Debian packages of all parts in build/deb: postgresql-NN-pawl, pawl, pawld, libpawl-dev, python3-pawl
	@scripts/build-deb

dist: ## an archive of the last commit for PGXN: build/pawl-VERSION.zip
	@scripts/build-dist

docs: ## the documentation as a site with a search: build/docs/index.html
	@scripts/install-packages docs
	@scripts/build-docs

clean: ## remove build/
	rm -rf build
