package train

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/textproc"
	"headroom/engine/tokenizer"

	"golang.org/x/sys/unix"
)

func demoProcessor(t testing.TB) *textproc.Processor {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		t.Fatal(err)
	}
	p, err := textproc.Read(checkpoint.Source{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resolved(t testing.TB, o Options) *Options {
	t.Helper()
	if err := o.Resolve(&Shape{Layers: 4}); err != nil {
		t.Fatal(err)
	}
	return &o
}

const (
	conversation = `{"messages": [{"role": "user", "content": "Hello"},
		{"role": "assistant", "content": "Hello to you"}]}`
	completion = `{"prompt": "Hello", "completion": "Hello to you"}`
	plain      = `{"text": "Hello to you"}`
)

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") + "\n" }

func TestForms(t *testing.T) {
	p := demoProcessor(t)
	o := resolved(t, Options{BatchSize: 1, MaskPrompt: true})
	read := func(text string) *Set {
		set, err := readSet(t.Context(), "train.jsonl", strings.NewReader(text), nil, p, o)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	a, b := read(oneLine(conversation)), read(oneLine(completion))
	if a.Form != Messages || b.Form != Completions || a.Tokens != b.Tokens || a.Tokens == 0 ||
		a.Shown[0] != b.Shown[0] || !strings.Contains(a.Shown[0], "Hello to you") {
		t.Errorf("a conversation is %+v, as prompt and completion it is %+v", a, b)
	}
	c := read(plain + "\n" + plain) // without a line break at the end
	words := len(p.Tokenizer().Encode("Hello to you", tokenizer.EncodeOptions{AddSpecial: true}))
	if c.Form != Text || c.Samples != 2 || c.Longest != words+1 || c.Cut != 0 {
		t.Errorf("texts: %+v, expected %d tokens and one for the end", c, words)
	}
	o.MaxSeqLength = 3
	if c := read(oneLine(conversation)); c.Cut != 1 || c.Masked != 1 {
		t.Errorf("cut: %+v", c)
	}
}

func TestFaultyData(t *testing.T) {
	p := demoProcessor(t)
	o := resolved(t, Options{})
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "train.jsonl is empty"},
		{"no JSON", "hello\n", `train.jsonl:1: got "hello", expected a JSON object`},
		{"a list", "[]\n", "expected a JSON object"},
		{"null", "null\n", "expected a JSON object"},
		{"two objects", plain + plain, "expected a JSON object"},
		{"an empty line", plain + "\n\n" + plain, "train.jsonl:2: the line is empty"},
		{"no form", `{"a": 1, "b": 2}`, `1: got "a", "b", expected "messages", "prompt" with`},
		{"no fields", `{}`, "an object without fields"},
		{"another form", plain + "\n" + completion, "2: got \"completion\", \"prompt\", expected " +
			"text as in the first line"},
		{"a number", `{"text": 7}`, `"text" is 7, expected a text`},
		{"a null", `{"text": null}`, `"text" is null, expected a text`},
		{"no messages", `{"messages": []}`, `"messages" is empty`},
		{"a message that is a text", `{"messages": ["x"]}`, "not a list of messages"},
		{"no role", `{"messages": [{"content": "x"}]}`, "a message needs a role"},
		{"tools", strings.Replace(conversation, "{", `{"tools": 1, `, 1), `"tools" is 1`},
		{"a tool", strings.Replace(conversation, "{", `{"tools": [1], `, 1), "tools[0]"},
		{"a long line", `{"text": "` + strings.Repeat("x", maxLine), "longer than"},
	} {
		text := c.text
		if c.name == "tools" || c.name == "a tool" {
			text = oneLine(text)
		}
		_, err := readSet(t.Context(), "train.jsonl", strings.NewReader(text), nil, p, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %s", c.name, err, c.want)
		}
	}
}

// TestPipe: a pipe in the place of a file is refused, and nobody waits for its other end.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.jsonl")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readFile(t.Context(), path, nil, demoProcessor(t), resolved(t, Options{}))
	if err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("got %v", err)
	}
}

func TestFolders(t *testing.T) {
	p := demoProcessor(t)
	write := func(files ...string) string {
		dir := t.TempDir()
		for _, name := range files {
			name, n, _ := strings.Cut(name, "*")
			text := strings.Repeat(plain+"\n", len(n))
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for _, c := range []struct {
		name  string
		files []string
		o     Options
		want  string
	}{
		{"all", []string{"train.jsonl*1111", "valid.jsonl*1111"}, Options{}, ""},
		{"no validation", []string{"train.jsonl*1111"}, Options{}, ""},
		{"no training", []string{"valid.jsonl*1111"}, Options{}, "has no train.jsonl"},
		{"no test", []string{"train.jsonl*1111"}, Options{Test: true}, "has no test.jsonl"},
		{"few", []string{"train.jsonl*111"}, Options{}, "train.jsonl has 3 samples, and a batch " +
			"has 4"},
		{"few of validation", []string{"train.jsonl*1111", "valid.jsonl*1"}, Options{},
			"valid.jsonl has 1 sample,"},
		{"masked text", []string{"train.jsonl*1111"}, Options{MaskPrompt: true}, "--mask-prompt"},
	} {
		_, err := ReadData(t.Context(), write(c.files...), p, resolved(t, c.o))
		if c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(problem.From(err).Why, c.want)) {
			t.Errorf("%s: got %v, expected %q", c.name, err, c.want)
		}
	}
}

// FuzzData: no input makes the reader panic, and what it accepts has a form and tokens.
func FuzzData(f *testing.F) {
	for _, text := range []string{oneLine(conversation), completion, plain + "\n" + plain, "{}",
		`{"messages": [{"role": "tool", "content": [{"type": "text"}]}], "tools": [{}]}`} {
		f.Add([]byte(text))
	}
	p := demoProcessor(f)
	o := resolved(f, Options{MaskPrompt: true})
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := readSet(t.Context(), "x", strings.NewReader(string(text)), nil, p, o)
		if err == nil && (set.Form == "" || set.Samples == 0 || set.Longest == 0 ||
			set.Median > set.Longest || int64(set.Longest) > set.Tokens) {
			t.Errorf("%+v", set)
		}
	})
}
