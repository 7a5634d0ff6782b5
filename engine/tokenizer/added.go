package tokenizer

// Added tokens, such as <|im_start|> in chats, are matched in the text before it is split into
// words.

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens in tokenizer.json.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // matches only between non-word characters
	Lstrip     bool   `json:"lstrip"`      // also matches the spaces before it
	Rstrip     bool   `json:"rstrip"`      // also matches the spaces after it
	Normalized bool   `json:"normalized"`  // matches normalized text
	Special    bool   `json:"special"`

	verbatim bool // matches normalized text, but is not normalized itself
}

// addedTokens finds added tokens in text: the leftmost match, and if several matches start there,
// the longest. It is an automaton of Aho and Corasick, so a text that has only beginnings of tokens
// costs no more than any other.
type addedTokens struct {
	tokens []addedToken
	root   [256]int32 // node after the first byte, 0 for none
	next   map[edge]int32
	nodes  []trieNode // node 0 is the root
	begin  string     // the characters with which tokens begin, but for letters, digits and spaces
}

type edge struct {
	node int32
	b    byte
}

// trieNode stands for a beginning of a token. Its suffixes are the nodes that fail leads to.
type trieNode struct {
	depth int32
	fail  int32 // the longest proper suffix that is a node too
	child int32 // the node after the byte by; most nodes have no other
	by    byte

	children int32
	token    int32 // index into tokens plus 1, 0 for none
	ends     int32 // the longest suffix, or itself, that has a token; 0 for none
}

// add adds a token that matches content, which must not be empty. It replaces an earlier token that
// matches the same content. Call link after the last add.
func (a *addedTokens) add(content string, token addedToken) {
	if len(a.nodes) == 0 {
		a.nodes, a.next = append(a.nodes, trieNode{}), map[edge]int32{}
	}
	a.tokens = append(a.tokens, token)
	if r, _ := utf8.DecodeRuneInString(content); !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
		!unicode.IsSpace(r) && !strings.ContainsRune(a.begin, r) {
		a.begin += string(r)
	}
	node := int32(0)
	for i := range len(content) {
		next := a.step(node, content[i])
		if next == 0 {
			a.nodes = append(a.nodes, trieNode{depth: int32(i + 1)})
			next = int32(len(a.nodes) - 1)
			if node == 0 {
				a.root[content[i]] = next
			} else {
				a.next[edge{node, content[i]}] = next
				a.nodes[node].child, a.nodes[node].by = next, content[i]
				a.nodes[node].children++
			}
		}
		node = next
	}
	a.nodes[node].token = int32(len(a.tokens))
}

// step returns the node after one more byte, 0 for none.
func (a *addedTokens) step(node int32, b byte) int32 {
	if node == 0 {
		return a.root[b]
	}
	switch n := &a.nodes[node]; {
	case n.children > 0 && n.by == b:
		return n.child
	case n.children <= 1:
		return 0
	}
	return a.next[edge{node, b}]
}

// link computes where the automaton goes on after a mismatch.
func (a *addedTokens) link() {
	byDepth := map[int32][]edge{}
	for e := range a.next {
		depth := a.nodes[e.node].depth
		byDepth[depth] = append(byDepth[depth], e)
	}
	for _, node := range a.root {
		if node != 0 && a.nodes[node].token != 0 {
			a.nodes[node].ends = node
		}
	}
	for depth := int32(1); len(byDepth[depth]) > 0; depth++ {
		for _, e := range byDepth[depth] {
			node := &a.nodes[a.next[e]]
			node.fail = a.move(a.nodes[e.node].fail, e.b)
			node.ends = a.nodes[node.fail].ends
			if node.token != 0 {
				node.ends = a.next[e]
			}
		}
	}
}

// move returns the node after one more byte, or after the longest suffix that has such a node.
func (a *addedTokens) move(node int32, b byte) int32 {
	for {
		if next := a.step(node, b); next != 0 || node == 0 {
			return next
		}
		node = a.nodes[node].fail
	}
}

// find returns the first match in text[from:] and its byte range in text. token is nil if there is
// no match, or if e, which may be nil, has ended.
func (a *addedTokens) find(e *encoder, text string, from int) (start, end int, token *addedToken) {
	if len(a.tokens) == 0 {
		return 0, 0, nil
	}
	node := int32(0)
	for i := from; i < len(text); i++ {
		if node == 0 {
			end := min(i+checkBytes, len(text))
			for i < end && a.root[text[i]] == 0 {
				i++
			}
			if i == end {
				if e != nil && e.check() {
					return 0, 0, nil
				}
				i--
				continue
			}
		}
		if i&(checkBytes-1) == 0 && e != nil && e.check() {
			return 0, 0, nil
		}
		node = a.move(node, text[i])
		n := &a.nodes[node]
		if token != nil && i+1-int(n.depth) > start {
			return start, end, token
		}
		if n.ends == 0 {
			continue
		}
		ends := &a.nodes[n.ends]
		if s := i + 1 - int(ends.depth); token == nil || s <= start {
			start, end, token = s, i+1, &a.tokens[ends.token-1]
		}
	}
	return start, end, token
}

// splitAdded appends the ids of the added tokens in text, and calls plain for the text between
// them.
func (e *encoder) splitAdded(set *addedTokens, text string, plain func(*encoder, string)) {
	done := 0                    // text[:done] has been handled
	spaceFrom, spaceTo := -1, -1 // a run of spaces that an earlier token ended in
	for from := 0; e.err == nil; {
		start, end, token := set.find(e, text, from)
		if token == nil {
			break
		}
		from = end
		if token.SingleWord && (endsInWord(text[:start]) || startsInWord(text[end:])) {
			continue
		}
		if token.Lstrip {
			rest := text[done:max(done, start)]
			start = done + len(strings.TrimRightFunc(rest, unicode.IsSpace))
		}
		if token.Rstrip {
			if end < spaceFrom || end > spaceTo {
				spaceFrom = end
				spaceTo = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			end = spaceTo
		}
		if done < start {
			plain(e, text[done:start])
		}
		if start < end { // else the token before it has taken all of it
			e.append(token.ID)
		}
		done, e.first = end, false
	}
	if done < len(text) && e.err == nil {
		plain(e, text[done:])
	}
}

func endsInWord(s string) bool {
	r, size := utf8.DecodeLastRuneInString(s)
	return size > 0 && isWord(r)
}

func startsInWord(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	return size > 0 && isWord(r)
}

// isWord reports whether r matches \w as defined by UTS 18 and by Rust's regex crate.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		c := r | 0x20
		return c >= 'a' && c <= 'z' || r >= '0' && r <= '9' || r == '_'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control) ||
		addedClass(r) != other
}
