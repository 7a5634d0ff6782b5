// Package tokenizer encodes text as token ids and decodes ids, as the Hugging Face tokenizer.json
// of a model describes. It supports byte-level BPE, which Qwen, Llama 3, GPT-2 and related models
// use. For other tokenizers, Parse returns an error that names the unsupported part.
//
// Encoding is a pipeline. Its steps have the order and the names of tokenizer.json:
//
//	text → added tokens (raw) → normalizer → added tokens (normalized)
//	     → pre_tokenizer: words → model: BPE over the bytes of a word → ids
//	     → post_processor: special tokens before and after them, on request
//
// Decoding joins the bytes of the tokens and reads them as UTF-8.
//
// The reference is Hugging Face's tokenizers (https://github.com/huggingface/tokenizers). Tests
// compare ids with stored ids of the reference. There are two intended differences. Truncation and
// padding are ignored, because the engine limits the length. An added token that is not in vocab
// decodes to exactly its text, even if that text is in the alphabet of byte-level BPE.
//
// In text that is not valid UTF-8, each maximal invalid part is read as U+FFFD. Python and Rust
// replace invalid bytes in the same way.
package tokenizer

import (
	"fmt"
	"os"
	"sync"
)

// maxFileBytes is the maximum size of a tokenizer.json. The largest known files have about 35 MB.
const maxFileBytes = 256 << 20

// Tokenizer encodes and decodes text. It is immutable after Parse, and its methods are safe for
// concurrent use.
type Tokenizer struct {
	vocab  map[string]int32 // from tokens, as spelled in the file, to ids; includes added tokens
	pieces pieceTable       // from ids to bytes

	raw        addedTokens // matched before normalization
	normalized addedTokens // matched after normalization
	normalizer []normalizeStep
	splitters  []splitter
	model      bpe

	prefix, suffix []int32 // ids that AddSpecial adds before and after the text

	encoders sync.Pool // of *encoder
}

// EncodeOptions are the options of encoding. Use the zero value for the output of a chat template,
// which already contains special tokens.
type EncodeOptions struct {
	// AddSpecial adds the special tokens of the post_processor, such as a beginning-of-sequence
	// token.
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
	// English text has about four bytes per token.
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

// encoder has the scratch memory of one AppendEncode call. Its methods are the steps of the
// pipeline. Each passes its pieces to the next step, and the last one appends to ids.
type encoder struct {
	*Tokenizer
	ids     []int32
	spans   [][]span // scratch memory of each splitter
	symbols []symbol
	queue   mergeQueue
	word    []byte // a word in the byte-level alphabet
}

func (e *encoder) normalize(text string) {
	for _, step := range e.normalizer {
		text = step(text)
	}
	e.splitAdded(&e.normalized, text, (*encoder).splitFirst)
}

func (e *encoder) splitFirst(text string) { e.split(0, text) }

// split splits text into words with the splitters from the given index on, and encodes the words.
func (e *encoder) split(from int, text string) {
	switch {
	case text == "":
	case from == len(e.splitters):
		e.encodeWord(text)
	default:
		e.splitters[from].split(e, from, text)
	}
}

// VocabSize returns the highest id plus 1, including added tokens. A model may have more logits,
// because its embedding is often padded.
func (t *Tokenizer) VocabSize() int { return t.pieces.size() }

// TokenID returns the id of a token, which is spelled as in tokenizer.json: for example
// "<|im_end|>", or in the byte-level alphabet "Ġthe".
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	id, ok := t.vocab[token]
	return id, ok
}

// TokenBytes returns the bytes of the token id. They may contain incomplete UTF-8 characters. If id
// is not in the vocabulary, the result is nil. The caller must not change the bytes.
func (t *Tokenizer) TokenBytes(id int32) []byte { return t.pieces.bytes(id) }

// IsSpecial reports whether id is an added token that is marked as special. Decode omits such
// tokens if skipSpecial is true.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.pieces.special(id) }
