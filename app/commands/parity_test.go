package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headroom/app/demo"
	"headroom/app/parity"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// TestParity checks the demo model with prompts of a file, as a table and as JSON.
func TestParity(t *testing.T) {
	home := isolate(t)
	t.Setenv("TMPDIR", home)
	prompts := filepath.Join(home, "prompts.txt")
	text := "What is a KV cache?\n\nSort: pear, apple, fig\n"
	if err := os.WriteFile(prompts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"parity", "headroom-demo", "--prompts", prompts, "--tokens=12",
		"--device=cpu", "--threads=1"}
	code, out, errOut := headroom("", args...)
	for _, want := range []string{`(?m)^headroom-demo on CPU, .*; 2 answers of at most 12 tokens$`,
		`(?m)^plain, one by one +2 +\d+ +\d+/s +\d+\.\d/s *$`,
		`(?m)^in a crowd +2 of 2 +(\d+) of \d+ +same +\d+/s +\d+\.\d/s *$`,
		`(?m)^after a restart +not tried +none of \d+ prompt tokens came from disk$`,
		`(?m)^ahead, some drafts wrong +2 of 2 .* \d+ of \d+ drafts were right$`,
		`(?m)^KV cache in f16 .* within `,
		`(?m)^All 7 ways that must equal plain decoding do, 1 more could not be tried\b.*\.\n$`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the output lacks %s", want)
		}
	}
	if code != 0 || strings.Count(errOut, " of 5: ") != 5 {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	code, out, errOut = headroom("", append(args, "--json")...)
	var r parity.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Equal ||
		r.Model != demo.ID || r.Prompts != 2 || r.MaxTokens != 12 || len(r.Ways) != 11 {
		t.Errorf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	if left, err := filepath.Glob(filepath.Join(home, "headroom-parity-*")); err != nil ||
		len(left) > 0 {
		t.Errorf("%s are left (%v)", left, err)
	}
}

// TestParityOfBuiltInPrompts: they are long enough for the cache on disk, and short enough for a
// model with a context of 4,096 tokens.
func TestParityOfBuiltInPrompts(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom("", "parity", "--tokens=4", "--context=4096", "--device=cpu")
	if code != 0 || !regexp.MustCompile(`(?m)^after a restart +8 of 8 .* [1-9]\d+ of \d+ prompt `+
		`tokens came from disk$`).MatchString(out) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

// TestParityDiffers decodes ahead with other weights. The exit code is 1, and the output says where
// the answers part.
func TestParityDiffers(t *testing.T) {
	isolate(t)
	config, err := demo.Files.ReadFile("model/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	c := Parity{Tokens: 8, Device: engine.DeviceCPU, Threads: 1, Context: 2048,
		open: func(ctx context.Context, o engine.Options) (*engine.Engine, error) {
			if o.Speculate == engine.SpeculateAuto {
				return engine.Open(ctx, engine.Random(config), o)
			}
			return openDemo(ctx, o)
		}}
	code := report(c.Run(t.Context(), &terminal{out: &out, err: &errOut}), &errOut)
	for _, want := range []string{`(?m)^decoded ahead +0 of 8 `,
		`(?m)^decoded ahead: answer 1 \("What is a KV cache\?"\) parts at token \d: plain ".+" ` +
			`\(-[\d.e-]+\), here ".*" \(-[\d.e-]+\)$`,
		`(?m)^Different from plain decoding, and must not be: decoded ahead in 8 of 8 answers, ` +
			`.*\.\n$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %s", want)
		}
	}
	if code != 1 {
		t.Errorf("exit %d, %s%s", code, &out, &errOut)
	}
}

func openDemo(ctx context.Context, o engine.Options) (*engine.Engine, error) {
	src, err := benchSource(demo.ID)
	if err != nil {
		return nil, err
	}
	return engine.Open(ctx, src, o)
}

func TestReadPrompts(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		err  string
	}{
		{"a\n\n  b c \r\n{d}", []string{"a", "b c", "{d}"}, ""},
		{`{"prompt": "a\nb"}` + "\n\n" + `{"id": 3, "prompt": ""}`, []string{"a\nb", ""}, ""},
		{`{"prompt": "a"}` + "\nb", nil, "Line 2 is not a prompt"},
		{"\n" + `{"text": "a"}`, nil, `Line 2 is not a prompt: it has no "prompt"`},
		{`{"prompt": 3}`, nil, "Line 1 is not a prompt: prompt: expected a text, got number"},
		{"\xff", nil, "Line 1 is not a prompt: it is not UTF-8"},
		{strings.Repeat("a", 1<<20), []string{strings.Repeat("a", 1<<20)}, ""},
		{" \n", nil, "There are no prompts"},
	} {
		got, err := readPrompts([]byte(c.text))
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") ||
			!strings.Contains(fmt.Sprint(err), c.err) && err != nil {
			t.Errorf("%q: %q, %v, expected %q, %s", c.text, got, err, c.want, c.err)
		}
	}
}

func TestParityRefusals(t *testing.T) {
	home := isolate(t)
	vectors, pipe := "../../engine/testdata/vectors/modernbert", filepath.Join(home, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--tokens is 0, expected 1 or more", []string{"--tokens=0"}},
		{2, "--threads is -1, expected 0 to 1024", []string{"--threads=-1"}},
		{2, "there is no file", []string{"--prompts", filepath.Join(home, "none.txt")}},
		{1, "There is no model", []string{"gpt-4"}},
		{1, "generates no text", []string{vectors}},
		{1, "Prompt 1 is too long to be checked", []string{"--context=8", "--device=cpu"}},
		{1, "shorter than the context of 64", []string{"--context=64", "--device=cpu"}},
		{1, "The prompts cannot be read", []string{"--prompts", "/dev/zero"}},
		{1, "Choose a regular file, or - for standard input", []string{"--prompts", pipe}},
		{1, "There are no prompts", []string{"--prompts", "-"}},
	} {
		if code, out, errOut := headroom("", append([]string{"parity"}, c.args...)...); code !=
			c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%s: exit %d, %s%s, expected %s", c.args, code, out, errOut, c.want)
		}
	}
	_, err := (&Parity{Prompts: home}).texts(t.Context(), nil)
	if problem.From(err).Code != problem.BadRequest {
		t.Errorf("a folder of prompts: %v", err)
	}
}

// TestParityNamesDraftModel: the row of a draft model that a setting names and that cannot draft
// says why, and names the setting and the file.
func TestParityNamesDraftModel(t *testing.T) {
	home := isolate(t)
	file := service.OpenSettings()
	if err := file.Change(func(s *settings.Settings) {
		s.Models = map[string]settings.Model{demo.ID: {DraftModel: "nope"}}
	}); err != nil {
		t.Fatal(err)
	}
	prompts := filepath.Join(home, "prompts.txt")
	if err := os.WriteFile(prompts, []byte("What is a KV cache?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := headroom("", "parity", "--device=cpu", "--tokens=6", "--prompts", prompts)
	want := `there is no model "nope" here, the models are headroom-demo; the setting ` +
		"draftModel in " + file.Path() + " names it"
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, %s%s, expected %s", code, out, errOut, want)
	}
}

// TestParityBlamesSettings: the error names the setting that is to blame, and the file.
func TestParityBlamesSettings(t *testing.T) {
	isolate(t)
	file := service.OpenSettings()
	if err := file.Change(func(s *settings.Settings) {
		s.Models = map[string]settings.Model{demo.ID: {ContextTokens: 64, Aliases: []string{"d"}}}
	}); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "parity", "--device=cpu", "d")
	if want := "This model's settings have contextTokens, in " + file.Path() + "."; code != 1 ||
		!strings.Contains(errOut, want) {
		t.Errorf("exit %d, %s, expected %s", code, errOut, want)
	}
}
