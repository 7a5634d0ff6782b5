package check

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// imports restricts imports that the order of layers would allow. If a row of layers says that
// packages do not know each other, the rule is here.
var imports = []forbidden{
	{
		imports: []string{"github.com/getlantern/systray"},
		in:      ours,
		except:  []string{"app/tray", "app/cmd/headroom-agent"},
		why: "Only the menu-bar program links systray: it needs GTK, and on a Mac its " +
			"AppDelegate " +
			"collides with that of Wails.",
	},
	{
		imports: []string{"github.com/wailsapp/wails"},
		in:      ours,
		except:  []string{"."},
		why: "Only the window program links Wails: it needs WebKit and takes over the whole " +
			"process.",
	},
	{
		imports: []string{"net/http"},
		in:      []string{"engine/...", "kernels/...", "metal/..."},
		except:  []string{"engine/server", "engine/guard", "engine/openai"},
		why: "Only the server and the dialects speak HTTP: inference must work, and be tested, " +
			"without a network.",
	},
	{
		imports: operatorFamilies,
		in:      []string{"engine/...", "app/...", "."},
		except:  []string{"engine/ops", "engine/cache", "engine/sample", "app/selftest"},
		why: "Only engine/ops, the caches' layouts, the sampler and the self-test name an " +
			"operator " +
			"family: call engine/ops instead.",
	},
	{
		imports: []string{"headroom/engine/batch", "headroom/engine/cache",
			"headroom/engine/loop", "headroom/engine/models", "headroom/engine/nn",
			"headroom/engine/ops", "headroom/engine/plan", "headroom/engine/prefix",
			"headroom/engine/runner", "headroom/engine/sched"},
		in: []string{"app/...", "engine/server", "engine/openai", "."},
		why: "The app and the server run a model through package engine alone. Add what is " +
			"missing " +
			"there.",
	},
	{
		imports: []string{"headroom/metal/darwin", "headroom/metal/sim", "headroom/metal/nv"},
		in:      []string{"engine/..."},
		except:  []string{"engine/device"},
		why:     "The engine opens a device through engine/device alone.",
	},
	{
		imports: []string{"net/http"},
		in:      []string{"app/worker", "app/host"},
		why:     "Worker and host speak no HTTP: app/control and the server translate.",
	},
	{
		imports: []string{"headroom/engine", "headroom/kernels", "headroom/metal",
			"headroom/app/worker"},
		allowed: []string{"headroom/engine/problem"},
		in:      []string{"app/tray", "app/notify", "app/window", "."},
		why: "Menu bar, notifications and window show the state of the host; they know nothing " +
			"of " +
			"what runs a model.",
	},
}

// ours matches every package of the product.
var ours = []string{".", "app/...", "engine/...", "kernels/...", "metal/...", "frontend"}

// operatorFamilies are the packages that implement operators.
var operatorFamilies = []string{"headroom/kernels/activation", "headroom/kernels/attention",
	"headroom/kernels/embedding", "headroom/kernels/matmul", "headroom/kernels/moe",
	"headroom/kernels/norm", "headroom/kernels/recurrent", "headroom/kernels/rope",
	"headroom/kernels/sampling", "headroom/kernels/transfer"}

