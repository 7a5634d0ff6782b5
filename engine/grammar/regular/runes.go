package regular

// Characters as UTF-8. A range of characters is split into ranges whose characters have the same
// number of bytes and whose bytes vary independently (Thompson's construction for UTF-8, as in RE2
// and utf8-ranges).

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// RuneRange is a range of characters; both ends belong to it.
type RuneRange struct{ Lo, Hi rune }

// Surrogates cannot be written in UTF-8.
const surrogateLo, surrogateHi = 0xD800, 0xDFFF

// Normal sorts ranges and joins those that overlap or touch, in place.
func Normal(ranges []RuneRange) []RuneRange {
	slices.SortFunc(ranges, func(a, b RuneRange) int { return cmp.Compare(a.Lo, b.Lo) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else if r.Lo <= r.Hi {
			out = append(out, r)
		}
	}
	return out
}

// Complement returns all other characters. The ranges must be Normal.
func Complement(ranges []RuneRange) (out []RuneRange) {
	next := rune(0)
	for _, r := range ranges {
		if next < r.Lo {
			out = append(out, RuneRange{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, RuneRange{next, utf8.MaxRune})
	}
	return out
}

// Runes returns the expression of one character of the ranges, in UTF-8. Surrogates have no UTF-8
// and are left out.
func (s *Space) Runes(ranges ...RuneRange) Expr {
	var ascii Set
	var parts []Expr
	for _, r := range Normal(slices.Clone(ranges)) {
		for _, r := range [...]RuneRange{{r.Lo, min(r.Hi, surrogateLo-1)},
			{max(r.Lo, surrogateHi+1), min(r.Hi, utf8.MaxRune)}} {
			for c := r.Lo; c <= min(r.Hi, utf8.RuneSelf-1); c++ {
				ascii.add(byte(c))
			}
			r.Lo = max(r.Lo, utf8.RuneSelf)
			parts = s.splitLengths(parts, r)
		}
	}
	return s.Or(append(parts, s.Set(ascii))...)
}

// splitLengths appends the expressions of a range without ASCII.
func (s *Space) splitLengths(parts []Expr, r RuneRange) []Expr {
	for _, last := range []rune{0x7FF, 0xFFFF, utf8.MaxRune} {
		if r.Lo <= min(r.Hi, last) {
			parts = s.splitBytes(parts, RuneRange{r.Lo, min(r.Hi, last)})
		}
		r.Lo = max(r.Lo, last+1)
	}
	return parts
}

// splitBytes appends the expressions of a range whose characters have the same number of bytes.
func (s *Space) splitBytes(parts []Expr, r RuneRange) []Expr {
	for bits := 6; bits <= 18; bits += 6 {
		low := rune(1)<<bits - 1 // the bits of the last bytes
		if r.Lo&^low == r.Hi&^low {
			break // they have the same bytes before
		}
		if r.Lo&low != 0 {
			parts = s.splitBytes(parts, RuneRange{r.Lo, r.Lo | low})
			return s.splitBytes(parts, RuneRange{(r.Lo | low) + 1, r.Hi})
		}
		if r.Hi&low != low {
			parts = s.splitBytes(parts, RuneRange{r.Lo, r.Hi&^low - 1})
			return s.splitBytes(parts, RuneRange{r.Hi &^ low, r.Hi})
		}
	}
	var lo, hi [utf8.UTFMax]byte
	n := utf8.EncodeRune(lo[:], r.Lo)
	utf8.EncodeRune(hi[:], r.Hi)
	e := Empty
	for i := n - 1; i >= 0; i-- {
		e = s.concat(s.Set(Range(lo[i], hi[i])), e)
	}
	return append(parts, e)
}
