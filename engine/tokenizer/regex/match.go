package regex

// Backtracking search. What is left to try is on a stack of frames; what has failed is in the memo.
//
// The memo outlives a match, because failing does not depend on where the match began. Only the
// alternatives that were still open when a match was found have a mark without having failed. They
// are at its end or before, so the row of the end is cleared.

import (
	"math/bits"
	"sync"
	"unicode/utf8"
)

// Matcher finds the matches of a Regexp in one text after another, and reuses its memory.
// A Matcher is not safe for concurrent use.
type Matcher struct {
	re    *Regexp
	text  string
	stop  func() error
	at    int // where the next search begins
	last  int // end of the last match; -1: none
	err   error
	memo  memo
	stack []frame
	looks lookTables
	work  int // instructions executed for this text

	checkAt int // the work at which stop is called next
}

// frame is what to try when the present path fails.
type frame struct {
	pc, at, low int32 // codeLoop: the end of the characters taken, and the lowest end to try
	rest        uint64
}

const (
	frameBytes = 24
	checkSteps = 1 << 16 // instructions between two calls of stop
	maxText    = 1<<31 - 1
)

// NewMatcher returns a Matcher for re.
func (re *Regexp) NewMatcher() *Matcher {
	return &Matcher{re: re, memo: memo{top: -1, rowBytes: (re.marks + 7) / 8}}
}

// Reset starts a search of text. The search calls stop regularly, and ends when stop returns an
// error; stop may be nil.
func (m *Matcher) Reset(text string, stop func() error) {
	m.text, m.stop, m.at, m.last, m.err = text, stop, 0, -1, nil
	m.work, m.checkAt = 0, checkSteps
	m.memo.reset(m.re.marks)
	m.looks.reset()
	if cap(m.stack)*frameBytes > keptBytes {
		m.stack = nil
	}
	if len(text) > maxText {
		m.err = ErrTooComplex
	}
}

// Err returns the error that ended the search, if any.
func (m *Matcher) Err() error { return m.err }

// Next returns the byte range of the next match. ok is false if there is none, or after an error.
// Like Oniguruma's find_iter, it omits an empty match at the end of the match before it.
func (m *Matcher) Next() (from, to int, ok bool) {
	start := &m.re.code[m.re.start]
	for m.err == nil && m.at <= len(m.text) {
		rest := start.filter.at(m.text, m.at)
		if rest == 0 {
			m.at += m.width(m.at)
			if m.work++; m.work >= m.checkAt {
				m.check()
			}
			continue
		}
		m.memo.forget(m.at)
		end, found := m.match(m.at, rest)
		switch {
		case m.err != nil:
			return 0, 0, false
		case !found:
			m.at += m.width(m.at)
			continue
		case end == m.at && end == m.last:
			m.at += m.width(m.at)
			continue
		}
		m.memo.clearRow(end)
		from, m.at, m.last = m.at, end, end
		return from, end, true
	}
	return 0, 0, false
}

// width returns the length of the character at i, or 1 at the end.
func (m *Matcher) width(i int) int {
	if i >= len(m.text) || m.text[i] < utf8.RuneSelf {
		return 1
	}
	_, size := utf8.DecodeRuneInString(m.text[i:])
	return size
}

// check ends the search if stop says so or if it uses too much memory. It reports whether the
// search goes on.
func (m *Matcher) check() bool {
	m.checkAt = m.work + checkSteps
	if m.memo.bytes+len(m.stack)*frameBytes > maxScratchBytes {
		m.err = ErrTooComplex
	} else if m.stop != nil {
		m.err = m.stop()
	}
	return m.err == nil
}

// match returns the end of the match that begins at i. rest has the targets of the first
// alternation that may match there.
func (m *Matcher) match(i int, rest uint64) (end int, ok bool) {
	text, code := m.text, m.re.code
	m.stack = m.stack[:0]
	pc, alive := m.branch(m.re.start, i, rest), true
	for {
		if m.work++; m.work >= m.checkAt && !m.check() {
			return 0, false
		}
		if !alive {
			if pc, i, alive = m.backtrack(); !alive {
				return 0, false
			}
		}
		in := &code[pc]
		switch in.code {
		case codeMatch:
			return i, true
		case codeByte:
			if alive = i < len(text) && text[i] == in.b; alive {
				i++
			}
		case codeRune:
			r, size := utf8.DecodeRuneInString(text[i:])
			if alive = r == in.r && size > 0; alive {
				i += size
			}
		case codeClass:
			size := in.class.width(text, i)
			i += size
			alive = size > 0
		case codeLoop:
			i, alive = m.loop(pc, i)
		case codeAlt:
			rest := in.filter.at(text, i)
			switch {
			case rest == 0:
				alive = false
			case m.enter(in.mark, i):
				pc = m.branch(pc, i, rest)
				continue
			case in.exit >= 0:
				pc = in.exit
				continue
			default:
				alive = false
			}
		case codeAssert:
			alive = holds(in.assert, text, i)
		case codeNext:
			alive = in.class.width(text, i) > 0 != in.negative
		case codePrev:
			alive = in.class.widthBefore(text, i) > 0 != in.negative
		case codeLook:
			alive = m.look(int(in.look), i) != in.negative
		case codeMark:
			alive = m.enter(in.mark, i)
		}
		pc = in.next
	}
}

