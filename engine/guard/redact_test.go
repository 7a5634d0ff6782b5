package guard

import (
	"strings"
	"testing"
)

// TestRedact: neither named keys nor the unnamed one stay in a text. Other words stay.
func TestRedact(t *testing.T) {
	named := KeyPrefix + strings.Repeat("aB3_-", 8) + "xyz"
	for _, c := range []struct{ key, text, want string }{
		{"", "/v1/models/" + named, "/v1/models/[API key]"},
		{"", named + "," + named, "[API key],[API key]"},
		{"", `no model "` + named[:30] + "…", `no model "[API key]…`},
		{"", "org/hr-7b-instruct", "org/hr-7b-instruct"},
		{"secret-of-mine", "xsecret-of-minex", "x[API key]x"},
		{`se"cret\key`, `model "se\"cret\\key" and se"cret\key`,
			`model "[API key]" and [API key]`},
		{"any", `/company/any "any" many any`, `/company/[API key] "[API key]" many [API key]`},
	} {
		g := &Guard{Live: func() Access { return Access{APIKey: c.key} }}
		if got := g.Redact(c.text); got != c.want {
			t.Errorf("key %q, text %q: got %q, want %q", c.key, c.text, got, c.want)
		}
	}
}
