package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTemplatesOfPeers compares Render with Jinja2 on the templates of real models, which the
// repository does not contain. build/oracle/templates/run fetches them, lets Jinja2 render them,
// and sets HEADROOM_TEMPLATES to the folder that has the templates and prompts.json.
func TestTemplatesOfPeers(t *testing.T) {
	folder := os.Getenv("HEADROOM_TEMPLATES")
	if folder == "" {
		t.Skip("needs HEADROOM_TEMPLATES: run make oracle-templates")
	}
	data, err := os.ReadFile(filepath.Join(folder, "prompts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var peers struct {
		Special       map[string]string
		Conversations map[string]struct {
			Messages  json.RawMessage
			Tools     []json.RawMessage
			Variables map[string]any
		}
		Results []struct {
			peerResult
			Template, Conversation string
			Joined                 *peerResult // if lists of text parts are strings
		}
	}
	if err := json.Unmarshal(data, &peers); err != nil {
		t.Fatal(err)
	}
	templates := map[string]*Template{}
	for _, r := range peers.Results {
		if templates[r.Template] == nil {
			templates[r.Template] = parseFile(t, filepath.Join(folder, r.Template)).
				WithSpecialTokens(peers.Special)
			templates[r.Template].fallback = nil // Jinja2 has none
			templates[r.Template].calls = nil
			asSent(templates[r.Template])
		}
		template, c := templates[r.Template], peers.Conversations[r.Conversation]
		if template.shortIDs && strings.Contains(r.Error, "length 9") {
			continue // shortenIDs mends that
		}
		in := Input{Messages: messages(t, string(c.Messages)), Tools: c.Tools,
			AddGenerationPrompt: true, Kwargs: map[string]any{},
			Now: time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC)}
		for name, value := range c.Variables {
			if name == "add_generation_prompt" {
				in.AddGenerationPrompt = value.(bool)
			} else {
				in.Kwargs[name] = value
			}
		}
		want := r.peerResult
		if r.Joined != nil && !template.jinja.LoopsOverContent() {
			want = *r.Joined
		}
		got, err := template.Render(t.Context(), in)
		switch {
		case (err != nil) != (want.Error != ""):
			t.Errorf("%s, %s: got %v, want %q", r.Template, r.Conversation, err, want.Error)
		case err != nil:
			var failed *TemplateError
			if !errors.As(err, &failed) || failed.Raised != want.Raised ||
				want.Raised && failed.Message != want.Error {
				t.Errorf("%s, %s: got %v, want %q", r.Template, r.Conversation, err, want.Error)
			}
		case got != want.Want:
			t.Errorf("%s, %s:\ngot  %q\nwant %q", r.Template, r.Conversation, got, want.Want)
		}
	}
	if len(templates) < 280 || len(peers.Results) < 30*len(templates) {
		t.Errorf("only %d templates and %d results", len(templates), len(peers.Results))
	}
}

// peerResult is what Jinja2 made of a template: a text or an error.
type peerResult struct {
	Want, Error string
	Raised      bool
}

// asSent makes a template render calls and results as they were sent, as Jinja2 does.
func asSent(t *Template) {
	if t.tools == nil {
		return
	}
	format := *t.tools
	format.roles, format.nameIDs, t.toolsKey = callRoles{}, false, false
	t.tools = &format
}
