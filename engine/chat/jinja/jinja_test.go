package jinja

import (
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
	return t.Render(d, testTime)
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
