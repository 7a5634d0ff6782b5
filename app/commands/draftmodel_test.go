package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/app/settings"
	"headroom/engine"
)

// TestDraftModelOptions: a flag names the draft model of all models, and is required. Settings name
// that of one model. A name is one by which requests get the model.
func TestDraftModelOptions(t *testing.T) {
	home := isolate(t)
	dir := filepath.Join(home, "models", "org", "small")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := settings.Settings{Models: map[string]settings.Model{
		"m": {DraftModel: "org/small", NumDraftTokens: 3}, "org/small": {Aliases: []string{"tiny"}},
		"off": {Speculate: "off", DraftModel: "gone"}, "flash": {Speculate: "dflash"}}}
	folders := []string{"--models-dir", filepath.Join(home, "models")}
	for _, c := range []struct {
		model string
		args  []string
		how   string
		want  engine.DraftModel // Source has the folder alone
	}{
		{"m", nil, "auto", engine.DraftModel{Name: "org/small", Tokens: 3}},
		{"m", []string{"--num-draft-tokens", "2"}, "auto",
			engine.DraftModel{Name: "org/small", Tokens: 2}},
		{"x", nil, "auto", engine.DraftModel{}},
		{"x", []string{"--draft-model", "tiny"}, "auto",
			engine.DraftModel{Name: "tiny", Required: true}},
		{"x", []string{"--draft-model", dir, "--speculate", "draft"}, "draft",
			engine.DraftModel{Name: dir, Required: true}},
		{"x", []string{"--draft-model", dir, "--speculate", "dflash"}, "dflash",
			engine.DraftModel{Name: dir, Required: true}},
		{"flash", []string{"--draft-model", "small"}, "dflash",
			engine.DraftModel{Name: "small", Required: true}},
		{"off", nil, "off", engine.DraftModel{Name: "gone"}},
		{"off", []string{"--draft-model", "small"}, "auto",
			engine.DraftModel{Name: "small", Required: true}},
	} {
		o := flagsOf(t, append(folders, c.args...)...).options(s, c.model)
		if o.Speculate != c.how {
			t.Errorf("%s %q: decodes ahead by %q, expected %q", c.model, c.args, o.Speculate, c.how)
		}
		var got engine.DraftModel
		if o.DraftModel != nil {
			got = *o.DraftModel
		}
		in := map[string]string{"": "", "gone": "gone"}
		if want, ok := in[got.Name]; ok && got.Source.Dir != want ||
			!ok && got.Source.Dir != dir {
			t.Errorf("%s %q: the draft model is in %q", c.model, c.args, got.Source.Dir)
		}
		got.Source = engine.Source{}
		if got.Name != c.want.Name || got.Required != c.want.Required ||
			got.Tokens != c.want.Tokens {
			t.Errorf("%s %q: %+v, expected %+v", c.model, c.args, got, c.want)
		}
	}
	o := flagsOf(t, "--draft-model", demo.ID).options(s, "x")
	if o.DraftModel.Source.FS == nil {
		t.Errorf("%+v, expected the bundled model", o.DraftModel)
	}
}

// TestDraftModelRefused: a draft model on the command line that cannot be used is an error.
func TestDraftModelRefused(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "--num-draft-tokens", "9"}, 2,
			"--num-draft-tokens: expected 0 to 8 drafts, got 9"},
		{[]string{"run", "--draft-model", "x", "--speculate", "off", "x"}, 2,
			`--draft-model needs --speculate auto, draft, dflash or mtp, got "off"`},
		{[]string{"run", "--draft-model", "nope", "x"}, 1, "there is no model nope here"},
	} {
		code, out, errOut := headroom("", c.args...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %s", c.args, code, out, errOut)
		}
	}
}
