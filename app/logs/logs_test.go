package logs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func TestRecent(t *testing.T) {
	l := New(slog.LevelInfo)
	var out strings.Builder
	log := slog.New(l.Handler(&out, false))
	log.Debug("too small")
	log.Info("loading", "model", "o/m", "words", "two words")
	log.With("part", 1).WithGroup("disk").Warn("slow", "path", "/p", slog.Group("size", "bytes", 7))
	log.Error("gone wrong")
	for _, c := range []struct {
		after int
		least slog.Level
		text  string
		most  int
		want  string
	}{
		{0, slog.LevelDebug, "", 9,
			`INFO loading model=o/m words="two words"; WARN slow part=1 disk.path=/p disk.size.bytes=7; ERROR gone wrong`},
		{0, slog.LevelWarn, "", 9,
			`WARN slow part=1 disk.path=/p disk.size.bytes=7; ERROR gone wrong`},
		{0, slog.LevelDebug, "MODEL=O", 9, `INFO loading model=o/m words="two words"`},
		{0, slog.LevelDebug, "", 1, `ERROR gone wrong`},
		{2, slog.LevelDebug, "", 9, `ERROR gone wrong`},
		{3, slog.LevelDebug, "", 9, ``},
		{99, slog.LevelDebug, "", 9, ``}, // a number from before a restart
		{-5, slog.LevelError, "", 9, `ERROR gone wrong`},
	} {
		lines, last := l.Recent(c.after, c.least, c.text, c.most)
		var got []string
		for _, line := range lines {
			got = append(got, strings.TrimSpace(line.Level+" "+line.Message+" "+line.Fields))
		}
		if strings.Join(got, "; ") != c.want || last != 3 {
			t.Errorf("after %d, %s, %q: %v and %d", c.after, c.least, c.text, got, last)
		}
	}
	if !strings.Contains(out.String(), "disk.size.bytes=7") ||
		strings.Contains(out.String(), "too small") {
		t.Errorf("written: %s", out.String())
	}
	l.SetLevel(slog.LevelDebug)
	log.Debug("now")
	if lines, _ := l.Recent(3, slog.LevelDebug, "", 9); len(lines) != 1 ||
		!strings.HasSuffix(lines[0].String(), "DEBUG now") {
		t.Errorf("%v", lines)
	}
}

// The ring keeps the latest lines with their numbers, also with concurrent writers.
func TestRing(t *testing.T) {
	l := New(slog.LevelInfo)
	log := slog.New(l.Handler(io.Discard, true))
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				log.Info(fmt.Sprint(w, " ", i))
			}
		})
	}
	all.Wait()
	lines, last := l.Recent(0, slog.LevelInfo, "", 1<<20)
	if len(lines) != maxLines || last != 8000 {
		t.Fatalf("%d lines, the last is %d", len(lines), last)
	}
	for i, line := range lines {
		if line.Number != last-maxLines+i+1 {
			t.Fatalf("line %d has number %d", i, line.Number)
		}
	}
	log.Info(strings.Repeat("ä", maxLineBytes))
	if lines, _ := l.Recent(last, slog.LevelInfo, "", 1); len(lines[0].Message) > maxLineBytes+4 ||
		!strings.HasSuffix(lines[0].Message, "ä…") {
		t.Errorf("%d bytes", len(lines[0].Message))
	}
}
