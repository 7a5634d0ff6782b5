package library

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/engine"
)

// TestAdapters: adapters are listed beneath the model of whose folder they are a part, or which
// their config names. Others are listed with the reason why they are no models.
func TestAdapters(t *testing.T) {
	of := func(base string) string {
		return ` = {"lora_parameters": {"rank": 8, "scale": 2}, "model": "` + base + `"}`
	}
	const weights = "/adapters.safetensors = 1234"
	root := t.TempDir()
	plant(t, root,
		"org/m/config.json = x", "org/m/model.safetensors = w",
		"other/m/config.json = y", "other/m/model.safetensors = v2",
		"org/n/config.json = z", "org/n/model.safetensors = v33",
		"org/m/adapters/adapter_config.json"+of("anything"), "org/m/adapters"+weights,
		"org/m/adapters/second/adapter_config.json"+of(""), "org/m/adapters/second"+weights,
		"mine/by-id/adapter_config.json"+of("ORG/m"), "mine/by-id"+weights,
		"mine/by-name/adapter_config.json"+of("/Users/me/models/n"), "mine/by-name"+weights,
		"mine/by-dir/adapter_config.json"+of(root+"/other/m"), "mine/by-dir"+weights,
		"mine/of-two/adapter_config.json"+of("m"), "mine/of-two"+weights,
		"mine/adapters/adapter_config.json"+of("org/m"), "mine/adapters"+weights,
		"mine/unknown/adapter_config.json"+of("org/gone"), "mine/unknown"+weights,
		"mine/odd/adapter_config.json = []", "mine/odd"+weights,
		"mine/peft/adapter_config.json = "+
			`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "org/n"}`,
		"mine/peft/adapter_model.safetensors = 12")
	var got []string
	describe := func(src engine.Source, o engine.Options) (engine.Description, error) {
		if strings.Contains(src.Dir, "mine") {
			return engine.Describe(src, o)
		}
		return (&fakeDescribe{}).describe(src, o)
	}
	for _, m := range New([]string{root}, engine.Options{}, describe).Scan()[1:] {
		line := m.ID + ":"
		for _, a := range m.Adapters {
			line += " " + a.Name
		}
		got = append(got, line)
	}
	want := []string{"mine/odd:", "mine/of-two:", "mine/unknown:",
		"org/m: adapters second mine-adapters by-id", "org/n: by-name peft", "other/m: by-dir"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAdaptersOfOtherRoots: the adapters of a second root are attached, however many adapters the
// first one has before the model.
func TestAdaptersOfOtherRoots(t *testing.T) {
	const config = "/adapter_config.json = " +
		`{"lora_parameters": {"rank": 8, "scale": 2}, "model": "tiny-llama"}`
	for n := range 6 {
		first, second := t.TempDir(), t.TempDir()
		plant(t, first, "tiny-llama/config.json = x", "tiny-llama/model.safetensors = w",
			"tiny-qwen3/config.json = y", "tiny-qwen3/model.safetensors = v2")
		var want []string
		add := func(root, name string) {
			dir := "adapters/" + name
			plant(t, root, dir+config, dir+"/adapters.safetensors = 1234")
			want = append(want, name)
		}
		for i := range n {
			add(first, "a"+strconv.Itoa(i))
		}
		for _, name := range []string{"o1", "o2", "o3", "o4"} {
			add(second, name)
		}
		describe := func(src engine.Source, o engine.Options) (engine.Description, error) {
			if strings.Contains(src.Dir, "adapters") {
				return engine.Describe(src, o)
			}
			return (&fakeDescribe{}).describe(src, o)
		}
		var got, ids []string
		for _, m := range New([]string{first, second}, engine.Options{}, describe).Scan()[1:] {
			ids = append(ids, m.ID)
			for _, a := range m.Adapters {
				got = append(got, a.Name)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(ids, []string{"tiny-llama", "tiny-qwen3"}) {
			t.Errorf("with %d adapters in the first root, the models %v have the adapters %v, "+
				"expected %v", n, ids, got, want)
		}
	}
}

// TestTrainings: the folder of a training is not listed before it has an adapter.
func TestTrainings(t *testing.T) {
	const dir, config = "adapters/mine/", `{"lora_parameters": {"rank": 8, "scale": 2}, ` +
		`"model": "m"}`
	begun := []string{dir + TrainingRecord + " = {}", dir + "training.log = x"}
	for _, c := range []struct {
		name   string
		files  []string
		listed []string
	}{
		{"begun", nil, []string{"m:"}},
		{"before a checkpoint", []string{dir + "adapter_config.json = " + config},
			[]string{"m:"}},
		{"stopped after a checkpoint", []string{dir + "adapter_config.json = " + config,
			dir + "0000100_adapters.safetensors = 1234", dir + "optimizer.safetensors = 12"},
			[]string{"m:"}},
		{"with an adapter", []string{dir + "adapter_config.json = " + config,
			dir + "adapters.safetensors = 1234"}, []string{"m: mine"}},
		{"a model beside a record", []string{dir + "config.json = y",
			dir + "model.safetensors = v2"}, []string{"adapters/mine:", "m:"}},
	} {
		root := t.TempDir()
		plant(t, root, "m/config.json = x", "m/model.safetensors = w")
		plant(t, root, begun...)
		plant(t, root, c.files...)
		describe := func(src engine.Source, o engine.Options) (engine.Description, error) {
			if _, err := os.Stat(filepath.Join(src.Dir, "config.json")); err != nil {
				return engine.Describe(src, o)
			}
			return (&fakeDescribe{}).describe(src, o)
		}
		var got []string
		for _, m := range New([]string{root}, engine.Options{}, describe).Scan()[1:] {
			line := m.ID + ":"
			for _, a := range m.Adapters {
				line += " " + a.Name
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.listed) {
			t.Errorf("%s: the list has %q, expected %q", c.name, got, c.listed)
		}
	}
}
