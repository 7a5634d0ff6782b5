package tokenizer

// Added tokens, such as <|im_start|> in chats, are matched in the text before it is split into
// words. A trie finds them, because a vocabulary may have many.

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
}

// addedTokens is a byte trie that finds added tokens in text. It finds the leftmost match, and if
// several matches start there, the longest. Node 0 is the root.
type addedTokens struct {
	tokens []addedToken
	root   [256]int32 // node after the first byte, 0 for none
	nodes  []trieNode
}

type trieNode struct {
	next  map[byte]int32
	token int32 // index into tokens plus 1, 0 for none
}

// add adds a token that matches content, which must not be empty. It replaces an earlier token that
// matches the same content.
func (a *addedTokens) add(content string, token addedToken) {
	if len(a.nodes) == 0 {
		a.nodes = append(a.nodes, trieNode{})
	}
	a.tokens = append(a.tokens, token)
	node := a.root[content[0]]
	if node == 0 {
		node = a.newNode()
		a.root[content[0]] = node
	}
	for i := 1; i < len(content); i++ {
		next := a.nodes[node].next[content[i]]
		if next == 0 {
			next = a.newNode()
			if a.nodes[node].next == nil {
				a.nodes[node].next = make(map[byte]int32)
			}
			a.nodes[node].next[content[i]] = next
		}
		node = next
	}
	a.nodes[node].token = int32(len(a.tokens))
}

func (a *addedTokens) newNode() int32 {
	a.nodes = append(a.nodes, trieNode{})
	return int32(len(a.nodes) - 1)
}

// find returns the first match in text[from:] and its byte range in text. token is nil if there is
// no match.
func (a *addedTokens) find(text string, from int) (start, end int, token *addedToken) {
	if len(a.tokens) == 0 {
		return 0, 0, nil
	}
	for i := from; i < len(text); i++ {
		node := a.root[text[i]]
		if node == 0 {
			continue
		}
		for j := i + 1; ; j++ {
			if n := a.nodes[node].token; n != 0 {
				end, token = j, &a.tokens[n-1]
			}
			if j == len(text) {
				break
			}
			if node = a.nodes[node].next[text[j]]; node == 0 {
				break
			}
		}
		if token != nil {
			return i, end, token
		}
	}
	return 0, 0, nil
}

// splitAdded appends the ids of the added tokens in text, and calls plain for the text between
// them.
func (e *encoder) splitAdded(set *addedTokens, text string, plain func(*encoder, string)) {
	done := 0 // text[:done] has been handled
	for from := 0; ; {
		start, end, token := set.find(text, from)
		if token == nil {
			break
		}
		from = end
		if token.SingleWord && (endsInWord(text[:start]) || startsInWord(text[end:])) {
			continue
		}
		if token.Lstrip {
			start = len(strings.TrimRightFunc(text[:start], unicode.IsSpace))
		}
		if token.Rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			plain(e, text[done:start])
		}
		e.ids = append(e.ids, token.ID)
		done = end
	}
	if done < len(text) {
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
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control) ||
		addedClass(r) != other
}
