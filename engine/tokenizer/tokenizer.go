// Package tokenizer encodes text as token ids and decodes ids, as the Hugging Face tokenizer.json
// of a model describes. If the file needs something that this package does not have, Parse returns
// an error that names it.
//
// Encoding is a pipeline. Its steps have the order and the names of tokenizer.json:
//
//	text → added tokens (raw) → normalizer → added tokens (normalized)
//	     → pre_tokenizer: words → model: words to ids
//	     → post_processor: special tokens before and after them, on request
//
// Decoding is a pipeline too, the decoder: token after token becomes text. Each kind of part is a
// row in a table; config.go names the tables.
//
// Most models use byte-level BPE. Its pipeline has a short form, in which words and tokens are
// bytes; see isByteLevel in config.go.
//
// The reference is Hugging Face's tokenizers (https://github.com/huggingface/tokenizers). Tests
// compare ids with stored ids of the reference. The intended differences are these:
//
//   - Truncation and padding are ignored, because the engine limits the length.
//   - In byte-level BPE, an added token that is not in vocab decodes to exactly its text, even if
//     that text is in the byte-level alphabet. A decoder may be missing.
//   - If some bytes of a row of byte tokens are invalid, the valid characters beside them are still
//     text, because a Stream must not wait for the end of the row.
//   - Special tokens are omitted by their id, also if they are normalized.
//
// The reference of a tokenizer.model is the library SentencePiece. Unlike there, special tokens are
// found in text and decode to their names, and so does the unknown token.
//
// In text that is not valid UTF-8, each maximal invalid part is read as U+FFFD. Python and Rust
// replace invalid bytes in the same way.
package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Tokenizer encodes and decodes text. It is immutable after Parse, and its methods are safe for
// concurrent use.
type Tokenizer struct {
	vocab  map[string]int32 // from tokens, as spelled in the file, to ids; includes added tokens
	pieces pieceTable       // from ids to bytes

	duplicates []entry // tokens of the model that have another id in vocab

	byteLevel bool // byte-level BPE: words and pieces are bytes

	raw        addedTokens // matched before normalization
	normalized addedTokens // matched after normalization
	special    addedTokens // special tokens of both, for Shield
	normalizer []normalizeStep
	splitters  []splitter
	finders    []finder // of the normalizer and the splitters
	cost       int      // of all expressions; see finder
	model      model
	decoders   []decoderStep // in order; not for byte-level BPE
	// decodeGrowth is how many bytes the decoders may make of one; see maxDecodeGrowth.
	decodeGrowth int
	texts        func() *pieceTable // from ids to text, see TokenBytes

	longest  int  // bytes of the longest token
	faithful bool // no step drops text, so a text has at least len/longest tokens
	gates    gates

	normalizedSpecial bool // a special token matches normalized text

	hasByteFallback bool           // a decoder reads byte tokens such as <0x0A>
	byteTokens      map[int32]byte // the byte tokens of SentencePiece, whose pieces are the bytes

	prefix, suffix []int32 // ids that AddSpecial adds before and after the text
	pair           *Pair   // nil: the post_processor knows no pairs of texts

	encoders sync.Pool // of *encoder
}

// EncodeOptions are the options of encoding. Use the zero value for the output of a chat template,
// which already contains special tokens.
type EncodeOptions struct {
	// AddSpecial adds the special tokens of the post_processor, such as a beginning-of-sequence
	// token.
	AddSpecial bool
	// Limit is the maximum number of ids. If a text has more, the error is ErrTooLong. 0: no limit.
	Limit int
	// Shield is what Shield.Hide has hidden in the text. nil: nothing.
	Shield *Shield
	// Admitted is set by a caller that has called Admit for the text.
	Admitted bool
}

// Errors of encoding. An expression of the tokenizer may also give regex.ErrTooComplex.
var (
	ErrTooLong = errors.New("the text has more tokens than the limit")
	ErrGrowth  = errors.New("the tokenizer's normalizer makes too much text of this text")
	ErrWord    = errors.New(
		"the text has a word of more than 8 MB, and the tokenizer lacks tokens for some bytes")
	ErrUnknown = errors.New("the tokenizer has no token for a part of the text")
)

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

// Encode returns the ids of text, or nil if the tokenizer cannot encode it. Use EncodeContext for
// text of clients.
func (t *Tokenizer) Encode(text string, options EncodeOptions) []int32 {
	ids, _ := t.EncodeContext(context.Background(), text, options)
	return ids
}

// EncodeContext returns the ids of text. It ends soon after ctx with its error, and as soon as the
// ids exceed the limit. Memory is bounded: large texts wait for each other.
func (t *Tokenizer) EncodeContext(ctx context.Context, text string, options EncodeOptions) ([]int32,
	error) {
	// English text has about four bytes per token.
	size := len(text)/4 + 8
	if options.Limit > 0 {
		size = min(size, options.Limit+8)
	}
	return t.AppendEncode(ctx, make([]int32, 0, min(size, maxFirstIDs)), text, options)
}

// Admit waits until text of size bytes may be prepared and encoded beside what others encode. Call
// leave afterwards. The error is that of ctx.
func (t *Tokenizer) Admit(ctx context.Context, size int) (leave func(), err error) {
	if err := t.gates.enter(ctx, size); err != nil {
		return nil, err
	}
	return func() { t.gates.leave(size) }, nil
}

