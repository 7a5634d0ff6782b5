package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// oracleCase is a line of the files that build/oracle/tokenizers writes: a tokenizer.json, and what
// the reference makes of some texts. A field is null where the reference fails.
type oracleCase struct {
	Tokenizer json.RawMessage `json:"tokenizer"`
	Path      string          `json:"path"`    // of a vocabulary file, in place of Tokenizer
	Data      []byte          `json:"data"`    // such a file itself
	Kind      string          `json:"kind"`    // of that file
	Refused   bool            `json:"refused"` // the reference does not load the file
	Seconds   float64         `json:"seconds"` // that the reference took; 0: not measured
	Vectors   []struct {
		Text        string   `json:"text"`
		IDs         *[]int32 `json:"ids"`
		WithSpecial *[]int32 `json:"with_special"`
		Decode      []int32  `json:"decode"`
		Decoded     *string  `json:"decoded"`
		DecodedSkip *string  `json:"decoded_skip"`
	} `json:"vectors"`
}

// eachOracleCase calls check for each line of a file.
func eachOracleCase(t testing.TB, path string, check func(line int, c *oracleCase)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	d := json.NewDecoder(r)
	for line := 1; d.More(); line++ {
		var c oracleCase
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		check(line, &c)
	}
}

// checkOracleCase compares with the reference.
func checkOracleCase(t *testing.T, line int, tok *Tokenizer, c *oracleCase) {
	t.Helper()
	for _, v := range c.Vectors {
		for special, want := range map[bool]*[]int32{false: v.IDs, true: v.WithSpecial} {
			text, options := v.Text, EncodeOptions{AddSpecial: special}
			if c.Kind != "" { // the libraries of vocabulary files find no special tokens in text
				options.Shield = tok.NewShield()
				text = options.Shield.Hide(text)
			}
			got, err := tok.EncodeContext(t.Context(), text, options)
			if want != nil && (err != nil || !slices.Equal(got, *want)) {
				t.Errorf("line %d: Encode(%q, %v)\n got %v, %v\nwant %v", line, v.Text, special,
					got, err, *want)
			}
		}
		for skip, want := range map[bool]*string{false: v.Decoded, true: v.DecodedSkip} {
			got := tok.Decode(v.Decode, skip)
			if want != nil && got != *want && decodesAlike(tok, v.Decode, *want) {
				t.Errorf("line %d: Decode(%v, %v)\n got %q\nwant %q", line, v.Decode, skip, got,
					*want)
			}
			if s := streamed(tok, v.Decode, skip); s != got {
				t.Errorf("line %d: Stream(%v, %v)\n got %q\nwant %q", line, v.Decode, skip, s, got)
			}
		}
	}
}

// decodesAlike reports whether ids, which the reference decodes as want, have none of the intended
// differences; see the package comment.
func decodesAlike(tok *Tokenizer, ids []int32, want string) bool {
	if tok.hasByteFallback && strings.Contains(want, replacement) { // an invalid row of bytes
		return false
	}
	for _, id := range ids {
		if !tok.pieces.used(id) || tok.byteTokens != nil {
			continue
		}
		spelled, ok := tok.vocab[string(tok.pieces.bytes(id))]
		if tok.byteLevel && tok.pieces.added(id) || !tok.byteLevel && (!ok || spelled != id) {
			return false
		}
	}
	return true
}

// TestOracle compares with the file in HEADROOM_TOKENIZER_ORACLE, which `make oracle-tokenizers`
// writes with random tokenizers and texts.
func TestOracle(t *testing.T) {
	path := os.Getenv("HEADROOM_TOKENIZER_ORACLE")
	if path == "" {
		t.Skip("make oracle-tokenizers runs this test")
	}
	cases, refused := 0, 0
	eachOracleCase(t, path, func(line int, c *oracleCase) {
		cases++
		var file fileJSON
		if err := json.Unmarshal(c.Tokenizer, &file); err != nil {
			t.Fatal(err)
		}
		tok, err := Parse(c.Tokenizer)
		if err != nil {
			t.Logf("line %d: refused: %v", line, err)
			refused++
			return
		}
		if file.Decoder == nil && tok.byteLevel { // the reference shows the byte-level alphabet
			for i := range c.Vectors {
				c.Vectors[i].Decoded, c.Vectors[i].DecodedSkip = nil, nil
			}
		}
		checkOracleCase(t, line, tok, c)
	})
	t.Logf("%d tokenizers, %d refused", cases, refused)
	if refused*5 > cases {
		t.Errorf("%d of %d tokenizers were refused", refused, cases)
	}
}

// vocabularyParsers has the parsers of vocabulary files by their names in the lines of
// build/oracle/tokenizers.
var vocabularyParsers = map[string]func([]byte) (*Tokenizer, error){
	"json": Parse, "sentencepiece": parseAlone, "tekken": ParseTekken,
	"tiktoken": func(data []byte) (*Tokenizer, error) { return ParseTiktoken(data, &Config{}) },
	"gguf":     func(data []byte) (*Tokenizer, error) { return ParseGGUF(bytes.NewReader(data)) },
}

