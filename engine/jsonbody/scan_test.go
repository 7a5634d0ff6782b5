package jsonbody

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzScan compares the scanner with encoding/json: both accept the same syntax.
func FuzzScan(f *testing.F) {
	for _, text := range []string{`{}`, ` [1, -0.5e+3, true, false, null, "a\"\\\u00e9"] `, `01`,
		`[1,]`, `{"a":1,}`, `"\u12"`, `"\x"`, "\"\n\"", `-`, `1.`, `1e`, `tru`, `{"a" 1}`, `[1 2]`,
		`{"prompt":[[1,2],[3]],"a":{"prompt":[]}}`, `"\ud83d\ude00"`, `"`, `[`, `{"a":1}x`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := scan(text)
		if valid := json.Valid(text); err == nil && !valid {
			t.Errorf("accepted %q", text)
		} else if valid && err != nil && strings.Contains(err.Error(), "not valid JSON") {
			t.Errorf("refused %q: %v", text, err)
		}
		if err == nil {
			if end := len(Trimmed(text)); end != len(strings.TrimSpace(string(text))) {
				t.Errorf("%q: the value has %d bytes", text, end)
			}
		}
	})
}
