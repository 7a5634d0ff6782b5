package tokenizer

// The models of tokenizer.json, and the vocabulary that they share.

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// model turns words into ids. It is immutable.
type model interface {
	// encodeWord appends the ids of word, which is not empty, to e.ids.
	encodeWord(e *encoder, word string)
	// measure prepares the model for the pieces of t. longest is the number of bytes of a word that
	// one id can stand for. faithful is false if an id can stand for more, or if the model drops
	// text.
	measure(t *Tokenizer) (longest int, faithful bool)
}

// modelKinds has the kinds of models by their names in tokenizer.json. Each sets vocab and model.
var modelKinds = map[string]func(*Tokenizer, *modelJSON) error{
	"BPE":       (*Tokenizer).buildBPE,
	"Unigram":   (*Tokenizer).buildUnigram,
	"WordLevel": (*Tokenizer).buildWordLevel,
	"WordPiece": (*Tokenizer).buildWordPiece,
}

func (t *Tokenizer) buildModel(file *fileJSON) error {
	kind := file.Model.Type
	if kind == "" && len(file.Model.Merges) > 0 {
		kind = "BPE" // in old files, a model has no type
	}
	build, ok := modelKinds[kind]
	if !ok {
		return fmt.Errorf("type %q is not supported", kind)
	}
	return build(t, &file.Model)
}

