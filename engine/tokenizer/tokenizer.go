// Package tokenizer turns text into token ids and back, as the Hugging Face
// tokenizer.json of a model says. It covers byte-level BPE, the kind that Qwen,
// Llama 3, GPT-2 and most of their relatives use; any other kind is refused with
// an error that names the part.
//
// Encoding is a pipeline, in the order and with the names of the file:
//
//	text → added tokens (raw) → normalizer → added tokens (normalized)
//	     → pre_tokenizer: words → model: BPE over the bytes of a word → ids
//	     → post_processor: special tokens around them, on request
//
// Decoding joins the tokens' bytes and reads them as UTF-8. The reference is
// Hugging Face's tokenizers (https://github.com/huggingface/tokenizers); ids are
// equal to its ids, checked on stored vectors. The differences are intended:
// truncation and padding are ignored (the engine decides about length), and an
// added token that vocab lacks decodes to exactly its text, even where that text
// happens to be in the alphabet of byte-level BPE.
//
// Text that is not UTF-8 is read as if each maximal invalid part were U+FFFD,
// which is what a caller in Python or Rust would have passed on.
package tokenizer

import (
	"fmt"
	"os"
	"sync"
)

// maxFileBytes bounds tokenizer.json; the largest known ones have about 35 MB.
const maxFileBytes = 256 << 20

// Tokenizer is immutable after Parse; all methods are safe for concurrent use.
type Tokenizer struct {
	vocab  map[string]int32 // token as spelled in the file → id, added tokens too
	pieces pieceTable       // id → bytes

	raw        addedTokens // matched before normalizing
	normalized addedTokens // matched after it
	normalizer []normalizeStep
	splitters  []splitter
	model      bpe

	prefix, suffix []int32 // what AddSpecial puts around the text

	encoders sync.Pool // of *encoder
}

// EncodeOptions is how to encode; its zero value suits text rendered by a chat
// template, which already contains its special tokens.
type EncodeOptions struct {
	// AddSpecial adds what the file's post_processor asks for, such as a
	// beginning-of-sequence token.
	AddSpecial bool
}

// Load reads the tokenizer.json at path.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: %s: not a regular file of at most %d bytes", path,
			maxFileBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Encode returns the ids of text; see AppendEncode.
func (t *Tokenizer) Encode(text string, options EncodeOptions) []int32 {
	// English prose has about four bytes a token.
	return t.AppendEncode(make([]int32, 0, len(text)/4+8), text, options)
}

// AppendEncode appends the ids of text to dst and returns the extended slice.
func (t *Tokenizer) AppendEncode(dst []int32, text string, options EncodeOptions) []int32 {
	e := t.encoders.Get().(*encoder)
	e.ids = dst
	if options.AddSpecial {
		e.ids = append(e.ids, t.prefix...)
	}
	e.splitAdded(&t.raw, toValidUTF8(text), (*encoder).normalize)
	if options.AddSpecial {
		e.ids = append(e.ids, t.suffix...)
	}
	dst, e.ids = e.ids, nil
	t.encoders.Put(e)
	return dst
}

// encoder is the scratch memory of one AppendEncode call. Its methods are the
// pipeline's steps; each hands its pieces to the next, the last appends to ids.
type encoder struct {
	*Tokenizer
	ids     []int32
	spans   [][]span // by splitter
	symbols []symbol
	queue   mergeQueue
	spelled []byte
}

func (e *encoder) normalize(text string) {
	for _, step := range e.normalizer {
		text = step(text)
	}
	e.splitAdded(&e.normalized, text, (*encoder).splitFirst)
}

func (e *encoder) splitFirst(text string) { e.split(0, text) }

// split cuts text by the splitters from the given one on, into words.
func (e *encoder) split(from int, text string) {
	switch {
	case text == "":
	case from == len(e.splitters):
		e.encodeWord(text)
	default:
		e.splitters[from].split(e, from, text)
	}
}

// VocabSize returns one more than the highest id, added tokens included. A
// model's logits may be wider: its embedding is often padded.
func (t *Tokenizer) VocabSize() int { return t.pieces.size() }

// TokenID returns the id of a token, spelled as in the file: "<|im_end|>", or in
// byte-level form "Ġthe".
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	id, ok := t.vocab[token]
	return id, ok
}

// TokenBytes returns the bytes that id decodes to, which need not be whole UTF-8
// characters; nil for an id outside the vocabulary. Do not change them.
func (t *Tokenizer) TokenBytes(id int32) []byte { return t.pieces.bytes(id) }

// IsSpecial tells whether id is an added token marked special, one that decoding
// for people leaves out.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.pieces.special(id) }