// texts lists texts that no file may contain. Character classes of one letter keep the patterns
// from matching themselves.
var texts = []unwelcome{
	{regexp.MustCompile(`(^|[\s"'=(:])/(wor[k]|far[m]|roo[t]|tmp/h[r])/`),
		"A path of one machine: take it from a flag or variable, or say where it comes from in " +
			"words."},
	{regexp.MustCompile(
		`(registr[y]\.npmjs|prox[y]\.golang|su[m]\.golang|pyp[i]\.org|pythonhoste[d]\.org|crate[s]\.io|de[b]\.debian\.org|repo1\.mave[n])`),
		"A registry's host: name the package, and let the client's settings say where it comes " +
			"from."},
	{regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X])\b`),
		"Unfinished work: do it, or file an issue and describe what holds now."},
}

func TestDocs(t *testing.T) {
	report(t, checkDocs(repositoryGo(t)))

	cases := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"one", map[string]string{"a/a.go": "// Package a is.\npackage a", "a/b.go": "package a"},
			""},
		{"none", map[string]string{"a/a.go": "package a"}, "a: no package comment"},
		{"two", map[string]string{"a/a.go": "// Package a is.\npackage a",
			"a/b.go": "// More.\npackage a"}, "2 package comments (a/a.go, a/b.go)"},
		{"a file's own comment",
			map[string]string{"a/a.go": "// Package a is.\npackage a",
				"a/b.go": "// b.go: more.\n\npackage a"}, ""},
		{"a directive", map[string]string{"a/a.go": "// Package a is.\npackage a",
			"a/b.go": "//go:build linux\npackage a"}, ""},
		{"tests alone", map[string]string{"a/a_test.go": "package a"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files, err := readGo(treeOf(c.files))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, checkDocs(files), c.want)
		})
	}
}

func TestImports(t *testing.T) {
	report(t, checkImports(repositoryGo(t), imports))

	cases := []struct{ name, file, imported, want string }{
		{"systray in the tray", "app/tray/a.go", "github.com/getlantern/systray", ""},
		{"systray in the host", "app/host/a.go", "github.com/getlantern/systray",
			"app/host/a.go imports github.com/getlantern/systray"},
		{"Wails in the window program", "main.go", "github.com/wailsapp/wails/v2/pkg/options", ""},
		{"Wails in the tray", "app/tray/a.go", "github.com/wailsapp/wails/v2",
			"app/tray/a.go imports"},
		{"HTTP in the server", "engine/server/a.go", "net/http", ""},
		{"HTTP in the control API", "app/control/a.go", "net/http", ""},
		{"HTTP in the engine", "engine/runner/a.go", "net/http", "Only the server"},
		{"HTTP in the engine's tests", "engine/runner/a_test.go", "net/http/httptest", ""},
		{"part of HTTP in the facade", "engine/a.go", "net/http/httptrace",
			"engine/a.go imports net/http/httptrace"},
		{"a kernel in an operator", "engine/ops/a.go", "headroom/kernels/norm", ""},
		{"a kernel in a layer", "engine/nn/a.go", "headroom/kernels/norm",
			"Only engine/ops"},
		{"tensors in a layer", "engine/nn/a.go", "headroom/kernels", ""},
		{"an architecture in the app", "app/host/a.go", "headroom/engine/models",
			"through package engine alone"},
		{"the facade in the app", "app/host/a.go", "headroom/engine", ""},
		{"the engine in the tray", "app/tray/a.go", "headroom/engine",
			"app/tray/a.go imports headroom/engine."},
		{"a Metal device in the engine", "engine/a.go", "headroom/metal/sim",
			"through engine/device alone"},
		{"the loop in the app", "app/host/a.go", "headroom/engine/loop",
			"through package engine alone"},
		{"HTTP in the worker", "app/worker/a.go", "net/http", "speak no HTTP"},
		{"a problem in the tray", "app/tray/a.go", "headroom/engine/problem", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files, err := readGo(treeOf(
				map[string]string{c.file: "package a; import \"" + c.imported + "\""}))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, checkImports(files, imports), c.want)
		})
	}
}

// mostLines limits the length of a file: a longer one holds more than one idea.
const mostLines = 700

func TestLengths(t *testing.T) {
	report(t, checkLengths(repository(), mostLines))

	long := strings.Repeat("x\n", mostLines)
	expect(t, checkLengths(treeOf(map[string]string{"a.go": long}), mostLines), "")
	expect(t, checkLengths(treeOf(map[string]string{"k/a.metal": long + "x"}), mostLines),
		"k/a.metal: 701 lines, at most 700")
	expect(t, checkLengths(treeOf(
		map[string]string{"a.go": "// Code generated by kernels/gen. DO NOT EDIT.\n" + long}),
		mostLines), "")
	expect(t, checkLengths(treeOf(
		map[string]string{"a/testdata/a.go": long + "x", "frontend/node_modules/p/a.js": long + "x",
			"a.json": long + "x"}), mostLines), "")
}

func TestFormat(t *testing.T) {
	report(t, checkFormat(repository()))

	expect(t, checkFormat(treeOf(map[string]string{"a.go": "package a\n"})), "")
	expect(t, checkFormat(treeOf(map[string]string{"a.go": "package  a\n"})), "Run: gofmt -w a.go")
	expect(t, checkFormat(treeOf(map[string]string{"a.go": "package a\n\nfunc {\n"})),
		"does not parse")
}

func TestTexts(t *testing.T) {
	report(t, checkTexts(repository(), texts))

	cases := []struct{ name, file, text, want string }{
		{"a machine's path", "a.md", "line\nsee /wor" + "k/x", "a.md:2:"},
		{"a machine's path in a string", "a.go", `var p = "/roo` + `t/models"`,
			"A path of one machine"},
		{"a sample path", "a.ts", `"/Users/ada/Models"`, ""},
		{"an address is no path", "a.md", "https://example.org/wor" + "k/x", ""},
		{"a lock file with addresses", "frontend/package-lock.json",
			`"https://registr` + `y.npmjs.org/vite"`, "A registry's host"},
		{"unfinished work", "a/testdata/a.txt", "TOD" + "O: later", "Unfinished work"},
		{"the settings of .ci count", ".ci/run", "# FIXM" + "E", ".ci/run:1:"},
		{"binary", "a.bin", "\x00TOD" + "O", ""},
		{"what git ignores", "bin/a", "TOD" + "O", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkTexts(treeOf(map[string]string{c.file: c.text}), texts), c.want)
		})
	}
}

// treeOf makes a tree of texts by path.
func treeOf(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}
