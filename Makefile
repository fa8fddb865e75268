# Thin front of CMake. `make run` and `make test` do all their own set-up.
SHELL := /bin/bash
PRESET ?= release
JOBS ?= $(shell nproc)
CTEST_FLAGS ?= --output-on-failure

.PHONY: all setup run test install clean

all: setup
	@cmake --preset $(PRESET) >/dev/null && cmake --build --preset $(PRESET) -j $(JOBS)

setup:
	@tools/setup.sh

test: all
	@ctest --test-dir $(if $(filter release,$(PRESET)),build,build-$(PRESET)) $(CTEST_FLAGS) -j $(JOBS)

clean:
	rm -rf build build-*
