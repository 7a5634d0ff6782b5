package batch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestLines: where lines begin, whatever their length, and with a byte order mark before them. From
// there they can be read again.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, begin := range []string{"", "\uFEFF"} {
		text := begin + "a\r\n\n" + long + "\n \n" + long + "y\nb\n\nlast"
		want := []string{"a", long, long + "y", "b", "last"}
		l := NewLines(strings.NewReader(text))
		for _, line := range want {
			if !l.Next() || string(l.Line) != line {
				t.Fatalf("line %d has %d bytes, expected %d", l.Number, len(l.Line), len(line))
			}
			again := LinesAt(strings.NewReader(text[l.At:]), l.At, l.Number-1)
			if !again.Next() || string(again.Line) != line || again.Number != l.Number ||
				again.At != l.At {
				t.Errorf("line %d at %d, read again: line %d at %d, %d bytes", l.Number, l.At,
					again.Number, again.At, len(again.Line))
			}
			if line == long {
				l.Drop()
			}
		}
		if l.Next() || l.Err != nil || l.Number != 8 {
			t.Errorf("after the end: line %d, %v", l.Number, l.Err)
		}
	}
}

// FuzzParse compares Parse with encoding/json, whose names of members may be in other letters.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"\u0041\""}}`,
		`{"custom_id":null,"url":"/v1/responses","body":{}}`, `{"custom_id":"\ud800","body":[]}`,
		`{"custom_id":"a","custom_id":"b","url":"/v1/completions","body":{},"x":[1e9,{"y":""}]}`,
		`[]`, `{"custom_id":7}`, "{", `{"custom_id":"a` + "\n" + `"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		got, why := Parse(line)
		var want Request
		err := json.Unmarshal(line, &want)
		if (why == NotJSON) != !json.Valid(line) && why != "it is not valid UTF-8" {
			t.Errorf("%q: %s", line, why)
		}
		lower := bytes.Equal(bytes.ToLower(line), line)
		if why == "" && lower && (err != nil || got.CustomID != want.CustomID ||
			got.URL != want.URL || !bytes.Equal(got.Body, bytes.TrimSpace(want.Body))) {
			t.Errorf("%q: got %q, expected %q, %v", line, got, want, err)
		}
	})
}
