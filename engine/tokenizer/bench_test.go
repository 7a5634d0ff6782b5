package tokenizer

import (
	"context"
	"os"
	"strings"
	"testing"

	"headroom/engine/tokenizer/regex"
)

// prose returns about 1 MB of chat text from the prompts of the demo model.
func prose(b *testing.B) string {
	var vectors []vector
	readJSON(b, "testdata/demo_prompts.json", &vectors)
	var text strings.Builder
	for text.Len() < 1<<20 {
		for _, v := range vectors {
			text.WriteString(v.Text)
		}
	}
	return text.String()
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	ids := make([]int32, 0, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		ids, _ = tok.AppendEncode(context.Background(), ids[:0], text, EncodeOptions{})
	}
}

func BenchmarkEncodeProse(b *testing.B) { benchmarkEncode(b, demo(b), prose(b)) }

// BenchmarkEncodeUncached encodes words without the word cache.
func BenchmarkEncodeUncached(b *testing.B) {
	tok, err := Load(demoPath)
	if err != nil {
		b.Fatal(err)
	}
	text := prose(b)
	e := tok.newEncoder()
	e.begin(context.Background(), text, EncodeOptions{})
	words := strings.SplitAfter(text, " ")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		e.ids = e.ids[:0]
		for _, word := range words {
			e.ids = tok.model.(*bpe).appendBPE(e, e.ids, word)
		}
	}
}

func BenchmarkEncodeOneWord(b *testing.B) {
	benchmarkEncode(b, demo(b), strings.Repeat("the", 1<<20/3))
}

func BenchmarkEncodeCJK(b *testing.B) {
	benchmarkEncode(b, demo(b), strings.Repeat("日本語のテキスト。漢字とカタカナ、", 1<<14))
}

// BenchmarkSplitRegex splits text with package regex instead of the scanner. Compare it with
// BenchmarkEncodeProse, which uses the scanner.
func BenchmarkSplitRegex(b *testing.B) {
	re, err := regex.Compile(qwen35Pattern)
	if err != nil {
		b.Fatal(err)
	}
	text := prose(b)
	m := re.NewMatcher()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		m.Reset(text, nil)
		for _, _, ok := m.Next(); ok; _, _, ok = m.Next() {
		}
	}
}

func BenchmarkStream(b *testing.B) {
	tok := demo(b)
	text := prose(b)
	ids := tok.Encode(text, EncodeOptions{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := tok.NewStream(true)
		for _, id := range ids {
			s.Add(id)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile(demoPath)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeText encodes text that is one word, with byte fallback.
func BenchmarkEncodeText(b *testing.B) { benchmarkEncode(b, parseLlama(b, ""), prose(b)) }
