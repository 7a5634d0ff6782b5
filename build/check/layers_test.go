package check

import (
	"io/fs"
	"testing"
)

// layers is the import order of the repository: a package imports only packages of earlier rows. If
// the test refuses an import, change the code. Change this table only when the design changes. The
// number of a row is its index, so rows can be inserted.
var layers = []row{
	{"Problems: errors that a user can act on. Any package may return one.", []string{
		"engine/problem",
	}},
	{"Reading the files of model folders, within limits.", []string{
		"engine/modelfile",
	}},
	{"Models in GGUF files: their metadata and the numbers in their blocks.", []string{
		"engine/gguf",
	}},
	{"Parts of larger packages, each used by one package of a later row.", []string{
		"engine/chat/jinja", "engine/prefix", "engine/tokenizer/regex", "engine/grammar/regular",
	}},
	{"Grammars of answers, and the tokens that they allow.", []string{
		"engine/grammar",
	}},
	{"Notations of grammars.", []string{
		"engine/grammar/*",
	}},
	{"Answers of a given form.", []string{
		"engine/structured",
	}},
	{"File operations that package os lacks, and files that are encrypted at rest. Packages that " +
		"write user data use them.", []string{
		"app/disk", "engine/seal",
	}},
	{"Metal's sources as text: read, checked and translated without a device.", []string{
		"metal/msl",
	}},
	{"Metal as an interface, which a Mac's GPU and its simulation implement.", []string{
		"metal",
	}},
	{"Code that implementations of Metal share: libraries, recording, compiling with clang.",
		[]string{
			"metal/base", "metal/clang",
		}},
	{"Packages in pure Go that need no model and no HTTP: formats, parsers, policies.", []string{
		"kernels/cpu", "metal/*",
		"engine/safetensors", "engine/tokenizer", "engine/chat", "engine/guard", "engine/sched",
		"engine/blockstore", "engine/cachemiss",
		"app/settings", "app/stored", "app/login", "app/logs", "app/version", "app/demo",
		"app/jobs", "app/keychain",
		"frontend",
	}},
	{"A prompt cache as a file: the entries of engine/blockstore in one.", []string{
		"engine/promptfile",
	}},
	{"The chats of the Chat page, on disk, the installation's key, the endpoint's API keys, and " +
		"the other machines whose engines it uses.", []string{
		"app/chats", "app/vault", "app/keys", "app/machines",
	}},
	{"Pairing this machine with others, and the port for them.", []string{
		"app/pairing",
	}},
	{"Setting up coding agents: their configuration files, keys and commands.", []string{
		"app/agents",
	}},
	{"Tensors and devices: dtype, buffer, tensor, operator. Every kernel uses them.", []string{
		"kernels",
	}},
	{"How operators are dispatched on a GPU, and their barriers.", []string{
		"kernels/gpu",
	}},
	{"Operator families. They do not import each other, so each can be read, replaced or " +
		"measured alone.", []string{
		"kernels/*",
	}},
	{"The cases of all families, and their outputs on the simulated device. What makes their " +
		"kernels fast on a GPU.", []string{
		"kernels/golden", "kernels/tune",
	}},
	{"Devices by name, which the engine opens only through this package, and what is kept about " +
		"a GPU.", []string{
		"engine/device", "engine/tuning",
	}},
	{"Sampling: the parameters and random numbers of a sequence. It runs the operators that " +
		"choose tokens.", []string{
		"engine/sample",
	}},
	{"The input of one forward pass. Operators do not use it.", []string{
		"engine/batch",
	}},
	{"The memory of a sequence between passes (KV pages, recurrent state), in the layout that " +
		"kernels read.", []string{
		"engine/cache",
	}},
	{"Operators on tensors: checks shapes and chooses variants. Of the later rows, only the " +
		"self-test imports an operator family.", []string{
		"engine/ops",
	}},
	{"Layers (Linear, RMSNorm, Attention), built of operators.", []string{
		"engine/nn",
	}},
	{"Checkpoints: config, quantization and weights, as layers need them.", []string{
		"engine/checkpoint",
	}},
	{"Originals in Hugging Face's layout, as the files that were made of them tell.", []string{
		"engine/gguf/original",
	}},
	{"Adapters: read from their folders, and fitted to the weights of a model.", []string{
		"engine/adapter",
	}},
	{"Tokenizer and chat template of a model, for processes that have no device.", []string{
		"engine/textproc",
	}},
	{"Architectures: one file each, with layers under the names of the checkpoint.", []string{
		"engine/models",
	}},
	{"Proposals of tokens that may come next. They know no device and no clock.", []string{
		"engine/draft",
	}},
	{"One step on the device: the only caller of an architecture's forward pass.", []string{
		"engine/runner",
	}},
	{"Conversions of models to MLX's format, in any packing. They run on the CPU. A calibrated " +
		"one runs the model.", []string{
		"engine/convert",
	}},
	{"The plan made before a model is loaded, and the loop that serves it. They do not import " +
		"each other.", []string{
		"engine/plan", "engine/loop",
	}},
	{"The facade. The app and the server run models only through it, not through the packages " +
		"between operators and here.", []string{
		"engine",
	}},
	{"The self-test of a device, with kernels and with the facade.", []string{
		"app/selftest",
	}},
	{"A request and its answer, in a form that all dialects share.", []string{
		"engine/generate",
	}},
	{"JSON bodies of requests, read strictly, for every dialect.", []string{
		"engine/jsonbody",
	}},
	{"The server: HTTP, limits, errors and streaming, for every dialect.", []string{
		"engine/server",
	}},
	{"The dialects. They import the server; the server imports none of them.", dialects},
	{"OpenAI's other APIs, and reranking. Their errors and parameters are those of engine/openai.",
		[]string{
			"engine/decisions", "engine/rerank", "engine/responses",
		}},
	{"Benchmarks: how fast this machine runs a model, how fast it could, and whether what makes " +
		"it faster changes an answer.", []string{
		"app/bench", "app/parity",
	}},
	{"A model, or a check of one, in a separate process. It has no HTTP.", []string{
		"app/worker",
	}},
	{"Facts about this machine and its models, and policies for them. No model runs.", []string{
		"app/memory", "app/power", "app/wired", "app/library", "app/cache",
	}},
	{"Import and download of models, and updates of Headroom.", []string{
		"app/importer", "app/hub", "app/update",
	}},
	{"Places of the window that menu and notifications open.", []string{
		"app/places",
	}},
	{"Training by mlx-lm, in a process of its own.", []string{
		"app/train",
	}},
	{"One model over several machines, by mlx-lm.", []string{
		"app/cluster",
	}},
	{"Batches: files of requests, answered by whatever answers HTTP.", []string{
		"app/batch",
	}},
	{"OpenAI's files and batches, kept on disk and answered in the background.", []string{
		"app/batches",
	}},
	{"Bug reports.", []string{
		"app/report",
	}},
	{"The host: it starts and stops models and reports their state.", []string{
		"app/host",
	}},
	{"Routing: requests that the engines of other machines answer.", []string{
		"app/route",
	}},
	{"The control API: window, browser and `headroom cache` use the host through it.", []string{
		"app/control",
	}},
	{"The endpoint, the control API and the web UI on one address, for `headroom serve` and the " +
		"menu-bar app.", []string{
		"app/service",
	}},
	{"Menu bar, notifications and window. They show the host's state and do not import the " +
		"engine.", []string{
		"app/tray", "app/window", "app/notify",
	}},
	{"The commands of the headroom program.", []string{
		"app/commands",
	}},
	{"Programs and tools. No package imports them.", []string{
		".", "app/cmd/*", "build/*",
	}},
}

