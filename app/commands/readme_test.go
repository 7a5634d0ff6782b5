package commands

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"headroom/app/hub/hubtest"
	"headroom/app/settings"
)

// These tests run the commands of the documents unchanged. bin/headroom is this program, and the
// home folder has the models that the documents name. build/check checks make targets and that the
// commands exist.

// documents are the pages whose commands, flags and settings are tested.
var documents = []string{"README.md", "app/commands/COMMANDS.md", "app/cache/CACHE.md",
	"app/selftest/SELFTEST.md", "engine/server/ENDPOINT.md", "build/BENCHMARKS.md"}

var (
	readmeBlocks = regexp.MustCompile("(?ms)^ *```\n(.*?)^ *```")
	readmeSpans  = regexp.MustCompile("`([^`\n]+)`")
	readmeFlags  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// readmeLines returns the commands in the fenced blocks of the documents, in order, and the text of
// all documents. A line that ends in a backslash is joined with the next.
func readmeLines(t *testing.T) (lines []string, text string) {
	t.Helper()
	for _, document := range documents {
		data, err := os.ReadFile(filepath.Join("../..", document))
		if err != nil {
			t.Fatal(err)
		}
		text += string(data) + "\n"
	}
	for _, block := range readmeBlocks.FindAllStringSubmatch(text, -1) {
		quoted := ""
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
			line, _, _ = strings.Cut(line, " #")
			if line = quoted + line; strings.Count(line, "'")%2 != 0 {
				quoted = line // the quotes end in a later line
				continue
			}
			quoted = ""
			line = strings.TrimSpace(line)
			command := strings.HasPrefix(line, "bin/headroom ") || strings.HasPrefix(line, "curl ")
			if command && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines, text
}

// quickFlags has the flags that make a command quick, by the command's first words. The longest
// match applies.
var quickFlags = map[string]string{
	"bin/headroom bench": " --only=threads --quick --prompts=32 --contexts=64 --tokens=4 " +
		"--dense=tiny.json --moe=tiny.json",
	"bin/headroom bench speed": " --prefill=16 --decode=0 --tokens=2 --repeat=1",
	"bin/headroom bench cache": " --repeat=1 --prompt=300 --stream=200 --head=100 --streams=2 " +
		"--tokens=2 --turns=2 --grow=400",
	"bin/headroom bench kv":    "",
	"bin/headroom bench route": " --machines=3 --sessions=20 --turns=2",
	"bin/headroom parity":      " --tokens=4",
	"bin/headroom bench speculate": " tiny.json --acceptance=0.5 --depths=1 --tokens=4 " +
		"--passes=1 --threads=1",
	"bin/headroom train":        " --check", // the training needs the network
	"bin/headroom bench snapkv": " tiny.json --contexts=1200 --tokens=64 --passes=1 --threads=1",
}

// curlAnswers are expressions for the answers of curl lines, by what a line has. The first counts.
var curlAnswers = [][2]string{
	{"/v1/decisions", `"probabilities":\[\{"value":"billing","probability":0\.`},
	{"/v1/systemone", `"probabilities":\{"billing":0\.`},
	{"/v1/embeddings", `"embedding":\[.*"embedding":\[`},
	{"/v1/rerank", `"results":\[\{"index":[01],[^\]]*\}\]`},
	{"json_schema", `"content":"\{\\"name\\": .*, \\"country\\": .*"finish_reason":"stop"`},
	{"choice\": [", `"content":"(yes|no|nobody knows)".*"finish_reason":"stop"`},
	{"tool_choice", `"arguments":"\{\\"city\\": .*"finish_reason":"tool_calls"`},
	{"/v1/chat/completions", `"content":"The KV cache keeps`},
}

// curlAnswer returns the expression for the answer of a curl line; "" if there is none.
func curlAnswer(line string) string {
	for _, answer := range curlAnswers {
		if strings.Contains(line, answer[0]) {
			return answer[1]
		}
	}
	return ""
}

func TestReadmeCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs every command")
	}
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	lines, _ := readmeLines(t)
	slices.SortStableFunc(lines, func(a, b string) int { // what deletes everything comes last
		const last = "bin/headroom stored delete"
		return cmp.Compare(strings.Index(a, last), strings.Index(b, last))
	})
	r := newShell(t)
	ran := map[string]int{}
	var studio *serverProcess // another machine, until the line that removes it
	for _, line := range lines {
		words := strings.Fields(line)
		ran[strings.Join(words[:2], " ")]++
		switch {
		case words[0] == "curl":
			s := r.serve("bin/headroom serve --models-dir ~/models")
			out := r.run(strings.Replace(line, "127.0.0.1:11811", s.address, 1), "")
			if want := curlAnswer(line); want == "" || !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s\nanswers %s\nwant %s", line, out, want)
			}
			s.stop()
		case words[1] == "serve":
			r.serve(line).stop()
		case strings.HasPrefix(line, "bin/headroom machines add"):
			// Settings of its own make it another machine.
			studio = r.serve("env XDG_CONFIG_HOME=$TMPDIR/studio HOME=$TMPDIR/studio " +
				"bin/headroom serve")
			r.run(strings.Replace(line, "studio.local:11811", studio.address+" --name studio", 1),
				"")
		case strings.HasPrefix(line, "bin/headroom machines remove"):
			r.run(line, "")
			studio.stop()
		case words[1] == "agents": // they ask a running server
			s := r.serve("bin/headroom serve --models-dir ~/models")
			r.run(line, "y\n")
			s.stop()
		case words[1] == "pair": // it takes two machines; see TestPair
			r.checkArgs(words[1:])
		case words[1] == "selftest": // it takes minutes and compiles kernels; see TestSelftest
			r.checkArgs(words[1:])
		case strings.HasPrefix(line, "bin/headroom models delete"): // later lines need the model
			r.checkArgs(words[1:])
		case words[1] == "chat":
			// The second question is long enough to be cached on disk.
			if out := r.run(line, "What is a KV cache?\n"+
				strings.Repeat("The fox looked for the drum in the school. ", 30)+
				"\n"); !strings.Contains(out, "The KV cache keeps") {
				t.Errorf("%s\nsays %s", line, out)
			}
		case words[1] == "upload":
			hub := hubtest.New(t)
			hub.PartBytes = 1 << 20
			r.run("env HF_ENDPOINT="+hub.URL+" HF_TOKEN="+hubtest.Token+" "+line, "")
		case words[1] == "cache" && strings.Contains(line, "KEY"):
			r.run(strings.Replace(line, "KEY", r.key(), 1), "")
		default:
			longest := ""
			for first := range quickFlags {
				if (line == first || strings.HasPrefix(line, first+" ")) &&
					len(first) > len(longest) {
					longest = first
				}
			}
			r.run(line+quickFlags[longest], "")
		}
	}
	for _, command := range []string{"curl http://127.0.0.1:11811/v1/chat/completions",
		"bin/headroom serve", "bin/headroom run", "bin/headroom models", "bin/headroom cache",
		"bin/headroom bench"} {
		if ran[command] == 0 {
			t.Errorf("the documents show no %s: the test cannot parse them", command)
		}
	}
}

