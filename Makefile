# What a person types: `make run` (the main job) and `make test`. The rest serves these two.

CARGO ?= cargo
AGENT_TARGET := x86_64-unknown-linux-musl
VIOPERF := target/release/vioperf

.PHONY: run test soak bench comparisons bottlenecks first-paint build agent setup lint fmt deny dist clean reference

# Measures what each virtual NIC keeps of the host's own path; first installs what is missing.
run: setup
	@$(MAKE) --no-print-directory build
	@$(VIOPERF) kernel fetch --if-needed
	@$(VIOPERF) run nic-models

# Every test, those that need root, namespaces and guests included. None is skipped: what is
# missing fails, and says so.
test:
	@scripts/setup test
	@$(MAKE) --no-print-directory agent
	@$(CARGO) build --locked --package vioperf
	@target/debug/vioperf kernel fetch --if-needed
	$(CARGO) test --locked --workspace --no-fail-fast -- --test-threads=1

# Kills runs over every switch at random moments and looks for what is left: fifty, in a quarter of an hour.
# KILLS=200 does more, SEED=7 draws others.
soak:
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@target/release/vioperf kernel fetch --if-needed
	KILLS=$(or $(KILLS),50) $(if $(SEED),SEED=$(SEED)) $(CARGO) test --locked --package vioperf --test soak -- --nocapture

# vioperf and its peers side by side, on this machine; writes docs/benchmarks.md in a quarter of an
# hour. CONTESTS=tcp,udp holds some (and writes beside the build instead), RUNS=9 takes more rounds.
# A newer iperf3, netperf and neper take part where they are on PATH.
bench:
	@scripts/setup bench
	@$(MAKE) --no-print-directory build
	$(CARGO) build --locked --release --package vioperf-bench
	target/release/vioperf-bench --out $(if $(CONTESTS),target,docs)/benchmarks.md \
		$(if $(CONTESTS),--contests $(CONTESTS)) $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH))

# Tries `vioperf compare` out on pairs that are equal and on links of known rates, 20 times each: what
# docs/statistics.md shows, in half an hour. PAIRS=equal-link,faster takes some, TRIES=5 fewer.
comparisons: setup
	@$(MAKE) --no-print-directory build
	$(CARGO) build --locked --release --package vioperf-bench
	@target/release/comparisons $(if $(PAIRS),--pairs $(PAIRS)) $(if $(TRIES),--tries $(TRIES))

# Plants bottlenecks (a token bucket, loss, a small window, a slow reader ...) and looks which vioperf tells
# first: the table of docs/diagnosis.md, in ten minutes, as root. PLANTS=tbf,clean takes some (and writes no
# page), TRIES=5 more of each.
bottlenecks:
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	$(CARGO) build --locked --release --package vioperf-bench
	@target/release/bottlenecks $(if $(TRIES),--tries $(TRIES)) $(if $(KEEP),--keep $(KEEP)) \
		$(if $(PLANTS),--plants $(PLANTS),--page docs/diagnosis.md)

# How soon the page of a run is painted in Chromium, and what it weighs; fails above 1 s or 2 MiB. TIMES=20 opens it
# more often.
first-paint:
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	$(CARGO) build --locked --release --package vioperf-bench
	@target/release/first_paint $(RUN) $(if $(TIMES),--times $(TIMES))

build: agent
	$(CARGO) build --locked --release --package vioperf

# The guest's PID 1: static, small, and carried inside the vioperf binary.
agent:
	$(CARGO) build --locked --profile agent --target $(AGENT_TARGET) --package vioperf-agent

setup:
	@scripts/setup

# The pages of the documentation that are made from the program's own tables.
reference:
	$(CARGO) build --locked --package vioperf
	target/debug/vioperf reference scenario > docs/scenario-reference.md
	target/debug/vioperf reference metrics > docs/metrics.md

fmt:
	$(CARGO) fmt --all --check

lint: agent
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

# Licences, sources and duplicates of the dependencies (cargo-deny must be installed).
deny:
	$(CARGO) deny check licenses bans sources

# One static binary with manual pages and completions, as a tarball and a Debian package, installed once in an empty
# root to see that it works: target/dist. Needs musl-tools and dpkg, as root.
dist: agent
	@scripts/dist

clean:
	$(CARGO) clean