// enter sets a mark, and reports whether it was not set before.
func (m *Matcher) enter(mark int32, i int) bool {
	if mark < 0 {
		return true
	}
	if m.memo.has(mark, i) {
		return false
	}
	m.memo.set(mark, i)
	return true
}

// branch returns the first target in rest of the alternation at pc, and leaves the others for
// backtrack.
func (m *Matcher) branch(pc int32, i int, rest uint64) int32 {
	if others := rest & (rest - 1); others != 0 {
		m.stack = append(m.stack, frame{pc: pc, at: int32(i), rest: others})
	}
	return m.re.code[pc].targets[bits.TrailingZeros64(rest)]
}

// loop takes as many characters as possible for the codeLoop at pc.
//
// What fails after a loop without a maximum fails wherever it ends. So if the loop fails at i, it
// fails at each later position in the same run of characters, and those get a mark too.
func (m *Matcher) loop(pc int32, i int) (end int, ok bool) {
	in := &m.re.code[pc]
	if in.mark >= 0 && m.memo.has(in.mark, i) {
		return i, false
	}
	end = i
	for n := int32(0); n < in.max; n++ {
		size := in.class.width(m.text, end)
		if size == 0 {
			break
		}
		if in.max == unlimited && in.mark >= 0 && m.memo.has(in.mark, end+size) {
			if in.possessive {
				m.markRun(in.mark, i, end)
				return i, false
			}
			break // the later ends have failed
		}
		end += size
	}
	m.work += (end - i) / 16
	if in.mark >= 0 {
		m.stack = append(m.stack, frame{pc: pc, at: int32(end), low: int32(i)})
	}
	return end, true
}

func (m *Matcher) markRun(mark int32, from, to int) {
	for i := from; i <= to; i++ {
		m.memo.set(mark, i)
		if i%pageRows == 0 && m.memo.bytes > maxScratchBytes {
			m.err = ErrTooComplex
			return
		}
	}
	m.work += (to - from) / 16
}

// backtrack returns where to continue after a failure. ok is false if nothing is left to try.
func (m *Matcher) backtrack() (pc int32, i int, ok bool) {
	for len(m.stack) > 0 && m.err == nil {
		f := &m.stack[len(m.stack)-1]
		in := &m.re.code[f.pc]
		if in.code == codeAlt {
			target := in.targets[bits.TrailingZeros64(f.rest)]
			i = int(f.at)
			if f.rest &= f.rest - 1; f.rest == 0 {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return target, i, true
		}
		if in.possessive {
			if in.max == unlimited {
				m.markRun(in.mark, int(f.low), int(f.at))
			} else {
				m.memo.set(in.mark, int(f.low))
			}
			m.stack = m.stack[:len(m.stack)-1]
			continue
		}
		if in.max == unlimited || f.at == f.low {
			m.memo.set(in.mark, int(f.at))
		}
		if f.at > f.low {
			f.at -= int32(in.class.widthBefore(m.text, int(f.at)))
			return in.next, int(f.at), true
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
	return 0, 0, false
}

// holds reports whether an assertion holds at text[i:].
func holds(a assertion, text string, i int) bool {
	switch a {
	case lineStart:
		return i == 0 || text[i-1] == '\n' && i < len(text)
	case lineEnd:
		return i == len(text) || text[i] == '\n'
	case textStart:
		return i == 0
	case textEnd:
		return i == len(text)
	case lastLineEnd:
		return i == len(text) || i == len(text)-1 && text[i] == '\n'
	}
	words := wordClass()
	inside := words.widthBefore(text, i) > 0 == (words.width(text, i) > 0)
	return inside == (a == noWordBoundary)
}

var wordClass = sync.OnceValue(func() *class { return newClass(wordSet()) })
