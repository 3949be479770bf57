# "make help" lists the targets. Needed: go, git, make and, for the race detector, a C compiler. Everything else is
# built from pinned Go modules: the tools from hack/tools, the control plane by hack/assets.sh.

# What the targets work on; set any of them on the command line.

# The image of the operator and the node agent.
IMG ?= nodegate:latest
# Docker would build and push the tag latest of an image without a tag, and kustomize deploy the tag of the manifests.
IMAGE = $(if $(findstring :,$(notdir $(IMG))),$(IMG),$(error IMG=$(IMG) has neither a tag nor a digest: add a tag))
# What is deployed: config/default, or config/with-agent for the node agents as well.
CONFIG ?= config/default
CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64
# The architecture that "image" is for, and a version of Go's FIPS 140-3 module, such as v1.0.0, to build it with.
ARCH ?= amd64
FIPS ?=
# The minor version of Kubernetes that tests, demo and benchmarks run, such as 1.32; by default the newest.
K8S ?=
# What "test" and "test-unit" run. With K8S, what depends on the version: the API, admission, what a user installs, and
# the operator on a control plane.
PKGS ?= $(if $(K8S),./test/integration/... ./internal/admission/... ./internal/evidence ./test/e2e ./test/e2e/admission,./...)
# How many packages are tested at a time, and how many of them may run servers.
PARALLEL ?= 3
SERVERS ?= 2
# How often a test that failed runs again, alone, at the end. None does if more than three failed, or if a test panicked
# or had a data race.
RERUN ?= 1
# How long "fuzz" runs each target.
FUZZTIME ?= 30s
# The first seed of "simulate", and how many.
FIRST ?= 1
SEEDS ?= 1000
# More arguments for the operator in "run", or for "demo", "bench", "bench-agent" and "bench-admission".
ARGS ?=
# Seconds that the demo stays up when it is done; empty: until Ctrl-C.
DEMO_WAIT ?=
# Set to 1 to open the dashboard of the demo's cluster.
DASHBOARD ?=
# The size of "bench".
NODES ?= 1000
RULES ?= $(if $(SYNTHETIC),10,1)
ROUNDS ?= 3
# Nodes of "bench" against a synthetic server, with RULES rules, instead of a control plane.
SYNTHETIC ?=
# The API group of the rules, by what is deployed. It is rendered at most once, when a target needs it.
RENDERED_GROUP = $(shell out="$$($(KUSTOMIZE) build $(CONFIG))" && printf '%s\n' "$$out" | sed -n 's/^ *- --api-group=//p')\
$(if $(filter-out 0,$(.SHELLSTATUS)),$(error cannot render $(CONFIG)))
API_GROUP ?= $(eval API_GROUP := $(or $(strip $(RENDERED_GROUP)),readiness.node.x-k8s.io))$(API_GROUP)
# The directories of config for Nodegate's own API group begin with this.
OWN = $(if $(filter rules.nodegate.io,$(API_GROUP)),own-group-)
# Set to true to ignore what is gone already in "undeploy" and "uninstall".
ignore-not-found ?= false
# How long "undeploy" and "uninstall" wait for the operator to take its taints off. It waits a minute for a node that it
# cannot update.
CLEANUP_TIMEOUT ?= 2m

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

TOOLS := $(CURDIR)/hack/tools
CONTROLLER_GEN ?= go tool -modfile="$(TOOLS)/go.mod" controller-gen
KUSTOMIZE ?= go tool -modfile="$(TOOLS)/go.mod" kustomize
HELM ?= go tool -modfile="$(TOOLS)/go.mod" helm
HELM_UNITTEST ?= go tool -modfile="$(TOOLS)/chart/go.mod" helm-unittest
HELM_DOCS ?= go tool -modfile="$(TOOLS)/chart/go.mod" helm-docs
GOTESTSUM ?= go tool -modfile="$(TOOLS)/go.mod" gotestsum
GOVULNCHECK ?= go tool -modfile="$(TOOLS)/go.mod" govulncheck
GOLANGCI_LINT ?= go tool -modfile="$(TOOLS)/lint/go.mod" golangci-lint
KUBECTL ?= $(shell command -v kubectl 2>/dev/null || echo "$$(hack/assets.sh | tail -n 1)/kubectl")

