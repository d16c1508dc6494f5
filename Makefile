# Everything honours TOUCHSTONE_DATA (the data folder, default: data).
.DEFAULT_GOAL := run
.PHONY: run run-domains run-llm serve test test-long test-peers lint ui doctor down lock peers bench-sandbox bench-leak bench-curation \
	bench-rollout bench-snapshots bench-scrubbing bench-crawl bench-file-harm chaos-rollout experiment-rollouts experiment-scoring \
	roundtrip-harbor experiment-baselines test-ray bench-ray bench-sft

# Three packages of each language, in a quarter of an hour; `touchstone run` goes over all packages and domains.
run:
	infra/bootstrap.sh run
	.venv/bin/touchstone run --streams languages --limit 3 $(ARGS)

run-domains:
	infra/bootstrap.sh run
	.venv/bin/touchstone run --streams domains $(ARGS)

# One package of each language, with attempts of a small model that runs here; LLM=FILE takes the weights of a GGUF file.
# For a model behind an address of its own: `make serve`, or [model] in touchstone.toml, and `touchstone run --agents bash`.
LLM = smollm2
run-llm:
	infra/bootstrap.sh local
	.venv/bin/touchstone run --streams languages --limit 1 --agents oracle,noop,bash --local-model $(LLM) \
		--difficulty easy --samples 4 --max-steps 6 $(ARGS)

# vLLM in the foreground; ARGS="MODEL [--cpu]".
serve:
	infra/bootstrap.sh venv
	infra/serve.sh $(ARGS)

# pytest comes last: its summary is the end of the output. Without an engine the tests that need one fail.
test:
	infra/bootstrap.sh test
	@$(MAKE) --no-print-directory lint
	.venv/bin/pytest -n auto --dist=worksteal --require docker $(ARGS)

# Toolchains in other versions and of languages that no other test needs: minutes.
test-long:
	infra/bootstrap.sh test
	.venv/bin/pytest -m long --require docker $(ARGS)

# What Harbor, TRL, verl and LLaMA-Factory say of our exports, where `make peers` (as root) made them ready.
test-peers:
	infra/bootstrap.sh test
	.venv/bin/pytest -m peers --require docker $(ARGS)

# Two nodes of a Ray cluster on this machine, each with an engine of its own; as root, minutes.
RAY = infra/bootstrap.sh test && .venv/bin/python -m pip install --quiet --constraint requirements-dev.lock "ray>=2.60"
test-ray:
	$(RAY)
	.venv/bin/pytest -m ray --require docker $(ARGS)

# Attempts a second of one node and of two. The last line is one JSON object.
bench-ray:
	$(RAY)
	.venv/bin/python -m tests.bench.cluster $(ARGS)

# Methods that act in games, side by side, an hour on two cores; ARGS="--gguf FILE" adds those that are prompted.
experiment-baselines:
	infra/bootstrap.sh test
	.venv/bin/touchstone experiment baselines $(ARGS)

lint:
	@test -e .venv/.stamp-test || infra/bootstrap.sh test
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

ui:
	infra/bootstrap.sh ui

doctor:
	infra/bootstrap.sh venv
	.venv/bin/touchstone doctor $(ARGS)

down:
	infra/bootstrap.sh down

# What the sandbox costs, beside Harbor where `make peers` (as root) made it ready. The last line is one JSON object.
bench-sandbox:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.sandbox $(ARGS)

# Whether 1,000 trials in a row leave anything behind.
bench-leak:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.leak $(ARGS)

# What the driver adds to each turn and each attempt; 2,000 attempts of a model that answers at once, 16 at a time.
bench-rollout:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.rollout $(ARGS)

# Rollouts while server, sandboxes and driver fail by chance; CHAOS_SEED and CHAOS_S (seconds) choose which and how long.
chaos-rollout:
	infra/bootstrap.sh test
	.venv/bin/pytest -m long --require docker -rP tests/integration/test_rollout_chaos.py $(ARGS)

# A small real model at easy instances of the data folder; TOUCHSTONE_CONFIG names a configuration with that [model].
experiment-rollouts:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.rollout_cells $(ARGS)

# A version of 200,000 made-up rows beside a plain Parquet writer; filtered, compared, pulled. The last line is JSON.
bench-snapshots:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.snapshots $(ARGS)

# What the scrubber finds in made-up texts, and what it takes for something else. The last line is JSON.
bench-scrubbing:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.scrubbing $(ARGS)

# A simulated hub of a million repositories: all metadata through search, content of a hundredth. The last line is JSON.
bench-crawl:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.crawl $(ARGS)

# Images of the repositories of training/experiments/image_curation; ARGS="--mirrors FOLDER" names their clones.
bench-curation:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.curation $(ARGS)

# First attempts at the images of drawn repositories: labels of the ScoreModel, and what it is worth on those it did not
# see; ARGS="--mirrors FOLDER" names the clones of training/experiments/score_model/list.jsonl.
experiment-scoring:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.scoring $(ARGS)

# How often a file that is cut, emptied or otherwise harmed is judged worse, over the trees of experiment-scoring.
bench-file-harm:
	infra/bootstrap.sh venv
	.venv/bin/python -m tests.bench.file_harm $(ARGS)

# Tokens a second of our fine-tuning beside trl's SFTTrainer, turn about; ARGS="--model FOLDER --tokens FOLDER" for real
# ones. The last line is one JSON object.
bench-sft:
	infra/bootstrap.sh test
	.venv/bin/python -m tests.bench.sft $(ARGS)

# Admitted instances to Harbor's task folders, through Harbor's oracle and nop, and back, where `make peers` (as root)
# made Harbor ready; ARGS="--data FOLDER --count N". The last line is one JSON object.
roundtrip-harbor:
	infra/bootstrap.sh run
	.venv/bin/python -m tests.bench.roundtrip $(ARGS)

peers:
	infra/bootstrap.sh run
	infra/peers.sh

# Rewrites the locks with the newest versions that pyproject.toml allows. What torch needs beside a GPU is not in them:
# its build for CPUs needs nothing, and the other one names its own.
COMPILE = .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--no-header --no-annotate --no-emit-index-url
lock:
	infra/bootstrap.sh venv
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra local --no-deps --constraint requirements.lock --output-file requirements-local.lock pyproject.toml
	$(COMPILE) --extra dev --extra train --extra envs --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	$(COMPILE) --extra train --constraint requirements-dev.lock --output-file requirements-train.lock pyproject.toml
	$(COMPILE) --extra envs --constraint requirements-dev.lock --output-file requirements-envs.lock pyproject.toml
	sed -i -E '/^(nvidia|cuda)-|^triton==/d' requirements-dev.lock requirements-train.lock
