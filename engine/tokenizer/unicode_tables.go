package tokenizer

// Classes of characters, where the tables of the reference differ from those of Go. The reference
// takes each class from another library, most of them older than Go's. The differences below were
// found by asking it for every character.

import (
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"headroom/engine/tokenizer/regex"
)

// span is a range of characters; both ends belong to it.
type span struct{ lo, hi rune }

// spanSet is a set of characters, in ascending order.
type spanSet []span

// parseSpans reads spans in hexadecimal, such as "61d 1b7d-1b7e".
func parseSpans(list string) (set spanSet) {
	for _, field := range strings.Fields(list) {
		lo, hi, found := strings.Cut(field, "-")
		if !found {
			hi = lo
		}
		from, _ := strconv.ParseUint(lo, 16, 32)
		to, _ := strconv.ParseUint(hi, 16, 32)
		set = append(set, span{rune(from), rune(to)})
	}
	return set
}

func (s spanSet) has(r rune) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].hi >= r })
	return i < len(s) && s[i].lo <= r
}

// isPunctuation reports whether r is punctuation, including all ASCII symbols.
func isPunctuation(r rune) bool {
	if r < unicode.MaxASCII {
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	}
	return (unicode.IsPunct(r) || r == 0x166d || r == 0x111c9) && !newPunctuation().has(r)
}

// isMark reports whether r is a combining mark.
func isMark(r rune) bool {
	return r >= 0x300 && (unicode.IsMark(r) || r == 0x1cf2 || r == 0x1cf3) && !newMarks().has(r)
}

// isNonspacingMark reports whether r is a nonspacing mark.
func isNonspacingMark(r rune) bool {
	return r >= 0x300 && (unicode.Is(unicode.Mn, r) || r == 0x1734) && !newNonspacing().has(r)
}

// isOther reports whether r is a control or format character or for private use.
func isOther(r rune) bool {
	if !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
		return false
	}
	switch r {
	case 0x890, 0x891, 0x8e2, 0x110cd:
		return false
	}
	return r < 0x13430 || r > 0x1343f
}

// isNumber reports whether r is in \p{N}.
func isNumber(r rune) bool {
	if r < unicode.MaxASCII {
		return r >= '0' && r <= '9'
	}
	return unicode.IsNumber(r) || addedClass(r) == number || r >= 0x11de0 && r <= 0x11de9 ||
		r >= 0x16ff4 && r <= 0x16ff6
}

// toLower returns the lower case of r. It knows pairs that Unicode has added since Go's tables.
func toLower(r rune) rune {
	switch {
	case r < unicode.MaxASCII:
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	case regex.AddedCategory(r) == "Lu" && r >= 0x10d50 && r <= 0x10d65:
		return r + 0x20
	case r >= 0x16ea0 && r <= 0x16eb8:
		return r + 0x1b
	}
	switch r {
	case 0x1c89, 0xa7cc, 0xa7ce, 0xa7d2, 0xa7d4, 0xa7da:
		return r + 1
	case 0xa7cb:
		return 0x264
	case 0xa7dc:
		return 0x19b
	}
	return unicode.ToLower(r)
}

// newPunctuation has punctuation that the reference does not know.
var newPunctuation = sync.OnceValue(func() spanSet {
	return parseSpans("61d 9fd a76 c77 c84 1b7d-1b7e 2e43-2e4f 2e52-2e5d 10ead 10f55-10f59 " +
		"10f86-10f89 1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946 " +
		"119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 11b00-11b09 11c41-11c45 11c70-11c71 " +
		"11ef7-11ef8 11f43-11f4f 11fff 12ff1-12ff2 16e97-16e9a 16fe2 1e95e-1e95f")
})

// newMarks has marks that the reference does not know.
var newMarks = sync.OnceValue(func() spanSet {
	return parseSpans("" +
		"7fd 897-89f 8ca-8d3 9fe afa-aff b55 c04 c3c cf3 d00 d3b-d3c d81 eba ece 1715 " +
		"180f 1abf-1ace 1cf7 1df6-1dfa a82c a8ff 10d24-10d27 10d69-10d6d 10eab-10eac " +
		"10efc-10eff 10f46-10f50 10f82-10f85 11070 11073-11074 110c2 11145-11146 111c9 " +
		"111ce-111cf 11241 1133b 113b8-113c0 113c2 113c5 113c7-113ca 113cc-113d0 113d2 " +
		"113e1-113e2 1145e 1182c-1183a 11930-11935 11937-11938 1193b-1193e 11940 " +
		"11942-11943 119d1-119d7 119da-119e0 119e4 11a01-11a0a 11a33-11a39 11a3b-11a3e " +
		"11a47 11a51-11a5b 11a8a-11a99 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 " +
		"11d8a-11d8e 11d90-11d91 11d93-11d97 11ef3-11ef6 11f00-11f01 11f03 11f34-11f3a " +
		"11f3e-11f42 11f5a 13440 13447-13455 1611e-1612f 16f4f 16f7f-16f87 16fe4 " +
		"16ff0-16ff1 1cf00-1cf2d 1cf30-1cf46 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef " +
		"1e4ec-1e4ef 1e5ee-1e5ef")
})

// newNonspacing has nonspacing marks that the reference does not know.
var newNonspacing = sync.OnceValue(func() spanSet {
	return parseSpans("7fd 898-89f 8ca-8e1 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba ece 180f " +
		"1885-1886 1abf-1ace 1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10eab-10eac " +
		"10efd-10eff 10f46-10f50 10f82-10f85 11070 11073-11074 110c2 111c9 111cf 1123e " +
		"11241 1133b 11438-1143f 11442-11444 11446 1145e 1182f-11837 11839-1183a " +
		"1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0 11a01-11a0a 11a33-11a38 " +
		"11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a99 11c30-11c36 " +
		"11c38-11c3d 11c3f 11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 " +
		"11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 11d95 11d97 11ef3-11ef4 " +
		"11f00-11f01 11f36-11f3a 11f40 11f42 13440 13447-13455 16f4f 16fe4 1cf00-1cf2d " +
		"1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f " +
		"1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e944-1e94a")
})