# gRPC's page of traces would link templates, with which the linker cannot remove unused methods. This would cost the
# agent a seventh of its memory.
TAGS = grpcnotrace

# How the commands are built that are shipped.
SHIPPED = -tags $(TAGS) -ldflags "-s -w -X github.com/nodegate/nodegate/internal/version.Version=$(VERSION)"

# Paths in binaries are those of the module, so that every checkout shares the build cache.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# Without cgo, as in the image, and for all alike, so that they share the build cache.
GO = CGO_ENABLED=0 go

# Makes sure of the control plane's binaries and hands them to the command that follows.
WITH_ASSETS = dir="$$(hack/assets.sh $(if $(K8S),-kubernetes=$(K8S)))" && KUBEBUILDER_ASSETS="$$(printf '%s\n' "$$dir" | tail -n 1)" && \
	export KUBEBUILDER_ASSETS &&

# Builds the commands once, as the image has them, and hands their directory to the tests.
WITH_COMMANDS = echo "... building the commands" && $(GO) build $(SHIPPED) -o bin/test/ ./cmd/... && \
	export NODEGATE_BIN="$(CURDIR)/bin/test" &&

# The manager's commands act in the cluster of $(KUBECTL), which may have an option --context or --kubeconfig.
MANAGER = config="$$(mktemp)" && trap 'rm -f "$$config"' EXIT && \
	$(KUBECTL) config view --raw --minify --flatten >"$$config" && KUBECONFIG="$$config" $(GO) run ./cmd/manager

# Rules have a finalizer: they go first, while the operator is there to take their taints off the nodes, and their
# completion markers. The command refuses rules that may be another controller's, unless the group is given.
GIVEN_GROUP = $(if $(filter-out file,$(origin API_GROUP))$(filter rules.nodegate.io,$(API_GROUP)),--api-group=$(API_GROUP))
DELETE_RULES = @$(MANAGER) delete-rules --all --timeout=$(CLEANUP_TIMEOUT) $(GIVEN_GROUP)

.PHONY: all
all: build

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*##"; printf "make <target> [VARIABLE=value ...]\n"} \
		/^[a-zA-Z0-9_-]+:.*##/ {printf "  %-18s%s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(firstword $(MAKEFILE_LIST))

.PHONY: clean
clean: ## Remove what was built here; the caches of Go and of the assets stay.
	rm -rf bin dist

##@ See it work

.PHONY: demo
demo: ## Show the operator at work on a local control plane; DEMO_WAIT=0, DASHBOARD=1, ARGS=-admission.
	@$(WITH_ASSETS) $(GO) build $(SHIPPED) -o bin/demo/ ./cmd/manager $(if $(DASHBOARD),./cmd/kubectl-nodegate) ./test/demo && \
		NODEGATE_BIN="$(CURDIR)/bin/demo" DEMO_WAIT="$(DEMO_WAIT)" bin/demo/demo $(if $(DASHBOARD),-dashboard) $(ARGS)

.PHONY: screenshots
screenshots: ## Take the pictures of the dashboard and of "why" in docs; needs headless Chromium.
	@$(WITH_ASSETS) go test ./test/e2e/dashboard -run TestDashboard -count=1 -args -pictures="$(CURDIR)/docs"

.PHONY: picture
picture: ## Draw the moving picture of the demo in the README, from a real run; needs tmux.
	@hack/picture.sh

.PHONY: bench
bench: ## Measure the operator against a bare loop; NODES=1000 RULES=1 ROUNDS=3, or SYNTHETIC=100000 RULES=10.
	@$(if $(SYNTHETIC),$(GO) run ./test/bench --synthetic --nodes=$(SYNTHETIC) --rules=$(RULES) $(ARGS),\
		$(WITH_ASSETS) $(GO) run ./test/bench --nodes=$(NODES) --rules=$(RULES) --rounds=$(ROUNDS) $(ARGS))

.PHONY: bench-agent
bench-agent: ## Measure the node agent against a handler that answers a constant; ARGS="--rounds=6".
	@$(WITH_ASSETS) $(GO) run ./test/bench/agent $(ARGS)

