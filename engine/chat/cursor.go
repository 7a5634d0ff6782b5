package chat

import "strings"

// A model may write anything, and its text arrives in pieces of a few bytes. If a parser read a
// text again with each piece, its work would be the square of the text. So parsers read a text that
// grows with a cursor, whose methods go on where they stopped.

// cursor is a position in a text that grows at its end. Each method gets the text of the previous
// call and what has arrived since.
type cursor struct {
	at   int // text[:at] has been read
	seen int // what is looked for does not begin before text[seen]
	work int // bytes examined so far, which TestLinearWork bounds
}

// moveTo moves the cursor to an index.
func (c *cursor) moveTo(at int) { c.at, c.seen = at, at }

// restart moves the cursor to the beginning of another text.
func (c *cursor) restart() { c.moveTo(0) }

// skip moves past the characters of set. It returns false if the text ends there.
func (c *cursor) skip(text, set string) bool {
	n := len(text) - c.at - len(strings.TrimLeft(text[c.at:], set))
	c.work += n + 1
	if n > 0 {
		c.moveTo(c.at + n)
	}
	return c.at < len(text)
}

// spaces moves past white space. It returns false if the text ends there.
func (c *cursor) spaces(text string) bool { return c.skip(text, spaces) }

// word returns the word that begins at the cursor; see expect.
func (c *cursor) word(text string, words ...string) (word string, decided bool) {
	return c.wordAt(text, c.at, words...)
}

// wordAt returns the word that begins at an index; see expect.
func (c *cursor) wordAt(text string, at int, words ...string) (word string, decided bool) {
	word, decided = expect(text[at:], words...)
	c.work += max(1, len(word))
	if !decided {
		c.work += len(text) - at
	}
	return word, decided
}

// take is like word, and moves past the word.
func (c *cursor) take(text string, words ...string) (word string, decided bool) {
	word, decided = c.word(text, words...)
	if word != "" {
		c.moveTo(c.at + len(word))
	}
	return word, decided
}

// find returns the index of the first character of set in text[from:], or -1 as long as there is
// none. from is the same in each call until the cursor moves.
func (c *cursor) find(text string, from int, set string) int {
	c.seen = max(c.seen, from)
	for ; c.seen < len(text); c.seen++ {
		c.work++
		if strings.IndexByte(set, text[c.seen]) >= 0 {
			return c.seen
		}
	}
	return -1
}

// findTag returns the first of tags after the cursor, and its index. As long as there is none, tag
// is "".
func (c *cursor) findTag(text string, tags ...string) (at int, tag string) {
	at, tag = firstTag(text[c.seen:], tags)
	c.work += examinedFor(at, tag, len(text)-c.seen)
	c.seen += at
	return c.seen, tag
}

// name returns the name of a function at the cursor, and moves past it. It is "" if there is none,
// or if it is longer than maxFunctionName. decided is false as long as more of it may arrive.
func (c *cursor) name(text string) (name string, decided bool) {
	for ; c.seen < len(text) && isNameByte(text[c.seen]); c.seen++ {
		c.work++
	}
	switch name = text[c.at:c.seen]; {
	case len(name) > maxFunctionName:
		return "", true
	case c.seen == len(text):
		return "", false
	}
	c.moveTo(c.seen)
	return name, true
}

// maxFunctionName is more than the longest name of a function, in bytes.
const maxFunctionName = 1024

// isFunctionName reports whether cursor.name takes all of a name.
func isFunctionName(name string) bool {
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return false
		}
	}
	return name != "" && len(name) <= maxFunctionName
}

// isNameByte reports whether the name of a function may have a byte.
func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("_./:-", c) >= 0
}

// skipCall is the verdict on a malformed call: it ends with a closing tag, if the format has one,
// or where another opening tag begins. The cursor is at the fault.
func (c *cursor) skipCall(text, open string, closing ...string) (ToolCall, int, verdict) {
	switch at, tag := c.findTag(text, append(closing, open)...); tag {
	case "":
		return ToolCall{}, 0, undecided
	case open:
		return ToolCall{}, at, isText
	default:
		return ToolCall{}, at + len(tag), isText
	}
}

// valueEnd finds the end of a value that is not escaped: the first closing tag that one of some
// followers follows.
type valueEnd struct {
	found bool // a closing tag, which may be the end
	end   int  // the value ends here
}

// find looks for the end of a value, in which the cursor is. When it returns isCall, the value ends
// at text[:end], and the cursor is at the follower.
func (v *valueEnd) find(c *cursor, text, closing string, followers ...string) verdict {
	for {
		if !v.found {
			at, tag := c.findTag(text, closing)
			if tag == "" {
				return undecided
			}
			v.found, v.end = true, at
			c.moveTo(at + len(tag))
		}
		if !c.spaces(text) {
			return undecided
		}
		follower, decided := c.word(text, followers...)
		switch {
		case !decided:
			return undecided
		}
		v.found = false
		if follower != "" {
			return isCall
		}
	}
}

// tail is the part of a text that has arrived and has not been handled. Adding to it takes time
// proportional to what is added, and does not allocate if it is empty.
type tail struct {
	text  string
	built strings.Builder // ends with text, unless its length is 0
}

func (t *tail) add(more string) {
	if t.text == "" {
		t.text = more
		t.built.Reset()
		return
	}
	if n := t.built.Len(); n == 0 || n > 2*len(t.text)+64 { // free what has been cut off
		t.built.Reset()
		t.built.WriteString(t.text)
	}
	t.built.WriteString(more)
	all := t.built.String()
	t.text = all[len(all)-len(t.text)-len(more):]
}

// cut drops the first n bytes.
func (t *tail) cut(n int) { t.text = t.text[n:] }
