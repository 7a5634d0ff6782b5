package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"headroom/engine/guard"
	"headroom/engine/server"
)

// TestOpenAPI: the description has every route of every dialect, with the schema of its body, and
// it needs a key where the routes do.
func TestOpenAPI(t *testing.T) {
	s := start(t, newFakeEngine(nil), server.Options{Guard: &guard.Guard{APIKey: "secret"}})
	get := func(key string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequest("GET", s.URL+"/openapi.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, body
	}
	if status, body := get(""); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", status, body)
	}
	status, body := get("secret")
	type operation struct {
		Summary     string
		Description string
		Parameters  []struct{ Name, In string }
		Responses   map[string]struct{ Description string }
		RequestBody struct {
			Content map[string]struct {
				Schema struct {
					Properties map[string]any
					Required   []string
				}
			}
		}
	}
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]operation
	}
	if err := json.Unmarshal(body, &document); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	known := 0
	for _, d := range dialects {
		for _, route := range d.Routes() {
			method, path, _ := strings.Cut(route.Pattern, " ")
			path = strings.ReplaceAll(path, "...}", "}")
			o, ok := document.Paths[path][strings.ToLower(method)]
			if !ok || o.Summary == "" || !strings.HasSuffix(o.Summary, ".") {
				t.Errorf("%s: %v, %+v", route.Pattern, ok, o)
			}
			if _, alias, ok := strings.Cut(route.Alias, " "); ok &&
				o.Description != "Also at "+alias+"." {
				t.Errorf("%s: %q", route.Pattern, o.Description)
			}
			if got, want := len(o.Parameters), strings.Count(path, "{"); got != want {
				t.Errorf("%s: %d parameters, want %d", route.Pattern, got, want)
			}
			reads := route.Parse != nil || route.Answer != nil || route.Follow != nil
			if (route.Body != nil) != reads || (o.RequestBody.Content != nil) != reads {
				t.Errorf("%s: a body %v", route.Pattern, o.RequestBody)
			}
			known++
		}
	}
	for path, stream := range map[string]bool{"/v1/chat/completions": true, "/v1/messages": true,
		"/api/chat": true, "/v1/decisions": false, "/v1/systemone": false,
		"/v1/responses/compact": false, "/v1/embeddings": false} {
		is := document.Paths[path]["post"].Responses["200"].Description
		if strings.Contains(is, "stream") != stream {
			t.Errorf("%s: %q, may be a stream: %t", path, is, stream)
		}
	}
	own := []string{"/health", "/metrics", "/openapi.json", "/ready"}
	for _, path := range own {
		if document.Paths[path]["get"].Summary == "" {
			t.Errorf("%s is not there", path)
		}
	}
	total := 0
	for _, methods := range document.Paths {
		total += len(methods)
	}
	if total != known+len(own) || known < 25 {
		t.Errorf("%d operations for %d routes", total, known)
	}
	var all any
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	checkForGenerators(t, "", all)
	chat := document.Paths["/v1/chat/completions"]["post"].RequestBody.
		Content["application/json"].Schema
	for _, name := range []string{"messages", "temperature", "guided_json", "metadata"} {
		if chat.Properties[name] == nil {
			t.Errorf("the chat's body has no %s", name)
		}
	}
	if len(chat.Required) != 1 || chat.Required[0] != "messages" {
		t.Errorf("the chat's body requires %q", chat.Required)
	}
}

// checkForGenerators: schemas have nothing for which generators of clients leave out a route.
func checkForGenerators(t *testing.T, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, each := range v {
			checkForGenerators(t, path, each)
		}
	case map[string]any:
		if v["enum"] != nil && v["type"] != "string" {
			t.Errorf("%s: an enum of the type %v", path, v["type"])
		}
		if v["type"] == "array" && v["items"] == nil {
			t.Errorf("%s: an array without items", path)
		}
		if _, ok := v["type"].([]any); ok {
			t.Errorf("%s: several types", path)
		}
		for name, each := range v {
			if name != "properties" {
				checkForGenerators(t, path+"/"+name, each)
				continue
			}
			for property, schema := range each.(map[string]any) {
				checkForGenerators(t, path+"/"+property, schema)
			}
		}
	}
}
