# What a contributor runs by hand. `go test ./...` and `go run ./cmd/counters dev` need none of it.

SHELL := bash
.DEFAULT_GOAL := help
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## Print this.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

dev: ## Run the whole system on this machine.
	go run -v ./cmd/counters dev

test: ## Run the tests that need Go alone.
	go test ./...
	@echo "What is long, or needs more than Go, is left out: make test-all."

test-all: ## Run all tests. What a missing tool makes impossible is skipped, and says so.
	go test -tags all -timeout 30m ./...

race: ## Run the tests that need Go alone with the race detector.
	go test -race ./...

fuzz: ## Run every fuzz target for FUZZTIME (10s) each.
	@go list ./... | while read -r pkg; do \
	  go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' | while read -r target; do \
	    echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime "$${FUZZTIME:-10s}" "$$pkg" || exit 1; \
	  done || exit 1; \
	done

simulate: ## Simulate HOURS (1000) of faults in virtual time, or the one SEED, the same each time; both: HOURS from that seed on. At RATE operations a second (0.1 to 5).
	@go run ./simulation/simulate -seed=$(or $(SEED),0) -hours=$(or $(HOURS),0) -rate=$(or $(RATE),0)

mutants: ## Leave out the rules one at a time, and see that each is caught; with RUN=name some of them.
	go run ./simulation/mutants -run '$(RUN)'

lint: ## Format, vet, staticcheck, and golangci-lint where it is installed.
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted"; exit 1; }
	go vet -tags all ./...
	go vet -C cmd/bench ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags all ./...
	@if lint=$$(command -v golangci-lint || command -v "$$(go env GOBIN)/golangci-lint" || command -v "$$(go env GOPATH)/bin/golangci-lint"); then \
	  "$$lint" run; \
	else \
	  echo "golangci-lint is not installed, so its checks are skipped; to install it: go install $(GOLANGCI_LINT)"; \
	fi

bench: ## Compare with what people build today; about a minute.
	go run -C cmd/bench . --quick

figures: ## Write the figures and plots of README and docs from a full run: on an idle machine, some twenty minutes.
	go run -C cmd/bench . --docs

generate: ## Write again what is made from the code: settings tables, tables in docs.
	go generate ./...

release: ## Build all that the release VERSION publishes, from its tag, into dist/release.
	scripts/release.sh $(VERSION)

try-release: ## Build the next release twice, each in a clone that has its tag, compare, and install and run what is made.
	scripts/try-release.sh

session: ## Start counters dev, and type what the README types.
	go test -tags all ./cmd/counters -count=1 -v -run '^TestDevCounts$$|^TestSessions$$/^README.md$$'

vuln: ## Known vulnerabilities of what is called; asks vuln.go.dev.
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

actions: ## Check the workflows.
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

ci: ## Everything that has to hold before a change lands; with PART=race or another, that part alone.
	.ci/run $(PART)

.PHONY: help dev test test-all race fuzz simulate mutants lint bench figures generate release try-release session vuln actions ci
