package tokenizer

// Building the other parts of tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.

import (
	"errors"
	"fmt"

	"headroom/engine/tokenizer/regex"
)

func (t *Tokenizer) buildNormalizer(file *fileJSON) error {
	return t.addNormalizer(file.Normalizer)
}

func (t *Tokenizer) addNormalizer(n *normalizerJSON) error {
	if n == nil {
		return nil
	}
	if len(t.normalizer) >= maxSteps {
		return fmt.Errorf("it has more than %d steps", maxSteps)
	}
	switch n.Type {
	case "NFC":
		t.normalizer = append(t.normalizer, nfcStep)
	case "Sequence":
		for _, part := range n.Normalizers {
			if err := t.addNormalizer(part); err != nil {
				return err
			}
		}
	case "Prepend":
		t.normalizer = append(t.normalizer, prepend(n.Prepend))
	case "Replace":
		f, err := n.Pattern.finder()
		if err != nil {
			return err
		}
		t.faithful = false
		step := replace(t.addSearch(f), n.Content)
		if l, ok := f.(literal); ok {
			step = replaceLiteral(string(l), n.Content)
		}
		t.normalizer = append(t.normalizer, step)
	default:
		return fmt.Errorf("type %q is not supported", n.Type)
	}
	return nil
}

// addSearch gives each encoder a search of f, and returns its index.
func (t *Tokenizer) addSearch(f finder) int {
	t.finders = append(t.finders, f)
	return len(t.finders) - 1
}

func (p patternJSON) finder() (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return literal(*p.String), nil
	case p.Regex != nil:
		re, err := regex.Compile(*p.Regex)
		return pattern{re}, err
	}
	return nil, errors.New("pattern must have a String that is not empty, or a Regex")
}

func (t *Tokenizer) buildSplitters(file *fileJSON) error {
	byteLevel, err := t.addSplitter(file.PreTokenizer)
	if err == nil && !byteLevel {
		err = errors.New("has no ByteLevel: only byte-level BPE is supported")
	}
	return err
}

// addSplitter appends the splitters of s, and reports whether ByteLevel is one of them. It must be
// the last one, because in the reference it changes the alphabet of the text.
func (t *Tokenizer) addSplitter(s *splitterJSON) (byteLevel bool, err error) {
	if s == nil {
		return false, nil
	}
	if len(t.splitters) >= maxSteps {
		return false, fmt.Errorf("it has more than %d steps", maxSteps)
	}
	switch s.Type {
	case "Sequence":
		for _, part := range s.PreTokenizers {
			if byteLevel {
				return false, errors.New("ByteLevel must be the last of a Sequence")
			}
			if byteLevel, err = t.addSplitter(part); err != nil {
				return false, err
			}
		}
		return byteLevel, nil
	case "ByteLevel":
		if s.AddPrefixSpace == nil || *s.AddPrefixSpace {
			t.splitters = append(t.splitters, prefixSpace{})
		}
		if s.UseRegex == nil || *s.UseRegex {
			return true, t.addPattern(gpt2Pattern, "Isolated", false)
		}
		return true, nil
	case "Digits":
		name := "Contiguous"
		if s.IndividualDigits {
			name = "Isolated"
		}
		return false, t.addFinder(numerals{}, name, false)
	case "Split":
		if s.Pattern.Regex != nil {
			return false, t.addPattern(*s.Pattern.Regex, s.Behavior, s.Invert)
		}
		f, err := s.Pattern.finder()
		if err != nil {
			return false, err
		}
		return false, t.addFinder(f, s.Behavior, s.Invert)
	}
	return false, fmt.Errorf("type %q is not supported", s.Type)
}

// gpt2Pattern is the regular expression that ByteLevel uses if use_regex is true.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (t *Tokenizer) addPattern(pattern, behavior string, invert bool) error {
	if s, known := knownPatterns[pattern]; known && behavior == "Isolated" && !invert {
		t.splitters = append(t.splitters, s)
		return nil
	}
	f, err := patternJSON{Regex: &pattern}.finder()
	if err != nil {
		return err
	}
	return t.addFinder(f, behavior, invert)
}

func (t *Tokenizer) addFinder(f finder, name string, invert bool) error {
	b, ok := behaviors[name]
	if !ok {
		return fmt.Errorf("behavior %q is unknown", name)
	}
	if b == removed {
		t.faithful = false
	}
	t.splitters = append(t.splitters,
		&patternSplitter{slot: t.addSearch(f), behavior: b, invert: invert})
	return nil
}

func (t *Tokenizer) buildProcessor(file *fileJSON) error {
	return t.addProcessor(file.PostProcessor)
}

func (t *Tokenizer) addProcessor(p *processorJSON) error {
	if p == nil {
		return nil
	}
	switch p.Type {
	case "ByteLevel": // it changes offsets only, which this package does not have
		return nil
	case "Sequence":
		for _, part := range p.Processors {
			if err := t.addProcessor(part); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		return t.addTemplate(p)
	}
	return fmt.Errorf("type %q is not supported", p.Type)
}

// addTemplate adds the special tokens of a template before and after those of earlier processors.
func (t *Tokenizer) addTemplate(p *processorJSON) error {
	var before, after []int32
	texts := 0
	for _, part := range p.Single {
		if part.Sequence != nil {
			texts++
			continue
		}
		if part.SpecialToken == nil {
			return errors.New("a part of single is neither SpecialToken nor Sequence")
		}
		token, ok := p.SpecialTokens[part.SpecialToken.ID]
		if !ok {
			return fmt.Errorf("special_tokens lacks %q", part.SpecialToken.ID)
		}
		for _, id := range token.IDs {
			if t.pieces.bytes(id) == nil {
				return fmt.Errorf("%q has id %d, which is not in vocab",
					part.SpecialToken.ID, id)
			}
		}
		if texts == 0 {
			before = append(before, token.IDs...)
		} else {
			after = append(after, token.IDs...)
		}
	}
	if texts != 1 {
		return fmt.Errorf("single has %d Sequence parts, expected 1", texts)
	}
	t.prefix = append(before, t.prefix...)
	t.suffix = append(t.suffix, after...)
	if n := len(t.prefix) + len(t.suffix); n > maxTemplateTokens {
		return fmt.Errorf("it adds %d tokens to a text, the limit is %d", n, maxTemplateTokens)
	}
	return nil
}

func (t *Tokenizer) checkDecoder(file *fileJSON) error {
	return checkDecoder(file.Decoder)
}

// checkDecoder returns an error unless the decoder is ByteLevel, alone or as the only part of a
// Sequence. A missing decoder is valid too, because some files of byte-level models have none.
func checkDecoder(d *decoderJSON) error {
	switch {
	case d == nil || d.Type == "ByteLevel":
		return nil
	case d.Type == "Sequence" && len(d.Decoders) == 1:
		return checkDecoder(d.Decoders[0])
	}
	return fmt.Errorf("type %q is not supported, expected ByteLevel", d.Type)
}
