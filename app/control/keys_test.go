package control

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"headroom/engine/guard"
)

// TestKeysOverHTTP makes, lists, changes and removes keys. Each change applies at once, and only
// the response that makes a key has its text.
func TestKeysOverHTTP(t *testing.T) {
	w := newGeneral(t)
	send := func(method, path, body string) (int, string) {
		t.Helper()
		status, header, text := do(t, method, w.url+path, body, TokenHeader, "T")
		if header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be stored", method, path)
		}
		return status, text
	}
	status, text := send("POST", "/control/keys", `{"name":"laptop","models":["o/m"],`+
		`"requestsPerMinute":60,"concurrentRequests":2,"priority":"batch"}`)
	var made NewAPIKey
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK ||
		w.keys.Find(made.Text) == nil || made.Key.Name != "laptop" || made.Key.Requests != 0 {
		t.Fatalf("%d %s", status, text)
	}
	end, err := w.keys.Find(made.Text).Begin(func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	end(guard.Used{PromptTokens: 10, GeneratedTokens: 2})
	_, text = send("GET", "/control/keys", "")
	var list APIKeyList
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Keys) != 1 ||
		strings.Contains(text, made.Text) {
		t.Fatal(text)
	}
	got := list.Keys[0]
	used, created := got.LastUsedAtUnixMs, got.CreatedAtUnixMs
	if used == 0 || created == 0 || got.Requests != 1 || got.PromptTokens != 10 ||
		got.GeneratedTokens != 2 || len(got.Models) != 1 || got.RequestsPerMinute != 60 ||
		got.ConcurrentRequests != 2 || got.Priority != "batch" {
		t.Errorf("%s", text)
	}
	if _, general, _ := w.put(t, `{}`); general.NamedKeys != 1 {
		t.Errorf("the settings say that there are %d named keys", general.NamedKeys)
	}
	status, text = send("PUT", "/control/keys/"+got.ID, `{"name":"phone"}`)
	if status != http.StatusOK || !strings.Contains(text, `"name":"phone","models":[],`+
		`"requestsPerMinute":0,"concurrentRequests":0,"priority":""`) ||
		w.keys.Find(made.Text).Name != "phone" {
		t.Errorf("%d %s", status, text)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/control/keys", `{"name":""}`, 400},
		{"POST", "/control/keys", `{"name":"Phone"}`, 409},
		{"POST", "/control/keys", `{"name":"x","requestsPerMinute":-1}`, 400},
		{"POST", "/control/keys", `{`, 400},
		{"POST", "/control/keys", `{"name":"x"} {}`, 400},
		{"POST", "/control/keys", `{"name":"x","model":["o/m"]}`, 400},
		{"POST", "/control/keys", `{"name":"x","models":["O/M","none"]}`, 400},
		{"PUT", "/control/keys/" + got.ID, `{"name":"phone","models":["none"]}`, 400},
		{"PUT", "/control/keys/" + got.ID, `{"name":"phone","limit":1}`, 400},
		{"PUT", "/control/keys/none", `{"name":"x"}`, 404},
		{"DELETE", "/control/keys/none", ``, 404},
	} {
		if status, text := send(c.method, c.path, c.body); status != c.status ||
			!strings.Contains(text, `"error"`) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, text)
		}
	}
	if status, text := send("DELETE", "/control/keys/"+got.ID, ""); status != 200 ||
		text != `{"keys":[]}`+"\n" || w.keys.Find(made.Text) != nil {
		t.Errorf("%d %s", status, text)
	}
}
