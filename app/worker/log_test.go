package worker

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
)

// TestLogLevel: a new log level applies at once, also to existing loggers.
func TestLogLevel(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var pipe bytes.Buffer
	s := newSession(newOutbox(nopCloser{&pipe}))
	s.startLog(int(slog.LevelInfo))
	inner := slog.With("a", 1)
	for _, step := range []struct {
		level   slog.Level
		message string
	}{{slog.LevelDebug, "now"}, {slog.LevelInfo, "no longer"}, {slog.LevelDebug, "again"}} {
		level := int(step.level)
		s.handle(&toWorker{LogLevel: &level})
		inner.Debug(step.message)
	}
	s.outbox.close()
	<-s.outbox.done
	var got []string
	for in := newInbox(&pipe); ; {
		var message fromWorker
		if in.receive(&message) != nil {
			break
		}
		if message.Log != nil {
			got = append(got, message.Log.Message)
		}
	}
	if want := []string{"now", "again"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}
