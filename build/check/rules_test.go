package check

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// imports restricts imports that the order of layers would allow. If a row of layers says that its
// packages do not import something, the rule is here.
var imports = []forbidden{
	{
		imports: []string{"github.com/getlantern/systray"},
		in:      ours,
		except:  []string{"app/tray", "app/cmd/headroom-agent"},
		why: "Only the menu-bar program links systray: it needs GTK, and on a Mac both systray " +
			"and Wails define a class AppDelegate.",
	},
	{
		imports: []string{"github.com/wailsapp/wails"},
		in:      ours,
		except:  []string{"."},
		why: "Only the window program links Wails, which needs WebKit and runs the whole " +
			"process.",
	},
	{
		imports: []string{"net/http"},
		in:      []string{"engine/...", "kernels/...", "metal/..."},
		except:  append([]string{"engine/server", "engine/guard"}, apis...),
		why:     "Only the server and the dialects use HTTP: inference needs no network.",
	},
	{
		imports: operatorFamilies,
		in:      []string{"engine/...", "app/...", "."},
		except:  []string{"engine/ops", "engine/cache", "engine/sample", "app/selftest"},
		why: "Only engine/ops, engine/cache, the sampler and the self-test import an operator " +
			"family. Call engine/ops instead.",
	},
	{
		imports: []string{"headroom/engine/batch", "headroom/engine/cache",
			"headroom/engine/loop", "headroom/engine/models", "headroom/engine/nn",
			"headroom/engine/ops", "headroom/engine/plan", "headroom/engine/prefix",
			"headroom/engine/runner", "headroom/engine/sched"},
		in: append([]string{"app/...", "engine/server", "."}, apis...),
		why: "The app and the server run a model only through package engine. Add what is " +
			"missing to that package.",
	},
	{
		imports: []string{"headroom/metal/darwin", "headroom/metal/sim", "headroom/metal/nv"},
		in:      []string{"engine/..."},
		except:  []string{"engine/device"},
		why:     "The engine opens a device only through engine/device.",
	},
	{
		imports: []string{"net/http"},
		in:      []string{"app/worker", "app/host"},
		why:     "Worker and host do not use HTTP: app/control and the server do.",
	},
	{
		imports: []string{"headroom/engine", "headroom/kernels", "headroom/metal",
			"headroom/app/worker"},
		allowed: []string{"headroom/engine/problem"},
		in:      []string{"app/tray", "app/notify", "app/window", "."},
		why: "Menu bar, notifications and window show the host's state. They do not import the " +
			"engine, kernels or workers.",
	},
}

// ours matches every package of the product, without tools.
var ours = []string{".", "app/...", "engine/...", "kernels/...", "metal/...", "frontend"}

// operatorFamilies are the packages that implement operators.
var operatorFamilies = []string{"headroom/kernels/activation", "headroom/kernels/attention",
	"headroom/kernels/embedding", "headroom/kernels/matmul", "headroom/kernels/moe",
	"headroom/kernels/norm", "headroom/kernels/recurrent", "headroom/kernels/rope",
	"headroom/kernels/sampling", "headroom/kernels/transfer"}

// dialects are the packages of the HTTP APIs, a row of layers.
var dialects = []string{"engine/anthropic", "engine/ollama", "engine/openai"}

// apis are the dialects with those that build on another one.
var apis = append([]string{"engine/decisions", "engine/rerank", "engine/responses"}, dialects...)

