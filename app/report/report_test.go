package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headroom/app/logs"
	"headroom/app/memory"
	"headroom/app/settings"
)

// TestReport: the parts have what a bug report needs, and no secret and no name of a home folder.
func TestReport(t *testing.T) {
	home := t.TempDir()
	selfTest := filepath.Join(home, "selftest.json")
	if err := os.WriteFile(selfTest, []byte(`{"Outcome": "passed"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings.Default()
	s.APIKey, s.AllowHosts = "sk-very-secret", []string{"adas-mac.local"}
	s.HubEndpoint = "https://ada:password@hub.example.org/mirror?token=t0ken"
	s.ModelFolders = []string{home + "/models"}
	s.Models = map[string]settings.Model{"org/name": {ContextTokens: 4096,
		TemplateArguments: []byte(`{"my": "diary"}`)}}
	list := New(Sources{Version: "0.1.0", Settings: s, Home: home, SelfTest: selfTest,
		Memory:  memory.Reading{TotalBytes: 8 << 30},
		State:   map[string]string{"status": "ready", "url": "/?token=control-token"},
		Secrets: []string{"control-token", ""},
		Log: []logs.Line{{Level: "INFO", Message: "model loaded",
			Fields: "key=sk-very-secret dir=" + home + "/models/a"}}})
	all := ""
	for _, p := range list {
		if p.Text == "" {
			t.Errorf("%s is empty", p.Name)
		}
		all += p.Name + "\n" + p.Text
	}
	for _, want := range []string{"Headroom 0.1.0", "Memory: 8.0 GB", `"port": 11811`,
		`"apiKey": "(hidden)"`, `"hubEndpoint": "https://hub.example.org/mirror"`,
		`"contextTokens": 4096`, `"status": "ready"`, `"Outcome": "passed"`,
		"model loaded key=(hidden) dir=~/models/a", `"~/models"`} {
		if !strings.Contains(all, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	for _, secret := range []string{"sk-very-secret", "adas-mac", "password", "t0ken", "diary",
		"control-token", home} {
		if strings.Contains(all, secret) {
			t.Errorf("it has %s", secret)
		}
	}
	for _, p := range New(Sources{}) {
		if p.Text == "" {
			t.Errorf("without sources, %s is empty", p.Name)
		}
	}
}

// TestEverySettingIsDecided: each key of the settings is shown, or hidden on purpose.
func TestEverySettingIsDecided(t *testing.T) {
	onPurpose := map[string]bool{"apiKey": true, "allowHosts": true, "allowOrigins": true}
	known := map[string]bool{}
	for i := range reflect.TypeFor[settings.Settings]().NumField() {
		f := reflect.TypeFor[settings.Settings]().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() {
			continue
		}
		known[name] = true
		if (shown[name] != nil) == onPurpose[name] {
			t.Errorf("%s is neither shown nor hidden on purpose, or both", name)
		}
	}
	for name := range shown {
		if !known[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
}
