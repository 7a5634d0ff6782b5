package agents

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are configuration files as people have them.
var files = map[string]map[string]string{
	"claude-code": {
		"empty": "", "spaces": " \n", "object": "{}", "open object": "{\n}\n",
		"one line": `{"theme": "dark"}`,
		"settings": "{\n  \"permissions\": {\n    \"allow\": [\"Bash(go test:*)\"]\n  },\n" +
			"  \"env\": {\n    \"EDITOR\": \"vi\",\n    \"ANTHROPIC_BASE_URL\": \"https://x\"\n" +
			"  },\n  \"model\": \"opus\"\n}\n",
		"tabs":       "{\n\t\"model\": \"opus\",\n\t\"env\": {}\n}",
		"CRLF":       "{\r\n  \"model\": \"opus\",\r\n  \"env\": {\r\n    \"A\": \"1\"\r\n  }\r\n}",
		"mark":       "\uFEFF{\n  \"model\": \"opus\"\n}\n",
		"same value": "{\n  \"env\": {\"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC\": \"1\"}\n}\n",
	},
	"codex": {
		"empty": "",
		"config": "# my Codex\nmodel = \"gpt-5.6\" # the best\napproval_policy = \"never\"\n\n" +
			"# others\n[model_providers.azure]\nname = \"Azure\"\nbase_url = \"https://x\"\n\n" +
			"[projects.\"/home/me/a b\"]\ntrust_level = \"trusted\"\n",
		"only tables":  "[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
		"no end":       "model = 'a'",
		"CRLF":         "model = \"gpt-5.6\"\r\n\r\n[tui]\r\ntheme = \"dark\"\r\n",
		"our provider": "[model_providers.headroom]\nname = \"Mine\" # own\n\n[tui]\nx = 1\n",
		"several lines": "notify = [\n  \"a\", # first\n  \"b\",\n]\ninstructions = \"\"\"\n" +
			"[not a table]\nmodel = 1\n\"\"\"\n\n[mcp_servers.x]\ncommand = \"y\"\n",
	},
	"opencode": {
		"empty": "", "object": "{}\n",
		"comments": "{\n  // mine\n  \"$schema\": \"https://opencode.ai/config.json\",\n" +
			"  \"model\": \"anthropic/claude\", // the usual\n  \"provider\": {\n" +
			"    /* at work */\n    \"work\": {\"npm\": \"x\"},\n  },\n  // the end\n}\n",
		"no comma": "{\n  \"provider\": {\n    \"work\": {} // last\n  }\n  // the end\n}\n",
	},
	"zed": {
		"comments": "// Zed settings\n//\n// See Zed's documentation\n" +
			"{\n  \"theme\": \"One Dark\",\n  \"language_models\": {\n    \"ollama\": {\n" +
			"      \"api_url\": \"http://localhost:11434\",\n    },\n  },\n}\n",
		"only comments inside": "{\n  // nothing yet\n}\n",
	},
	"continue": {
		"empty":    "",
		"new file": "name: Local Config\nversion: 1.0.0\nschema: v1\nmodels: []\n",
		"models": "# mine\nname: Local Config\nversion: 1.0.0\nschema: v1\nmodels:\n" +
			"  # the first\n  - name: GPT\n    provider: openai # hosted\n    model: gpt-5\n\n" +
			"  - name: Claude\n    provider: anthropic\n    model: opus\n\nrules:\n  - Be short.\n",
		"at the margin": "name: a\nversion: 1\nmodels:\n- name: GPT\n  provider: openai\n",
		"null":          "name: a\nversion: 1\nmodels: # none yet\nschema: v1\n",
		"CRLF":          "name: a\r\nversion: 1\r\nmodels:\r\n  - name: GPT\r\n    model: b\r\n",
		"ours": "name: a\nmodels:\n  - name: GPT\n    model: b\n  - name: Headroom\n" +
			"    provider: ollama # old\n    model: c\n  - name: Last\n    model: d\n",
	},
}

// eachFile calls visit with every file of every agent.
func eachFile(t *testing.T, visit func(t *testing.T, a *agent, text string)) {
	for id, list := range files {
		a, err := find(id)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range list {
			t.Run(id+"/"+name, func(t *testing.T) { visit(t, a, text) })
		}
	}
}

