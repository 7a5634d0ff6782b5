package tokenizer

// Building the model and the added tokens from tokenizer.json: vocabulary, merges, pieces.

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// buildModel sets vocab and model.
func (t *Tokenizer) buildModel(file *fileJSON) error {
	f := &file.Model
	// In old files a BPE model has merges but no type.
	if f.Type != "BPE" && !(f.Type == "" && len(f.Merges) > 0) {
		return fmt.Errorf("type %q is not supported, only byte-level BPE", f.Type)
	}
	if f.ContinuingSubwordPrefix != "" || f.EndOfWordSuffix != "" || f.Dropout != nil &&
		*f.Dropout != 0 {
		return errors.New(
			"continuing_subword_prefix, end_of_word_suffix and dropout are not supported")
	}
	var err error
	if t.vocab, err = parseVocab(f.Vocab); err != nil {
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
	m.complete = complete
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

func (t *Tokenizer) buildMerges(raw []byte) error {
	merges := make(map[uint64]merged, min(len(t.vocab), len(raw)/5)) // about one per token
	var joined []byte
	rank := int32(0)
	err := eachMerge(raw, func(left, right []byte) error {
		if rank >= maxMerges {
			return fmt.Errorf("there are more than %d", maxMerges)
		}
		leftID, ok1 := t.vocab[string(left)]
		rightID, ok2 := t.vocab[string(right)]
		joined = append(append(joined[:0], left...), right...)
		id, ok3 := t.vocab[string(joined)]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("vocab must have %q, %q and %q", left, right, joined)
		}
		merges[pairKey(leftID, rightID)] = merged{rank, id}
		rank++
		return nil
	})
	if err != nil {
		return fmt.Errorf("merge %d: %w", rank, err)
	}
	t.model.merges = merges
	return nil
}

// buildAdded adds the added tokens to vocab, and sets pieces, raw and normalized.
func (t *Tokenizer) buildAdded(file *fileJSON) error {
	if err := checkAdded(file.AddedTokens); err != nil {
		return err
	}
	pieces, err := newPieces(t.vocab, file.AddedTokens)
	if err != nil {
		return err
	}
	e := t.newEncoder()
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
			e.begin(context.Background(), content, EncodeOptions{})
			if content = e.applyNormalizer(content); e.err != nil {
				return fmt.Errorf("%q: %w", token.Content, e.err)
			}
			if len(content) > maxAddedBytes {
				return fmt.Errorf("%q has %d bytes when it is normalized, the limit is %d",
					token.Content, len(content), maxAddedBytes)
			}
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
	return t.pieces.build(pieces)
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
	used    bool // false: there is no token with this id
	added   bool // not in the model's vocab, so text is not in the byte-level alphabet
	special bool
}

// newPieces returns a slice with the tokens of vocab, indexed by id, and with room for the tokens
// of added. Ids may have gaps. The slice is as long as the highest id, so newPieces limits ids in
// proportion to the number of tokens.
func newPieces(vocab map[string]int32, added []addedToken) ([]piece, error) {
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
	pieces := make([]piece, last+1)
	for text, id := range vocab {
		if p := pieces[id]; p.used {
			return nil, fmt.Errorf("vocab has id %d for both %q and %q", id, p.text, text)
		}
		pieces[id] = piece{text: text, used: true}
	}
	return pieces, nil
}

// build fills the table with pieces.
func (p *pieceTable) build(pieces []piece) error {
	total := 0
	for i := range pieces {
		total += len(pieces[i].text)
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
		if !piece.added {
			p.blob, spelled = appendBytes(p.blob, piece.text)
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