// maxFirstIDs bounds the memory for ids that is allocated before encoding.
const maxFirstIDs = 64 << 10

// AppendEncode appends the ids of text to dst and returns the extended slice. See EncodeContext.
func (t *Tokenizer) AppendEncode(ctx context.Context, dst []int32, text string,
	options EncodeOptions) ([]int32, error) {
	if options.Limit > 0 && t.faithful && len(text)/shrinkage/max(t.longest, 1) > options.Limit {
		return dst, ErrTooLong
	}
	if !options.Admitted {
		leave, err := t.Admit(ctx, len(text))
		if err != nil {
			return dst, err
		}
		defer leave()
	}
	e := t.encoders.Get().(*encoder)
	e.begin(ctx, text, options)
	e.ids, e.base = dst, len(dst)
	if options.AddSpecial {
		e.append(t.prefix...)
	}
	e.splitAdded(&t.raw, toValidUTF8(text), (*encoder).normalize)
	if options.AddSpecial {
		e.append(t.suffix...)
	}
	dst, err := e.ids, e.err
	e.end()
	t.encoders.Put(e)
	return dst, err
}

// shrinkage is how much shorter NFC can make a text. The worst known character has 8 bytes
// decomposed and 3 composed.
const shrinkage = 4

// encoder has the scratch memory of one AppendEncode call. Its methods are the steps of the
// pipeline. Each passes its pieces to the next step, and the last one appends to ids. After an
// error, the steps do nothing more.
type encoder struct {
	*Tokenizer
	ctx    context.Context
	err    error
	limit  int // 0: none
	base   int // ids before those of this text
	growth int // bytes that normalizing may still add
	words  int
	shield *Shield

	// first says that the next word is the beginning of the text, and nothing before it was
	// dropped.
	first bool

	ids      []int32
	searches []search // of finders
	symbols  []symbol
	queue    mergeQueue
	halves   map[int32][2]int32 // of merged tokens that are unused, in SentencePiece's BPE
	word     []byte             // a word as it is spelled in vocab
	steps    []step             // of unigram
	path     []int32

	unknownFrom int // where the unknown text of a word begins, in unigram; -1: nowhere
	stop        func() error
}

// checkBytes is the number of bytes or steps between two looks at the context; a power of two.
const checkBytes = 1 << 14

func (t *Tokenizer) newEncoder() *encoder {
	e := &encoder{Tokenizer: t}
	for _, f := range t.finders {
		e.searches = append(e.searches, f.newSearch())
	}
	e.stop = func() error { return e.ctx.Err() }
	return e
}

// begin prepares the encoder for a text.
func (e *encoder) begin(ctx context.Context, text string, options EncodeOptions) {
	e.ctx, e.err, e.limit, e.shield = ctx, nil, options.Limit, options.Shield
	e.first = true
	e.growth = min(growthBytes+maxGrowth*len(text), maxAdded)
}

// keptScratch is the size of a buffer up to which an encoder keeps it.
const keptScratch = 1 << 20

// end drops what must not outlive a text: references to it and large buffers.
func (e *encoder) end() {
	e.ctx, e.ids, e.shield = nil, nil, nil
	for _, s := range e.searches {
		s.reset(e, "")
	}
	if cap(e.symbols)*16 > keptScratch || cap(e.queue)*16 > keptScratch {
		e.symbols, e.queue = nil, nil
	}
	if cap(e.steps)*16 > keptScratch {
		e.steps, e.path = nil, nil
	}
}

// fail ends the encoding with an error, unless it has failed already.
func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// check reports whether the encoding has ended, for example with its context.
func (e *encoder) check() bool {
	if err := e.ctx.Err(); err != nil {
		e.fail(err)
	}
	return e.err != nil
}

// append appends ids. It reports whether the encoding has ended, for example at the limit.
func (e *encoder) append(ids ...int32) bool {
	e.ids = append(e.ids, ids...)
	if e.limit > 0 && len(e.ids)-e.base > e.limit {
		e.fail(ErrTooLong)
	}
	return e.err != nil
}

func (e *encoder) normalize(text string) {
	if !e.normalizedSpecial {
		text = e.shield.Reveal(text)
	}
	text = e.applyNormalizer(text)
	if e.err == nil {
		e.splitAdded(&e.normalized, text, (*encoder).splitFirst)
	}
}

// applyNormalizer returns text after the normalizer.
func (e *encoder) applyNormalizer(text string) string {
	for _, step := range e.normalizer {
		if e.check() {
			break
		}
		text = step(e, text)
	}
	return text
}

func (e *encoder) splitFirst(text string) {
	if e.normalizedSpecial {
		text = e.shield.Reveal(text)
	}
	e.split(0, text)
}

// split splits text into words with the splitters from the given index on, and encodes the words.
func (e *encoder) split(from int, text string) {
	switch {
	case text == "" || e.err != nil:
	case from == len(e.splitters):
		if e.words++; e.words%1024 != 0 || !e.check() {
			e.model.encodeWord(e, text)
		}
		e.first = false
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

// TokenBytes returns the bytes that the token id adds to a text that has begun. They may contain
// incomplete UTF-8 characters. If id is not in the vocabulary, the result is nil. The caller must
// not change the bytes.
func (t *Tokenizer) TokenBytes(id int32) []byte { return t.texts().bytes(id) }

// IsSpecial reports whether id is an added token that is marked as special. Decode omits such
// tokens if skipSpecial is true.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.pieces.special(id) }
