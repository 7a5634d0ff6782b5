# Headroom's targets. `make` prints them, with the help after "##". build/setup first installs what
# a target needs and the machine lacks, and says what and why.

.DEFAULT_GOAL := help
.PHONY: help run test test-all bench bench-peer bench-window lint check check-darwin build app
.PHONY: oracle oracle-templates oracle-tokenizers schemas oracle-embeddings bench-embeddings
.PHONY: audit sbom reproducible soak app-check sign notarize dmg tarball clean arm64 setup
.PHONY: bin/headroom bin/headroom-agent bin/headroom-window

# The build tags of window and tray. Without "production" Wails builds a program that refuses to
# start. webkit2_41 is the WebKit of current Linux systems.
ifeq ($(shell uname -s),Darwin)
GUI_TAGS := desktop,production
else
GUI_TAGS := desktop,production,webkit2_41
endif

# The packages with files for the NVIDIA device, a development tool behind the build tag nv.
NV_PACKAGES := ./metal/nv ./kernels/kerneltest ./engine ./engine/device ./app/selftest

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X headroom/app/version.Version=$(VERSION)

# -trimpath and flags without paths let all clones on a machine share Go's build cache.
export CGO_CFLAGS := $(shell build/cflags)
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

# Folders are included, so that a deleted file counts as a change, but not frontend/ itself, whose
# time changes with every build.
FRONTEND_SOURCES := $(shell find frontend -mindepth 1 \
	\( -name node_modules -o -name dist -o -name '.*' \) -prune -o -print)

help: ## Print these lines
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]*):.*## /\1|/' | \
		awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'

run: bin/headroom ## Start Headroom with the demo model; without a display, only the server
	@if [ "$$(uname -s)" != Darwin ] && [ -z "$$DISPLAY$$WAYLAND_DISPLAY" ]; then \
		echo "make run: no display, starting only the server"; exec bin/headroom serve; \
	elif build/setup window; then \
		$(MAKE) --no-print-directory bin/headroom-agent bin/headroom-window && \
			exec bin/headroom-agent --open; \
	else \
		echo "make run: cannot build window and tray here, starting only the server"; \
		exec bin/headroom serve; \
	fi

build: bin/headroom bin/headroom-agent bin/headroom-window ## Build the three programs into bin/

test: ## Install what is missing, check, and run every test, also of window and tray
	@build/setup core window test sim frontend
	@build/test test

test-all: test ## test, then every slow step: arm64, long forms, race detector, fuzzing, soak
	@build/setup arm64
	@build/test extras

bench: bin/headroom ## Measure speed; a part: ARGS="--only dense --quick"; compare: BASE=main~1
	@if [ -n "$(BASE)" ]; then build/bench revisions "$(BASE)" $(ARGS); else \
		mkdir -p bin && bin/headroom bench --json bin/bench.json --markdown bin/bench.md $(ARGS); fi
	@if [ -z "$(BASE)$(ARGS)" ]; then \
		if build/setup window test frontend; then $(MAKE) --no-print-directory bench-window; \
		else echo "make bench: window and pages cannot be measured here"; fi; fi

bench-peer: bin/headroom ## Compare with llama.cpp, which it builds: SHAPE=llama-3.2-3b
	@PEER="$(PEER)" MODEL="$(MODEL)" build/bench peer "$(or $(SHAPE),qwen3-0.6b)" $(ARGS)

oracle: bin/headroom ## Compare with mlx-lm on small models; a part: TYPES=qwen3,llama
	@build/oracle/models/run --types "$(TYPES)" $(ARGS)

oracle-embeddings: bin/headroom ## Compare vectors and scores with sentence-transformers; a part: ROWS=bert,qwen3
	@build/oracle/embeddings/run oracle --rows "$(ROWS)" $(ARGS)

bench-embeddings: bin/headroom ## Speed of embeddings beside sentence-transformers; a part: SHAPES=bge-small
	@build/oracle/embeddings/run bench --shapes "$(SHAPES)" $(ARGS)

oracle-templates: ## Compare chat templates with Jinja2; other ones: TEMPLATES=folder
	@build/oracle/templates/run $(TEMPLATES)

