# Two commands are enough on a fresh machine: make demo, make test. `make help` lists the rest.
# Everything here only calls tools/; each script there tells what it does.
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: help setup build demo test format check clean

help:
	@echo 'make          set up this machine and build build/meadow'
	@echo 'make demo     … then run a swarm on this machine, kill a server in mid-answer, and go on'
	@echo '              PROMPT="…" and MODEL=file.gguf override what is asked of which model'
	@echo 'make test     … then run every test (unit, sim, golden, neon, e2e)'
	@echo 'make check    format and layer check'
	@echo 'make format   reformat the sources'
	@echo 'make clean    remove build/ (the downloaded model in models/ stays)'

setup:
	@tools/setup

build: setup
	@tools/build release

demo: setup
	@tools/build release meadow
	@if [ -x tools/demo ]; then tools/demo </dev/null; else \
	  echo 'error: demo' >&2; \
	  echo '  why:  tools/demo is not in this checkout' >&2; \
	  echo '  do:   take a checkout that has it; build/meadow itself is built' >&2; exit 1; fi

test: setup
	@tools/test

check:
	@tools/check-format
	@tools/check-layers

format:
	@tools/check-format --fix

clean:
	rm -rf build
