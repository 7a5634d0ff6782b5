package tokenizer

// tokenizer.json: its schema, and from there to the pipeline. Parts that this
// package does not implement are errors, never ignored, except truncation and
// padding.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

type fileJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    *normalizerJSON `json:"normalizer"`
	PreTokenizer  *splitterJSON   `json:"pre_tokenizer"`
	PostProcessor *processorJSON  `json:"post_processor"`
	Decoder       *decoderJSON    `json:"decoder"`
	Model         modelJSON       `json:"model"`
}

type normalizerJSON struct {
	Type        string            `json:"type"`
	Normalizers []*normalizerJSON `json:"normalizers"` // Sequence
	Prepend     string            `json:"prepend"`     // Prepend
	Pattern     patternJSON       `json:"pattern"`     // Replace
	Content     string            `json:"content"`     // Replace
}

type splitterJSON struct {
	Type             string          `json:"type"`
	PreTokenizers    []*splitterJSON `json:"pretokenizers"`     // Sequence
	Pattern          patternJSON     `json:"pattern"`           // Split
	Behavior         string          `json:"behavior"`          // Split
	Invert           bool            `json:"invert"`            // Split
	AddPrefixSpace   *bool           `json:"add_prefix_space"`  // ByteLevel; absent: true
	UseRegex         *bool           `json:"use_regex"`         // ByteLevel; absent: true
	IndividualDigits bool            `json:"individual_digits"` // Digits
}

type patternJSON struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type processorJSON struct {
	Type          string           `json:"type"`
	Processors    []*processorJSON `json:"processors"` // Sequence
	Single        []templateJSON   `json:"single"`     // TemplateProcessing
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

// templateJSON is one part of a template: exactly one field is set.
type templateJSON struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type decoderJSON struct {
	Type     string         `json:"type"`
	Decoders []*decoderJSON `json:"decoders"` // Sequence
}

type modelJSON struct {
	Type                    string          `json:"type"`
	Dropout                 *float64        `json:"dropout"`
	UnkToken                *string         `json:"unk_token"`
	ContinuingSubwordPrefix string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string          `json:"end_of_word_suffix"`
	FuseUnk                 bool            `json:"fuse_unk"`
	ByteFallback            bool            `json:"byte_fallback"`
	IgnoreMerges            bool            `json:"ignore_merges"`
	Vocab                   json.RawMessage `json:"vocab"` // an object for BPE
	Merges                  mergesJSON      `json:"merges"`
}

// mergesJSON reads both forms: "a b" strings and ["a", "b"] pairs.
type mergesJSON [][2]string

func (m *mergesJSON) UnmarshalJSON(data []byte) error {
	var lines []string
	if json.Unmarshal(data, &lines) == nil {
		for i, line := range lines {
			left, right, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(right, " ") {
				return fmt.Errorf("merge %d: got %q, expected two tokens and one space", i, line)
			}
			*m = append(*m, [2]string{left, right})
		}
		return nil
	}
	var pairs [][]string
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("merges: expected \"a b\" strings or [\"a\", \"b\"] pairs: %w", err)
	}
	for i, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("merge %d: got %q, expected two tokens", i, pair)
		}
		*m = append(*m, [2]string{pair[0], pair[1]})
	}
	return nil
}

// Parse reads the text of a tokenizer.json. The error names the part that is
// wrong or not supported.
func Parse(data []byte) (*Tokenizer, error) {
	var file fileJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
	}
	t := &Tokenizer{}
	steps := []struct {
		part  string
		build func(*fileJSON) error
	}{
		{"model", t.buildModel},
		{"normalizer", t.buildNormalizer},
		{"added_tokens", t.buildAdded},
		{"pre_tokenizer", t.buildSplitters},
		{"post_processor", t.buildProcessor},
		{"decoder", t.checkDecoder},
	}
	for _, s := range steps {
		if err := s.build(&file); err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", s.part, err)
		}
	}
	t.encoders = sync.Pool{New: func() any {
		return &encoder{Tokenizer: t, spans: make([][]span, len(t.splitters))}
	}}
	return t, nil
}

