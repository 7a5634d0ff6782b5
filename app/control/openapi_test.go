package control

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/app/keys"
	"headroom/app/machines"
)

// described returns the OpenAPI document that a client receives.
func described(t *testing.T, url string) (document map[string]any) {
	t.Helper()
	status, _, text := do(t, "GET", url+"/control/openapi.json", "", TokenHeader, "T")
	if err := json.Unmarshal([]byte(text), &document); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	return document
}

// at returns the value at a path of object keys; nil if a key is missing.
func at(node any, names ...string) any {
	for _, name := range names {
		m, _ := node.(map[string]any)
		node = m[name]
	}
	return node
}

// TestResponsesMatchTheDocument checks every field of the responses against the schemas.
func TestResponsesMatchTheDocument(t *testing.T) {
	_, _, plain := newAPI(t)
	general := newGeneral(t)
	slog.New(general.logs.Handler(io.Discard, false)).Info("a line")
	withSettings := general.url
	other, err := general.others.Add(machines.Machine{Kind: machines.OpenAI, URL: "http://h"}, "")
	if err != nil {
		t.Fatal(err)
	}
	named, _, err := general.keys.Add("named", keys.Limits{Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{"GET /control/events": true} // TestEvents reads the stream
	for _, c := range []struct{ url, method, path, pattern, body string }{
		{plain, "GET", "/control/state", "/control/state", ""},
		{plain, "POST", "/control/engine/start", "/control/engine/start", `{"model":"m"}`},
		{plain, "POST", "/control/engine/stop", "/control/engine/stop", ""},
		{plain, "GET", "/control/requests/recent", "/control/requests/recent", ""},
		{plain, "GET", "/control/models", "/control/models", ""},
		{plain, "GET", "/control/memory/what-if?context=5", "/control/memory/what-if", ""},
		{plain, "GET", "/control/memory/wired", "/control/memory/wired", ""},
		{plain, "GET", "/control/cache", "/control/cache", ""},
		{plain, "GET", "/control/cache/abcd", "/control/cache/{key}", ""},
		{plain, "DELETE", "/control/cache/abcd", "/control/cache/{key}", ""},
		{plain, "GET", "/control/openapi.json", "/control/openapi.json", ""},
		{plain, "GET", "/control/cache/beef", "/control/cache/{key}", ""},      // an error
		{plain, "POST", "/control/engine/start", "/control/engine/start", `7`}, // another error
		{withSettings, "GET", "/control/settings", "/control/settings", ""},
		{withSettings, "PUT", "/control/settings", "/control/settings", `{"idleUnloadMinutes":1}`},
		{withSettings, "GET", "/control/settings/cache", "/control/settings/cache", ""},
		{withSettings, "GET", "/control/logs", "/control/logs", ""},
		{withSettings, "GET", "/control/report", "/control/report", ""},
		{withSettings, "GET", "/control/update", "/control/update", ""},
		{withSettings, "POST", "/control/update/check", "/control/update/check", ""},
		{withSettings, "POST", "/control/update/download", "/control/update/download", ""},
		{withSettings, "POST", "/control/update/cancel", "/control/update/cancel", ""},
		{withSettings, "POST", "/control/update/back", "/control/update/back", ""},
		{withSettings, "GET", "/control/jobs", "/control/jobs", ""},
		{withSettings, "POST", "/control/cache/move", "/control/cache/move", `{"dir":"x"}`}, // an error
		{withSettings, "PUT", "/control/chats/c-1", "/control/chats/{id}", chatExample},
		{withSettings, "GET", "/control/chats", "/control/chats", ""},
		{withSettings, "GET", "/control/chats/c-1", "/control/chats/{id}", ""},
		{withSettings, "GET", "/control/chats/c-2", "/control/chats/{id}", ""}, // an error
		{withSettings, "POST", "/control/imports/plan", "/control/imports/plan",
			`{"paths":["/gone"],"mode":"copy"}`},
		{withSettings, "POST", "/control/trainings/plan", "/control/trainings/plan", `{}`}, // an error
		{withSettings, "POST", "/control/trainings", "/control/trainings", `{}`},           // and
		{withSettings, "GET", "/control/trainings/x/losses", "/control/trainings/{id}/losses", ""},
		{withSettings, "POST", "/control/trainings/x/end", "/control/trainings/{id}/end", ""},
		{withSettings, "GET", "/control/hub", "/control/hub", ""},
		{withSettings, "GET", "/control/hub/search", "/control/hub/search", ""},
		{withSettings, "GET", "/control/hub/suggestions", "/control/hub/suggestions", ""},
		{withSettings, "GET", "/control/hub/repository?id=o/m", "/control/hub/repository", ""},
		{withSettings, "PUT", "/control/hub", "/control/hub", `{"endpoint":"ftp://x"}`}, // an error
		{withSettings, "POST", "/control/downloads", "/control/downloads", `{"id":"../x"}`},
		{withSettings, "POST", "/control/imports", "/control/imports",
			`{"paths":["/gone"],"mode":"copy"}`},
		{withSettings, "DELETE", "/control/jobs/x", "/control/jobs/{id}", ""},
		{withSettings, "POST", "/control/jobs/x/resume", "/control/jobs/{id}/resume", ""},
		{withSettings, "POST", "/control/jobs/x/stop", "/control/jobs/{id}/stop", ""},
		{withSettings, "PUT", "/control/settings/cache", "/control/settings/cache", `{"maxSize":"1GB"}`},
		{withSettings, "PUT", "/control/models/m/settings", "/control/models/{id}/settings",
			`{"templateArguments":{"enable_thinking":false}}`},
		{withSettings, "GET", "/control/models/m/settings", "/control/models/{id}/settings", ""},
		{withSettings, "GET", "/control/models/m/draft-models", "/control/models/{id}/draft-models",
			""},
		{withSettings, "DELETE", "/control/chats/c-1", "/control/chats/{id}", ""},
		{withSettings, "POST", "/control/keys", "/control/keys", `{"name":"k","requestsPerMinute":5}`},
		{withSettings, "POST", "/control/keys", "/control/keys", `{"name":"k"}`}, // an error
		{withSettings, "GET", "/control/keys", "/control/keys", ""},
		{withSettings, "PUT", "/control/keys/x", "/control/keys/{id}", `{"name":"k"}`}, // an error
		{withSettings, "PUT", "/control/keys/" + named.ID, "/control/keys/{id}", `{"name":"other"}`},
		{withSettings, "DELETE", "/control/keys/" + named.ID, "/control/keys/{id}", ""},
		{withSettings, "POST", "/control/machines", "/control/machines", `{"url":"x:y"}`}, // an error
		{withSettings, "GET", "/control/machines", "/control/machines", ""},
		{withSettings, "PUT", "/control/machines/" + other.ID, "/control/machines/{id}",
			`{"off":true}`},
		{withSettings, "DELETE", "/control/machines/" + other.ID, "/control/machines/{id}", ""},
		{withSettings, "GET", "/control/pairing", "/control/pairing", ""},
		{withSettings, "PUT", "/control/pairing", "/control/pairing", `{"on":true}`},
		{withSettings, "POST", "/control/pairing/code", "/control/pairing/code", `{}`},
		{withSettings, "DELETE", "/control/pairing/code", "/control/pairing/code", ""},
		{withSettings, "POST", "/control/pairing/join", "/control/pairing/join", `{}`},
		{withSettings, "GET", "/control/agents", "/control/agents", ""},
		{withSettings, "GET", "/control/agents/codex", "/control/agents/{id}", ""},
		{withSettings, "POST", "/control/agents/codex", "/control/agents/{id}", `{}`},    // an error
		{withSettings, "GET", "/control/agents/x/undo", "/control/agents/{id}/undo", ""}, // and
		{withSettings, "POST", "/control/agents/codex/undo", "/control/agents/{id}/undo", `{}`},
		{withSettings, "POST", "/control/agents/zed/launch", "/control/agents/{id}/launch", `{}`},
		{withSettings, "GET", "/control/stored", "/control/stored", ""},
		{withSettings, "POST", "/control/stored/delete", "/control/stored/delete", `{}`},
		{plain, "POST", "/control/models/rescan", "/control/models/rescan", ""},
		{plain, "POST", "/control/models/watching", "/control/models/watching", `{"on":true}`},
		{plain, "POST", "/control/models/m/remove", "/control/models/{id}/remove", ""},
		{plain, "POST", "/control/models/m/reveal", "/control/models/{id}/reveal", ""},
		{plain, "GET", "/control/models/o%2Fm/check", "/control/models/{id}/check", ""},
		{plain, "POST", "/control/models/o%2Fm/check", "/control/models/{id}/check", ""},
		{plain, "POST", "/control/models/o%2Fm/check/stop", "/control/models/{id}/check/stop", ""},
		{plain, "POST", "/control/requests/1/cancel", "/control/requests/{id}/cancel", ""},
		{plain, "POST", "/control/memory/wired", "/control/memory/wired", `{"action":"none"}`}, // an error
		{plain, "POST", "/control/cache/abcd/pin", "/control/cache/{key}/pin", `{"pinned":true}`},
		{plain, "DELETE", "/control/cache", "/control/cache", ""},
	} {
		held[c.method+" "+c.pattern] = true
		document := described(t, c.url)
		status, _, text := do(t, c.method, c.url+c.path, c.body, TokenHeader, "T")
		operation := at(document, "paths", c.pattern, strings.ToLower(c.method))
		response := at(operation, "responses", fmt.Sprint(status))
		if response == nil {
			response = at(operation, "responses", "default")
		}
		if status == http.StatusNotFound && strings.HasPrefix(text, "404") || status >= 500 {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
		if status == http.StatusNoContent && text == "" && at(response, "content") == nil {
			continue
		}
		var body any
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
		if fault := fits(document, at(response, "content", "application/json", "schema"), body,
			"body"); fault != "" {
			t.Errorf("%s %s: %s", c.method, c.path, fault)
		}
	}
	for pattern, operations := range described(t, withSettings)["paths"].(map[string]any) {
		for method := range operations.(map[string]any) {
			if name := strings.ToUpper(method) + " " + pattern; !held[name] {
				t.Errorf("no answer of %s was held against the document", name)
			}
		}
	}
}

// fits reports where a value departs from a schema, or "" if it conforms. It knows the keywords
// that openapi.go writes.
func fits(document, schema, value any, path string) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return path + " is not described"
	}
	if ref, ok := s["$ref"].(string); ok {
		return fits(document, at(document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...),
			value, path)
	}
	if choices, ok := s["oneOf"].([]any); ok {
		faults := []string{}
		for _, choice := range choices {
			fault := fits(document, choice, value, path)
			if fault == "" {
				return ""
			}
			faults = append(faults, fault)
		}
		return strings.Join(faults, "; ")
	}
	kinds, _ := s["type"].([]any)
	if kind, ok := s["type"].(string); ok {
		kinds = []any{kind}
	}
	kind := map[string]string{"<nil>": "null", "bool": "boolean", "float64": "number",
		"string": "string", "[]interface {}": "array",
		"map[string]interface {}": "object"}[fmt.Sprintf("%T", value)]
	if n, whole := value.(float64); whole && n == float64(int64(n)) &&
		slices.Contains(kinds, any("integer")) {
		kind = "integer"
	}
	if len(kinds) > 0 && !slices.Contains(kinds, any(kind)) {
		return fmt.Sprintf("%s is %s, described as %v", path, kind, kinds)
	}
	if values, ok := s["enum"].([]any); ok && value != "" && // a fake leaves some fields unset
		!slices.Contains(values, value) {
		return fmt.Sprintf("%s is %v, described as one of %v", path, value, values)
	}
	switch v := value.(type) {
	case []any:
		for i, x := range v {
			if fault := fits(document, s["items"], x, fmt.Sprintf("%s[%d]", path, i)); fault != "" {
				return fault
			}
		}
	case map[string]any:
		properties, described := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Sprintf("%s has no %s", path, name)
			}
		}
		for name, x := range v {
			if property, ok := properties[name]; ok {
				if fault := fits(document, property, x, path+"."+name); fault != "" {
					return fault
				}
			} else if described {
				return path + "." + name + " is not described"
			}
		}
	}
	return ""
}

