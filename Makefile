# Thin front of CMake. `make run` and `make test` do all their own set-up.
#
#   make                    build/deepinfer, build/libdeepinfer.a, build/libdeepinfer.so
#   make run [ARGS=...]     build, then run a prompt (PROMPT=...) on the default model
#   make test [CTEST=...]   build, then run every test; CTEST goes to ctest, e.g. CTEST='-R fp'
#   make bench [BENCH=...]  build, then time kernels, layers, structured output and drafts (docs/benchmarks.md),
#                           some minutes; with BENCH='kernels --op topk' or so, only that
#   make install [DESTDIR= PREFIX=/usr/local]
#   make asan | tsan        the tests under AddressSanitizer + UBSan, or ThreadSanitizer
#   make fuzz [FUZZ=name] [FUZZ_SECONDS=60]   libFuzzer targets (clang)
#   make aarch64            the unit and kernel tests for 64-bit Arm, cross-built, under qemu-user
#   make cov                the tests with line coverage, summary by file
#   make format | style     rewrite with clang-format | run every style check (tools/check_*.sh)
#   make clean
#
# PRESET=name picks another preset of CMakePresets.json; -j, -k and V=1 are passed on to Ninja.
SHELL := /bin/bash
PRESET ?= release
PREFIX ?= /usr/local
DESTDIR ?=
PROMPT ?= Once upon a time
ARGS ?= --max-tokens 120
CTEST ?=
FUZZ ?=
FUZZ_SECONDS ?= 60

BUILD = $(if $(filter release,$(PRESET)),build,build-$(PRESET))
# Words of MAKEFLAGS before "--" or a variable; the first may be a bundle of letters such as "kn".
FLAGS = $(firstword -$(MAKEFLAGS))
JOBS ?= $(or $(patsubst -j%,%,$(filter -j%,$(MAKEFLAGS))),$(shell nproc))
KEEP_GOING = $(if $(findstring k,$(filter-out --%,$(FLAGS))),-- -k 0)
VERBOSE = $(if $(V),--verbose)

# $(call build,PRESET,FOLDER): configure when there is no build.ninja yet or the presets changed
# (Ninja itself notices changed CMakeLists), then build.
define build
if [ ! -e $(2)/build.ninja ] || [ CMakePresets.json -nt $(2)/build.ninja ]; then \
    cmake --preset $(1) >/dev/null && touch $(2)/build.ninja; fi && \
cmake --build $(2) --parallel $(JOBS) $(VERBOSE) $(KEEP_GOING)
endef
# $(call ctest,FOLDER)
ctest = ctest --test-dir $(1) --output-on-failure --no-label-summary --parallel $(JOBS) $(CTEST)

.PHONY: all setup setup-ci run test bench install asan tsan aarch64 fuzz cov format style clean help
.NOTPARALLEL:

all: setup
	@$(call build,$(PRESET),$(BUILD))

setup:
	@tools/setup.sh

setup-ci:
	@tools/setup.sh ci

run: all
	$(BUILD)/deepinfer run -p "$(PROMPT)" $(ARGS)

test: all
	@$(call ctest,$(BUILD))

bench: all
ifdef BENCH
	$(BUILD)/deepinfer bench $(BENCH)
else
	$(BUILD)/deepinfer bench kernels --seconds 0.1
	$(BUILD)/deepinfer bench layers --seconds 2 --prefill 256
	$(BUILD)/deepinfer bench layers --seconds 1 --batch 1 --context 8192,32768,131072
	$(BUILD)/deepinfer bench structured
	$(BUILD)/deepinfer bench speculation --batch 1,4,16 --tokens 64 --rounds 3
endif

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

asan tsan: setup
	@$(call build,$@,build-$@)
	@$(call ctest,build-$@)

aarch64: setup
	@tools/aarch64.sh

fuzz: setup-ci
	@$(call build,fuzz,build-fuzz)
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ)

cov: setup
	@$(call build,cov,build-cov)
	@find build-cov -name '*.gcda' -delete
	@$(call ctest,build-cov)
	@tools/coverage.sh build-cov

format: setup-ci
	@git ls-files -z -co --exclude-standard -- '*.c' '*.h' '*.cpp' | xargs -0 clang-format-14 -i

style: setup-ci all
	@tools/check_all.sh $(BUILD)

clean:
	rm -rf build build-*

help:
	@sed -n '/^#   /s/^#   //p' Makefile
