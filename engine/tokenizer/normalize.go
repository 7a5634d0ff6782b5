package tokenizer

// Normalization before splitting. The result must equal that of the reference, because text that is
// written differently has different tokens. Each kind of normalizer is one row of normalizerKinds.

import (
	"errors"
	"fmt"
	"strings"

	"headroom/engine/tokenizer/regex"
)

// normalizeStep is one step of the normalizer. Its input and output are valid UTF-8. If the output
// would be too large, the step calls e.fail. If it drops the beginning of the text, it calls
// e.dropStart.
type normalizeStep func(e *encoder, s string) string

// normalizerKinds has the kinds of normalizers by their names in tokenizer.json.
var normalizerKinds = map[string]func(*Tokenizer, *part) (normalizeStep, error){
	"BertNormalizer": bertNormalizer,
	"ByteLevel":      byteLevelNormalizer,
	"Lowercase":      lowercaseNormalizer,
	"NFC":            unicodeNormalizer(formC),
	"NFD":            unicodeNormalizer(formD),
	"NFKC":           unicodeNormalizer(formKC),
	"NFKD":           unicodeNormalizer(formKD),
	"Nmt":            nmtNormalizer,
	"Precompiled":    precompiledNormalizer,
	"Prepend":        prependNormalizer,
	"Replace":        replaceNormalizer,
	"Strip":          stripNormalizer,
	"StripAccents":   stripAccentsNormalizer,
}

func (t *Tokenizer) buildNormalizer(file *fileJSON) error {
	parts, err := file.Normalizer.flatten("normalizers")
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.normalize != nil {
			t.normalizer = append(t.normalizer, p.normalize)
			t.faithful = t.faithful && p.faithful
			continue
		}
		build, ok := normalizerKinds[p.kind]
		if !ok {
			return fmt.Errorf("type %q is not supported", p.kind)
		}
		step, err := build(t, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
		t.normalizer = append(t.normalizer, step)
	}
	return nil
}

// A normalizer may make text larger, such as three bytes from every space. These bounds on what it
// adds to the text of one request are far above the needs of known tokenizers.
const (
	maxGrowth   = 8        // bytes added for each byte of the text
	growthBytes = 64 << 10 // and for the text as a whole
	maxAdded    = 64 << 20
)

// grow accounts for a step that adds n bytes. It reports whether the step may make its output.
func (e *encoder) grow(n int) bool {
	if e.growth -= max(n, 0); e.growth < 0 {
		e.fail(ErrGrowth)
	}
	return e.err == nil
}

// dropStart notes that the beginning of the text is not part of any word; see encoder.first.
func (e *encoder) dropStart() { e.first = false }

// prependNormalizer puts a prefix before every text that is not empty.
func prependNormalizer(_ *Tokenizer, p *part) (normalizeStep, error) {
	var f struct {
		Prepend string `json:"prepend"`
	}
	err := p.read(&f)
	return func(e *encoder, s string) string {
		if s == "" || !e.grow(len(f.Prepend)) {
			return s
		}
		return f.Prepend + s
	}, err
}

// replaceNormalizer replaces every match of a pattern.
func replaceNormalizer(t *Tokenizer, p *part) (normalizeStep, error) {
	var f replaceJSON
	if err := p.read(&f); err != nil {
		return nil, err
	}
	found, err := t.finder(f.Pattern)
	if err != nil {
		return nil, err
	}
	if l, ok := found.(literal); ok {
		t.faithful = t.faithful && len(f.Content) >= len(l)
		return replaceLiteral(string(l), f.Content), nil
	}
	t.faithful = false
	return replace(t.addSearch(found), f.Content), nil
}

type replaceJSON struct {
	Pattern patternJSON `json:"pattern"`
	Content string      `json:"content"`
}

// addSearch gives each encoder a search of f, and returns its index.
func (t *Tokenizer) addSearch(f finder) int {
	t.finders = append(t.finders, f)
	return len(t.finders) - 1
}

// finder compiles a pattern. All expressions of a tokenizer may together take as many steps for a
// character as one, because a text passes through all of them.
func (t *Tokenizer) finder(p patternJSON) (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return literal(*p.String), nil
	case p.Regex != nil:
		re, err := regex.Compile(*p.Regex)
		if err != nil {
			return nil, err
		}
		if t.cost += re.Cost(); t.cost > regex.MaxCost {
			return nil, fmt.Errorf("the regular expressions up to %.200q take more than %d steps "+
				"for each character", *p.Regex, regex.MaxCost)
		}
		return pattern{re}, nil
	}
	return nil, errors.New("pattern must have a String that is not empty, or a Regex")
}

// replaceLiteral returns a step that replaces every match of a string with content.
func replaceLiteral(literal, content string) normalizeStep {
	oneRune := len([]rune(literal)) == 1
	return func(e *encoder, s string) string {
		n := strings.Count(s, literal)
		if n == 0 || !e.grow(n*(len(content)-len(literal))) {
			return s
		}
		if strings.HasPrefix(s, literal) && !(oneRune && content != "") {
			e.dropStart()
		}
		return strings.ReplaceAll(s, literal, content)
	}
}

// replace returns a step that replaces every match of a search with content.
func replace(slot int, content string) normalizeStep {
	return func(e *encoder, s string) string {
		search := e.searches[slot]
		search.reset(e, s)
		var b strings.Builder
		done := 0
		for e.err == nil {
			from, to, ok := search.next()
			if !ok || !e.grow(len(content)-(to-from)) {
				break
			}
			if from == 0 && to > 0 && !(content != "" && len([]rune(s[:to])) == 1) {
				e.dropStart()
			}
			b.WriteString(s[done:from])
			b.WriteString(content)
			done = to
		}
		if done == 0 && b.Len() == 0 {
			return s
		}
		b.WriteString(s[done:])
		return b.String()
	}
}