// shell runs the documents' commands in a folder of the test.
type shell struct {
	t   *testing.T
	dir string
}

func newShell(t *testing.T) *shell {
	r := &shell{t, t.TempDir()}
	home := isolate(t)
	t.Setenv("TMPDIR", r.dir)
	t.Setenv(asCommand, "1")
	t.Setenv("HF_ENDPOINT", hubOf(t, "mlx-community/Qwen3-0.6B-4bit", nil))
	demoFolder(t, filepath.Join(home, "models", "Qwen3-0.6B-4bit"))
	demoFolder(t, filepath.Join(home, "Downloads", "Qwen3-0.6B"))
	program, err := os.Executable()
	for name, tiny := range map[string]string{"bge-small-en-v1.5": "bert",
		"Qwen3-Reranker-0.6B": "qwen3_reranker"} {
		if err == nil {
			err = os.CopyFS(filepath.Join(home, "models", name),
				os.DirFS("../../engine/testdata/vectors/"+tiny))
		}
	}
	if err == nil {
		var file []byte
		if file, err = os.ReadFile("../../engine/testdata/gguf/qwen3.gguf"); err == nil {
			err = os.WriteFile(filepath.Join(home, "Downloads", "qwen3.gguf"), file, 0o600)
		}
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, "bin"), 0o700)
	}
	t.Setenv("CODEX_HOME", "")
	if err == nil { // an agent to launch
		err = os.MkdirAll(filepath.Join(home, ".local/bin"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, ".local/bin/claude"), []byte("#!/bin/sh\n"), 0o700)
	}
	if err == nil {
		err = os.Symlink(program, filepath.Join(r.dir, "bin", "headroom"))
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, "data"), 0o700)
	}
	for name, text := range map[string]string{"tiny.json": tinyShape,
		"data/train.jsonl": strings.Repeat(`{"text": "The dog has the drum."}`+"\n", 4),
		"notes.txt":        strings.Repeat("The dog has the drum. ", 20) + "\n",
		"requests.jsonl":   `{"custom_id":"a","url":"/v1/completions","body":{"prompt":"Hi"}}`} {
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *shell) command(line string) *exec.Cmd {
	c := exec.Command("sh", "-c", "exec "+line)
	c.Dir = r.dir
	return c
}

