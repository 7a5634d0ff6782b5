package commands

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/demo"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/service"
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
			"--num-draft-tokens: it is 9, expected 1 to 8 tokens"},
		{[]string{"run", "--draft-model", "x", "--speculate", "off", "x"}, 2,
			"--draft-model has no effect with the other flags: it needs --speculate auto, draft, " +
				"dflash or mtp"},
		{[]string{"run", "--num-draft-tokens", "3", "--speculate", "lookup", "x"}, 2,
			"--num-draft-tokens has no effect with the other flags: it needs a draft model"},
		{[]string{"run", "--snapkv-tokens", "99", "--no-snapkv", "x"}, 2,
			"--snapkv-tokens has no effect with the other flags: it needs --snapkv"},
		{[]string{"run", "--draft-model", "nope", "x"}, 1, `there is no model "nope" here, the models are headroom-demo`},
	} {
		code, out, errOut := headroom("", c.args...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %s", c.args, code, out, errOut)
		}
	}
}

// TestFlagsWithoutEffect: a flag that has no effect with the settings as they are is in a warning.
// Settings of any model that give it one are enough. A setting that has none for its model is in
// one, too, unless the model's settings turn off what it needs.
func TestFlagsWithoutEffect(t *testing.T) {
	on, off := true, false
	of := func(m settings.Model) settings.Settings {
		return settings.Settings{Models: map[string]settings.Model{"a": m}}
	}
	with := settings.Settings{Models: map[string]settings.Model{
		"a": {DraftModel: "b"}, "c": {SnapKV: &on}}}
	for _, c := range []struct {
		args []string
		s    settings.Settings
		want string // "": no warning
	}{
		{[]string{"--num-draft-tokens=3"}, settings.Settings{}, "--num-draft-tokens"},
		{[]string{"--num-draft-tokens=3"}, with, ""},
		{[]string{"--num-draft-tokens=3", "--draft-model=x"}, settings.Settings{}, ""},
		{[]string{"--snapkv-tokens=99"}, settings.Settings{}, "--snapkv-tokens"},
		{[]string{"--snapkv-tokens=99"}, with, ""},
		{[]string{"--snapkv-tokens=99", "--snapkv"}, settings.Settings{}, ""},
		{nil, settings.Settings{}, ""},
		{nil, of(settings.Model{NumDraftTokens: 3}), "models.a.numDraftTokens"},
		{nil, of(settings.Model{NumDraftTokens: 3, DraftModel: "b"}), ""},
		{[]string{"--draft-model=b"}, of(settings.Model{NumDraftTokens: 3}), ""},
		{nil, of(settings.Model{SnapKVTokens: 99}), "models.a.snapKVTokens"},
		{nil, of(settings.Model{SnapKVTokens: 99, SnapKV: &on}), ""},
		{nil, of(settings.Model{SnapKVTokens: 99, SnapKV: &off}), ""},
		{[]string{"--snapkv"}, of(settings.Model{SnapKVTokens: 99}), ""},
		{nil, of(settings.Model{DraftModel: "b", Speculate: "lookup"}), ""},
	} {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		flagsOf(t, c.args...).warnOfFlags(c.s)
		slog.SetDefault(before)
		if got := log.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: the log has %q, expected a warning of %q", c.args, got, c.want)
		}
	}
}

// TestWaysOf: what drafts is named in words, and lookups alone are not taken for nothing.
func TestWaysOf(t *testing.T) {
	for want, e := range map[string]host.EngineState{
		"off":                                    {},
		"by lookup":                              {Lookups: true},
		"by the draft model small":               {Drafter: "draft", DraftModel: "small"},
		"by the DFlash drafter small":            {Drafter: "dflash", DraftModel: "small"},
		"by the model's own block and by lookup": {Drafter: "mtp", Lookups: true},
		"by the block small":                     {Drafter: "mtp", DraftModel: "small"},
		"by the model's own block; the draft model is not used: no room": {Drafter: "mtp",
			DraftModelUnused: "no room"},
	} {
		if got := waysOf(e); got != want {
			t.Errorf("%+v: %q, expected %q", e, got, want)
		}
	}
}

// TestBlockUnused: the list of models says which run without their block, and why.
func TestBlockUnused(t *testing.T) {
	var out bytes.Buffer
	printBlocks(&terminal{out: &out}, []library.Model{{ID: "whole"},
		{ID: "part", Description: engine.Description{BlockUnused: "it lacks mtp.fc.weight"}}})
	if got, want := out.String(), "\nWithout their block that drafts tokens:\n"+
		"  part: it lacks mtp.fc.weight\n"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

// TestBenchOfDrafter: a drafter is no model that could be measured alone, be it a config.json or a
// folder, and the benchmark says what can draft in it.
func TestBenchOfDrafter(t *testing.T) {
	isolate(t)
	const dflash = "../../engine/models/testdata/dflash/qwen3_5_text"
	const assistant = "../../engine/models/testdata/assistant/plain"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"is a drafter, and no model", []string{"bench", "snapkv", dflash + "/config.json"}},
		{"is a drafter, and no model", []string{"bench", "speculate", dflash}},
		{"is a drafter, and no model", []string{"bench", "speculate", assistant}},
		{"it is a drafter that becomes a part of its model",
			[]string{"bench", "speculate", "qwen3-0.6b", "--draft-model", assistant}},
	} {
		if code, _, errOut := headroom("", c.args...); code != 1 ||
			!strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %s", c.args, code, errOut)
		}
	}
}

// TestRunWithoutTemplate: a model without a chat template continues the text, and says so.
func TestRunWithoutTemplate(t *testing.T) {
	isolate(t)
	dir := filepath.Join(t.TempDir(), "plain")
	if err := os.CopyFS(dir, os.DirFS("../../engine/models/testdata/tiny/qwen3")); err != nil {
		t.Fatal(err)
	}
	tokens, err := demo.Files.ReadFile("model/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "run", "--device=cpu", "--max-tokens=1", dir, "!")
	if code != 0 || !strings.Contains(errOut,
		"plain has no chat template: it continues the text that it is given.\n") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestModelsListDraftModels: the list names the draft models of the settings, and says why one is
// not used.
func TestModelsListDraftModels(t *testing.T) {
	isolate(t)
	if err := service.OpenSettings().Change(func(s *settings.Settings) {
		s.Models = map[string]settings.Model{demo.ID: {DraftModel: "nope"}}
	}); err != nil {
		t.Fatal(err)
	}
	const want = "\nDraft models:\n  headroom-demo: nope, which is not used: there is no model"
	if code, out, errOut := headroom("", "models"); code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}
