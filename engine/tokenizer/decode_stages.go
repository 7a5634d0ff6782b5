package tokenizer

// The decoder of tokenizer.json: stages that rewrite a stream of tokens. In the reference each gets
// a list of tokens and returns another. Here each gets one token after another, in parts, and
// passes on what later tokens cannot change, so that a text can be shown while it is generated.
// Each kind of decoder is one row of decoderKinds.

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeStage is one stage.
type decodeStage interface {
	// write adds a part of the current token: complete characters. The stage does not keep part.
	write(part []byte)
	// endToken ends the current token. The next one begins with the next call.
	endToken()
	// end ends the text. Afterwards the stage is as new.
	end()
}

// decoderStep makes a stage that passes its tokens to next.
type decoderStep func(next decodeStage) decodeStage

// decoderKinds has the kinds of decoders by their names in tokenizer.json.
var decoderKinds = map[string]func(*Tokenizer, *part) (decoderStep, error){
	"BPEDecoder":   suffixDecoder,
	"ByteFallback": byteFallbackDecoder,
	"ByteLevel":    byteLevelDecoder,
	"CTC":          ctcDecoder,
	"Fuse":         fuseDecoder,
	"Metaspace":    metaspaceDecoder,
	"Replace":      replaceDecoder,
	"Strip":        stripDecoder,
	"WordPiece":    wordPieceDecoder,
}

func (t *Tokenizer) buildDecoder(file *fileJSON) error {
	t.buildTexts()
	parts, err := file.Decoder.flatten("decoders")
	if err != nil || t.byteLevel {
		return err
	}
	for _, p := range parts {
		if p.decode != nil {
			t.decoders = append(t.decoders, p.decode)
			continue
		}
		build, ok := decoderKinds[p.kind]
		if !ok {
			return fmt.Errorf("type %q is not supported", p.kind)
		}
		step, err := build(t, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
		t.decoders = append(t.decoders, step)
	}
	if file.Decoder == nil {
		t.decoders = append(t.decoders, spaceDecoder)
	}
	return nil
}

// wholeTokens is a stage that needs whole tokens.
type wholeTokens struct {
	next  decodeStage
	token []byte
	index int // of the token in the text
	// rewrite passes a token on, or keeps it; finish passes on what it has kept, and may be nil.
	rewrite func(w *wholeTokens)
	finish  func(w *wholeTokens)
}

func (w *wholeTokens) write(part []byte) { w.token = append(w.token, part...) }

func (w *wholeTokens) endToken() {
	w.rewrite(w)
	w.token = w.token[:0]
	w.index++
}

func (w *wholeTokens) end() {
	if w.finish != nil {
		w.finish(w)
	}
	w.token, w.index = w.token[:0], 0
	w.next.end()
}

// pass passes a token to the next stage.
func (w *wholeTokens) pass(token []byte) {
	w.next.write(token)
	w.next.endToken()
}

// spaceDecoder puts a space between tokens, if there is no decoder.
func spaceDecoder(next decodeStage) decodeStage {
	return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
		if w.index > 0 {
			w.next.write([]byte(" "))
		}
		w.pass(w.token)
	}}
}

// fuseDecoder joins all tokens to one.
func fuseDecoder(*Tokenizer, *part) (decoderStep, error) {
	return func(next decodeStage) decodeStage { return &fuse{next} }, nil
}

type fuse struct{ next decodeStage }

func (f *fuse) write(part []byte) { f.next.write(part) }
func (f *fuse) endToken()         {}
func (f *fuse) end() {
	f.next.endToken()
	f.next.end()
}

// byteLevelDecoder reads tokens that are spelled in the byte-level alphabet, and joins them to one.
func byteLevelDecoder(*Tokenizer, *part) (decoderStep, error) {
	return func(next decodeStage) decodeStage {
		var pending, text []byte
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			spelled, ok := appendBytes(pending, string(w.token))
			if !ok {
				spelled = append(pending, w.token...)
			}
			var rest []byte
			text, rest = appendCertain(text[:0], spelled)
			pending = append(spelled[:0], rest...)
			w.next.write(text)
		}, finish: func(w *wholeTokens) {
			if len(pending) > 0 {
				w.next.write([]byte(replacement))
			}
			pending = pending[:0]
			w.next.endToken()
		}}
	}, nil
}