// run runs a line, which must succeed, and returns its output.
func (r *shell) run(line, stdin string) string {
	r.t.Helper()
	c := r.command(line)
	var output, errOut bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &output, &errOut
	began := time.Now()
	if err := c.Run(); err != nil {
		r.t.Fatalf("%s\n%v: %s%s", line, err, &output, &errOut)
	}
	r.t.Logf("%v  %s", time.Since(began).Round(time.Millisecond), line)
	return output.String()
}

// serve starts a server on a free port.
func (r *shell) serve(line string) *serverProcess {
	r.t.Helper()
	return awaitServer(r.t, r.command(line+" --port 0"))
}

// checkArgs checks that the arguments parse.
func (r *shell) checkArgs(words []string) {
	r.t.Helper()
	parser, err := kong.New(&CLI{}, variables())
	if err == nil {
		_, err = parser.Parse(words)
	}
	if err != nil {
		r.t.Errorf("%s: %v", strings.Join(words, " "), err)
	}
}

// key returns the key of a conversation on disk.
func (r *shell) key() string {
	r.t.Helper()
	text := r.run("bin/headroom cache ls --json", "")
	key := regexp.MustCompile(`"key": *"([0-9a-f]{8,})"`).FindStringSubmatch(text)
	if key == nil {
		r.t.Fatalf("no conversation is cached: %s", text)
	}
	return key[1]
}

// TestReadmeFlags: every flag in the documents is a flag of a command.
func TestReadmeFlags(t *testing.T) {
	lines, text := readmeLines(t)
	parser, err := kong.New(&CLI{}, variables())
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			known["--"+f.Name] = true
			for _, alias := range f.Aliases {
				known["--"+alias] = true
			}
			if f.Tag.Negatable != "" {
				known["--no-"+f.Name] = true
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	spans := readmeSpans.FindAllString(readmeBlocks.ReplaceAllString(text, ""), -1)
	found := 0
	for _, shown := range append(spans, lines...) {
		for _, flag := range readmeFlags.FindAllString(shown, -1) {
			found++
			if !known[flag] {
				t.Errorf("the documents show %s, in %s: there is no such flag", flag, shown)
			}
		}
	}
	if found < 20 {
		t.Errorf("the documents name %d flags: the test cannot parse them", found)
	}
}

// TestReadmeSettings: the documents' example settings load unchanged.
func TestReadmeSettings(t *testing.T) {
	_, text := readmeLines(t)
	shown := 0
	for _, block := range readmeBlocks.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(block[1], `"`) {
			continue
		}
		shown++
		dir := t.TempDir()
		file := fmt.Sprintf(`{"version": 2, %s}`, block[1])
		if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(file),
			0o600); err != nil {
			t.Fatal(err)
		}
		f, err := settings.Open(dir, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		kept, err := json.Marshal(f.Get())
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range regexp.MustCompile(`"(\w+)":`).FindAllString(block[1], -1) {
			if !bytes.Contains(kept, []byte(word)) {
				t.Errorf("the documents show %s, which is no setting: %s", word, kept)
			}
		}
	}
	if shown == 0 {
		t.Error("the documents show no settings: the test cannot parse them")
	}
}
