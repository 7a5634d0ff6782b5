package check

import (
	"strings"
	"testing"
	"testing/fstest"
)

// layers is the import order of the repository: a package imports only packages of rows before its
// own. It is a statement of policy. A failing import is mended in the code; this table changes when
// the design does. To insert a row, write it where it belongs: rows are numbered by their place.
var layers = []row{
	{"The one kind of error that a person gets to see: any package may find a fault that a " +
		"person " +
		"can mend.", []string{
		"engine/problem",
	}},
	{"A part that one package of the next row keeps in a folder of its own, as it is an idea of " +
		"its own.", []string{
		"engine/chat/jinja", "engine/prefix",
	}},
	{"The file operations that package os lacks: what keeps data on disk is written with them.",
		[]string{
			"app/disk",
		}},
	{"Metal's sources as text: read, checked and translated without a device.", []string{
		"metal/msl",
	}},
	{"Metal as an interface, which a Mac's GPU and its simulation implement.", []string{
		"metal",
	}},
	{"What implementations of Metal's interface share: libraries, recording, compiling by clang.",
		[]string{
			"metal/base", "metal/clang",
		}},
	{"What stands alone: formats, translations and decisions, pure Go without a device or the " +
		"network; it can be read and tested without the rest.", []string{
		"kernels/cpu", "metal/*",
		"engine/safetensors", "engine/tokenizer", "engine/chat", "engine/guard", "engine/sched",
		"engine/blockstore", "engine/cachemiss",
		"app/settings", "app/login", "app/logs", "app/version", "app/demo", "app/jobs",
		"frontend",
	}},
	{"What a person and a model have said to each other, on disk.", []string{
		"app/chats",
	}},
	{"Tensors and devices: dtype, buffer, tensor, operator. What every kernel speaks, and " +
		"nothing " +
		"about models.", []string{
		"kernels",
	}},
	{"Operators on a GPU: how they are dispatched, and what must wait for what.", []string{
		"kernels/gpu",
	}},
	{"Operator families, independent of each other, so that one can be read, replaced or " +
		"measured " +
		"alone.", []string{
		"kernels/*",
	}},
	{"The cases of all families, and what they answer on the simulated device.", []string{
		"kernels/golden",
	}},
	{"Devices by name: the only package that knows which there are.", []string{
		"engine/device",
	}},
	{"A sequence's parameters and random numbers, over the operators that choose tokens.", []string{
		"engine/sample",
	}},
	{"The input of one forward pass. Operators do not know it; what calls them does.", []string{
		"engine/batch",
	}},
	{"What a sequence keeps between passes (KV pages, recurrent state), in the layout that the " +
		"kernels read. Layers use it; it decides nothing.", []string{
		"engine/cache",
	}},
	{"Operators on tensors: shapes checked once, variant chosen. Above this row nobody names a " +
		"kernel.", []string{
		"engine/ops",
	}},
	{"Layers (Linear, RMSNorm, Attention), built of operators.", []string{
		"engine/nn",
	}},
	{"A checkpoint's config, quantization and weights, as layers want them.", []string{
		"engine/checkpoint",
	}},
	{"Text to tokens and back: what a model has beside its weights, for clients without a " +
		"device.", []string{
		"engine/textproc",
	}},
	{"Architectures: one file each, written in layers and the checkpoint's own names.", []string{
		"engine/models",
	}},
	{"One step on the device's goroutine: the only caller of an architecture's forward pass.",
		[]string{
			"engine/runner",
		}},
	{"Before a model is loaded, and while it serves. Neither knows the other: the facade passes " +
		"the plan's figures on.", []string{
		"engine/plan", "engine/loop",
	}},
	{"The facade: the app and the server know the engine by this package alone.", []string{
		"engine",
	}},
	{"What the self-test of a device measures and compares.", []string{
		"app/selftest",
	}},
	{"A model in a process of its own, over the facade. It knows no HTTP.", []string{
		"app/worker",
	}},
	{"A generation in no API's terms: what a client asks for and what it gets.", []string{
		"engine/generate",
	}},
	{"HTTP, limits, errors and streaming over the facade, for every dialect.", []string{
		"engine/server",
	}},
	{"The dialects: OpenAI's JSON. They import the server, which knows none of them.", []string{
		"engine/openai",
	}},
	{"How fast this machine runs a model, and how fast it could.", []string{
		"app/bench",
	}},
	{"What the app knows about this machine and its models, before it runs one.", []string{
		"app/memory", "app/power", "app/wired", "app/library", "app/cache",
	}},
	{"What brings models to this machine, and into the list of those that are here.", []string{
		"app/importer", "app/hub",
	}},
	{"The life of an engine in the app: start, stop, state.", []string{
		"app/host",
	}},
	{"The control API: the one door through which tray, window and browser reach the host.",
		[]string{
			"app/control",
		}},
	{"What shows something. It sees the core only through the control API.", []string{
		"app/tray", "app/window", "app/notify",
	}},
	{"The commands of the headroom program.", []string{
		"app/commands",
	}},
	{"Programs and tools: they put the rest together, and nobody imports them.", []string{
		".", "app/cmd/*", "build/*",
	}},
}

func TestLayers(t *testing.T) {
	report(t, checkTable(layers))
	report(t, checkLayers(repositoryGo(t), layers))
}

// TestLayersCanFail puts one import at a time into a small tree and expects the rule to find it,
// or to let it pass.
func TestLayersCanFail(t *testing.T) {
	cases := []struct {
		name string
		file string
		text string
		want string // part of the only breach; "" when the import is fine
	}{
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
		{"below the facade is still below", "app/host/a.go",
			`package host; import "headroom/engine"`, ""},
		{"the root", "engine/a.go", `package engine; import "headroom"`, "imports . "},
		{"a named row wins over a pattern", "kernels/cpu/a.go",
			`package cpu; import "headroom/kernels"`, "imports kernels "},
		{"a family imports the thread pool", "kernels/norm/a.go",
			`package norm; import "headroom/kernels/cpu"`, ""},
		{"a helper in a test", "kernels/norm/a_test.go",
			`package norm; import "headroom/kernels/kerneltest"`, ""},
		{"a helper elsewhere", "kernels/norm/a.go",
			`package norm; import "headroom/kernels/kerneltest"`, "a test helper"},
		{"what a helper imports", "kernels/kerneltest/a.go",
			`package kerneltest; import "headroom/kernels"`, ""},
		{"a helper of a helper", "engine/enginetest/a.go",
			`package enginetest; import "headroom/kernels/kerneltest"`, ""},
		{"an unknown package", "engine/telepathy/a.go", `package telepathy`,
			"engine/telepathy: the package is in no row"},
		{"testdata is no source", "engine/testdata/a.go", `package telepathy; import "headroom"`,
			""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files, err := readGo(fstest.MapFS{c.file: {Data: []byte(c.text)}})
			if err != nil {
				t.Fatal(err)
			}
			expect(t, checkLayers(files, layers), c.want)
		})
	}
	expect(t, checkTable([]row{{"a", []string{"x"}}, {"b", []string{"x"}}}),
		"x stands in row 0 and in row 1")
	expect(t, checkTable([]row{{"", []string{"x"}}}), "no sentence of why")
}

// report fails the test with every breach.
func report(t *testing.T, breaches []string) {
	t.Helper()
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// expect wants exactly one breach that contains want, or none for "".
func expect(t *testing.T, breaches []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(breaches) == 0:
	case want != "" && len(breaches) == 1 && strings.Contains(breaches[0], want):
	default:
		t.Errorf("breaches %q, want one with %q (none if empty)", breaches, want)
	}
}
