# Everything a contributor runs. `make` alone lists the targets.

.PHONY: help build demo docs test test-all lint profile bench figures --quick --draw fuzz model packages clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/holdfast
	go build -pgo=cmd/holdfast/cpu.pgo -o bin/holdfast ./cmd/holdfast

demo: build ## Kill controllers under traffic and count what is lost (needs no root; DEMO_FLAGS=--stock: without agents)
	bin/holdfast demo $(DEMO_FLAGS)

docs: ## Make the documentation site in build/site
	go run ./lab/site

test: ## The gate: install what the tests need, lint, run the tests (as root: also those with real switches)
	go run ./scripts/check test $(PART)

test-all: ## The same with all combinations, for a nightly run (one part: PART=e2e; go run ./scripts/check -h lists them)
	go run ./scripts/check all $(PART)

lint: ## Run gofmt, go vet and staticcheck
	go run ./scripts/check test lint

profile: ## Record the profile with which build compiles (a minute, on a machine that does nothing else)
	go run ./lab/profile

bench: build ## Measure failover and throughput
	bin/holdfast bench failover --kills 30
	bin/holdfast bench throughput --switches 16 --replicas 1,3 --durability memory,disk
	bin/holdfast bench latency --replicas 1,3 --durability memory,disk

figures: build ## Draw the figures of the four papers, ours beside theirs (make figures -- --quick: 15 minutes)
	go run ./lab/figures $(filter --%,$(MAKECMDGOALS))

--quick --draw: # flags of figures, which make takes for goals
	@:

fuzz: ## Run each fuzz target for a few seconds
	go run ./scripts/check all fuzz

model: ## Check the protocol's model with spin, and that each variant without a mechanism fails (apt-get install spin)
	go run ./lab/model

DIST = dist

# With the flags of the release itself, the go command compiles the packages that both need once.
packages: ## Make the .deb, .rpm and container image of a release, checksums and a bill of materials, in dist
	CGO_ENABLED=0 go run -trimpath -pgo=cmd/holdfast/cpu.pgo ./deploy/release -out $(DIST)

clean: ## Remove what was built and installed here
	rm -rf bin build dist .venv
