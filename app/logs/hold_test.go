package logs

import (
	"log/slog"
	"strings"
	"testing"
)

// TestHold: lines that are held back are recorded at once, and written in their order when the last
// one who holds them releases them. More of them than fit are written at once.
func TestHold(t *testing.T) {
	l := New(slog.LevelInfo)
	var out strings.Builder
	log := slog.New(l.Handler(&out, false))
	log.Info("before")
	first, second := l.Hold(), l.Hold()
	log.Info("one")
	log.Info("two")
	first()
	first() // without effect
	log.Info("three")
	if got := out.String(); !strings.Contains(got, "before") || strings.Contains(got, "one") ||
		strings.Contains(got, "three") {
		t.Errorf("held back, the output is %s", got)
	}
	if lines, _ := l.Recent(0, slog.LevelInfo, "", 9); len(lines) != 4 {
		t.Errorf("%d lines are recorded, expected 4", len(lines))
	}
	second()
	log.Info("after")
	var order []string
	for line := range strings.Lines(out.String()) {
		order = append(order, strings.TrimSpace(line[strings.Index(line, "msg=")+4:]))
	}
	if got := strings.Join(order, " "); got != "before one two three after" {
		t.Errorf("the lines are %s", got)
	}
	defer l.Hold()()
	long := strings.Repeat("x", maxHeldBytes/2)
	log.Info(long)
	log.Info("last", "long", long)
	if !strings.Contains(out.String(), "last") {
		t.Error("more than the limit is held back")
	}
	(*Logs)(nil).Hold()()
}
