// Package tokenizer encodes text as token ids and decodes it, according to the Hugging Face
// tokenizer.json of a model. It supports byte-level BPE, as used by Qwen, Llama 3, GPT-2 and
// related models. For any other kind, Parse returns an error that names the unsupported part.
//
// Encoding is a pipeline, in the order and with the names of the file:
//
//	text → added tokens (raw) → normalizer → added tokens (normalized)
//	     → pre_tokenizer: words → model: BPE over the bytes of a word → ids
//	     → post_processor: special tokens around them, on request
//
// Decoding joins the tokens' bytes and reads them as UTF-8. The reference is Hugging Face's
// tokenizers (https://github.com/huggingface/tokenizers). Tests compare ids with stored vectors of
// the reference. Two differences are intended. Truncation and padding are ignored, since the engine
// limits the length. An added token that vocab lacks decodes to exactly its text, even if that text
// is in the alphabet of byte-level BPE.
//
// In text that is not valid UTF-8, each maximal invalid part is read as U+FFFD. A
// caller in Python or Rust would have replaced it in the same way.
package tokenizer

import (
	"fmt"
	"os"
	"sync"
)

// maxFileBytes bounds tokenizer.json. The largest known ones have about 35 MB.
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

	prefix, suffix []int32 // ids that AddSpecial adds before and after the text

	encoders sync.Pool // of *encoder
}

// EncodeOptions are the options of encoding. The zero value is right for the output
// of a chat template, which already has its special tokens.
type EncodeOptions struct {
	// AddSpecial adds the special tokens of the file's post_processor, such as a
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

// encoder has the scratch memory of one AppendEncode call. Its methods are the steps
// of the pipeline. Each passes its pieces to the next, and the last appends to ids.
type encoder struct {
	*Tokenizer
	ids     []int32
	spans   [][]span // by splitter
	symbols []symbol
	queue   mergeQueue
	word    []byte // in the byte-level alphabet
}

func (e *encoder) normalize(text string) {
	for _, step := range e.normalizer {
		text = step(text)
	}
	e.splitAdded(&e.normalized, text, (*encoder).splitFirst)
}

func (e *encoder) splitFirst(text string) { e.split(0, text) }

// split splits text into words, by the splitters at index from and later.
func (e *encoder) split(from int, text string) {
	switch {
	case text == "":
	case from == len(e.splitters):
		e.encodeWord(text)
	default:
		e.splitters[from].split(e, from, text)
	}
}

// VocabSize returns one more than the highest id, added tokens included. A model may
// have more logits, since its embedding is often padded.
func (t *Tokenizer) VocabSize() int { return t.pieces.size() }

// TokenID returns the id of a token, written as in the file: "<|im_end|>", or in the
// byte-level alphabet "Ġthe".
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	id, ok := t.vocab[token]
	return id, ok
}

// TokenBytes returns the bytes of id, which need not be whole UTF-8 characters, and
// nil for an id outside the vocabulary. Do not change them.
func (t *Tokenizer) TokenBytes(id int32) []byte { return t.pieces.bytes(id) }

// IsSpecial reports whether id is an added token that is marked special. Decode
// leaves such tokens out with skipSpecial.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.pieces.special(id) }
