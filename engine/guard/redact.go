package guard

// Redaction of keys in logs. A person may put a key where it does not belong, such as into an
// address, and clients repeat what they are told.

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// KeyPrefix begins the text of every named key, so that people and scanners recognize it.
const KeyPrefix = "hr-"

// redacted replaces a key.
const redacted = "[API key]"

// anyKey matches named keys, whether they are valid or not, and the beginning of one that an error
// has cut short. What is left without it is too short to be of use.
var anyKey = regexp.MustCompile(KeyPrefix + `[A-Za-z0-9_-]{24,}`)

// RedactKeys returns a text without anything that looks like a named key.
func RedactKeys(text string) string { return anyKey.ReplaceAllLiteralString(text, redacted) }

// Redact returns a text without anything that looks like a named key, and without the unnamed one.
func (g *Guard) Redact(text string) string {
	if key := g.unnamedKey(); key != "" {
		text = redactKey(text, key)
		if quoted := strconv.Quote(key); quoted != `"`+key+`"` { // as errors show it
			text = redactKey(text, quoted[1:len(quoted)-1])
		}
	}
	return RedactKeys(text)
}

// redactKey replaces a key in a text. A short one may be part of other words, which stay.
func redactKey(text, key string) string {
	const short = 8 // bytes
	var b strings.Builder
	for rest := text; ; {
		at := strings.Index(rest, key)
		if at < 0 {
			return b.String() + rest
		}
		end := at + len(key)
		before, _ := utf8.DecodeLastRuneInString(rest[:at])
		after, _ := utf8.DecodeRuneInString(rest[end:])
		b.WriteString(rest[:at])
		if len(key) < short && (ofWord(before) || ofWord(after)) {
			b.WriteString(key)
		} else {
			b.WriteString(redacted)
		}
		rest = rest[end:]
	}
}

// ofWord reports whether a character is part of a word.
func ofWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
