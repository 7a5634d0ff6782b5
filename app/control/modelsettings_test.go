package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"headroom/app/settings"
	"headroom/engine"
)

// TestModelSettings: valid settings are checked, saved and returned; invalid ones change nothing.
func TestModelSettings(t *testing.T) {
	file, err := settings.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{}
	s := httptest.NewServer(
		New(Options{Host: h, Token: "T", Server: http.NotFoundHandler(), Settings: file,
			ModelFlags: settings.Model{MaxSequences: 2},
			ModelOptions: func(s settings.Settings, id string) engine.Options {
				return engine.Options{KVFormat: s.ForModel(id).KVFormat}
			}}))
	defer s.Close()
	for _, c := range []struct {
		method, body string
		status       int
		want         settings.Model
	}{
		{"GET", "", 200, settings.Model{}},
		{"PUT", `{"contextTokens":4096,"kvFormat":"q8_0"}`, 200,
			settings.Model{ContextTokens: 4096, KVFormat: "q8_0"}},
		{"PUT", `{"kvFormat":"f17"}`, 400, settings.Model{ContextTokens: 4096, KVFormat: "q8_0"}},
		{"PUT", `{"contextTokens":-1}`, 400, settings.Model{ContextTokens: 4096, KVFormat: "q8_0"}},
		{"PUT", `{"maxSequences":257}`, 400, settings.Model{ContextTokens: 4096, KVFormat: "q8_0"}},
		{"PUT", `{"numDraftTokens":9}`, 400, settings.Model{ContextTokens: 4096, KVFormat: "q8_0"}},
		{"PUT", `{"draftModel":"O/S","numDraftTokens":4,"speculate":"draft"}`, 200,
			settings.Model{DraftModel: "O/S", NumDraftTokens: 4, Speculate: "draft"}},
		{"PUT", `{"stateFormat":"int8"}`, 200, settings.Model{StateFormat: "int8"}},
		{"PUT", `{"temperature":0,"topK":20,"templateArguments":{"enable_thinking":false}}`, 200,
			settings.Model{Temperature: new(0.0), TopK: new(20),
				TemplateArguments: json.RawMessage(`{"enable_thinking":false}`)}},
		{"PUT", `{"temperature":3}`, 400,
			settings.Model{Temperature: new(0.0), TopK: new(20),
				TemplateArguments: json.RawMessage(`{"enable_thinking":false}`)}},
		{"PUT", `{}`, 200, settings.Model{}},
	} {
		status, _, text := do(t, c.method, s.URL+"/control/models/O%2FM/settings", c.body,
			TokenHeader, "T")
		var got ModelSettings
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != c.status {
			t.Errorf("%s: %d %s, want %d", c.body, status, text, c.status)
		}
		if status == 200 && (!reflect.DeepEqual(got.Settings, c.want) ||
			!reflect.DeepEqual(got.ReadOnly, []string{"maxSequences"})) {
			t.Errorf("%s: returned %+v, want %+v", c.body, got, c.want)
		}
		if saved := file.Get().ForModel("o/m"); !reflect.DeepEqual(saved, c.want) {
			t.Errorf("%s: saved %+v, want %+v", c.body, saved, c.want)
		}
	}
	if len(file.Get().Models) != 0 {
		t.Errorf("empty settings were saved: %v", file.Get().Models)
	}
	if got := strings.Join(h.models, ", "); got !=
		"renew O/M, renew O/M, renew O/M, renew O/M, renew O/M" {
		t.Errorf("calls: %s", got)
	}
}

// TestModelSettingsInWords: a value of the wrong type is refused in words of JSON, with its key.
func TestModelSettingsInWords(t *testing.T) {
	file, err := settings.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(New(Options{Host: &fakeHost{}, Token: "T", Settings: file,
		Server: http.NotFoundHandler()}))
	defer s.Close()
	for body, want := range map[string]string{
		`{"draftModel":5}`:       "draftModel: expected a text, got number",
		`{"numDraftTokens":"x"}`: "numDraftTokens: expected an integer, got string",
		`{"numDraftTokens":9}`:   "numDraftTokens: it is 9, expected 1 to 8 tokens",
		`{"aliases":{}}`:         "aliases: expected a list, got object",
		`{"pinned":1}`:           "pinned: expected true or false, got number",
	} {
		status, _, text := do(t, "PUT", s.URL+"/control/models/m/settings", body, TokenHeader, "T")
		if status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, expected %q", body, status, text, want)
		}
	}
}

func (h *fakeHost) DraftModels(id string) ([]string, error) {
	return []string{"drafter of " + id}, nil
}