// readVocab sets vocab from an object of tokens and ids.
func (t *Tokenizer) readVocab(f *modelJSON) (err error) {
	if t.vocab, err = parseVocab(f.Vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(t.vocab) == 0 {
		return errors.New("vocab is empty")
	}
	return nil
}

// modelID returns the id of a token of the model. An added token counts only if it is in the
// model's vocab too.
func (t *Tokenizer) modelID(token []byte) (int32, bool) {
	id, ok := t.vocab[string(token)]
	return id, ok && !t.pieces.added(id)
}

// buildAdded adds the added tokens to vocab, and sets pieces, raw and normalized.
func (t *Tokenizer) buildAdded(file *fileJSON) error {
	if file.config != nil {
		end := int32(0)
		for _, id := range t.vocab {
			end = max(end, id+1)
		}
		for _, d := range t.duplicates {
			end = max(end, d.id+1)
		}
		file.AddedTokens = file.config.apply(file.AddedTokens, t.vocab, end, file.limit)
	}
	if err := checkAdded(file.AddedTokens); err != nil {
		return err
	}
	pieces, err := newPieces(t.vocab, t.duplicates, file.AddedTokens)
	if err != nil {
		return err
	}
	for id, b := range t.byteTokens {
		pieces[id].decodes = string([]byte{b})
	}
	e := t.newEncoder()
	total := 0 // bytes of normalized tokens
	for _, token := range file.AddedTokens {
		if token.Content == "" {
			continue
		}
		if id, ok := t.vocab[token.Content]; ok {
			token.ID = id // the id in vocab takes precedence
		}
		p := &pieces[token.ID]
		if p.used && p.text != token.Content {
			return fmt.Errorf("%q has id %d, which belongs to %q", token.Content, token.ID, p.text)
		}
		*p = piece{text: token.Content, used: true, added: !p.used || p.added,
			special: token.Special}
		t.vocab[token.Content] = token.ID
		content, set := token.Content, &t.raw
		if token.Normalized {
			set = &t.normalized
		}
		if token.Normalized && !token.verbatim {
			e.begin(context.Background(), content, EncodeOptions{})
			if content = e.applyNormalizer(content); e.err != nil {
				return fmt.Errorf("%q: %w", token.Content, e.err)
			}
			if len(content) > maxAddedBytes {
				return fmt.Errorf("%q has %d bytes when it is normalized, the limit is %d",
					token.Content, len(content), maxAddedBytes)
			}
			if total += len(content); total > maxAddedTotal {
				return fmt.Errorf("normalized, they have more than %d bytes", maxAddedTotal)
			}
			p.decodes = content
		}
		if content != "" {
			set.add(content, token)
			t.longest = max(t.longest, len(content))
			if token.Special {
				t.special.add(token.Content, token)
				t.special.add(content, token)
				t.normalizedSpecial = t.normalizedSpecial || token.Normalized
			}
		}
		if token.Lstrip || token.Rstrip {
			t.faithful = false
		}
	}
	t.special.link()
	t.raw.link()
	t.normalized.link()
	return t.pieces.build(pieces, t.byteLevel)
}

// checkAdded checks the limits of added tokens.
func checkAdded(tokens []addedToken) error {
	total := 0
	for i := range tokens {
		n := len(tokens[i].Content)
		if total += n; n > maxAddedBytes {
			return fmt.Errorf("%.40q… has %d bytes, the limit is %d", tokens[i].Content, n,
				maxAddedBytes)
		}
	}
	if len(tokens) > maxAddedTokens || total > maxAddedTotal {
		return fmt.Errorf("there are %d with %d bytes, the limits are %d and %d", len(tokens),
			total, maxAddedTokens, maxAddedTotal)
	}
	return nil
}

// piece is the token with a certain id.
type piece struct {
	text    string
	decodes string // what decoders read, if not text; not for byte-level BPE
	used    bool   // false: there is no token with this id
	added   bool   // not in the model's vocab
	special bool
}

// newPieces returns a slice with the tokens of vocab, indexed by id, and with room for the tokens
// of added. Ids may have gaps. The slice is as long as the highest id, so newPieces limits ids in
// proportion to the number of tokens.
func newPieces(vocab map[string]int32, duplicates []entry, added []addedToken) ([]piece, error) {
	limit := int32(min(4*(len(vocab)+len(added))+1<<16, math.MaxInt32-1))
	last := int32(0)
	check := func(text string, id int32) error {
		if id < 0 || id > limit {
			return fmt.Errorf("%q has id %d, expected 0 to %d for this number of tokens", text, id,
				limit)
		}
		last = max(last, id)
		return nil
	}
	for text, id := range vocab {
		if err := check(text, id); err != nil {
			return nil, err
		}
	}
	for _, token := range added {
		if err := check(token.Content, token.ID); err != nil {
			return nil, err
		}
	}
	for _, d := range duplicates {
		if err := check(d.token, d.id); err != nil {
			return nil, err
		}
	}
	pieces := make([]piece, last+1)
	for text, id := range vocab {
		if p := pieces[id]; p.used {
			return nil, fmt.Errorf("vocab has id %d for both %q and %q", id, p.text, text)
		}
		pieces[id] = piece{text: text, used: true}
	}
	for _, d := range duplicates {
		pieces[d.id] = piece{text: d.token, used: true}
	}
	return pieces, nil
}

// pieceTable maps ids to the bytes of tokens. They are those of a word of the model. For byte-level
// BPE they are the bytes of the text, otherwise a spelling such as ▁the or <0x0A>. The bytes of id
// are blob[ends[id-1]:ends[id]].
type pieceTable struct {
	blob  []byte
	ends  []uint32
	flags []uint8
}

const (
	flagUsed    uint8 = 1 << iota
	flagSpecial       // omitted if skipSpecial is true
	flagAdded         // only in added_tokens, not in the model's vocab
)

func (p *pieceTable) size() int { return len(p.ends) }

func (p *pieceTable) bytes(id int32) []byte {
	if id < 0 || int(id) >= len(p.ends) || p.flags[id]&flagUsed == 0 {
		return nil
	}
	from := uint32(0)
	if id > 0 {
		from = p.ends[id-1]
	}
	to := p.ends[id]
	return p.blob[from:to:to]
}

func (p *pieceTable) special(id int32) bool {
	return id >= 0 && int(id) < len(p.flags) && p.flags[id]&flagSpecial != 0
}

func (p *pieceTable) used(id int32) bool {
	return id >= 0 && int(id) < len(p.flags) && p.flags[id]&flagUsed != 0
}

func (p *pieceTable) added(id int32) bool { return p.flags[id]&flagAdded != 0 }

// build fills the table with pieces. If byteLevel is true, the tokens of the model are spelled in
// the byte-level alphabet.
func (p *pieceTable) build(pieces []piece, byteLevel bool) error {
	total := 0
	for i := range pieces {
		total += max(len(pieces[i].text), len(pieces[i].decodes))
	}
	if total > math.MaxUint32 {
		return fmt.Errorf("all tokens together have %d bytes, at most %d are supported", total,
			uint32(math.MaxUint32))
	}
	p.blob = make([]byte, 0, total)
	p.ends = make([]uint32, 0, len(pieces))
	p.flags = make([]uint8, 0, len(pieces))
	for i := range pieces {
		piece := &pieces[i]
		start, spelled := len(p.blob), false
		switch {
		case byteLevel && !piece.added:
			p.blob, spelled = appendBytes(p.blob, piece.text)
		case !byteLevel && piece.decodes != "":
			p.blob, spelled = append(p.blob, piece.decodes...), true
		}
		if !spelled {
			p.blob = append(p.blob[:start], piece.text...)
		}
		var flags uint8
		if piece.used {
			flags |= flagUsed
		}
		if piece.special {
			flags |= flagSpecial
		}
		if piece.added {
			flags |= flagAdded
		}
		p.ends = append(p.ends, uint32(len(p.blob)))
		p.flags = append(p.flags, flags)
	}
	return nil
}
