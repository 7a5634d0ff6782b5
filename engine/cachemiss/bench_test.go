package cachemiss

import "testing"

// BenchmarkFind compares a prompt with 64 sequences of 60,000 tokens that share its first 30,000.
func BenchmarkFind(b *testing.B) {
	l, prompt := full()
	for b.Loop() {
		l.Find(prompt, "", "")
	}
}

// BenchmarkExplain explains the miss of the prompt of BenchmarkFind.
func BenchmarkExplain(b *testing.B) {
	l, prompt := full()
	decode := func(tokens []int32) string {
		text := make([]byte, 4*len(tokens))
		for i, t := range tokens {
			copy(text[4*i:], "abc ")
			text[4*i] = 'a' + byte(t%26)
		}
		return string(text)
	}
	m := l.Find(prompt, "", "")
	for b.Loop() {
		m.Explain(Outcome{Decode: decode})
	}
}

// BenchmarkAdd adds the prompt of BenchmarkFind to the log.
func BenchmarkAdd(b *testing.B) {
	l, prompt := full()
	for b.Loop() {
		l.Add(Sequence{Tokens: prompt})
	}
}

// full returns a log of 64 sequences of 60,000 tokens, and a prompt that shares their first 30,000
// tokens.
func full() (l *Log, prompt []int32) {
	l = NewLog(Limits{})
	for n := range 65 {
		tokens := make([]int32, 60000)
		for i := range tokens {
			tokens[i] = int32(i)
			if i >= 30000 {
				tokens[i] += int32(n * 1000)
			}
		}
		if n == 64 {
			return l, tokens
		}
		l.Add(Sequence{Tokens: tokens})
	}
	panic("full: no prompt")
}
