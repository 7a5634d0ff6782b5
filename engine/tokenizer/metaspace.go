package tokenizer

// Metaspace, as a pre_tokenizer and as a decoder. It writes spaces as another character, mostly ▁,
// and splits text before each.

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// metaspaceJSON has the fields of Metaspace.
type metaspaceJSON struct {
	Replacement    string `json:"replacement"`
	PrependScheme  string `json:"prepend_scheme"`
	AddPrefixSpace *bool  `json:"add_prefix_space"` // in old files
	Split          *bool  `json:"split"`            // absent: true
}

func readMetaspace(p *part) (f metaspaceJSON, err error) {
	f = metaspaceJSON{Replacement: string(metaspace), PrependScheme: "always"}
	if err := p.read(&f); err != nil {
		return f, err
	}
	if utf8.RuneCountInString(f.Replacement) != 1 {
		return f, fmt.Errorf("replacement is %q, expected one character", f.Replacement)
	}
	if f.AddPrefixSpace != nil && !*f.AddPrefixSpace {
		f.PrependScheme = "never"
	}
	switch f.PrependScheme {
	case "always", "first", "never":
		return f, nil
	}
	return f, fmt.Errorf("prepend_scheme %q is unknown", f.PrependScheme)
}

func metaspaceSplitter(t *Tokenizer, p *part) error {
	f, err := readMetaspace(p)
	if err != nil {
		return err
	}
	t.splitters = append(t.splitters, metaspaceWriter{f.Replacement, f.PrependScheme})
	if f.Split == nil || *f.Split {
		t.mustAddFinder(literal(f.Replacement), "MergedWithNext")
	}
	return nil
}

// metaspaceWriter writes spaces as the replacement, and one before the text.
type metaspaceWriter struct{ replacement, scheme string }

func (m metaspaceWriter) split(e *encoder, at int, text string) {
	spaces := strings.Count(text, " ")
	if !e.grow(spaces*(len(m.replacement)-1) + len(m.replacement)) {
		return
	}
	if spaces > 0 {
		text = strings.ReplaceAll(text, " ", m.replacement)
	}
	if m.scheme == "always" || m.scheme == "first" && e.first {
		if !strings.HasPrefix(text, m.replacement) {
			text = m.replacement + text
		}
	}
	e.split(at+1, text)
}
