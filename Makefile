# The front door: CMake does the work. `make help` lists the targets.
# CUDA_HOME=/path/to/cuda names the toolkit (default: $CUDA_HOME, then /usr/local/cuda).
.DEFAULT_GOAL := help
.PHONY: help demo test test-long bench bench-kernels bench-dashboard screenshots dist build programs install-packages install-test-packages install-bench-packages \
	install-browser-packages clean
export CUDA_HOME

help: ## this list
	@sed -n 's|^\([a-z-]*\):.*## |\1\t|p' Makefile | while IFS="$$(printf '\t')" read -r t w; do printf '  make %-24s %s\n' "$$t" "$$w"; done

demo: programs ## find, judge, fetch and verify a kernel for a real shape (under 3 minutes; DEMO_MODEL=qwen3.5-122b DEMO_TP=8: a model's)
	@scripts/demo.sh

test: install-test-packages build ## the tests that this machine can run (under 15 minutes on 2 cores)
	@scripts/test.sh

test-long: install-test-packages build ## the same and the long ones: more fuzzing, minutes of soak
	@scripts/test.sh --long

bench: install-bench-packages programs ## the emulator's speed, throughput against nginx, latency, judging time: figures, no verdict
	@scripts/build.sh bench_ptx
	@scripts/bench.sh

bench-kernels: programs ## on a machine with a card: kernels for every operator at decode shapes, beside baselines and vLLM (BENCH_SECONDS=3600)
	@scripts/build.sh bench_kernels
	@scripts/bench-kernels.sh

bench-dashboard: install-browser-packages ## how smooth the dashboard stays: 10,000 candidates, 5,000 kernels, 1,000 events a second, in Chromium
	@scripts/browser.sh bench.mjs static

screenshots: programs install-browser-packages ## every page of the dashboard in both themes, of a real job on the emulator (build/screenshots)
	@scripts/browser.sh screenshots.mjs build/release/bin/proteusd static

dist: programs ## dist/: a folder that runs on any x86-64 Linux with glibc 2.36 or newer and the toolkit
	@scripts/dist.sh

build: install-packages ## configure and build everything, tests too (build/release)
	@scripts/build.sh

programs: install-packages ## configure and build what runs: programs and operators
	@scripts/build.sh proteusd proteus-gpu proteus proteus_ops

install-packages: ## install the Debian packages that building and the demo need, if they are missing
	@scripts/packages.sh build

install-test-packages: ## the same for the tests
	@scripts/packages.sh build test

install-bench-packages: ## the same for the benchmarks
	@scripts/packages.sh build bench

install-browser-packages: ## Chromium, playwright-core and axe-core, for the dashboard's tests in a browser (large; skipped without)
	@scripts/packages.sh browser
	@npm install --silent --no-audit --no-fund --prefix build/browser playwright-core@1.65.1 axe-core@4.14.1

clean: ## remove build/ and dist/
	rm -rf build dist
