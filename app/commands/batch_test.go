package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/batch"
	"headroom/app/settings"
)

// TestBatch answers a file of requests of every kind, of which one is not valid. Answers are those
// that `run` gives. The same command again answers nothing.
func TestBatch(t *testing.T) {
	dir := isolate(t)
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var lines []string
	add := func(url, body string) {
		lines = append(lines, fmt.Sprintf(
			`{"custom_id":"%d","method":"POST","url":%q,"body":%s}`, len(lines), url, body))
	}
	chat := func(text string) string {
		return fmt.Sprintf(`{"model":"headroom-demo","temperature":0,"max_tokens":12,`+
			`"chat_template_kwargs":{"enable_thinking":false},"messages":[`+
			`{"role":"user","content":%q}]}`, text)
	}
	questions := []string{question, "Sort: pear, apple, fig", "What is 3 + 4?"}
	for _, q := range questions {
		add(batch.Endpoints[0], chat(q))
	}
	add("/v1/completions", `{"prompt":"The cat","max_tokens":3}`)
	add("/v1/responses", `{"input":"What is 3 + 4?","max_output_tokens":12}`)
	add("/v1/chat/completions", `{"messages":[],"temperature":9}`)
	if err := os.WriteFile(in, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, text, errOut := headroom("", "batch", in, out)
	if code != 1 || !strings.HasPrefix(text, "5 of 6 requests answered in ") ||
		!strings.Contains(errOut, "1 request failed") || !strings.Contains(errOut, out) {
		t.Errorf("exit %d, %q, %s", code, text, errOut)
	}
	got := batchAnswers(t, out)
	for i, q := range questions {
		_, want, _ := headroom("", "run", "--temp=0", "--max-tokens=12",
			"--no-think", q)
		if got[fmt.Sprint(i)] != strings.TrimSuffix(want, "\n") {
			t.Errorf("%s: %q, with run %q", q, got[fmt.Sprint(i)], want)
		}
	}
	if !strings.Contains(got["5"], "temperature") {
		t.Errorf("the request that is not valid: %q", got["5"])
	}
	code, text, _ = headroom("", "batch", "--json", in, out)
	var counts struct{ Total, Before, Completed, Failed int }
	if err := json.Unmarshal([]byte(text), &counts); err != nil || code != 1 ||
		counts.Total != 6 || counts.Before != 6 || counts.Completed > 0 || counts.Failed != 1 {
		t.Errorf("again: exit %d, %q", code, text)
	}
	for _, c := range []struct{ in, out, want string }{
		{in + "x", out, "There is no file"},
		{in, in, "The answers would replace the batch"},
		{in, dir, "is no file"},
	} {
		if code, _, errOut := headroom("", "batch", c.in, c.out); code != 1 ||
			!strings.Contains(errOut, c.want) {
			t.Errorf("exit %d, %s; want %q", code, errOut, c.want)
		}
	}
}

// TestBatchModels: which model answers, and what is said if requests name another one: before any
// request runs, with their lines.
func TestBatchModels(t *testing.T) {
	dir := isolate(t)
	in := filepath.Join(dir, "in.jsonl")
	for i, c := range []struct {
		models []string // of the requests; "": none
		args   []string
		want   string // parts of the error; "": all are answered
	}{
		{[]string{"headroom-demo", "", "default"}, nil, ""},
		{[]string{"gpt-4o", "", "gpt-4o"}, nil,
			`The requests name a model that is not there|"gpt-4o" (lines 1, 3)`},
		{[]string{"headroom-demo", "a", "a", "a", "a"}, nil, "The requests name several models|" +
			`"headroom-demo" (line 1), "a" (lines 2, 3, 4 and 1 more)`},
		{[]string{"", "gpt-4o"}, []string{"--model", "headroom-demo"},
			`Requests name another model than headroom-demo|"gpt-4o" (line 2)`},
		{[]string{"", "gpt-4o", "a"}, []string{"--model", "headroom-demo", "--any-model"}, ""},
	} {
		var text strings.Builder
		for i, m := range c.models {
			name := ""
			if m != "" {
				name = fmt.Sprintf(`"model":%q,`, m)
			}
			fmt.Fprintf(&text, `{"custom_id":"%d","url":"/v1/completions","body":{%s"prompt":"A",`+
				`"max_tokens":1}}`+"\n", i, name)
		}
		if err := os.WriteFile(in, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, fmt.Sprint(i))
		code, _, errOut := headroom("", append(append([]string{"batch"}, c.args...), "-i", in,
			"--output", out)...)
		message, why, _ := strings.Cut(c.want, "|")
		if (code == 0) != (c.want == "") || !strings.Contains(errOut, message) ||
			!strings.Contains(errOut, why) {
			t.Errorf("%q %q: exit %d, %s", c.models, c.args, code, errOut)
		}
		if _, err := os.Stat(out); (err == nil) != (c.want == "") {
			t.Errorf("%q: the answers: %v", c.models, err)
		}
	}
	for _, args := range [][]string{{in}, {}, {"-i", in}, {in, "x", "--output", "y"}} {
		if code, _, errOut := headroom("", append([]string{"batch"}, args...)...); code == 0 ||
			!strings.Contains(errOut, "file") {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}

// TestBatchAdapter: requests that name no model get that of --model, and the answers name it with
// its adapter. Without --model they get the demo model, whatever others name.
func TestBatchAdapter(t *testing.T) {
	adapted(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	text := `{"custom_id":"a","url":"/v1/completions","body":{"prompt":"A","max_tokens":1}}` +
		"\n" + `{"custom_id":"b","url":"/v1/completions","body":{"model":"tiny+one",` +
		`"prompt":"A","max_tokens":1}}`
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "batch", in, out)
	if code != 1 || !strings.Contains(errOut, `no model (line 1), "tiny+one" (line 2); those `+
		"that name none get headroom-demo") || exists(out) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	code, _, errOut = headroom("", "batch", "--model", "tiny+one", in, out)
	answers, err := os.ReadFile(out)
	if code != 0 || err != nil || strings.Count(string(answers), `"model":"tiny+one"`) != 2 {
		t.Errorf("exit %d, %s, %v: %s", code, errOut, err, answers)
	}
}

// TestBatchSequences: a batch runs 32 requests at once, unless a flag or the model's settings say
// how many.
func TestBatchSequences(t *testing.T) {
	s := settings.Settings{Models: map[string]settings.Model{"m": {MaxSequences: 2}}}
	for _, c := range []struct {
		model string
		args  []string
		want  int
	}{{"other", nil, batchSequences}, {"m", nil, 2}, {"m", []string{"--max-sequences=3"}, 3}} {
		f := flagsOf(t, c.args...)
		f.sequences = batchSequences
		if got := f.options(s, c.model).MaxSequences; got != c.want {
			t.Errorf("%s %v: %d requests at once, want %d", c.model, c.args, got, c.want)
		}
	}
}

// batchAnswers returns the text of each answer, or the message of its error, by custom_id.
func batchAnswers(t *testing.T, out string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var r struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body struct {
					Choices []struct {
						Text    string
						Message struct{ Content string }
					}
					Error struct{ Message string }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		b := r.Response.Body
		if all[r.CustomID] = b.Error.Message; len(b.Choices) > 0 {
			all[r.CustomID] = b.Choices[0].Text + b.Choices[0].Message.Content
		}
	}
	return all
}

// BenchmarkBatch answers 64 short requests at once, and one after another.
func BenchmarkBatch(b *testing.B) {
	dir := b.TempDir()
	b.Setenv("HOME", dir)
	b.Setenv("XDG_CONFIG_HOME", dir)
	b.Setenv("XDG_CACHE_HOME", dir)
	in := filepath.Join(dir, "in.jsonl")
	var lines []string
	for i := range 64 {
		lines = append(lines, fmt.Sprintf(`{"custom_id":"%d","url":"/v1/completions","body":{`+
			`"prompt":"Request %d","max_tokens":32,"ignore_eos":true}}`, i, i))
	}
	if err := os.WriteFile(in, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, sequences := range []string{"1", "32"} {
		b.Run(sequences+"_at_once", func(b *testing.B) {
			for i := range b.N {
				code, _, errOut := headroom("", "batch", "--speculate=off", "--max-sequences",
					sequences, in, filepath.Join(dir, fmt.Sprint(sequences, "_", i, ".jsonl")))
				if code != 0 {
					b.Fatal(errOut)
				}
			}
		})
	}
}
