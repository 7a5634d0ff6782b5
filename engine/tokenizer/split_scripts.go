package tokenizer

// The pre_tokenizer UnicodeScripts, which splits text where the script changes.

import (
	"sort"
	"sync"
	"unicode"
)

func scriptSplitter(t *Tokenizer, _ *part) error {
	t.faithful = false // it drops spaces at the start
	t.splitters = append(t.splitters, scripts{})
	return nil
}

// scripts splits text where the script changes. Characters without a script belong to the text
// before them; at the start they are dropped.
type scripts struct{}

func (scripts) split(e *encoder, at int, text string) {
	last, from := noScript, -1
	for i, r := range text {
		if i&(checkBytes-1) == 0 && e.check() {
			return
		}
		script := scriptOf(r)
		if script == noScript {
			continue
		}
		if script != last {
			if from >= 0 {
				e.split(at+1, text[from:i])
			} else if i > 0 {
				e.dropStart()
			}
			from = i
		}
		last = script
	}
	if from >= 0 {
		e.split(at+1, text[from:])
	}
}

// noScript is the script of the space and of characters that the reference does not know.
const noScript = ""

// scriptOf returns the name of r's script. Japanese is one script.
func scriptOf(r rune) string {
	switch r {
	case ' ':
		return noScript
	case 'ー':
		return "Han"
	}
	table := scriptTable()
	i := sort.Search(len(table), func(i int) bool { return table[i].hi >= r })
	if i == len(table) || table[i].lo > r {
		return noScript
	}
	return table[i].script
}

type scriptSpan struct {
	span
	script string
}

// scriptTable has all scripts in ascending order of their characters.
var scriptTable = sync.OnceValue(func() (table []scriptSpan) {
	other := map[rune]string{}
	for script, set := range otherScripts() {
		for _, s := range set {
			for r := s.lo; r <= s.hi; r++ {
				other[r] = script
			}
		}
	}
	add := func(r rune, script string) {
		if known, ok := other[r]; ok {
			script = known
		}
		if script == "Hiragana" || script == "Katakana" {
			script = "Han"
		}
		table = append(table, scriptSpan{span{r, r}, script})
	}
	for script, set := range unicode.Scripts {
		for _, s := range set.R16 {
			for r := rune(s.Lo); r <= rune(s.Hi); r += rune(s.Stride) {
				add(r, script)
			}
		}
		for _, s := range set.R32 {
			for r := rune(s.Lo); r <= rune(s.Hi); r += rune(s.Stride) {
				add(r, script)
			}
		}
	}
	sort.Slice(table, func(i, j int) bool { return table[i].lo < table[j].lo })
	joined := table[:0]
	for _, s := range table {
		n := len(joined)
		if n > 0 && joined[n-1].hi == s.lo-1 && joined[n-1].script == s.script {
			joined[n-1].hi = s.hi
			continue
		}
		joined = append(joined, s)
	}
	return append([]scriptSpan(nil), joined...)
})

