package server

import (
	"log/slog"
	"net/http/httptest"
	"testing"
)

// TestLevelOf: a probe that finds no model ready is no error in the log; an answer that failed is.
func TestLevelOf(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		want         slog.Level
	}{
		{"GET", "/ready", 503, slog.LevelDebug},
		{"GET", "/health", 503, slog.LevelDebug},
		{"GET", "/ready", 200, slog.LevelDebug},
		{"GET", "/metrics", 500, slog.LevelError},
		{"POST", "/v1/chat/completions", 503, slog.LevelError},
		{"POST", "/v1/chat/completions", 200, slog.LevelInfo},
		{"GET", "/nothing", 404, slog.LevelInfo},
	} {
		if got := levelOf(httptest.NewRequest(c.method, c.path, nil), c.status); got != c.want {
			t.Errorf("%s %s, %d: %v, expected %v", c.method, c.path, c.status, got, c.want)
		}
	}
}