// TestApplyKeepsTheRest: what the edits do not name stays, and every line of the file too.
func TestApplyKeepsTheRest(t *testing.T) {
	eachFile(t, func(t *testing.T, a *agent, text string) {
		after, made, err := apply(a.format, []byte(text), a.edits(target, "hr-key"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "\r\n") &&
			strings.Count(string(after), "\n") != strings.Count(string(after), "\r\n") {
			t.Errorf("line ends are mixed: %q", after)
		}
		for _, line := range strings.Split(text, "\n") {
			comment := ""
			for _, mark := range []string{"//", "/*", "#"} {
				if i := strings.Index(line, mark); i >= 0 && !strings.Contains(line, "https:") {
					comment = line[i:]
				}
			}
			if !strings.Contains(string(after), comment) && comment != "# own" &&
				comment != "# old" {
				t.Errorf("the comment %q is gone:\n%s", comment, after)
			}
		}
		again, none, err := apply(a.format, after, a.edits(target, "hr-key"))
		if err != nil || len(none) > 0 || string(again) != string(after) {
			t.Errorf("a second time: %v, %v\n%s", err, none, again)
		}
		if len(made) == 0 {
			t.Error("nothing was made")
		}
	})
}

// TestRevertWithoutTheBytes: what was written is taken out of the text, also if the file is no
// longer as it was written. White space around it may differ.
func TestRevertWithoutTheBytes(t *testing.T) {
	eachFile(t, func(t *testing.T, a *agent, text string) {
		after, made, err := apply(a.format, []byte(text), a.edits(target, ""))
		if err != nil {
			t.Fatal(err)
		}
		before, kept, err := revert(a.format, after, made)
		if err != nil || len(kept) > 0 {
			t.Fatalf("%v, kept %v", err, kept)
		}
		got := strings.Join(strings.Fields(string(before)), " ")
		want := strings.Join(strings.Fields(text), " ")
		if strings.ReplaceAll(got, "{ }", "{}") != strings.ReplaceAll(want, "{ }", "{}") &&
			!(want == "" && got == "{}") && !(want == "" && got == "models: []") &&
			!strings.Contains(want, "models: # none yet") {
			t.Errorf("got:\n%s\nwant:\n%s\nbetween:\n%s", before, text, after)
		}
	})
}

// TestRandomJSON: objects of random members, commas, comments and line ends.
func TestRandomJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		text := randomObject(r, 0)
		after, made, err := apply(jsonc{}, []byte(text), opencodeEdits(target, "hr-key"))
		if err != nil {
			if strings.Contains(err.Error(), "is not an object") {
				continue
			}
			t.Fatalf("%v\n%s", err, text)
		}
		before, kept, err := revert(jsonc{}, after, made)
		if err != nil || len(kept) > 0 {
			t.Fatalf("%v, kept %v\n%s", err, kept, after)
		}
		got, want := squeezed(string(before)), squeezed(text)
		if got != want {
			t.Fatalf("got:\n%s\nwant:\n%s\nbetween:\n%s", before, text, after)
		}
	}
}

// squeezed is a text without white space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

func randomObject(r *rand.Rand, depth int) string {
	space := func() string {
		return []string{"", " ", "\n", "\n  ", " // note\n", "\n\t/* a */ ", "\r\n"}[r.IntN(7)]
	}
	var b strings.Builder
	b.WriteString(space() + "{")
	names := []string{"model", "provider", "headroom", "theme", "small_model"}
	r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	n := r.IntN(len(names) + 1)
	for i, name := range names[:n] {
		value := fmt.Sprintf("%q", "old")
		if depth < 2 && (name == "provider" || r.IntN(3) == 0) {
			value = strings.TrimLeft(randomObject(r, depth+1), " ")
		}
		comma := ","
		if i == n-1 && r.IntN(2) == 0 {
			comma = ""
		}
		fmt.Fprintf(&b, "%s%q%s:%s%s%s%s", space(), name, space(), space(), value, space(), comma)
	}
	b.WriteString(space() + "}" + space())
	return b.String()
}

// TestRefused: files that are broken, or written in a form that is not edited, stay as they are,
// and a sentence says why.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ id, name, text, want string }{
		{"claude-code", "cut off", "{\n  \"env\": {\n", "unexpected EOF"},
		{"claude-code", "a list", "[]", "not a JSON object"},
		{"claude-code", "env is a text", `{"env": "x"}`, "env is not an object"},
		{"codex", "broken", "model = \n", "line 1"},
		{"codex", "twice", "model = 'a'\nmodel = 'b'\n", "model"},
		{"codex", "inline", "model_providers = { headroom = { name = 'x' } }\n", "form"},
		{"codex", "inline without ours", "model_providers = { x = { name = 'x' } }\n", ""},
		{"codex", "tables in it", "[model_providers.headroom.x]\na = 1\n", "tables in it"},
		{"continue", "broken", "models: [\n", "line"},
		{"continue", "braces", `{"models": []}`, "braces"},
		{"continue", "one line", "models: [{name: a}]\n", "form"},
		{"continue", "a text", "models: none\n", ""},
		{"continue", "not UTF-8", "name: \xff\n", "UTF-8"},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			p := newPlace(t)
			a, _ := find(c.id)
			name, _ := filepath.Rel(p.home, a.file(p.store.env))
			p.put(name, c.text)
			_, err := p.store.Plan(c.id, target)
			if err == nil {
				t.Fatal("there is a plan")
			}
			has(t, "the error", err.Error(), c.want, "~/")
			wants(t, "the file", p.read(name), c.text)
			if _, err := os.Stat(p.store.dir); err == nil {
				t.Error("something was recorded")
			}
		})
	}
}

