package main

import "time"

// shard is a step of build/test that CI runs only if it is due.
type shard struct {
	name string
	// takes is its time on two cores with nothing else running, and limit the time after which it
	// fails.
	takes, limit time.Duration
	paths        []string // files and folders whose change makes it due; documents do not
}

// maxTime bounds what the shards of a commit take, so that CI ends within 75 minutes: make test
// takes up to 24 and fuzzing 6, and CI's machine may be an eighth slower than the measured one.
const maxTime = 36 * time.Minute

// turns is the number of commits after which every shard has had its turn.
const turns = 9

// shards lists all shards. The shards of one turn are turns apart, so that each turn has about the
// same length.
var shards = []shard{
	{"long_kernels", minutes(5), minutes(15), []string{"kernels"}},
	{"formats", minutes(7), minutes(20), []string{"engine/cache", "engine/cache/FORMATS.md",
		"engine/models/testdata"}},
	{"nocgo_engine", minutes(6), minutes(15), []string{"engine"}},
	{"browser_looks", minutes(7), minutes(20), []string{"frontend"}},
	{"soak", minutes(7), minutes(20), []string{"app", "engine"}},
	{"clients_sdks", minutes(6), minutes(15), []string{"build/clients", "engine/ollama",
		"engine/jsonbody", "engine/server", "app/control"}},
	{"mutants", minutes(8), minutes(25), []string{"build/oracle/models", "engine/models",
		"engine/nn"}},
	{"race_engine", minutes(5), minutes(15), []string{"engine"}},
	{"long_replay", minutes(3), minutes(15), []string{"engine/blockstore"}},

	{"arm64_recurrent", minutes(6), minutes(20), []string{"kernels/recurrent", "kernels/common"}},
	{"race_attention", minutes(4), minutes(15), []string{"kernels/attention"}},
	{"race_models", minutes(5), minutes(15), []string{"engine/models", "engine/nn"}},
	{"long_metal", minutes(6), minutes(20), []string{"kernels", "metal", "engine/models",
		"engine/nn"}},
	{"release", minutes(4), minutes(15), []string{"build/programs", "build/reproducible",
		"build/licences", "go.mod", "frontend/package-lock.json", "frontend/vite.config.ts"}},
	{"oracle_convert", minutes(5), minutes(18), []string{"build/oracle/models", "engine/convert",
		"kernels/quantize"}},
	{"oracle_adapters", minutes(2), minutes(12), []string{"build/oracle/models/adapters.py",
		"engine/adapter", "engine/ops/adapter.go"}},
	{"arm64_attention", minutes(6), minutes(20), []string{"kernels/attention", "kernels/common"}},
	{"load", minutes(11), minutes(22), []string{"app/host", "app/service", "engine/server"}},

	{"cluster", minutes(3), minutes(15), []string{"app/cluster", "app/train/environment.go",
		"app/train/requirements.txt"}},
	{"race_lives", minutes(4), minutes(15), []string{"engine"}},
	{"long_engine", minutes(4), minutes(15), []string{"engine", "app/demo"}},
	{"long_forms_2", minutes(3), minutes(12), formFolders},
	{"long_models", minutes(4), minutes(12), []string{"engine/models"}},
	{"race_commands", minutes(4), minutes(15), []string{"app/commands", "app/host", "app/service",
		"engine/server"}},
	{"oracle", minutes(3), minutes(12), []string{"build/oracle/models", "engine/models",
		"engine/nn"}},
	{"long_forms_1", minutes(3), minutes(12), formFolders},
	{"race_app", minutes(4), minutes(15), []string{"app/agents", "app/chats", "app/library",
		"app/parity", "app/worker"}},

	{"arm64_kernels", minutes(3), minutes(12), []string{"kernels"}},
	{"clients_agents", minutes(3), minutes(15), []string{"build/clients", "engine/anthropic",
		"engine/responses", "engine/openai"}},
	{"long_store", minutes(3), minutes(12), []string{"engine/blockstore", "app/worker"}},
	{"train", minutes(2), minutes(12), []string{"app/train", "engine/adapter",
		"engine/convert/fuse.go"}},
	{"race_recurrent", minutes(3), minutes(12), []string{"kernels/recurrent"}},
	{"oracle_gguf", minutes(3), minutes(15), []string{"build/oracle/gguf", "engine/gguf",
		"engine/convert/gguf.go", "engine/convert/ggufrows.go", "engine/tokenizer"}},
	{"long_drafts", minutes(5), minutes(16), []string{"engine/draft", "engine/loop",
		"engine/sched", "engine/everydrafter_test.go", "engine/draftscenario_test.go",
		"engine/draftsampling_test.go"}},
	{"race_kernels", minutes(3), minutes(12), []string{"kernels", "metal"}},
}

// formFolders decide about answers of a given form.
var formFolders = []string{"engine/grammar", "engine/structured", "engine/loop", "engine/draft",
	"engine/sample"}

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }
