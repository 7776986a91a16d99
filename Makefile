# Everything a contributor runs. `make` alone says what there is.

.PHONY: help build demo test test-all lint bench fuzz model clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Make bin/holdfast
	go build -o bin/holdfast ./cmd/holdfast

demo: build ## Kill controllers under traffic and count what was lost: nothing (no root needed; DEMO_FLAGS=--stock: no agents)
	bin/holdfast demo $(DEMO_FLAGS)

test: ## The gate: install what the tests need, lint, run the tests (as root: also those with real switches)
	go run ./scripts/check test $(PART)

test-all: ## The same with all combinations, for a nightly run (one part: PART=e2e; go run ./scripts/check -h lists them)
	go run ./scripts/check all $(PART)

lint: ## Check format, vet and staticcheck
	go run ./scripts/check test lint

bench: build ## Measure failover and throughput
	bin/holdfast bench failover --kills 30
	bin/holdfast bench throughput --switches 16 --replicas 3 --durability memory
	bin/holdfast bench throughput --switches 16 --replicas 3 --durability disk

fuzz: ## Run each fuzz target for a few seconds
	go run ./scripts/check all fuzz

model: ## Check the protocol's model with spin, and that every crippled one is refuted (apt-get install spin)
	go run ./lab/model

clean: ## Remove what was built and installed here
	rm -rf bin .venv