// TestExamples has whole files, worked out by hand.
func TestExamples(t *testing.T) {
	one := Target{URL: "http://127.0.0.1:1/v1", Model: "m", ContextTokens: 4096}
	for _, c := range []struct {
		a            *agent
		before, want string
	}{
		{codex, "# my Codex\nmodel = \"gpt\" # best\n\n[tui]\nx = 1\n",
			"# my Codex\nmodel = \"m\" # best\nmodel_provider = \"headroom\"\n" +
				"model_context_window = 4096\nweb_search = \"disabled\"\n\n[tui]\nx = 1\n\n" +
				"[model_providers.headroom]\nname = \"Headroom\"\n" +
				"base_url = \"http://127.0.0.1:1/v1\"\nwire_api = \"responses\"\n"},
		{opencode, "{\n  // mine\n  \"model\": \"a/b\",\n}\n",
			"{\n  // mine\n  \"model\": \"headroom/m\",\n" +
				"  \"$schema\": \"https://opencode.ai/config.json\",\n" +
				"  \"small_model\": \"headroom/m\",\n  \"provider\": {\n    \"headroom\": {\n" +
				"      \"npm\": \"@ai-sdk/openai-compatible\",\n      \"name\": \"Headroom\",\n" +
				"      \"options\": {\n        \"baseURL\": \"http://127.0.0.1:1/v1\"\n      },\n" +
				"      \"models\": {\n        \"m\": {\n          \"name\": \"m\",\n" +
				"          \"limit\": {\n            \"context\": 4096,\n" +
				"            \"output\": 1024\n          }\n        }\n      }\n    }\n  },\n}\n"},
		{continueDev, "name: a\nversion: 1.0.0\nschema: v1\nmodels: [] # none\n",
			"name: a\nversion: 1.0.0\nschema: v1\nmodels:  # none\n  - name: \"Headroom\"\n" +
				"    provider: \"openai\"\n    model: \"m\"\n" +
				"    apiBase: \"http://127.0.0.1:1/v1\"\n" +
				"    apiKey: \"headroom\"\n    roles: [\"chat\",\"edit\",\"apply\"]\n" +
				"    capabilities: [\"tool_use\"]\n    defaultCompletionOptions:\n" +
				"      contextLength: 4096\n      maxTokens: 1024\n"},
	} {
		after, _, err := apply(c.a.format, []byte(c.before), c.a.edits(one, ""))
		if err != nil {
			t.Errorf("%s: %v", c.a.id, err)
		}
		wants(t, c.a.name, string(after), c.want)
	}
}

// TestOddNames: no name of a model breaks a file or a command.
func TestOddNames(t *testing.T) {
	odd := Target{URL: "http://127.0.0.1:1/v1", Model: `it's "x" $(y) #z: w\` + "\x7f\u2028",
		ContextTokens: 4096}
	for _, a := range table {
		if a.format == nil {
			continue
		}
		after, _, err := apply(a.format, nil, a.edits(odd, "k'1"))
		if err != nil {
			t.Errorf("%s: %v\n%s", a.id, err, after)
		}
	}
}

// careless is a format that changes what it was not asked to change.
type careless struct{ jsonc }

func (c careless) set(text []byte, path []string, value any) ([]byte, error) {
	return c.jsonc.set([]byte(strings.Replace(string(text), "mine", "ours", 1)), path, value)
}

// TestAResultIsCompared: a text that says anything else than before and the edits is not used.
func TestAResultIsCompared(t *testing.T) {
	text := []byte(`{"a": "mine"}`)
	edits := []edit{{path: []string{"b"}, value: "x"}}
	if _, _, err := apply(jsonc{}, text, edits); err != nil {
		t.Error(err)
	}
	if after, _, err := apply(careless{}, text, edits); err == nil {
		t.Errorf("it was used: %s", after)
	}
}