// byteToken returns the byte of a token such as <0x0A>.
func byteToken(token []byte) (b byte, ok bool) {
	if len(token) != 6 || string(token[:3]) != "<0x" || token[5] != '>' {
		return 0, false
	}
	for _, c := range token[3:5] {
		switch {
		case c >= '0' && c <= '9':
			b = b<<4 | (c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			b = b<<4 | (c | 0x20 - 'a' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

// byteFallbackDecoder joins byte tokens in a row to one token. Each byte that is not part of a
// character becomes U+FFFD.
func byteFallbackDecoder(t *Tokenizer, _ *part) (decoderStep, error) {
	t.hasByteFallback = true
	return func(next decodeStage) decodeStage {
		var pending, text []byte
		row := false
		endRow := func(w *wholeTokens) {
			if !row {
				return
			}
			for range pending {
				w.next.write([]byte(replacement))
			}
			pending, row = pending[:0], false
			w.next.endToken()
		}
		return &wholeTokens{next: next, finish: endRow, rewrite: func(w *wholeTokens) {
			b, ok := byteToken(w.token)
			if !ok {
				endRow(w)
				w.pass(w.token)
				return
			}
			row, pending = true, append(pending, b)
			text = text[:0]
			for len(pending) > 0 {
				r, size := utf8.DecodeRune(pending)
				if r != utf8.RuneError || size > 1 {
					text = append(text, pending[:size]...)
				} else if _, open := subpart(pending); open {
					break
				} else {
					text = append(text, replacement...)
				}
				pending = append(pending[:0], pending[size:]...)
			}
			w.next.write(text)
		}}
	}, nil
}

// metaspaceDecoder writes the replacement as a space, except in the first token if encoding may
// have put one there.
func metaspaceDecoder(_ *Tokenizer, p *part) (decoderStep, error) {
	f, err := readMetaspace(p)
	return func(next decodeStage) decodeStage {
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			space := " "
			if w.index == 0 && f.PrependScheme != "never" {
				space = ""
			}
			w.pass(bytes.ReplaceAll(w.token, []byte(f.Replacement), []byte(space)))
		}}
	}, err
}

// wordPieceDecoder puts a space before each token but the first and those with the prefix.
func wordPieceDecoder(_ *Tokenizer, p *part) (decoderStep, error) {
	f := struct {
		Prefix  string `json:"prefix"`
		Cleanup bool   `json:"cleanup"`
	}{"##", true}
	err := p.read(&f)
	return func(next decodeStage) decodeStage {
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			token := string(w.token)
			if w.index > 0 {
				if rest, ok := strings.CutPrefix(token, f.Prefix); ok {
					token = rest
				} else {
					token = " " + token
				}
			}
			if f.Cleanup {
				token = cleanUp(token)
			}
			w.pass([]byte(token))
		}}
	}, err
}

// artifacts are the replacements of cleanUp, in order.
var artifacts = [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
	{" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"},
	{" 're", "'re"}}

// cleanUp drops spaces that English text does not have.
func cleanUp(text string) string {
	for _, a := range artifacts {
		text = strings.ReplaceAll(text, a[0], a[1])
	}
	return text
}

// suffixDecoder writes the suffix at the end of a word as a space, except in the last token.
func suffixDecoder(_ *Tokenizer, p *part) (decoderStep, error) {
	f := struct {
		Suffix string `json:"suffix"`
	}{"</w>"}
	if err := p.read(&f); err != nil {
		return nil, err
	}
	if f.Suffix == "" {
		return nil, fmt.Errorf("suffix is empty")
	}
	return func(next decodeStage) decodeStage {
		var last []byte
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			if w.index > 0 {
				w.pass(bytes.ReplaceAll(last, []byte(f.Suffix), []byte(" ")))
			}
			last = append(last[:0], w.token...)
		}, finish: func(w *wholeTokens) {
			if w.index > 0 {
				w.pass(bytes.ReplaceAll(last, []byte(f.Suffix), nil))
			}
		}}
	}, nil
}

// ctcDecoder drops repeated tokens and pads, and writes the word delimiter as a space.
func ctcDecoder(_ *Tokenizer, p *part) (decoderStep, error) {
	f := struct {
		PadToken           string `json:"pad_token"`
		WordDelimiterToken string `json:"word_delimiter_token"`
		Cleanup            bool   `json:"cleanup"`
	}{"<pad>", "|", true}
	if err := p.read(&f); err != nil {
		return nil, err
	}
	if f.PadToken == "" || f.WordDelimiterToken == "" {
		return nil, fmt.Errorf("pad_token or word_delimiter_token is empty")
	}
	return func(next decodeStage) decodeStage {
		var last []byte
		return &wholeTokens{next: next, rewrite: func(w *wholeTokens) {
			if w.index > 0 && bytes.Equal(last, w.token) {
				return
			}
			last = append(last[:0], w.token...)
			token := strings.ReplaceAll(string(w.token), f.PadToken, "")
			if f.Cleanup {
				token = strings.ReplaceAll(cleanUp(token), f.WordDelimiterToken, " ")
			}
			if token != "" {
				w.pass([]byte(token))
			}
		}}
	}, nil
}
