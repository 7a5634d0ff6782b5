package modelstest

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestFaults checks that every disagreement between the registered types, the folders and the table
// is an error that says what to do.
func TestFaults(t *testing.T) {
	tree := fstest.MapFS{
		"llama/config.json":      {Data: []byte(`{"model_type": "llama", "hidden_size": 1e3}`)},
		"llama_yarn/config.json": {Data: []byte("{}")},
	}
	vision := Model{Type: "vision", Folder: "llama", Inside: "vision_text"}
	for _, c := range []struct {
		types []string
		rows  []Model
		says  string // "" if there is no fault
	}{
		{[]string{"llama"}, nil, ""},
		{[]string{"llama", "vision"}, []Model{vision}, ""},
		{[]string{"llama", "phi3"}, nil, `run make oracle ARGS="--golden phi3", or add a row`},
		{[]string{"llama", "phi3"}, []Model{{Type: "phi3", Folder: "phi"}}, "names phi, which"},
		{[]string{"llama"}, []Model{vision}, "a row for vision, which engine/models does not"},
		{[]string{"llama"}, []Model{{Type: "llama", Folder: "llama"}}, "delete one"},
		{[]string{"llama_yarn"}, nil, "testdata/tiny/llama has the name of no registered type"},
	} {
		found, err := find(tree, c.types, c.rows)
		switch {
		case c.says == "" && (err != nil || len(found) != len(c.types)):
			t.Errorf("%v: got %v and the error %v", c.types, found, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%v: got %v, expected an error that says %q", c.types, err, c.says)
		}
	}
	const want = `{"model_type":"vision","text_config":{"hidden_size":1000,` +
		`"model_type":"vision_text"}}`
	if got, err := vision.Config(tree); err != nil || string(got) != want {
		t.Errorf("config %s (%v), expected %s", got, err, want)
	}
}