// buildModel fills vocab and model.
func (t *Tokenizer) buildModel(file *fileJSON) error {
	f := &file.Model
	// Old files have no type.
	if f.Type != "BPE" && !(f.Type == "" && f.Merges != nil) {
		return fmt.Errorf("type %q is not supported, only byte-level BPE", f.Type)
	}
	if f.ContinuingSubwordPrefix != "" || f.EndOfWordSuffix != "" || f.Dropout != nil && *f.Dropout != 0 {
		return errors.New("continuing_subword_prefix, end_of_word_suffix and dropout are not supported")
	}
	if err := json.Unmarshal(f.Vocab, &t.vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(t.vocab) == 0 {
		return errors.New("vocab is empty")
	}
	m := &t.model
	m.ignoreMerges, m.fuseUnknown, m.cache = f.IgnoreMerges, f.FuseUnk, newWordCache()
	complete := true
	for b, r := range runeOfByte {
		id, ok := t.vocab[string(r)]
		if !ok {
			id, complete = -1, false
		}
		m.byteID[b] = id
	}
	if f.ByteFallback && !complete {
		return errors.New("byte_fallback is not supported for a vocab that lacks single bytes")
	}
	if f.UnkToken != nil && !complete {
		id, ok := t.vocab[*f.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token %q is not in vocab", *f.UnkToken)
		}
		m.unknownID, m.hasUnknown = id, true
	}
	return t.buildMerges(f.Merges)
}

func (t *Tokenizer) buildMerges(pairs [][2]string) error {
	t.model.merges = make(map[uint64]merged, len(pairs))
	var joined []byte
	for rank, pair := range pairs {
		left, ok1 := t.vocab[pair[0]]
		right, ok2 := t.vocab[pair[1]]
		joined = append(append(joined[:0], pair[0]...), pair[1]...)
		id, ok3 := t.vocab[string(joined)]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d: vocab must hold %q, %q and %q", rank, pair[0], pair[1], joined)
		}
		t.model.merges[pairKey(left, right)] = merged{int32(rank), id}
	}
	return nil
}

func (t *Tokenizer) buildNormalizer(file *fileJSON) error {
	return t.addNormalizer(file.Normalizer)
}

func (t *Tokenizer) addNormalizer(n *normalizerJSON) error {
	if n == nil {
		return nil
	}
	switch n.Type {
	case "NFC":
		t.normalizer = append(t.normalizer, nfc)
	case "Sequence":
		for _, part := range n.Normalizers {
			if err := t.addNormalizer(part); err != nil {
				return err
			}
		}
	case "Prepend":
		t.normalizer = append(t.normalizer, func(s string) string {
			if s == "" {
				return s
			}
			return n.Prepend + s
		})
	case "Replace":
		find, err := n.Pattern.finder()
		if err != nil {
			return err
		}
		t.normalizer = append(t.normalizer, replacer(find, n.Content))
	default:
		return fmt.Errorf("type %q is not supported", n.Type)
	}
	return nil
}

// replacer puts content in the place of every match.
func replacer(find finder, content string) normalizeStep {
	return func(s string) string {
		var b strings.Builder
		for _, span := range find(nil, s) {
			if span.match {
				b.WriteString(content)
			} else {
				b.WriteString(s[span.from:span.to])
			}
		}
		return b.String()
	}
}

func (p patternJSON) finder() (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return findString(*p.String), nil
	case p.Regex != nil:
		return findRegex(*p.Regex)
	}
	return nil, errors.New("pattern must have a String, not empty, or a Regex")
}

// buildAdded adds the added tokens to vocab and fills pieces, raw and normalized.
func (t *Tokenizer) buildAdded(file *fileJSON) error {
	pieces, err := spellings(t.vocab)
	if err != nil {
		return err
	}
	for _, token := range file.AddedTokens {
		if token.Content == "" {
			continue
		}
		if id, ok := t.vocab[token.Content]; ok {
			token.ID = id // the model's own id counts
		}
		old, taken := pieces[token.ID]
		if taken && old.text != token.Content {
			return fmt.Errorf("%q has id %d, which belongs to %q", token.Content, token.ID, old.text)
		}
		t.vocab[token.Content] = token.ID
		pieces[token.ID] = piece{token.Content, !taken || old.added, token.Special}
		content, set := token.Content, &t.raw
		if token.Normalized {
			set = &t.normalized
			for _, step := range t.normalizer {
				content = step(content)
			}
		}
		if content != "" {
			set.add(content, token)
		}
	}
	return t.pieces.build(pieces)
}

// piece is what stands behind an id.
type piece struct {
	text    string
	added   bool // not in vocab, so its text is not spelled in the byte alphabet
	special bool
}

// spellings inverts vocab.
func spellings(vocab map[string]int32) (map[int32]piece, error) {
	pieces := make(map[int32]piece, len(vocab))
	for token, id := range vocab {
		if old, taken := pieces[id]; taken {
			return nil, fmt.Errorf("vocab has id %d for both %q and %q", id, old.text, token)
		}
		pieces[id] = piece{text: token}
	}
	return pieces, nil
}

