# Thin front of CMake. A fresh Debian 12 / Ubuntu 24.04 machine needs `make run` and `make test`, nothing else.
SHELL  := /bin/bash
PRESET ?= release
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
WERROR ?= OFF
PREFIX ?= /usr/local
CONFIG ?= configs/agent_rag.toml
ARGS   ?=
TROUPE := $(BUILD)/bin/troupe

.DEFAULT_GOAL := help
.PHONY: help deps configure build all run test torture install clean

help: ## this list
	@echo "make run [TRACE=FILE] [CONFIG=configs/agent_rag.toml] [ARGS='--limit 100']"
	@echo "make test"
	@echo
	@sed -nE 's/^([a-z]+):.*## (.*)$$/  make \1	\2/p' Makefile | expand -t 20

deps: ## install the distribution's packages that are missing
	@cmake/install-deps.sh

configure: deps
	@mkdir -p build
	@cmake --preset $(PRESET) -DTROUPE_WERROR=$(WERROR) >$(BUILD).configure.log 2>&1 \
	  || { cat $(BUILD).configure.log; exit 1; }

build: configure ## build the troupe program
	@cmake --build --preset $(PRESET) -j$(JOBS) --target troupe

all: configure ## build everything, tests included
	@cmake --build --preset $(PRESET) -j$(JOBS)

run: build ## serve a workload of `troupe gen`, or TRACE=FILE, and print the report
ifeq ($(TRACE),)
	@$(TROUPE) gen --out $(BUILD)/agent_rag.jsonl
	@$(TROUPE) run --config $(CONFIG) --trace $(BUILD)/agent_rag.jsonl $(ARGS)
else
	@$(TROUPE) run --config $(CONFIG) --trace $(TRACE) $(ARGS)
endif

test: all ## all fast tests (those that end within minutes)
	@cmake/run-tests.sh $(BUILD) '^fast$$' $(BUILD)/tests-fast 1200 $(JOBS)

torture: all ## the slow tests: whole traces, faults, long property runs; 25 minutes at most
	@cmake/run-tests.sh $(BUILD) '^(slow|torture)$$' $(BUILD)/tests-slow 1500 $(JOBS)

install: build ## install the program, configurations and plug-in headers below PREFIX
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## remove the build folder
	@rm -rf build