// TestVocabularyFiles compares with the file in HEADROOM_TOKENIZER_FILES, which
// `make oracle-tokenizers` writes. Its lines name a vocabulary file and what its own library makes
// of some texts.
func TestVocabularyFiles(t *testing.T) {
	path := os.Getenv("HEADROOM_TOKENIZER_FILES")
	if path == "" {
		t.Skip("make oracle-tokenizers runs this test")
	}
	eachOracleCase(t, path, func(line int, c *oracleCase) {
		data, err := os.ReadFile(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		tok, err := vocabularyParsers[c.Kind](data)
		if err != nil && len(c.Vectors) == 0 { // an old file that does not name its expressions
			t.Logf("%s is refused: %v", filepath.Base(c.Path), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", c.Path, err)
			return
		}
		t.Logf("%s: %d tokens, loaded in %v", filepath.Base(c.Path), tok.VocabSize(),
			time.Since(start))
		checkOracleCase(t, line, tok, c)
		if c.Seconds > 0 {
			checkSpeed(t, data, c)
		}
	})
}

// checkSpeed encodes the text of c as often as the reference, with an empty cache at first.
func checkSpeed(t *testing.T, data []byte, c *oracleCase) {
	t.Helper()
	fresh, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	text, best, first := c.Vectors[0].Text, math.Inf(1), 0.0
	for n := range 5 {
		start := time.Now()
		fresh.Encode(text, EncodeOptions{})
		took := time.Since(start).Seconds()
		if best = min(best, took); n == 0 {
			first = took
		}
	}
	mb := float64(len(text)) / 1e6
	t.Logf("%s: %.1f MB/s, the first time %.1f, the reference %.1f", filepath.Base(c.Path),
		mb/best, mb/first, mb/c.Seconds)
	if best > c.Seconds {
		t.Errorf("%s is slower than the reference", c.Path)
	}
}

// TestSmallVocabularyFiles is TestVocabularyFiles with small files that are stored here.
func TestSmallVocabularyFiles(t *testing.T) {
	cases := 0
	eachOracleCase(t, "testdata/oracle_files.jsonl", func(line int, c *oracleCase) {
		cases++
		tok, err := vocabularyParsers[c.Kind](c.Data)
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		checkOracleCase(t, line, tok, c)
	})
	if cases < 5 {
		t.Errorf("%d files, expected at least 5", cases)
	}
}

// checkPieces compares files of SentencePiece with the library. Both must refuse the same files.
func checkPieces(t *testing.T, path string) (cases, refused int) {
	eachOracleCase(t, path, func(line int, c *oracleCase) {
		cases++
		tok, err := parseAlone(c.Data)
		if c.Refused != (err != nil) {
			t.Errorf("line %d: the library refuses it: %t, here: %v", line, c.Refused, err)
		}
		if err != nil || c.Refused {
			refused++
			return
		}
		checkOracleCase(t, line, tok, c)
	})
	return cases, refused
}

// TestPiecesOracle compares with the file in HEADROOM_TOKENIZER_PIECES, which
// `make oracle-tokenizers` writes with random files of SentencePiece and texts.
func TestPiecesOracle(t *testing.T) {
	path := os.Getenv("HEADROOM_TOKENIZER_PIECES")
	if path == "" {
		t.Skip("make oracle-tokenizers runs this test")
	}
	cases, refused := checkPieces(t, path)
	t.Logf("%d tokenizers, %d refused", cases, refused)
}

// TestSmallPieces is TestPiecesOracle with small files that are stored here.
func TestSmallPieces(t *testing.T) {
	if cases, _ := checkPieces(t, "testdata/oracle_pieces.jsonl"); cases < 100 {
		t.Errorf("%d files, expected at least 100", cases)
	}
}

// FuzzVocabularyFiles checks that the parsers return an error or a working tokenizer for any input.
func FuzzVocabularyFiles(f *testing.F) {
	eachOracleCase(f, "testdata/oracle_files.jsonl", func(_ int, c *oracleCase) { f.Add(c.Data) })
	for _, file := range ggufFiles() {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, parse := range vocabularyParsers {
			tok, err := parse(data)
			if err != nil {
				continue
			}
			ids := tok.Encode("a b  the\n\n<tool> e\u0301日\x00", EncodeOptions{AddSpecial: true})
			for _, id := range ids {
				if tok.TokenBytes(id) == nil {
					t.Fatalf("%s: encoding gave id %d, which is not in the vocabulary", kind, id)
				}
			}
			if got, want := streamed(tok, ids, false), tok.Decode(ids, false); got != want {
				t.Fatalf("%s: decoded %q, streamed %q", kind, want, got)
			}
		}
	})
}
