package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"headroom/engine"
)

// TestShorterContext: a context that the model does not have is shortened with a line in the log.
func TestShorterContext(t *testing.T) {
	for asked, warns := range map[int]bool{0: false, 4096: false, 4097: true} {
		var log bytes.Buffer
		h := newTestHostWith(t, func(o *Options) {
			o.Engine = func(string) engine.Options { return engine.Options{ContextTokens: asked} }
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		h.start("a")
		h.loading("a").finish <- nil
		if err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Close()
		const numbers = "asked_tokens=4097 context_tokens=4096"
		if got := log.String(); strings.Contains(got, numbers) != warns {
			t.Errorf("a context of %d tokens: the log has %q", asked, got)
		}
	}
}
