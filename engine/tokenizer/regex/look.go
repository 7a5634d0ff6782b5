package regex

// Lookaround wider than one character. One pass over the text finds all positions at which it
// holds: forward for lookbehind, backward for lookahead, whose instructions are compiled in
// reverse. So a lookaround costs the same wherever and however often it is asked.

import "unicode/utf8"

// lookaround is the body of a lookaround. It has no codeLoop and no marks.
type lookaround struct {
	code   []instruction
	start  int32
	behind bool
}

// lookTables has for each lookaround a bit for each position of the text.
type lookTables struct {
	ready  bool
	tables [][]uint64
}

func (l *lookTables) reset() {
	l.ready = false
	for i := range l.tables {
		if cap(l.tables[i])*8 > keptBytes {
			l.tables[i] = nil
		}
	}
}

// look reports whether the body of a lookaround matches at i.
func (m *Matcher) look(n, i int) bool {
	if !m.looks.ready {
		m.fillLooks()
		if m.err != nil {
			return false
		}
	}
	return m.looks.tables[n][i>>6]>>(i&63)&1 != 0
}

// fillLooks computes the tables. An inner lookaround comes before the one around it.
func (m *Matcher) fillLooks() {
	words := len(m.text)/64 + 1
	if words*8*len(m.re.looks) > maxScratchBytes {
		m.err = ErrTooComplex
		return
	}
	m.looks.ready = true
	for len(m.looks.tables) < len(m.re.looks) {
		m.looks.tables = append(m.looks.tables, nil)
	}
	for n := range m.re.looks {
		if cap(m.looks.tables[n]) < words {
			m.looks.tables[n] = make([]uint64, words)
		}
		m.looks.tables[n] = m.looks.tables[n][:words]
		clear(m.looks.tables[n])
		m.pass(&m.re.looks[n], m.looks.tables[n])
		if m.err != nil {
			return
		}
	}
}

// pass runs all matches of a lookaround at once: a thread for each instruction that may be next.
func (m *Matcher) pass(l *lookaround, table []uint64) {
	now, next := newThreads(len(l.code)), newThreads(len(l.code))
	i := 0
	if !l.behind {
		i = len(m.text)
	}
	for {
		m.follow(l, now, l.start, i)
		if now.matched {
			table[i>>6] |= 1 << (i & 63)
		}
		if l.behind && i == len(m.text) || !l.behind && i == 0 {
			return
		}
		r, size := m.character(i, l.behind)
		after := i - size
		if l.behind {
			after = i + size
		}
		next.reset()
		for _, pc := range now.list {
			if in := &l.code[pc]; in.takes(r) {
				m.follow(l, next, in.next, after)
			}
		}
		m.work += 1 + len(now.list)
		if m.work >= m.checkAt && !m.check() {
			return
		}
		now, next, i = next, now, after
	}
}

func (m *Matcher) character(i int, forward bool) (rune, int) {
	if forward {
		return utf8.DecodeRuneInString(m.text[i:])
	}
	return utf8.DecodeLastRuneInString(m.text[:i])
}

// takes reports whether an instruction matches the character r.
func (in *instruction) takes(r rune) bool {
	switch in.code {
	case codeByte, codeRune:
		return r == in.r
	case codeClass:
		if r < utf8.RuneSelf {
			return in.class.hasASCII(byte(r))
		}
		return in.class.hasWide(r)
	}
	return false
}

// threads is a set of instructions.
type threads struct {
	list    []int32
	has     []bool
	matched bool
	pending []int32 // scratch memory of follow
}

func newThreads(size int) *threads { return &threads{has: make([]bool, size)} }

func (t *threads) reset() {
	for _, pc := range t.list {
		t.has[pc] = false
	}
	t.list, t.matched = t.list[:0], false
}

// follow adds pc and what it leads to without taking a character.
func (m *Matcher) follow(l *lookaround, t *threads, pc int32, i int) {
	t.pending = append(t.pending[:0], pc)
	for len(t.pending) > 0 {
		pc := t.pending[len(t.pending)-1]
		t.pending = t.pending[:len(t.pending)-1]
		if t.has[pc] {
			continue
		}
		t.has[pc] = true
		t.list = append(t.list, pc)
		in := &l.code[pc]
		ok := false
		switch in.code {
		case codeMatch:
			t.matched = true
		case codeAlt:
			t.pending = append(t.pending, in.targets...)
		case codeAssert:
			ok = holds(in.assert, m.text, i)
		case codeNext:
			ok = in.class.width(m.text, i) > 0 != in.negative
		case codePrev:
			ok = in.class.widthBefore(m.text, i) > 0 != in.negative
		case codeLook:
			ok = m.look(int(in.look), i) != in.negative
		}
		if ok {
			t.pending = append(t.pending, in.next)
		}
	}
}
