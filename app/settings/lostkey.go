package settings

// The API key of damaged text. Damage must not open the endpoint: text that may have had a key
// which cannot be read gets a random one.

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"headroom/engine/problem"
)

// lostKey begins the random key that applies if there may have been one. It says in the file and on
// the Settings page where that key comes from.
const lostKey = "lost-key-"

func randomKey() string { return lostKey + rand.Text() }

// KeyLost reports whether the API key is a random one, because the file may have lost its key.
func (s *Settings) KeyLost() bool { return strings.HasPrefix(s.APIKey, lostKey) }

var (
	// apiKeyText finds the API key in text that is not valid JSON, as a JSON string.
	apiKeyText = regexp.MustCompile(`(?i)"apiKey"\s*:\s*("(?:[^"\\\n]|\\.)*")`)
	// memberText finds the names of members.
	memberText = regexp.MustCompile(`"([^"\\\n]*)"\s*:`)
	// noKeyText finds the mark of a removed key; see Settings.NoAPIKey.
	noKeyText = regexp.MustCompile(`(?i)"noApiKey"\s*:\s*true`)
)

// keyOfDamaged returns the API key in damaged text; a random one if the text may have had a key.
func keyOfDamaged(data []byte) string {
	if neverHadKey(data) {
		return ""
	}
	return cmp.Or(keyInText(data), randomKey())
}

// keyInText returns the API key in damaged text. It is "" unless the text has one, as a member of
// the outer object, and it is certain where it ends: a comment may have an old one.
func keyInText(data []byte) (key string) {
	all := apiKeyText.FindAllSubmatchIndex(data, -1)
	if len(all) == 0 || strings.Count(strings.ToLower(string(data)), `"apikey"`) != 1 {
		return ""
	}
	m := all[0]
	before, after := string(data[:m[0]]), strings.TrimLeft(string(data[m[3]:]), " \t\r\n")
	line := before[strings.LastIndexByte(before, '\n')+1:]
	if after != "" && !strings.ContainsRune(",}/", rune(after[0])) || depthOf(before) != 1 ||
		strings.Contains(before, "/*") || strings.Contains(line, "//") ||
		strings.Contains(line, "#") {
		return ""
	}
	if json.Unmarshal(data[m[2]:m[3]], &key) != nil || !Sendable(key) {
		return ""
	}
	return key
}

// Sendable reports whether the header of a request can have the key: HTTP trims spaces and has no
// control characters.
func Sendable(key string) bool {
	return strings.TrimSpace(key) == key && !strings.ContainsFunc(key, unicode.IsControl)
}

// misspeltKey returns the name of an unknown member that may be the API key's, misspelt or damaged;
// "" if there is none.
func misspeltKey(unknown members) string {
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		if likeAPIKey(name) {
			return name
		}
	}
	return ""
}

func likeAPIKey(name string) bool { return problem.Alike(name, "apiKey", 2) }

// neverHadKey reports whether damaged text is whole and names no API key, such as that of an editor
// who left a comma at the end of an object. Text that is cut off, has zeros or is in another
// encoding may have had one.
func neverHadKey(data []byte) bool {
	text := strings.TrimSpace(string(data))
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\ufffd") || !isWhole(text) {
		return false
	}
	text = noKeyText.ReplaceAllString(text, "")
	misspelt := slices.ContainsFunc(memberText.FindAllStringSubmatch(text, -1),
		func(m []string) bool { return likeAPIKey(m[1]) })
	return !misspelt && !strings.Contains(strings.ToLower(text), "apikey") &&
		!strings.Contains(text, `\u`)
}

// isWhole reports whether text begins with a brace that its last byte closes. Text that was cut off
// ends within its first brace.
func isWhole(text string) bool {
	return len(text) > 1 && text[0] == '{' && depthOf(text[:len(text)-1]) == 1 &&
		text[len(text)-1] == '}' && depthOf(text) == 0
}

// depthOf returns how many braces and brackets are open at the end of text; -1 if all have been
// closed before the end, or it ends within a string.
func depthOf(text string) int {
	text = strings.TrimSpace(text)
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 && !quoted && i < len(text)-1 {
			return -1
		}
	}
	if quoted {
		return -1
	}
	return depth
}
