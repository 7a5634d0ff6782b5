package grammar

// Masks inside of strings. Most tokens are plain: they have neither quotes nor escapes nor control
// characters. In a state from which every plain character leads to one and the same state, as in a
// string, the plain tokens of one character are allowed together. If it goes on so for n
// characters, all plain tokens of up to n characters are. (llguidance calls such a set of tokens a
// slice.)

// utf8Ranges are the ranges of the bytes of plain characters with several bytes (Unicode, table
// 3-7), the first byte first.
var utf8Ranges = [][][2]byte{
	{{0xC2, 0xDF}, {0x80, 0xBF}},
	{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
	{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
	{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
}

// afterPlain returns the state after any plain character, or dead if not all lead to the same.
func (c *graph) afterPlain(g *Grammar, s *state) *state {
	if s.plain != nil {
		return s.plain
	}
	if to := c.sameAfterPlain(g, s); c.err == nil {
		s.plain = to
		return to
	}
	return dead
}

// sameAfterPlain computes it.
func (c *graph) sameAfterPlain(g *Grammar, s *state) *state {
	classes, _ := c.space.Classes()
	to := c.step(g, s, classes['a'])
	for b := byte(' '); b < 0x80; b++ {
		if b != '"' && b != '\\' && c.step(g, s, classes[b]) != to {
			return dead
		}
	}
	for _, ranges := range utf8Ranges {
		if !c.allLeadTo(g, s, ranges, to) {
			return dead
		}
	}
	return to
}

// allLeadTo reports whether all bytes of the ranges, one after the other, lead from s to a state.
func (c *graph) allLeadTo(g *Grammar, s *state, ranges [][2]byte, to *state) bool {
	if len(ranges) == 0 {
		return s == to
	}
	classes, _ := c.space.Classes()
	last := dead
	for b := int(ranges[0][0]); b <= int(ranges[0][1]); b++ {
		next := c.step(g, s, classes[b])
		if next == last && next != dead {
			continue // as the byte before
		}
		if next == dead || !c.allLeadTo(g, next, ranges[1:], to) {
			return false
		}
		last = next
	}
	return true
}

// addPlain allows the plain tokens.
func (c *graph) addPlain(g *Grammar, s *state, m *Mask) {
	v := g.vocabulary
	n := 0 // all plain tokens of up to n characters are allowed
	for at := s; n < maxPlainChars; n++ {
		if at = c.afterPlain(g, at); at == dead {
			break
		}
	}
	longer := v.chars[v.starts[n]:]
	if n == 0 || len(longer) > len(v.chars)/8 {
		m.allowRanges(&v.plain, c.walk(g, s, &v.plain, true), v.within[maxPlainChars])
		return
	}
	for i, w := range v.within[n] {
		m.Bits[i] |= w
	}
	for _, id := range longer {
		if c.allows(g, s, v.tokens[id]) {
			m.allow(id)
		}
	}
}

// allows reports whether text can follow in a state.
func (c *graph) allows(g *Grammar, s *state, text []byte) bool {
	classes, _ := c.space.Classes()
	for _, b := range text {
		if s = c.step(g, s, classes[b]); s == dead {
			return false
		}
	}
	return true
}
