package server

// The name of the program that sends a request, for lists. Clients choose it freely, so it is only
// shown, and decides nothing.

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clientNameHeader is the header in which apps name themselves to several providers. Headroom's own
// pages use it, since a browser does not let them change the User-Agent.
const clientNameHeader = "X-Title"

// maxClientName is the maximum length of a client's name, in runes.
const maxClientName = 40

// clientName returns the name of a client; "": it has none. The name is that in clientNameHeader,
// or the first product of the User-Agent, without its version.
func clientName(h http.Header) string {
	name := plainName(h.Get(clientNameHeader))
	if name == "" {
		name = productName(plainName(h.Get("User-Agent")))
	}
	if utf8.RuneCountInString(name) > maxClientName {
		name = string([]rune(name)[:maxClientName-1]) + "…"
	}
	return name
}

// plainName removes control characters, bytes that are not UTF-8 and surrounding space.
func plainName(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
}

// engines are the products that every browser and every app with a web view lists.
var engines = map[string]bool{"Mozilla": true, "AppleWebKit": true, "Gecko": true, "Version": true,
	"Chrome": true, "Safari": true, "Electron": true, "Mobile": true, "Node.js": true}

// productName returns the program that a User-Agent names. A browser's says many names; its own is
// the one that others do not list.
func productName(agent string) string {
	first, rest, _ := strings.Cut(agent, " ")
	name := withoutVersion(first)
	if name != "Mozilla" {
		return name
	}
	found := ""
	for _, word := range strings.Fields(withoutComments(rest)) {
		product, _, versioned := strings.Cut(word, "/")
		switch {
		case versioned && !engines[product]:
			return product
		case product == "Chrome", product == "Safari" && found == "":
			found = product
		}
	}
	if found == "" {
		return "Browser"
	}
	return found
}

// withoutVersion cuts a version off a product: "curl/8.5.0" becomes "curl", and "OpenAI/Python"
// stays.
func withoutVersion(product string) string {
	name, version, found := strings.Cut(product, "/")
	version = strings.TrimPrefix(version, "v")
	if found && (version == "" || version[0] >= '0' && version[0] <= '9') {
		return name
	}
	return product
}

// withoutComments removes what is in parentheses.
func withoutComments(agent string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case depth == 0:
			return r
		}
		return -1
	}, agent)
}
