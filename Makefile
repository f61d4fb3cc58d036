# Everything a contributor runs; `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-to-run# the package with [train]: what a run needs
STAMP := $(VENV)/.installed# that, and the rest for contributors
LOWEST := $(VENV)/lowest
UV = $(LOWEST)/bin/uv pip install -q --python $(LOWEST)/bin/python --resolution lowest-direct
PIP := -m pip install -q --disable-pip-version-check -c constraints.txt
TORCH_INDEX ?= # such as https://download.pytorch.org/whl/cpu: on Linux without a GPU that saves 2.8 GB of CUDA
FROM_INDEX = $(if $(strip $(TORCH_INDEX)),$(1) $(PIP) --index-url $(strip $(TORCH_INDEX)) $(2))
ICONS_PACKAGE := @iconify/json@2.2.535
ICONS_FILE := iconify-json-2.2.535.tgz
export OMP_NUM_THREADS ?= 2
unexport PYTHONDONTWRITEBYTECODE # tests start some hundred interpreters, each of which would compile all of pate

.DEFAULT_GOAL := help
.PHONY: help setup run compare test-fast test check lowest bench audit attack icons docs site notebooks wheel clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## the environment in .venv, once; TORCH_INDEX=https://download.pytorch.org/whl/cpu for torch without CUDA
$(STAMP): $(RUN_STAMP) packages/pate-federated/pyproject.toml
	$(call FROM_INDEX,$(BIN)/python,torch torchvision)
	$(BIN)/python $(PIP) -e '.[dev]' -e packages/pate-federated
	touch $@

# Python compiles what is imported; to compile all that is installed takes half a minute more.
$(RUN_STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call FROM_INDEX,$(BIN)/python,torch)
	$(BIN)/python $(PIP) --no-compile -e '.[train]'
	touch $@

run: $(RUN_STAMP) ## two runs on the embedded data: stable top-k and centered votes, in one table
	$(BIN)/pate-train -m experiment=first,centered_votes target_epsilon=8
	@echo "Here the records are public (WordNet 3.0). With your own, two releases cost what the line above says."

compare: $(RUN_STAMP) ## the comparison of aggregators on the embedded data: table and frontier
	$(BIN)/pate-compare allow_useless=true 'methods=[dp_gd,dp_fc,dp_ls]'

test-fast: $(STAMP) ## the tests that are neither slow nor start a process, about a minute; for every change
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not process"

# Three workers, as some tests wait for processes. The target needs two cores.
test: $(STAMP) ## the whole test suite, minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 3 --dist worksteal

check: $(STAMP) test ## format, lint, types, import contracts, prose, links, tests, docs build
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell -D - -D scripts/prose/american.txt README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs pate packages conf scripts examples notebooks benchmarks .github
	$(BIN)/python scripts/prose/check.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(VENV)/site

lowest: ## the oldest versions that pyproject.toml allows, in an environment of their own: tests, a run, a fit; minutes
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python $(PIP) uv
	$(PYTHON) scripts/lowest.py dev > $(LOWEST)/requirements.txt
	$(if $(strip $(TORCH_INDEX)),$(UV) --no-deps --index-url $(strip $(TORCH_INDEX)) 'torch>=2.4' 'torchvision>=0.19')
	$(UV) -r $(LOWEST)/requirements.txt
	$(UV) --no-deps -e . -e packages/pate-federated
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -n 2 -W ignore::DeprecationWarning -m "not slow and not process" \
		-p no:cacheprovider tests/unit tests/oracle tests/contract packages/pate-federated/tests/unit
	$(LOWEST)/bin/pate-train experiment=quick all_records=false output_dir=$$(mktemp -d)/run
	$(LOWEST)/bin/python examples/classifier.py

bench: $(STAMP) ## benchmarks, each against a floor measured in the same run
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

audit: $(STAMP) ## every price beside a lower bound by exact laws; fails where one is refuted or looser than recorded
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.tightness

attack: $(STAMP) ## every aggregator attacked in a rehearsal: its price, and what the guesses refute; minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.attacks

icons: $(STAMP) ## fetches 104 MB of icons with npm and draws them into data/icons, for data=image_folder; minutes
	@command -v npm >/dev/null || { echo "npm: expected Node.js's client, or the package by hand and scripts/build_icons.py"; exit 2; }
	@echo "fetches $(ICONS_PACKAGE) from npm's registry, 104 MB, and writes 225,000 pictures to data/icons"
	mkdir -p data/icons/fetching
	test -f data/icons/$(ICONS_FILE) || npm pack --silent --pack-destination data/icons/fetching $(ICONS_PACKAGE)
	test -f data/icons/$(ICONS_FILE) || mv data/icons/fetching/$(ICONS_FILE) data/icons/
	rmdir data/icons/fetching
	OMP_NUM_THREADS=1 $(BIN)/python scripts/build_icons.py data/icons/$(ICONS_FILE) --output data/icons

docs: $(STAMP) ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

site: $(STAMP) ## the documentation with the outputs of all notebooks, as it is deployed; minutes
	OMP_NUM_THREADS=1 $(BIN)/python scripts/run_notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(STAMP) ## takes outputs and counts out of the notebooks, as they are kept in git
	$(BIN)/python scripts/strip_notebooks.py

wheel: $(STAMP) ## wheels and sdists in dist/, tried in an empty environment: the core, [train], [table], pate-federated; minutes
	rm -rf dist $(VENV)/wheel
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist packages/pate-federated
	$(PYTHON) -m venv $(VENV)/wheel
	$(VENV)/wheel/bin/python $(PIP) dist/pate_multilabel-*.whl
	cd $(VENV)/wheel && bin/python ../../examples/price_a_release.py
	$(VENV)/wheel/bin/python $(PIP) "$$(ls dist/pate_multilabel-*.whl)[cli]"
	cd $(VENV)/wheel && bin/pate-account aggregator=gaussian_votes target_epsilon=3
	$(call FROM_INDEX,$(VENV)/wheel/bin/python,torch)
	$(VENV)/wheel/bin/python $(PIP) "$$(ls dist/pate_multilabel-*.whl)[train]"
	cd $(VENV)/wheel && bin/pate-train experiment=quick output_dir=$$(mktemp -d)/run
	$(VENV)/wheel/bin/python $(PIP) "$$(ls dist/pate_multilabel-*.whl)[table]"
	cd $(VENV)/wheel && bin/python ../../examples/classifier.py
	$(VENV)/wheel/bin/python $(PIP) dist/pate_federated-*.whl
	cd $(VENV)/wheel && for holder in 1 2; do bin/pate-vote holder=$$holder holders=2 seed=1 teacher.num_teachers=100 \
		num_queries=100 output=votes/$$holder.npz || exit 1; done
	cd $(VENV)/wheel && bin/pate-release votes='votes/*.npz' aggregator=gaussian_votes target_epsilon=8 output_dir=many/release
	cd $(VENV)/wheel && bin/pate-student release=many/release data=wordnet

clean: ## what the commands above made, but no outputs
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