// TestDocumentIsComplete: every route has a summary and its path parameters, and every reference
// leads to a schema.
func TestDocumentIsComplete(t *testing.T) {
	a, _, url := newAPI(t)
	document := described(t, url)
	for _, row := range a.Routes() {
		method, path, _ := strings.Cut(row.Pattern, " ")
		operation := at(document, "paths", path, strings.ToLower(method))
		if summary, _ := at(operation, "summary").(string); len(summary) < 10 ||
			!strings.HasSuffix(summary, ".") {
			t.Errorf("%s: summary %q, expected a sentence", row.Pattern, summary)
		}
		inPath := 0
		for _, p := range at(operation, "parameters").([]any) {
			if at(p, "in") == "path" {
				inPath++
			}
		}
		if inPath != strings.Count(path, "{") {
			t.Errorf("%s: %d path parameters are described", row.Pattern, inPath)
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllSubmatch(text,
		-1) {
		if at(document, "components", "schemas", string(ref[1]), "properties") == nil {
			t.Errorf("%s is not described", ref[1])
		}
	}
}

// TestUnauthorizedRequests: every route refuses a request without the token, from a foreign origin,
// or with a foreign host name that resolves to this machine (DNS rebinding).
func TestUnauthorizedRequests(t *testing.T) {
	a, h, url := newAPI(t)
	h.models, h.pins = nil, nil
	withSettings := newGeneral(t)
	for i, row := range append(a.Routes(), withSettings.api.Routes()...) {
		if i == len(a.Routes()) {
			url = withSettings.url
		}
		method, path, _ := strings.Cut(row.Pattern, " ")
		path = strings.NewReplacer("{id}", "chatcmpl-1", "{key}", "abcd").Replace(path)
		for _, c := range []struct {
			name    string
			headers []string
			status  int
		}{
			{"no token", nil, http.StatusUnauthorized},
			{"wrong token", []string{TokenHeader, "t"}, http.StatusUnauthorized},
			{"foreign origin", []string{TokenHeader, "T", "Origin", "https://evil.com"},
				http.StatusForbidden},
			{"null origin", []string{TokenHeader, "T", "Origin", "null"},
				http.StatusForbidden},
			{"foreign host name", []string{TokenHeader, "T", "Host", "evil.com"},
				http.StatusForbidden},
		} {
			body := "{}"
			if strings.HasPrefix(path, "/control/chats/") {
				body = chatExample // would create a conversation
			}
			if status, _, text := do(t, method, url+path, body, c.headers...); status != c.status {
				t.Errorf("%s, %s: %d %s; want %d", row.Pattern, c.name, status, text, c.status)
			}
		}
	}
	if len(h.models)+len(h.pins)+len(h.started)+len(h.limits) > 0 {
		t.Errorf("an unauthorized request had an effect: %v %v %v", h.models, h.pins, h.started)
	}
	if n := withSettings.keys.Count(); n > 0 {
		t.Errorf("an unauthorized request made %d API keys", n)
	}
	if list, err := withSettings.chats.List(); err != nil || len(list) > 0 {
		t.Errorf("an unauthorized request wrote a conversation: %v, %v", list, err)
	}
}

var rewrite = flag.Bool("update", false, "write the web UI's copy of the OpenAPI document")

// TestFrontendHasThisDocument compares the served document with the copy that the web UI's types
// are generated from. The version is left out, because it changes with every commit.
func TestFrontendHasThisDocument(t *testing.T) {
	const path = "../../frontend/src/lib/backend/openapi.json"
	document := newGeneral(t).api.openAPI()
	document["info"].(object)["version"] = ""
	served, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	served = append(served, '\n')
	if *rewrite {
		if err := os.WriteFile(path, served, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, served) {
		t.Errorf("%s is stale: run `go test ./app/control -run Frontend -update`, "+
			"then `npm run generate` in frontend", path)
	}
}

// TestEnumsListEveryConstant compares enums with the constants in the source of each type.
func TestEnumsListEveryConstant(t *testing.T) {
	for typ, values := range enums {
		folder := filepath.Join("../..", strings.TrimPrefix(typ.PkgPath(), "headroom/"))
		want := stringConstants(t, folder, typ.Name())
		got := []string{}
		for _, v := range values {
			got = append(got, reflect.ValueOf(v).String())
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("enums[%s] is %q, its constants are %q", typ, got, want)
		}
	}
}

// stringConstants returns the values of the constants of a type, from the Go files of a folder.
func stringConstants(t *testing.T, folder, typeName string) (values []string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
				return true
			}
			for _, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(literal.Value)
					values = append(values, text)
				}
			}
			return true
		})
	}
	return values
}

// TestFieldEnumsNameFields finds rows of fieldEnums whose field has been renamed.
func TestFieldEnumsNameFields(t *testing.T) {
	document := described(t, newGeneral(t).url)
	for name := range fieldEnums {
		schema, field, _ := strings.Cut(name, ".")
		if at(document, "components", "schemas", schema, "properties", field) == nil {
			t.Errorf("fieldEnums has %s, which no schema has", name)
		}
	}
}