func TestLayers(t *testing.T) {
	report(t, checkTable(layers))
	report(t, checkLayers(repositoryGo(t), layers))
}

// TestLayersCanFail checks trees with one import each, allowed or not.
func TestLayersCanFail(t *testing.T) {
	cases := []fileCase{
		{"down", "engine/nn/a.go", `package nn; import "headroom/engine/ops"`, ""},
		{"the standard library", "engine/nn/a.go", `package nn; import "io"`, ""},
		{"up", "engine/ops/a.go", `package ops; import "headroom/engine/nn"`, "imports engine/nn"},
		{"up from another system's file", "engine/ops/a_windows.go",
			`package ops; import "headroom/engine/nn"`, "imports engine/nn"},
		{"up behind a build tag", "engine/ops/a.go",
			"//go:build never\n\npackage ops; import \"headroom/engine/nn\"", "imports engine/nn"},
		{"sideways", "kernels/norm/a.go", `package norm; import "headroom/kernels/rope"`,
			"imports kernels/rope"},
		{"sideways in a test", "kernels/norm/a_test.go",
			`package norm; import "headroom/kernels/rope"`, ""},
		{"up in a test", "engine/ops/a_test.go", `package ops; import "headroom/engine/nn"`,
			"imports engine/nn"},
		{"up in a test from outside", "engine/ops/a_test.go",
			`package ops_test; import "headroom/engine/nn"`, ""},
		{"a program in a test from outside", "engine/ops/a_test.go",
			`package ops_test; import "headroom/app/cmd/headroom"`, "imports app/cmd/headroom"},
		{"the facade", "app/host/a.go", `package host; import "headroom/engine"`, ""},
		{"the root", "engine/a.go", `package engine; import "headroom"`, "imports . "},
		{"a named row wins over a pattern", "kernels/cpu/a.go",
			`package cpu; import "headroom/kernels"`, "imports kernels "},
		{"a family imports the thread pool", "kernels/norm/a.go",
			`package norm; import "headroom/kernels/cpu"`, ""},
		{"a helper in a test", "kernels/norm/a_test.go",
			`package norm; import "headroom/kernels/kerneltest"`, ""},
		{"a helper elsewhere", "kernels/norm/a.go",
			`package norm; import "headroom/kernels/kerneltest"`, "a test helper"},
		{"an import of a helper", "kernels/kerneltest/a.go",
			`package kerneltest; import "headroom/kernels"`, ""},
		{"a helper of a helper", "engine/enginetest/a.go",
			`package enginetest; import "headroom/kernels/kerneltest"`, ""},
		{"an unknown package", "engine/telepathy/a.go", `package telepathy`,
			"engine/telepathy: the package is in no row"},
		{"testdata is no source", "engine/testdata/a.go", `package telepathy; import "headroom"`,
			""},
	}
	runCases(t, cases, func(t *testing.T, tree fs.FS) []string {
		return checkLayers(parsed(t, tree), layers)
	})
	expect(t, checkTable([]row{{"a", []string{"x"}}, {"b", []string{"x"}}}),
		"x is in row 0 and in row 1")
	expect(t, checkTable([]row{{"", []string{"x"}}}), "row 0 has no description")
}