.PHONY: bench-admission
bench-admission: ## Measure what admission costs the API server; ARGS="--rounds=30 --rules=1,50".
	@$(WITH_ASSETS) $(GO) run ./test/bench/admission $(ARGS)

.PHONY: run
run: ## Run the operator from here against the current kubeconfig; ARGS="--more --flags".
	$(GO) run ./cmd/manager --leader-elect=false $(ARGS)

.PHONY: run-webhooks
run-webhooks: ## The same with webhooks, where the API server runs on this machine, too.
	$(KUSTOMIZE) build config/local | $(KUBECTL) apply --server-side --force-conflicts -f -
	$(GO) run ./cmd/manager --leader-elect=false --enable-webhook --webhook-bind-address=127.0.0.1:9443 $(ARGS)

##@ Test

# go vet is a step of its own. The tests must not reach the cluster of the user who runs them. The least number of tests
# is that of all packages.
RUN_TESTS = rm -rf bin/slots && mkdir -p bin/slots && touch $$(seq -f bin/slots/%g $(SERVERS)) && \
	$(GO) build -o bin/ ./hack/testcheck && export NODEGATE_SLOTS="$(CURDIR)/bin/slots" && \
	export KUBECONFIG=/dev/null GINKGO_NO_COLOR=true && bin/testcheck -events bin/tests.json $(CHECK) -- \
	$(GOTESTSUM) --jsonfile bin/tests.json --format pkgname --format-hide-empty-pkg $(if $(filter-out 0,$(RERUN)),$(AGAIN)) \
	--packages="$$packages" -- -race -shuffle=on -count=1 -vet=off -timeout 60m -p $(PARALLEL)
# A test runs again with all its subtests: some need what those before them have done.
AGAIN = --rerun-fails=$(RERUN) --rerun-fails-max-failures=3 --rerun-fails-abort-on-data-race --rerun-fails-run-root-test

# The packages of PKGS that start no server: their tests do not import test/cluster.
UNIT = go list -test -f '{{.ImportPath}} {{join .Deps " "}} ' $(PKGS) | \
	sed -nE '/ github.com\/nodegate\/nodegate\/test\/cluster /!s/^([^ ]*)\.test .*/\1/p'

# Of all packages, as many as may run servers come first, beginning with those that take longest. Beside them run those
# that start no server. The next longest follows at once, so that shorter ones are left for the end.
ALL = $(filter ./...,$(PKGS))
ORDER = $(if $(ALL),./test/realnode ./test/integration/install $$units ./test/e2e/kill ./test/...)
.PHONY: test
test: CHECK ?= $(if $(ALL),-least test/count.txt)
test: ## Run everything that must pass, from nothing; PKGS=./some/... for a part, K8S=1.32 on an older Kubernetes.
	@$(WITH_ASSETS) $(if $(ALL),$(WITH_COMMANDS) units=$$($(UNIT)) &&) \
		packages="$(ORDER) $(PKGS)" && $(RUN_TESTS)

.PHONY: test-unit
test-unit: ## Run the tests that start no server.
	@packages=$$($(UNIT)) && $(RUN_TESTS)

.PHONY: test-servers
test-servers: ## Run the tests with servers, without those with real nodes.
	@$(WITH_ASSETS) $(WITH_COMMANDS) units=" $$($(UNIT) | tr '\n' ' ') " && packages=$$(go list $(PKGS) | \
		grep -v /test/realnode | while read -r p; do case $$units in *" $$p "*) ;; *) echo $$p ;; esac; done) && \
		$(RUN_TESTS)

.PHONY: test-real
test-real: ## Run the tests with real nodes and pods only; as root, on Linux.
	$(GO) test ./test/realnode -count=1 -v -timeout 30m

.PHONY: simulate
simulate: ## Play SEEDS=1000 stories of the simulation from seed FIRST=1 on; without the race detector.
	$(GO) test ./test/simulation -count=1 -v -timeout 12h -run TestStories -args -first=$(FIRST) -seeds=$(SEEDS)

.PHONY: simulate-mutants
simulate-mutants: ## Take pieces out of the operator, one at a time, and show that the simulation finds each.
	$(GO) test ./test/simulation/mutants -count=1 -v -timeout 2h -args -play -results="$(CURDIR)/bin/mutants"