// otherScripts has the scripts of characters whose script the reference does not know, or knows as
// another one.
func otherScripts() map[string]spanSet {
	return map[string]spanSet{
		noScript: parseSpans("" +
			"560 588 5ef 61d 7fd-7ff 860-86a 870-88e 890-891 898-89f 8b5 8be-8d3 9fc-9fe " +
			"a76 afa-aff b55 c04 c3c c5d c77 c84 cdd cf3 d00 d04 d3b-d3c d81 e86 e89 e8c " +
			"e8e-e93 e98 ea0 ea8-ea9 eac eba ece 170d 1715 171f 180f 1878 1abf-1ace 1b4c " +
			"1b7d-1b7e 1c90-1cba 1cbd-1cbf 1cf7 1cfa 1df6-1dfa 20bf-20c0 23ff 2b97 " +
			"2bba-2bbc 2bc9 2bd2-2beb 2bf0-2bff 2c2f 2c5f 2e45-2e5d 312e-312f 31bb-31bf " +
			"32ff 4db6-4dbf 9fd6-9fff a7af a7b8-a7ca a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a7f6 " +
			"a82c a8fe-a8ff ab66-ab69 ab6a-ab6b fbc2 fd40-fd4f fdcf fdfe-fdff 1019c " +
			"1032d-1032f 10570-1057a 1057c-1058a 1058c-10592 10594-10595 10597-105a1 " +
			"105a3-105b1 105b3-105b9 105bb-105bc 10780-10785 10787-107b0 107b2-107ba " +
			"10a34-10a35 10a48 10d00-10d27 10d30-10d39 10e80-10ea9 10eab-10ead 10eb0-10eb1 " +
			"10efd-10eff 10f00-10f27 10f30-10f59 10f70-10f89 10fb0-10fcb 10fe0-10ff6 " +
			"11070-11075 110c2 110cd 11144-11147 111ce-111cf 1123f-11241 1133b 1145a " +
			"1145e-11461 116b8-116b9 1171a 11740-11746 11800-1183b 11900-11906 11909 " +
			"1190c-11913 11915-11916 11918-11935 11937-11938 1193b-11946 11950-11959 " +
			"119a0-119a7 119aa-119d7 119da-119e4 11a00-11a47 11a50-11aa2 11ab0-11abf " +
			"11b00-11b09 11d00-11d06 11d08-11d09 11d0b-11d36 11d3a 11d3c-11d3d 11d3f-11d47 " +
			"11d50-11d59 11d60-11d65 11d67-11d68 11d6a-11d8e 11d90-11d91 11d93-11d98 " +
			"11da0-11da9 11ee0-11ef8 11f00-11f10 11f12-11f3a 11f3e-11f59 11fb0 11fc0-11ff1 " +
			"11fff 12f90-12ff2 1342f-13455 16a70-16abe 16ac0-16ac9 16e40-16e9a 16f45-16f4a " +
			"16f4f 16f7f-16f87 16fe1 16fe2-16fe3 16fe4 16ff0-16ff1 187ed-187f7 18af3-18aff " +
			"18b00-18cd5 18d00-18d08 1aff0-1aff3 1aff5-1affb 1affd-1affe 1b002-1b11f " +
			"1b120-1b122 1b132 1b150-1b152 1b155 1b164-1b167 1b170-1b2fb 1cf00-1cf2d " +
			"1cf30-1cf46 1cf50-1cfc3 1d1e9-1d1ea 1d2c0-1d2d3 1d2e0-1d2f3 1d372-1d378 " +
			"1df00-1df1e 1df25-1df2a 1e030-1e06d 1e08f 1e100-1e12c 1e130-1e13d 1e140-1e149 " +
			"1e14e-1e14f 1e290-1e2ae 1e2c0-1e2f9 1e2ff 1e4d0-1e4f9 1e7e0-1e7e6 1e7e8-1e7eb " +
			"1e7ed-1e7ee 1e7f0-1e7fe 1e94b 1ec71-1ecb4 1ed01-1ed3d 1f10d-1f10f 1f12f " +
			"1f16c-1f16f 1f1ad 1f260-1f265 1f6d3-1f6d7 1f6dc-1f6df 1f6f7-1f6fc 1f774-1f776 " +
			"1f77b-1f77f 1f7d5-1f7d9 1f7e0-1f7eb 1f7f0 1f8b0-1f8b1 1f900-1f90f 1f91f " +
			"1f928-1f92f 1f931-1f932 1f93f 1f94c-1f94f 1f95f-1f97f 1f992-1f9bf 1f9c1-1fa53 " +
			"1fa60-1fa6d 1fa70-1fa7c 1fa80-1fa88 1fa90-1fabd 1fabf-1fac5 1face-1fadb " +
			"1fae0-1fae8 1faf0-1faf8 1fb00-1fb92 1fb94-1fbca 1fbf0-1fbf9 2a6d7-2a6df " +
			"2b735-2b739 2ceb0-2ebe0 30000-3134a"),
		"Common":     parseSpans("589 61c"),
		"Devanagari": parseSpans("953-954"),
	}
}