oracle-tokenizers: ## Compare tokenizers, real and random ones, with their libraries: SEED=1
	@build/oracle/tokenizers/run $(SEED)

schemas: ## Measure JSON Schema by its suites and against llguidance; all schemas: ARGS="-n 0"
	@build/schemas/run $(ARGS)

soak: bin/headroom ## Test a server for HOURS under load and faults; shorter cycles: CYCLE=6s
	@go run ./build/soak -hours $(or $(HOURS),1) -cycle $(or $(CYCLE),1m) -out bin/soak.md

bench-window: bin/headroom-agent bin/headroom-window ## Measure the window and its pages
	@build/setup test frontend
	@build/bench window

check: check-darwin app-check ## Vet, the repository's rules, and types for other systems
	@build/setup window
	go vet $$(build/packages plain)
	go vet -tags $(GUI_TAGS),e2e $$(build/packages gui)
	go vet -tags nv $(NV_PACKAGES)
	go test ./build/...
	go run ./build/crosscheck -os linux -arch arm64 -cgo=false ./app/cmd/headroom
	go run ./build/crosscheck -os linux -arch amd64 -cgo=false ./app/cmd/headroom

check-darwin: ## Vet the Mac's code on any system
	@build/setup core
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go vet $$(build/packages plain)
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go test -c -o /dev/null ./metal/darwin
	go run ./build/crosscheck -tags desktop,production $$(build/packages gui)

app-check: ## Check the Mac's bundle and Linux's package on any system
	@build/setup core package
	build/darwin/check

lint: check ## check, then staticcheck and the web UI's types
	@build/setup frontend
	go run honnef.co/go/tools/cmd/staticcheck@v0.7.0 $$(build/packages plain)
	cd frontend && npm run check

arm64: ## Run the kernels' tests as arm64 code (NEON), emulated where the machine is not arm64
	@build/setup core arm64
	@build/test arm64

setup: ## Install everything that targets need (build/setup COMPONENT installs a part)
	@build/setup all

app: frontend/dist/index.html ## Build bin/Headroom.app on a Mac, signed for this Mac only
	build/darwin/app

sign: ## Sign bin/Headroom.app with HEADROOM_SIGN_IDENTITY
	build/darwin/sign

notarize: ## Notarize bin/Headroom.app with HEADROOM_NOTARY_PROFILE and staple the ticket
	build/darwin/notarize

dmg: ## Make a disk image of bin/Headroom.app, signed and notarized if those are set
	build/darwin/dmg

tarball: frontend/dist/index.html ## Make an archive for Linux with an install script
	@build/setup core window
	build/programs bin/release
	build/linux/tarball bin/release \
		bin/headroom-$$(build/version number)-linux-$$(go env GOARCH).tar.gz

audit: ## Look up known vulnerabilities of Go modules and npm packages; needs the network
	@build/setup frontend
	build/audit

sbom: ## Write bin/sbom.json, the software in the programs, in the form of CycloneDX
	@mkdir -p bin
	go run ./build/licences -sbom bin/sbom.json -version "$$(build/version)"

reproducible: ## Build the checked-out commit twice, in different folders, and compare the bytes
	@build/setup core frontend
	build/reproducible

clean: ## Remove bin/ and the web UI's build; installed packages stay
	rm -rf bin frontend/dist/* frontend/node_modules/.vite

# go build decides by itself what is stale, so these run every time.
bin/headroom: frontend/dist/index.html
	@build/setup core
	go build -ldflags '$(LDFLAGS)' -o $@ ./app/cmd/headroom

bin/headroom-agent: frontend/dist/index.html
	@build/setup core window
	go build -tags $(GUI_TAGS) -ldflags '$(LDFLAGS)' -o $@ ./app/cmd/headroom-agent

bin/headroom-window: frontend/dist/index.html
	@build/setup core window
	go build -tags $(GUI_TAGS) -ldflags '$(LDFLAGS)' -o $@ .

# .gitkeep stays, so that a fresh clone has the folder that frontend/assets.go embeds.
frontend/dist/index.html: $(FRONTEND_SOURCES)
	@build/setup frontend
	cd frontend && npm run build
	@touch frontend/dist/.gitkeep $@