.PHONY: raise-test-count
raise-test-count: ## Run all tests and write their number to test/count.txt, below which it may not fall.
	@$(MAKE) --no-print-directory test CHECK="-least test/count.txt -raise"

# Go minimizes each new input for up to a minute, unless it is told otherwise, and then tries hardly any others.
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME=30s, one after another.
	@status=0; for file in $$(git grep -lE '^func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			printf '\n%s in %s\n' "$$target" "$$file"; \
			$(GO) test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) \
				-fuzzminimizetime=10x "./$$(dirname "$$file")" || status=1; \
		done; \
	done; exit $$status

.PHONY: assets
assets: ## Make sure of etcd, kube-apiserver and the other binaries; the last line is their directory.
	@hack/assets.sh

##@ Develop

.PHONY: build
build: ## Build every command into bin.
	@mkdir -p bin
	$(GO) build $(SHIPPED) -o bin/ ./cmd/...
	@cp cmd/kubectl-nodegate/kubectl_complete-nodegate bin/

.PHONY: kubectl-nodegate
kubectl-nodegate: ## Build the plugin for kubectl, and what completes its arguments, into bin.
	@mkdir -p bin
	$(GO) build $(SHIPPED) -o bin/ ./cmd/kubectl-nodegate
	@cp cmd/kubectl-nodegate/kubectl_complete-nodegate bin/

.PHONY: manifests
manifests: ## Generate the CRD and the operator's role from the markers in the code.
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1/... paths=./api/admission/... output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) crd paths=./api/endpoints/... output:crd:dir=config/endpoint-policy
	$(CONTROLLER_GEN) rbac:roleName=manager-role paths=./cmd/manager/... output:rbac:dir=config/rbac
	$(CONTROLLER_GEN) rbac:roleName=webhook-role paths=./internal/admission/... \
		paths=./internal/guard/... output:rbac:dir=config/components/webhooks
	@mkdir -p charts/nodegate/crds charts/nodegate/policies
	cp config/crd/bases/*.yaml charts/nodegate/crds/
	@mkdir -p charts/nodegate/files
	cp config/components/monitoring/prometheus_rule.yaml config/monitoring/dashboard.json charts/nodegate/files/
	cp config/node-admission-policy/policy.yaml charts/nodegate/policies/node-admission.yaml
	cp config/components/record-guard/policy.yaml charts/nodegate/policies/records.yaml
	cp config/components/webhooks/policy.yaml charts/nodegate/policies/operator.yaml
	cp config/components/published-conditions/policy.yaml charts/nodegate/policies/published-conditions.yaml
	cp config/endpoint-policy/policy.yaml charts/nodegate/policies/endpoints.yaml
	cp config/endpoint-policy/nodegate.io_keptendpoints.yaml charts/nodegate/files/

.PHONY: generate
generate: ## Generate the code of the API, the chart's README from its values, and the tables of the bench.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(HELM_DOCS) --chart-search-root=charts --sort-values-order=file --skip-version-footer --log-level=warn
	$(GO) run ./test/bench/page docs/performance.md docs/bench/*.json

.PHONY: fmt
fmt: ## Format the code.
	$(GOLANGCI_LINT) fmt

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: ## Run the linters, which also check the imports between packages, and look for words that we do not use.
	@hack/words.sh
	$(GOLANGCI_LINT) run

.PHONY: lint-fix
lint-fix: ## Run the linters and let them fix what they can.
	$(GOLANGCI_LINT) run --fix

.PHONY: verify
verify: ## Check that generated files, go.mod files and shell scripts are in order.
	@MAKE="$(MAKE)" hack/verify.sh

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities; needs vuln.go.dev.
	$(GOVULNCHECK) ./...

.PHONY: chart
chart: ## Lint and test the chart, and package it into dist.
	$(HELM) lint --strict charts/nodegate
	$(HELM_UNITTEST) --strict charts/nodegate
	$(HELM) package -d dist charts/nodegate

##@ Release

.PHONY: bundle
bundle: ## Write the bundle for the Operator Lifecycle Manager to dist/bundle; VERSION=v0.1.0, API_GROUP=GROUP.
	@$(KUSTOMIZE) build config/$(OWN)olm | hack/bundle.sh "$(VERSION)" dist/bundle

.PHONY: release
release: ## Write a release to dist: images, chart, manifests, plugin, SBOMs, checksums; VERSION=v0.1.0.
	@hack/release.sh "$(if $(filter-out file,$(origin VERSION)),$(VERSION))"

##@ Deploy

.PHONY: install
install: ## Install the CRDs into the current cluster, or bring them to this version.
	@$(MANAGER) apply-crd --api-group=$(API_GROUP)

.PHONY: uninstall
uninstall: ## Delete the rules and the CRDs from the current cluster.
	$(DELETE_RULES)
	$(KUSTOMIZE) build config/$(OWN)crd | $(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -f -

# A server-side apply alone would keep validations of an earlier version's CRD.
.PHONY: deploy
deploy: install build-installer ## Deploy the CRDs and the operator with the image IMG to the current cluster.
	$(KUBECTL) apply --server-side -f dist/install.yaml

.PHONY: undeploy
undeploy: ## Delete the rules, the operator and the CRDs from the current cluster.
	$(DELETE_RULES)
	$(KUSTOMIZE) build $(CONFIG) | $(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -f -
	@$(DELETE_APART)

# What docs/install.md has users apply beside CONFIG, or CONFIG has. Kubernetes before 1.36 does not know the kind of
# the policies, or has only its alpha or beta.
DELETE_APART = apart=daemonset-evidence; \
	if $(KUBECTL) get mutatingadmissionpolicies.v1.admissionregistration.k8s.io >/dev/null 2>&1; then \
	apart="$$apart node-admission-policy endpoint-policy"; fi; \
	for dir in $$apart; do $(KUSTOMIZE) build config/$$dir | $(KUBECTL) delete --ignore-not-found -f - || exit 1; done

# The image is set in an overlay of its own: a tracked file would change with each use.
.PHONY: build-installer
build-installer: ## Write everything that a cluster needs, with the image IMG, to dist/install.yaml.
	@rm -rf dist/overlay && mkdir -p dist/overlay
	@cd dist/overlay && $(KUSTOMIZE) create --resources ../../$(CONFIG) && \
		$(KUSTOMIZE) edit set image ghcr.io/nodegate/nodegate=$(IMAGE)
	$(KUSTOMIZE) build dist/overlay > dist/install.yaml.tmp && mv dist/install.yaml.tmp dist/install.yaml

# Of the binaries, the first is what the image runs without a command.
.PHONY: image
image: ## Write the image IMG to dist/ as a tar, without docker and without a registry; ARCH=amd64 FIPS=v1.0.0.
	@mkdir -p dist/linux_$(ARCH)
	GOOS=linux GOARCH=$(ARCH) $(if $(FIPS),GOFIPS140=$(FIPS)) $(GO) build $(SHIPPED) -o dist/linux_$(ARCH)/ \
		./cmd/manager ./cmd/agent
	$(GO) run -C hack/tools ./image -tag "$(IMAGE)" -arch $(ARCH) -out "$(CURDIR)/dist/nodegate_linux_$(ARCH).tar" \
		-label org.opencontainers.image.title=nodegate \
		-label org.opencontainers.image.description="Keeps pods off nodes that are not ready, \
	by rules that say what ready means" \
		-label org.opencontainers.image.source=https://github.com/nodegate/nodegate \
		-label org.opencontainers.image.licenses=Apache-2.0 \
		-label org.opencontainers.image.version="$(VERSION)" \
		"$(CURDIR)/dist/linux_$(ARCH)/agent" "$(CURDIR)/dist/linux_$(ARCH)/manager"
	@echo "dist/nodegate_linux_$(ARCH).tar: docker load, podman load or ctr images import"

.PHONY: docker-build
docker-build: ## Build the image IMG of the operator and the node agent.
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: docker-push
docker-push: ## Push the image IMG.
	$(CONTAINER_TOOL) push $(IMAGE)

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for PLATFORMS and push it.
	-$(CONTAINER_TOOL) buildx create --name nodegate-builder
	$(CONTAINER_TOOL) buildx build --builder nodegate-builder --platform=$(PLATFORMS) --build-arg VERSION=$(VERSION) \
		--push -t $(IMAGE) .
	-$(CONTAINER_TOOL) buildx rm nodegate-builder
