package grammar_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"headroom/engine/grammar"
	"headroom/engine/grammar/gbnf"
)

// vocabulary returns the tokens of the file in tiktoken's format that HEADROOM_VOCABULARY names, or
// else as many random ones, shaped like those of Qwen.
func vocabulary(b testing.TB) *grammar.Vocabulary {
	var tokens [][]byte
	if name := os.Getenv("HEADROOM_VOCABULARY"); name != "" {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			word, _, _ := strings.Cut(lines.Text(), " ")
			token, err := base64.StdEncoding.DecodeString(word)
			if err != nil {
				b.Fatal(err)
			}
			tokens = append(tokens, token)
		}
	} else {
		tokens = randomTokens(151_643)
	}
	return grammar.NewVocabulary(append(tokens, nil), []int32{int32(len(tokens))}, nil)
}

// randomTokens returns all bytes, and words of letters, mostly with a space before them.
func randomTokens(n int) (tokens [][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	letters := []string{"e", "t", "a", "o", "i", "n", "s", "r", "h", "l", "d", "c", "u", "m", "f",
		"p", "g", "w", "y", "b", "ä", "中", "д", "_", ".", "\"", ":", "{", "0", "1", "\n"}
	seen := map[string]bool{}
	for len(tokens) < n {
		word := ""
		if r.IntN(3) > 0 {
			word = " "
		}
		for range 2 + r.IntN(7) {
			word += letters[min(r.IntN(len(letters)), r.IntN(len(letters)))]
		}
		if !seen[word] {
			seen[word] = true
			tokens = append(tokens, []byte(word))
		}
	}
	return tokens
}

const jsonGrammar = `
root   ::= object
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( string ":" ws value (", " ws string ":" ws value)* )? ws "}"
array  ::= "[" ws ( value (", " ws value)* )? ws "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})?
ws     ::= " "? | "\n" [ \t]{0,20}
`

// BenchmarkMask measures the first mask in several states. The states of the bytes that it follows
// are new, too.
func BenchmarkMask(b *testing.B) {
	v := vocabulary(b)
	for _, c := range []struct{ name, source, text string }{
		{"start", jsonGrammar, ``},
		{"string", jsonGrammar, `{"a`},
		{"value", jsonGrammar, `{"a": `},
		{"number", jsonGrammar, `{"a": 1`},
		{"counted string", `root ::= "\"" [^"\\\x00-\x1F]{1,100} "\""`, `"a`},
		{"letters", `root ::= [a-z]+ ("-" [a-z]+)*`, `a`},
		{"everything", `root ::= .*`, `a`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var allowed int
			for b.Loop() {
				b.StopTimer()
				builder := grammar.NewBuilder()
				start, err := gbnf.Build(builder, c.source)
				if err != nil {
					b.Fatal(err)
				}
				g, err := builder.Compile(start)
				if err != nil {
					b.Fatal(err)
				}
				g.SetVocabulary(v)
				m := g.NewMatcher()
				if n := m.AcceptBytes([]byte(c.text)); n < len(c.text) {
					b.Fatal(fmt.Sprint(n, " bytes"))
				}
				b.StartTimer()
				mask, err := m.Mask()
				if err != nil {
					b.Fatal(err)
				}
				allowed = mask.Len()
			}
			b.ReportMetric(float64(allowed), "tokens")
		})
	}
}
