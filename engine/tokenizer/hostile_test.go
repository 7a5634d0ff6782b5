package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
)

// hostileTokens are tokens of which every text of a's and of spaces has beginnings everywhere.
var hostileTokens = []string{strings.Repeat("a", 40) + "b", strings.Repeat("a", 7),
	strings.Repeat("ab", 20) + "c", "aa", "ab", "ba", strings.Repeat("▁", 20) + "x", "▁▁", "▁a"}

// hostileFiles returns a tokenizer of each kind of model and file, by name.
func hostileFiles(t *testing.T) map[string]*Tokenizer {
	t.Helper()
	quoted := func(format string) string {
		var b strings.Builder
		for i, token := range hostileTokens {
			fmt.Fprintf(&b, format, token, i+10)
		}
		return b.String()
	}
	var added []string
	for n := 1; n < 300; n++ {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":"%s<"}`, 1000+n,
			strings.Repeat("a", n)))
	}
	const special = `{"id":900,"content":"<|im_end|>","special":true}`
	addedTokens := `"added_tokens":[` + special + "," + strings.Join(added, ",") + `]`
	pieces := []testPiece{{"<s>", 0, controlToken}, {"a", -1, 0}, {"b", -1, 0}, {"▁", -1, 0},
		{strings.Repeat("a", 99) + "<", 0, userToken}, {strings.Repeat(" ", 99) + "<", 0,
			userToken}}
	var scores []float32
	for i, token := range hostileTokens {
		pieces = append(pieces, testPiece{token, -2 - float32(i), 0})
	}
	unused := append([]testPiece{{"aaa", -1, unusedToken}, {"aaaa", -1, unusedToken}}, pieces...)
	names, kinds := []string{"<unk>"}, []int32{int32(unknownToken)}
	scores = append(scores, 0)
	for _, p := range pieces {
		names, scores = append(names, p.text), append(scores, p.score)
		kinds = append(kinds, int32(max(p.kind, normalToken)))
	}
	var vocab strings.Builder
	for i := range 256 {
		fmt.Fprintf(&vocab, `{"rank":%d,"token_bytes":"%s"},`, i,
			base64.StdEncoding.EncodeToString([]byte{byte(i)}))
	}
	for i, token := range hostileTokens {
		fmt.Fprintf(&vocab, `{"rank":%d,"token_bytes":"%s"},`, 256+i,
			base64.StdEncoding.EncodeToString([]byte(token)))
	}
	tekken := fmt.Sprintf(`{"config":{"pattern":%q,"default_vocab_size":%d,`+
		`"default_num_special_tokens":3},"vocab":[%s],"special_tokens":[]}`, llama3Pattern,
		259+len(hostileTokens), strings.TrimSuffix(vocab.String(), ","))
	config := `{"added_tokens_decoder":{"300":{"content":"<|im_end|>","special":true}}}`

	files := map[string]*Tokenizer{}
	add := func(name string, tok *Tokenizer, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[name] = tok
	}
	parse := func(name, file string) {
		t.Helper()
		tok, err := Parse([]byte(file))
		add(name, tok, err)
	}
	parse("byte-level BPE", small(addedTokens))
	parse("byte-level BPE with NFC", small(`"normalizer":{"type":"NFC"}`))
	parse("BPE", llama(addedTokens))
	parse("Unigram", `{`+addedTokens+`,"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],`+
		`["a",-1],["b",-1]`+quoted(`,["%s",-%d]`)+`]},"pre_tokenizer":{"type":"Metaspace"}}`)
	parse("WordPiece", `{`+addedTokens+`,"model":{"type":"WordPiece",`+
		`"max_input_chars_per_word":99999999,"vocab":{"[UNK]":0,"a":1,"##a":2,"##b":3,"b":4`+
		quoted(`,"##%s":%d`)+`}},"normalizer":{"type":"BertNormalizer","clean_text":true,`+
		`"handle_chinese_chars":true,"lowercase":true},"decoder":{"type":"WordPiece"}}`)
	tok, err := parseAlone(pieceFile(pieces, []any{modelTypeField, bpeModel}, nil))
	add("SentencePiece, BPE", tok, err)
	tok, err = parseAlone(pieceFile(append(bytePieces(), unused...),
		[]any{modelTypeField, bpeModel, fallbackField, true}, []any{extraField, false}))
	add("SentencePiece, BPE with unused tokens and bytes", tok, err)
	tok, err = parseAlone(pieceFile(append(bytePieces(), pieces...),
		[]any{modelTypeField, unigramModel, fallbackField, true}, nil))
	add("SentencePiece, Unigram", tok, err)
	tok, err = ParseTekken([]byte(tekken))
	add("tekken", tok, err)
	named, err := ParseConfig(ConfigFiles{TokenizerConfig: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	tok, err = ParseTiktoken(tiktokenFile(hostileTokens...), named)
	add("tiktoken", tok, err)
	for _, model := range []string{"llama", "t5", "bert"} {
		tok, err := ParseGGUF(bytes.NewReader(ggufFile(ggml+"model", model, ggml+"tokens", names,
			ggml+"scores", scores, ggml+"token_type", kinds)))
		add("GGUF, "+model, tok, err)
	}
	for _, model := range []string{"gpt2", "gemma4"} {
		tok, err := ParseGGUF(bytes.NewReader(ggufFiles()[model]))
		add("GGUF, "+model, tok, err)
	}
	return files
}

// hostileTexts are repeated to texts of a megabyte, or an eighth of it.
var hostileTexts = map[string]int{"a": 1, " ": 1, "ab": 1, "\u0301": 1, "\xff": 1, "<|im_end|": 1,
	"0": 8, "日": 8, "▁": 8, "\x00": 8, "\xf0\x9f": 8, "a ": 8, "a\n": 8, "é\u0301": 8, "<": 8,
	"<|im_end|>": 8, strings.Repeat("a", 98) + " ": 8, strings.Repeat(" ", 98) + "a": 8}

// TestCharsMapWithoutEnd encodes with a table of replacements whose trie leads from a node for a
// back to it.
func TestCharsMapWithoutEnd(t *testing.T) {
	chars := binary.LittleEndian.AppendUint32(nil, 4*0x62)
	for at := range uint32(0x62) {
		unit := uint32(0)
		if at == 'a' {
			unit = 'a' | 'a'<<10
		}
		chars = binary.LittleEndian.AppendUint32(chars, unit)
	}
	tok := parsePieces(t, []testPiece{{"a", -1, 0}}, nil,
		[]any{charsField, append(chars, 0), dummyField, false})
	text, start := strings.Repeat("a", 1<<20), time.Now()
	if got := tok.Encode(text, EncodeOptions{}); len(got) != len(text) {
		t.Errorf("%d ids, expected %d", len(got), len(text))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestHostileTexts encodes texts that have beginnings of tokens everywhere, or nothing else than
// spaces, marks or invalid bytes, with every kind of model. If it took quadratic time, the test
// would not end.
func TestHostileTexts(t *testing.T) {
	for name, tok := range hostileFiles(t) {
		for unit, part := range hostileTexts {
			if testing.Short() { // under the race detector
				part = 8
			}
			text := strings.Repeat(unit, 1<<20/len(unit)/part)
			start := time.Now()
			used := allocated(func() {
				ids, err := tok.EncodeContext(t.Context(), text, EncodeOptions{})
				if err != nil {
					t.Errorf("%s, %.20q: %d ids, %v", name, unit, len(ids), err)
				}
			})
			if took := time.Since(start); took > 20*time.Second || used > 256<<20 {
				t.Errorf("%s, %.20q: %v, %d MB were allocated", name, unit, took, used>>20)
			}
		}
	}
}
