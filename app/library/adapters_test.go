package library

import (
	"slices"
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
