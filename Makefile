# make quickstart | make test | make test-all | make docs | make lint
# make test-engines | make test-explore | make parity | make benchmark
# make kill-test | make opened-by
# Each target sets up what it needs from a fresh clone: .venv; .venv-engines with
# Spark, Beam and Parquet; or .venv-parity for parity and benchmark, which need
# other implementations of BERT.

# make test PYTHON=python3.13 | make test CONSTRAINTS=constraints/oldest.txt
# Another Python or other constraints make .venv anew; VENV=DIR keeps both.

PYTHON ?= python3
# Exact versions of all packages.
CONSTRAINTS ?= constraints/python$(shell $(PYTHON) -c \
  'import sys; print("%d.%d" % sys.version_info[:2])').txt
VENV := .venv
BIN := $(VENV)/bin
PARITY_VENV := .venv-parity
ENGINES_VENV := .venv-engines
OUTPUT_DIR ?= runs/quickstart

# Modules are compiled when they are first imported: an environment takes half
# the time.
PIP_FLAGS = --quiet --disable-pip-version-check --no-compile \
  --constraint $(CONSTRAINTS)
# Changes with what is installed.
INSTALLED := $(VENV)/.installed-$(subst /,_,$(PYTHON))-$(basename $(notdir $(CONSTRAINTS)))

# Tests start many processes, each of which would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quickstart test test-all test-libraries test-engines test-explore docs \
  lint format parity opened-by benchmark kill-test package constraints clean installed

quickstart: $(INSTALLED)
	$(BIN)/python -m run_scripts.quickstart --output_dir=$(OUTPUT_DIR) $(ARGS)

# The environment alone.
installed: $(INSTALLED)

# In the order of the files: by default xdist starts files with few tests last,
# and the longest tests are among them.
PYTEST := $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile \
  --no-loadscope-reorder
# Without tests that take more than 5 seconds: 5 to 8 minutes on two cores.
test: $(INSTALLED)
	$(PYTEST) -m "not slow" $(ARGS)

# All tests, in one run that imports and makes everything once: 19 to 36
# minutes.
test-all: $(INSTALLED)
	$(PYTEST) $(ARGS)

# The tests of what TensorFlow, Keras and other libraries can change, for the
# oldest and the newest of them: what every answer, format, optimizer, record and
# task promises, the model, text, numbers of earlier exports, and one page from
# text to a SavedModel. MODEL_TESTS are those of layers, answers and whole tasks.
MODEL_TESTS = tests/contracts/test_answers.py tests/contracts/test_tasks.py \
  tests/bert_tf/model tests/bert_tf/serving/test_serving_goldens.py
test-libraries: $(INSTALLED)
	$(PYTEST) -m "not slow" $(MODEL_TESTS) tests/contracts/test_formats.py \
	  tests/contracts/test_optimizers.py tests/contracts/test_records.py \
	  tests/tfrecords/text tests/tfrecords/test_libraries.py $(ARGS)
	$(BIN)/python -m pytest tests/examples $(ARGS)

# The tests that need Apache Spark, Apache Beam or Parquet. Spark needs Java,
# which is installed on Debian if the user is root.
test-engines: $(ENGINES_VENV)/.installed
	@command -v java >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } || \
	  echo "No Java, and it cannot be installed: the test of Spark is skipped"
	$(ENGINES_VENV)/bin/python -m pytest tests/tfrecords/engines \
	  tests/tfrecords/text/test_dumps.py tests/tfrecords/text/test_text_files.py \
	  tests/tfrecords/tables tests/tfrecords/tasks/test_glue_rows.py \
	  tests/tfrecords/io/test_parquet_files.py \
	  tests/bert_tf/serving/test_text_rows.py \
	  tests/bert_tf/contrib/search/test_embedding.py::test_a_parquet_file_has_lines_ids_and_vectors \
	  $(ARGS)

# The page of bert-explore in a headless browser, which is installed on Debian
# if the user is root.
test-explore: $(VENV)/.explore
	@command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium chromium-driver; } || \
	  echo "No Chromium, and it cannot be installed: its tests are skipped"
	$(BIN)/python -m pytest tests/run_scripts/explore $(ARGS)

# The site: warnings are errors, and so are links to pages that do not exist.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
	  docs docs/_build/html $(ARGS)
	@echo "Open docs/_build/html/index.html"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Compares with tf-models-official, KerasHub and transformers. Exports every kind
# for LiteRT, onnxruntime and OpenVINO, and compares with TensorFlow.
RUNTIMES := tests/bert_tf/contrib/runtimes
SEARCH := tests/bert_tf/contrib/search
HUGGING_FACE := tests/bert_tf/checkpoint/formats/hugging_face
parity: $(PARITY_VENV)/.installed
	$(PARITY_VENV)/bin/python -m pytest tests/parity \
	  tests/bert_tf/serving/test_serving_goldens.py \
	  tests/contracts/test_answers.py::test_predict_py_has_the_answers_of_python \
	  $(RUNTIMES)/test_installed_runtimes.py $(RUNTIMES)/test_quantization.py \
	  $(HUGGING_FACE)/test_pickles.py \
	  $(SEARCH)/test_ranking.py $(SEARCH)/test_retrieval.py $(SEARCH)/test_search.py \
	  tests/bert_tf/serving/test_answer_files.py tests/bert_tf/serving/test_predictor.py \
	  tests/bert_tf/workflows/tables tests/tfrecords/tables/test_data_frames.py \
	  tests/docs/test_files.py $(ARGS)

