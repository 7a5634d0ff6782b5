package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestClientName(t *testing.T) {
	const webkit = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 " +
		"(KHTML, like Gecko)"
	for _, c := range []struct{ title, agent, want string }{
		{"", "", ""},
		{"", "curl/8.5.0", "curl"},
		{"", "OpenAI/Python 1.52.0", "OpenAI/Python"},
		{"", "OpenAI/JS 6.10.0", "OpenAI/JS"},
		{"", "claude-cli/2.0.1 (external, cli)", "claude-cli"},
		{"", "codex_cli_rs/0.46.0 (Mac OS 15.0; arm64) iTerm", "codex_cli_rs"},
		{"", "ai-sdk/v5.0 runtime/node", "ai-sdk"},
		{"", "node", "node"},
		{"", "Go-http-client/1.1", "Go-http-client"},
		{"", "odd/", "odd"},
		{"", webkit + " Version/18.0 Safari/605.1.15", "Safari"},
		{"", webkit + " Chrome/140.0 Safari/537.36", "Chrome"},
		{"", webkit + " Chrome/140.0 Safari/537.36 Edg/140.0", "Edg"},
		{"", webkit + " Cursor/1.7.2 Chrome/138.0 Electron/37.0 Safari/537.36", "Cursor"},
		{"", "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox"},
		{"", webkit, "Browser"},
		{"Headroom", webkit + " Safari/605.1.15", "Headroom"},
		{" \x01\xff", "curl/8", "curl"},
		{"Zed\x1b[31m", "", "Zed[31m"},
		{strings.Repeat("ä", 41), "", strings.Repeat("ä", 39) + "…"},
	} {
		h := http.Header{"User-Agent": {c.agent}, "X-Title": {c.title}}
		if got := clientName(h); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.title, c.agent, got, c.want)
		}
	}
}
