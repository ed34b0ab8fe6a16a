# The commands of the README. Everything lands in .venv and build/, nothing elsewhere.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
            command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
CONFIGURE := cmake -DPython3_EXECUTABLE=$(abspath $(BIN)/python) -DPython_EXECUTABLE=$(abspath $(BIN)/python) --preset
BUILD_RELEASE = $(CONFIGURE) release >/dev/null && cmake --build --preset release -j $(JOBS)
NATIVE_SOURCES := $(shell find timekeeper cuda_shim -name '*.csv' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name CMakeLists.txt)
# As in pyproject.toml. Installed beside the package, so that a rebuild compiles only what changed.
BUILD_TOOLS := 'scikit-build-core>=0.11,<2' 'nanobind>=2.4,<4' ninja
SANITIZERS := tsan asan
ENGINES := vllm==0.24.0 sglang==0.5.23

.PHONY: demo test engines lint test-native test-python thorough bench accuracy matrix clean tools
.DEFAULT_GOAL := help

help:
	@echo "make demo    the real vLLM on a GPU that is not there"
	@echo "make test    the tests"
	@echo "make thorough  the rest of the tests, most of them on the engines: half an hour"
	@echo "make bench   the benchmarks"
	@echo "make accuracy  real runs, replayed"
	@echo "make matrix  the tests of the engines on each of their versions"

demo: $(VENV)/installed
	$(BIN)/warpserve engine install vllm==0.24.0
	$(BIN)/warpserve bench --model llama-3.1-8b --gpu h100-sxm --predictor constant:10ms \
	  --workload sharegpt --rate 4 --num-requests 100

test: lint test-native test-python

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	find timekeeper cuda_shim tests -name '*.cpp' -o -name '*.hpp' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

test-native: $(VENV)/installed
	for preset in $(SANITIZERS); do \
	  $(CONFIGURE) $$preset >/dev/null && cmake --build --preset $$preset -j $(JOBS) && \
	  ctest --preset $$preset || exit 1; done

# Two at a time: an engine's start keeps little more than one core busy.
test-python: $(VENV)/installed engines
	$(BUILD_RELEASE) --target barrier_server
	$(BIN)/pytest -n 2 --dist loadfile

# What `make test` leaves out: native tests without a sanitizer, more of the same on the engines.
thorough: $(VENV)/installed engines
	$(BUILD_RELEASE)
	ctest --preset release
	$(BIN)/pytest -n 2 --dist loadfile -m thorough

# Into the user's cache folder, unless they are there. The tests of engines need them.
engines: $(VENV)/installed
	echo $(ENGINES) | xargs -n 1 -P $(JOBS) $(BIN)/warpserve engine install

bench: $(VENV)/installed engines
	$(BUILD_RELEASE)
	$(BIN)/python -m tests.benchmarks

# Of public real runs, replayed: docs/results/accuracy.md.
accuracy: $(VENV)/installed
	$(BIN)/warpserve engine install vllm==0.19.0
	$(BIN)/python -m tests.benchmarks.accuracy

# Installs the versions that are missing: some 10 GB and half an hour each.
matrix: $(VENV)/installed
	$(BIN)/python -m tests.engine.matrix

clean:
	rm -rf $(VENV) build

$(VENV)/installed: pyproject.toml CMakeLists.txt $(NATIVE_SOURCES) | tools
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(BUILD_TOOLS)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[dev]'
	touch $@

tools:
	@test -n "$(PYTHON)" || { echo "warpserve needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) lacks venv; on Debian: apt-get install python3-venv"; exit 1; }
	@command -v c++ >/dev/null || { echo "warpserve needs a C++20 compiler; on Debian: apt-get install g++"; exit 1; }
	@echo 'static_assert(__cplusplus > 201703L);' | c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null || { echo "this c++ does not know C++20; install g++ 11 or newer"; exit 1; }
	@command -v cmake >/dev/null || { echo "warpserve needs CMake 3.24 or newer; on Debian: apt-get install cmake"; exit 1; }
