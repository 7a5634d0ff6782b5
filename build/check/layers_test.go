package check

import (
	"strings"
	"testing"
	"testing/fstest"
)

// layers is the import order of the repository: a package imports only packages of rows before its
// own. It is a statement of policy. Mend a failing import in the code; change this table only when
// the design changes. The number of a row is its index, so rows can be inserted.
var layers = []row{
	{"Problems: errors that a user can act on. Any package may return one.", []string{
		"engine/problem",
	}},
	{"Parts of larger packages, each used by one package of a later row.",
		[]string{
			"engine/chat/jinja", "engine/prefix",
		}},
	{"File operations that package os lacks; whatever writes user data uses them.", []string{
		"app/disk",
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
	{"Independent packages in pure Go: formats, translations, decisions. None needs a model, and " +
		"none speaks HTTP.", []string{
		"kernels/cpu", "metal/*",
		"engine/safetensors", "engine/tokenizer", "engine/chat", "engine/guard", "engine/sched",
		"engine/blockstore", "engine/cachemiss",
		"app/settings", "app/login", "app/logs", "app/version", "app/demo", "app/jobs",
		"frontend",
	}},
	{"The chats of the Chat page, on disk.", []string{
		"app/chats",
	}},
	{"Tensors and devices: dtype, buffer, tensor, operator. Every kernel uses them; they know no " +
		"models.", []string{
		"kernels",
	}},
	{"How operators are dispatched on a GPU, and their barriers.", []string{
		"kernels/gpu",
	}},
	{"Operator families. They do not know each other, so each can be read, replaced or measured " +
		"alone.", []string{
		"kernels/*",
	}},
	{"The cases of all families, and their outputs on the simulated device.", []string{
		"kernels/golden",
	}},
	{"Devices by name. The engine opens a device through this package alone.", []string{
		"engine/device",
	}},
	{"Sampling: the parameters and random numbers of a sequence, over the operators that choose " +
		"tokens.", []string{
		"engine/sample",
	}},
	{"The input of one forward pass. Operators do not know it.", []string{
		"engine/batch",
	}},
	{"The memory of a sequence between passes (KV pages, recurrent state), in the layout that " +
		"kernels read.", []string{
		"engine/cache",
	}},
	{"Operators on tensors: shapes are checked, variants chosen. Later rows name no operator " +
		"family, except the self-test.", []string{
		"engine/ops",
	}},
	{"Layers (Linear, RMSNorm, Attention), built of operators.", []string{
		"engine/nn",
	}},
	{"Checkpoints: config, quantization and weights, as layers need them.", []string{
		"engine/checkpoint",
	}},
	{"Tokenizer and chat template of a model, for clients that have no device.", []string{
		"engine/textproc",
	}},
	{"Architectures: one file each, written in layers and the checkpoint's own names.", []string{
		"engine/models",
	}},
	{"One step on the device: the only caller of an architecture's forward pass.", []string{
		"engine/runner",
	}},
	{"Planning before a model is loaded, and the loop that serves it. They do not know each other.",
		[]string{
			"engine/plan", "engine/loop",
		}},
	{"The facade. The app and the server run models through it, and through no package between " +
		"operators and here.", []string{
		"engine",
	}},
	{"The self-test of a device, over kernels and facade.", []string{
		"app/selftest",
	}},
	{"A model in its own process, over the facade. It speaks no HTTP.", []string{
		"app/worker",
	}},
	{"A generation in neutral terms: what a client asks for, and the answer.", []string{
		"engine/generate",
	}},
	{"The server: HTTP, limits, errors and streaming over the facade, for every dialect.", []string{
		"engine/server",
	}},
	{"The dialects. They import the server, which knows none of them.", []string{
		"engine/openai",
	}},
	{"Benchmarks: how fast this machine runs a model, and how fast it could.", []string{
		"app/bench",
	}},
	{"What the app knows about this machine and its models before it runs one.", []string{
		"app/memory", "app/power", "app/wired", "app/library", "app/cache",
	}},
	{"Import and download of models.", []string{
		"app/importer", "app/hub",
	}},
	{"The host: it starts and stops models and reports their state.", []string{
		"app/host",
	}},
	{"The control API: the HTTP interface of window, browser and `headroom cache` to the host.",
		[]string{
			"app/control",
		}},
	{"The endpoint, the control API and the web UI on one address: what `headroom serve` and " +
		"the menu-bar app share.", []string{
		"app/service",
	}},
	{"Menu bar, notifications and window. They show the host's state and know nothing of the " +
		"engine.", []string{
		"app/tray", "app/window", "app/notify",
	}},
	{"The commands of the headroom program.", []string{
		"app/commands",
	}},
	{"Programs and tools: they put the rest together, and no package imports them.", []string{
		".", "app/cmd/*", "build/*",
	}},
}

func TestLayers(t *testing.T) {
	report(t, checkTable(layers))
	report(t, checkLayers(repositoryGo(t), layers))
}

// TestLayersCanFail puts one import at a time into a small tree and expects the rule to find it,
// or to allow it.
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
		{"an import of a helper", "kernels/kerneltest/a.go",
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
		"x is in row 0 and in row 1")
	expect(t, checkTable([]row{{"", []string{"x"}}}), "no sentence that says why")
}

// report fails the test with every breach.
func report(t *testing.T, breaches []string) {
	t.Helper()
	for _, breach := range breaches {
		t.Error(breach)
	}
}

// expect fails the test unless there is exactly one breach, which contains want, or none for "".
func expect(t *testing.T, breaches []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(breaches) == 0:
	case want != "" && len(breaches) == 1 && strings.Contains(breaches[0], want):
	default:
		t.Errorf("breaches %q, want one with %q (none if empty)", breaches, want)
	}
}