// build fills the table. Ids may have gaps, but the table's size follows the
// highest one, so that must be in proportion to the number of tokens.
func (p *pieceTable) build(pieces map[int32]piece) error {
	ids := make([]int32, 0, len(pieces))
	total := 0
	for id, piece := range pieces {
		ids = append(ids, id)
		total += len(piece.text)
	}
	slices.Sort(ids)
	if ids[0] < 0 {
		return fmt.Errorf("%q has the negative id %d", pieces[ids[0]].text, ids[0])
	}
	last := ids[len(ids)-1]
	if limit := 4*len(ids) + 1<<16; int(last) > limit {
		return fmt.Errorf("%q has id %d, too high for %d tokens", pieces[last].text, last, len(ids))
	}
	if total > math.MaxUint32 {
		return fmt.Errorf("tokens of %d bytes together are too many", total)
	}
	var buf []byte
	for id := range last + 1 {
		piece, used := pieces[id]
		if !used {
			p.add(nil, 0)
			continue
		}
		flags := flagUsed
		if piece.special {
			flags |= flagSpecial
		}
		if piece.added {
			flags |= flagAdded
		}
		bytes, spelled := appendUnspelled(buf[:0], piece.text)
		if piece.added || !spelled {
			bytes = append(bytes[:0], piece.text...)
		}
		p.add(bytes, flags)
		buf = bytes
	}
	return nil
}

func (t *Tokenizer) buildSplitters(file *fileJSON) error {
	byteLevel, err := t.addSplitter(file.PreTokenizer)
	if err == nil && !byteLevel {
		err = errors.New("has no ByteLevel: only byte-level BPE is supported")
	}
	return err
}

// addSplitter appends the splitters of s. The result tells whether ByteLevel was
// among them: it must be the last, because it respells the text.
func (t *Tokenizer) addSplitter(s *splitterJSON) (byteLevel bool, err error) {
	if s == nil {
		return false, nil
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
		t.splitters = append(t.splitters, digitSplitter(s.IndividualDigits))
		return false, nil
	case "Split":
		if s.Pattern.Regex != nil {
			return false, t.addPattern(*s.Pattern.Regex, s.Behavior, s.Invert)
		}
		find, err := s.Pattern.finder()
		if err != nil {
			return false, err
		}
		return false, t.addFinder(find, s.Behavior, s.Invert)
	}
	return false, fmt.Errorf("type %q is not supported", s.Type)
}

// gpt2Pattern is what ByteLevel splits by when use_regex is set.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func digitSplitter(individual bool) splitter {
	if individual {
		return &patternSplitter{find: findDigits, behavior: behaviors["Isolated"]}
	}
	return &patternSplitter{find: findDigits, behavior: behaviors["Contiguous"]}
}

func (t *Tokenizer) addPattern(pattern, behavior string, invert bool) error {
	if s, known := knownPatterns[pattern]; known && behavior == "Isolated" && !invert {
		t.splitters = append(t.splitters, s)
		return nil
	}
	find, err := findRegex(pattern)
	if err != nil {
		return err
	}
	return t.addFinder(find, behavior, invert)
}

func (t *Tokenizer) addFinder(find finder, name string, invert bool) error {
	b, ok := behaviors[name]
	if !ok {
		return fmt.Errorf("behavior %q is unknown", name)
	}
	t.splitters = append(t.splitters, &patternSplitter{find: find, behavior: b, invert: invert})
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
	case "ByteLevel": // only moves offsets
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

// addTemplate wraps what is there so far: special tokens before and after the
// one place of the text.
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
				return fmt.Errorf("%q stands for id %d, which is not in vocab", part.SpecialToken.ID, id)
			}
		}
		if texts == 0 {
			before = append(before, token.IDs...)
		} else {
			after = append(after, token.IDs...)
		}
	}
	if texts != 1 {
		return fmt.Errorf("single has %d places for the text, expected 1", texts)
	}
	t.prefix = append(before, t.prefix...)
	t.suffix = append(t.suffix, after...)
	return nil
}

func (t *Tokenizer) checkDecoder(file *fileJSON) error {
	return checkDecoder(file.Decoder)
}

// checkDecoder accepts ByteLevel, alone or as the only part of a Sequence, and
// no decoder, which some files leave out although their model is byte-level.
func checkDecoder(d *decoderJSON) error {
	switch {
	case d == nil || d.Type == "ByteLevel":
		return nil
	case d.Type == "Sequence" && len(d.Decoders) == 1:
		return checkDecoder(d.Decoders[0])
	}
	return fmt.Errorf("type %q is not supported, expected ByteLevel", d.Type)
}