# Our Hugging Face folders, opened by the libraries of the parity environment, by
# optimum-onnx, which needs transformers 4, by transformers 4.41 (Python 3.11 or
# 3.12), and by Node if it is installed: the table in docs/guide/export.md.
OPENED_BY := .venv-opened-by
opened-by: $(PARITY_VENV)/.installed
	$(PYTHON) -m venv --clear $(OPENED_BY)/optimum
	$(OPENED_BY)/optimum/bin/pip install --quiet 'optimum-onnx[onnxruntime]==0.1.0' \
	  transformers==4.57.6 sentence-transformers==5.7.0
	$(PYTHON) -m venv --clear $(OPENED_BY)/transformers
	$(OPENED_BY)/transformers/bin/pip install --quiet transformers==4.41.2 'numpy<2' \
	  torch
	! command -v npm >/dev/null || npm install --ignore-scripts \
	  --prefix $(OPENED_BY)/node @huggingface/transformers@4.3.2
	$(PARITY_VENV)/bin/python -m tools.opened_by $(ARGS) \
	  $(foreach name,optimum transformers,--python=$(OPENED_BY)/$(name)/bin/python) \
	  $$(! command -v npm >/dev/null || echo --node=$(OPENED_BY)/node)

# Times us and the other implementations in turns, with equal shapes: forward
# passes, then training steps. An hour on 2 cores; other sizes with ARGS, such as
# ARGS='--size=small --rounds=3'.
BENCHMARK_DIR ?= runs/benchmarks
benchmark: $(PARITY_VENV)/.installed
	mkdir -p $(BENCHMARK_DIR)
	$(PARITY_VENV)/bin/python -m benchmarks.inference \
	  --precision=float32,bfloat16 --seq_length=128,384 \
	  --json=$(BENCHMARK_DIR)/inference.json $(ARGS)
	$(PARITY_VENV)/bin/python -m benchmarks.train_step \
	  --precision=float32,bfloat16 --seq_length=128,384 \
	  --json=$(BENCHMARK_DIR)/train_step.json $(ARGS)

# Runs killed at random moments, and the same run on 1 to 4 replicas.
kill-test: $(INSTALLED)
	$(BIN)/python -m tools.kill_report $(ARGS)
	$(BIN)/python -m tools.replica_report

# Source and wheel in dist/, with valid metadata.
package: $(INSTALLED)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

# Resolves constraints/ anew, with uv; only what must change does, unless
# ARGS=--upgrade. Needs Python 3.10 to 3.13. uv takes backports-strenum 1.3, which
# pip refuses on Python 3.11: keep 1.2.8 in parity.txt.
RESOLVE = uv pip compile setup.py --quiet --no-header --no-annotate $(ARGS) \
  --extra test --output-file
MAIN = --extra docs --extra pretraining --extra plots --extra tuning --extra explore \
  --extra browser --extra tensorboard
constraints:
	for version in 3.10 3.11 3.12 3.13; do $(RESOLVE) \
	  constraints/python$$version.txt --python $$version $(MAIN) || exit 1; done
	$(RESOLVE) constraints/engines.txt --python 3.10 --extra pretraining \
	  --extra spark --extra beam --extra parquet
	$(RESOLVE) constraints/parity.txt --python 3.11 --extra parity --extra export
	$(RESOLVE) constraints/oldest.txt --python 3.10 --extra pretraining \
	  --extra plots --extra tuning --extra tensorboard --resolution lowest-direct

$(VENV)/.docs: EXTRAS := docs
$(VENV)/.explore: EXTRAS := explore,browser
$(VENV)/.docs $(VENV)/.explore: $(INSTALLED)
	$(BIN)/pip install $(PIP_FLAGS) --editable '.[$(EXTRAS)]'
	@touch $@

$(INSTALLED): EXTRAS := test,pretraining,plots,tuning
$(ENGINES_VENV)/.installed: EXTRAS := test,pretraining,spark,beam,parquet
$(ENGINES_VENV)/.installed: CONSTRAINTS := constraints/engines.txt
$(PARITY_VENV)/.installed: EXTRAS := test,parity,export
$(PARITY_VENV)/.installed: CONSTRAINTS := constraints/parity.txt
# Its packages need Python 3.11.
$(PARITY_VENV)/.installed: OLDEST := 11

# On Debian, ensurepip is in a separate package, python3-venv.
$(INSTALLED) $(ENGINES_VENV)/.installed $(PARITY_VENV)/.installed: setup.py $(wildcard constraints/*.txt)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, $(or $(OLDEST),10)) <= v < (3, 14) else f"Python {v[0]}.{v[1]} is not supported; use 3.$(or $(OLDEST),10) to 3.13: make PYTHON=python3.13")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments: installing python3-venv"; \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "Please run: sudo apt-get install python3-venv"; exit 1; }; }
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install $(PIP_FLAGS) --editable '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf $(VENV) $(ENGINES_VENV) $(PARITY_VENV) $(OPENED_BY) build dist *.egg-info .pytest_cache .ruff_cache
