package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC)

// render parses and renders a template with the variables in a JSON object.
func render(source, vars string) (string, error) {
	v, err := FromJSON([]byte(vars))
	if err != nil {
		return "", err
	}
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	d, ok := v.(*Dict)
	if !ok {
		return "", errors.New("the variables must be a JSON object")
	}
	return t.Render(context.Background(), d, testTime)
}

// caseFile is the schema of testdata/cases.json.
type caseFile struct {
	Vars  json.RawMessage
	Cases []struct {
		Group, Template, Error string
		Raised                 bool
		Want                   *string
	}
}

func readCases(t testing.TB) (file caseFile) {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgainstJinja2 compares with Jinja2's output for the same templates.
// testdata/cases.py has them by group and regenerates cases.json.
func TestAgainstJinja2(t *testing.T) {
	file := readCases(t)
	if len(file.Cases) < 200 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		got, err := render(c.Template, string(file.Vars))
		if c.Want != nil {
			if err != nil || got != *c.Want {
				t.Errorf("%s: %s\ngot  %q, %v\nwant %q", c.Group, c.Template, got, err, *c.Want)
			}
			continue
		}
		e := new(Error)
		switch {
		case err == nil:
			t.Errorf("%s: %s\ngot %q, want an error (Jinja2: %s)", c.Group, c.Template, got,
				c.Error)
		case !errors.As(err, &e) || strings.Contains(e.Message, "internal"):
			t.Errorf("%s: %s\ngot the error %v", c.Group, c.Template, err)
		case e.Raised != c.Raised || e.Raised && e.Message != c.Error:
			t.Errorf("%s: %s\ngot raised %v: %v; want raised %v: %s", c.Group, c.Template, e.Raised,
				err, c.Raised, c.Error)
		}
	}
}

// TestRealTemplates renders a conversation of an agent, 200 messages of 5 KB and 100 tools, with
// real templates and with one that splits each message and builds its text piece by piece. None may
// use more than a third of what it has.
func TestRealTemplates(t *testing.T) {
	var messages, tools []string
	words := strings.Repeat("The quick brown <fox> jumps.\\n", 180)
	for i := range 200 {
		role := []string{"user", "assistant"}[i%2]
		call := ""
		if i%4 == 1 {
			call = `,"tool_calls":[{"id":"1","type":"function","function":{"name":"read_file",` +
				`"arguments":{"path":"/a/b","text":"` + words[:300] + `"}}}]`
		}
		messages = append(messages, `{"role":"`+role+`","content":"<think>a</think>`+words+`"`+
			call+`}`)
	}
	for range 100 {
		tools = append(tools, `{"type":"function","function":{"name":"read_file","description":"`+
			words[:1500]+`","parameters":{"type":"object","properties":{"path":{"type":"string",`+
			`"description":"where"},"text":{"type":["string","null"],"enum":["a","b"]}},`+
			`"required":["path"]}}}`)
	}
	vars := `{"messages":[` + strings.Join(messages, ",") + `],"tools":[` +
		strings.Join(tools, ",") + `],"add_generation_prompt":true,"bos_token":"<s>"}`
	v, err := FromJSON([]byte(vars))
	if err != nil {
		t.Fatal(err)
	}
	const pieces = "{% set ns = namespace(text=bos_token) %}{% for m in messages %}" +
		"{% for line in m.content.split('\\n') %}{% set line = line | trim | replace('<', '[') %}" +
		"{% if loop.first and 'fox' in line %}{% set ns.text = ns.text ~ m.role %}{% endif %}" +
		"{% endfor %}{% set ns.last = messages[::-1] | selectattr('role', 'equalto', 'user') " +
		"| first %}" +
		"{% set ns.text = ns.text[-5000:] ~ m.content %}{% endfor %}" +
		"{{ tools | tojson(indent=2) }}{{ ns.text }}"
	sources := map[string]string{"pieces": pieces}
	for _, path := range []string{"../../../app/demo/model/chat_template.jinja",
		"../../../../shared/goldens/templates/qwen3.6.jinja"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		sources[path] = string(source)
	}
	for name, source := range sources {
		template, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		text, used, err := template.render(context.Background(), v.(*Dict), testTime)
		t.Logf("%s: %d bytes, %d of %d steps, %d of %d KB in %v", name, len(text), used.steps,
			used.maxSteps, used.memory>>10, used.maxMemory>>10, time.Since(begin))
		if err != nil || used.steps > used.maxSteps/3 || used.memory > used.maxMemory/3 {
			t.Errorf("%s: %v, want a third of the bounds", name, err)
		}
	}
}