// texts lists texts that no file may contain. The patterns have character classes of one letter, so
// that they do not match themselves.
var texts = []unwelcome{
	{regexp.MustCompile(`(^|[\s"'=(:])/(wor[k]|far[m]|roo[t]|tmp/h[r])/`),
		"A path of one machine: take it from a flag or variable, or describe it in words."},
	{regexp.MustCompile(
		`(registr[y]\.npmjs|prox[y]\.golang|su[m]\.golang|pyp[i]\.org|pythonhoste[d]\.org|crate[s]\.io|de[b]\.debian\.org|repo1\.mave[n])`),
		"A registry's host: name only the package; the client's settings name the registry."},
	{regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X])\b`),
		"Unfinished work: do it, or file an issue and describe the present behaviour."},
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
			expect(t, checkDocs(parsed(t, treeOf(c.files))), c.want)
		})
	}
}

// TestFileLists checks the lists of files in package comments.
func TestFileLists(t *testing.T) {
	report(t, checkFileLists(repositoryGo(t)))

	for _, c := range []struct{ name, doc, want string }{
		{"no list", "It has b.go.", ""},
		{"complete", "List:\n//\n//\tb.go    words\n//\tsys_*.go for each system", ""},
		{"several in a line", "List:\n//\n//\tb.go, sys_*.go words", ""},
		{"it names itself", "List:\n//\n//\ta.go    words\n//\tb.go, sys_*.go words", ""},
		{"one lacks", "List:\n//\n//\tsys_*.go for each system",
			"a.go: the list of files lacks b.go"},
		{"one is gone", "List:\n//\n//\tb.go, sys_*.go words\n//\tgone.go words",
			"there is no gone.go"},
		{"none is left", "List:\n//\n//\tb.go, sys_*.go words\n//\tgone_*.go words",
			"there is no gone_*.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkFileLists(parsed(t, treeOf(map[string]string{
				"a/a.go": "// Package a is. " + c.doc + "\npackage a", "a/b.go": "package a",
				"a/a_test.go": "package a", "a/sys_linux.go": "package a"}))), c.want)
		})
	}
}

func TestImports(t *testing.T) {
	report(t, checkImports(repositoryGo(t), imports))

	cases := []fileCase{ // text is the path of the import
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
			"only through package engine"},
		{"the facade in the app", "app/host/a.go", "headroom/engine", ""},
		{"the engine in the tray", "app/tray/a.go", "headroom/engine",
			"app/tray/a.go imports headroom/engine."},
		{"a Metal device in the engine", "engine/a.go", "headroom/metal/sim",
			"only through engine/device"},
		{"the loop in the app", "app/host/a.go", "headroom/engine/loop",
			"only through package engine"},
		{"HTTP in the worker", "app/worker/a.go", "net/http", "do not use HTTP"},
		{"a problem in the tray", "app/tray/a.go", "headroom/engine/problem", ""},
	}
	for i, c := range cases {
		cases[i].text = "package a; import \"" + c.text + "\""
	}
	runCases(t, cases, func(t *testing.T, tree fs.FS) []string {
		return checkImports(parsed(t, tree), imports)
	})
}

// maxLines limits the length of a file: a longer one has more than one topic.
const maxLines = 700

func TestLengths(t *testing.T) {
	report(t, checkLengths(repository(), maxLines))

	long := strings.Repeat("x\n", maxLines)
	expect(t, checkLengths(treeOf(map[string]string{"a.go": long}), maxLines), "")
	expect(t, checkLengths(treeOf(map[string]string{"k/a.metal": long + "x"}), maxLines),
		"k/a.metal: 701 lines, at most 700")
	expect(t, checkLengths(treeOf(
		map[string]string{"a.go": "// Code generated by kernels/gen. DO NOT EDIT.\n" + long}),
		maxLines), "")
	expect(t, checkLengths(treeOf(
		map[string]string{"a/testdata/a.go": long + "x", "frontend/node_modules/p/a.js": long + "x",
			"a.json": long + "x"}), maxLines), "")
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

	cases := []fileCase{
		{"a machine's path", "a.md", "line\nsee /wor" + "k/x", "a.md:2:"},
		{"a machine's path in a string", "a.go", `var p = "/roo` + `t/models"`,
			"A path of one machine"},
		{"a sample path", "a.ts", `"/Users/ada/Models"`, ""},
		{"an address is no path", "a.md", "https://example.org/wor" + "k/x", ""},
		{"a lock file with addresses", "frontend/package-lock.json",
			`"https://registr` + `y.npmjs.org/vite"`, "A registry's host"},
		{"unfinished work", "a/testdata/a.txt", "TOD" + "O: later", "Unfinished work"},
		{"files in .ci", ".ci/run", "# FIXM" + "E", ".ci/run:1:"},
		{"binary", "a.bin", "\x00TOD" + "O", ""},
		{"what git ignores", "bin/a", "TOD" + "O", ""},
	}
	runCases(t, cases, func(_ *testing.T, tree fs.FS) []string { return checkTexts(tree, texts) })
}
