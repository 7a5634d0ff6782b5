// Package logs keeps the latest lines of the log in memory, so that the app can show them to users
// who did not start it from a terminal. It also writes them to the program's output.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Line is one line of the log.
type Line struct {
	Number   int    `json:"number"` // from 1 at the program's start
	AtUnixMs int64  `json:"at"`
	Level    string `json:"level"` // "DEBUG", "INFO", "WARN" or "ERROR"
	Message  string `json:"message"`
	Fields   string `json:"fields"` // "key=value key=value"
}

// String formats the line as in an exported log.
func (l Line) String() string {
	return strings.TrimRight(
		fmt.Sprintf("%s %-5s %s %s",
			time.UnixMilli(l.AtUnixMs).UTC().Format("2006-01-02T15:04:05.000Z"), l.Level, l.Message,
			l.Fields), " ")
}

const (
	maxLines     = 5000
	maxLineBytes = 4096 // of the message, and of the fields
)

// Logs holds the latest lines and the minimum level. Use New; the zero value is not usable.
type Logs struct {
	level slog.LevelVar

	mu     sync.Mutex
	lines  []Line // a ring once it is full
	number int    // of the latest line
	// cleared is the number of the last line that Clear has removed.
	cleared int

	held held
}

// New returns Logs that record lines at level and above.
func New(level slog.Level) *Logs {
	l := &Logs{}
	l.level.Set(level)
	return l
}

// SetLevel changes the minimum level.
func (l *Logs) SetLevel(level slog.Level) { l.level.Set(level) }

// Level returns the minimum level.
func (l *Logs) Level() slog.Level { return l.level.Level() }

// Handler returns a handler that records lines and writes them to out, as JSON or as text.
func (l *Logs) Handler(out io.Writer, asJSON bool) slog.Handler {
	o := &slog.HandlerOptions{Level: &l.level}
	out = holdable{out, &l.held}
	if asJSON {
		return handler{slog.NewJSONHandler(out, o), l, "", ""}
	}
	return handler{slog.NewTextHandler(out, o), l, "", ""}
}

// Recent returns the log lines that contain text, ignoring case, sorted oldest first. It skips
// lines whose number is not greater than the argument after, and lines below the level least. If
// too many lines are left, it returns the latest ones; the argument most is their maximum number.
// The result last is the number of the latest line of the log; pass it as the first argument of the
// next call.
func (l *Logs) Recent(after int, least slog.Level, text string, most int) (lines []Line, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = strings.ToLower(text)
	lines = []Line{}
	for n := max(after, l.cleared, l.number-len(l.lines)) + 1; n <= l.number; n++ {
		line := l.lines[(n-1)%maxLines]
		var level slog.Level
		_ = level.UnmarshalText([]byte(line.Level)) // it is valid: record wrote it
		if level >= least && (text == "" ||
			strings.Contains(strings.ToLower(line.Message+" "+line.Fields), text)) {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-most):], l.number
}

// Clear forgets all lines. Numbers go on from the last line.
func (l *Logs) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		l.lines[i] = Line{Number: l.lines[i].Number}
	}
	l.cleared = l.number
}

// Size returns the number of lines and their bytes.
func (l *Logs) Size() (lines int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line.Number > l.cleared {
			lines, bytes = lines+1, bytes+int64(len(line.Message)+len(line.Fields))
		}
	}
	return lines, bytes
}

func (l *Logs) record(r slog.Record, fields string) {
	line := Line{AtUnixMs: r.Time.UnixMilli(), Level: r.Level.String(), Message: cut(r.Message),
		Fields: cut(fields)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	line.Number = l.number
	if len(l.lines) < maxLines {
		l.lines = append(l.lines, line)
	} else {
		l.lines[(l.number-1)%maxLines] = line
	}
}

func cut(s string) string {
	if len(s) > maxLineBytes {
		return strings.ToValidUTF8(s[:maxLineBytes], "") + "…"
	}
	return s
}

// handler records lines and passes them to the handler in it.
type handler struct {
	slog.Handler
	logs   *Logs
	fields string // of WithAttrs
	group  string // "outer.inner." of WithGroup
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	fields := h.fields
	r.Attrs(func(a slog.Attr) bool {
		fields = join(fields, h.group, a)
		return true
	})
	h.logs.record(r, fields)
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		h.fields = join(h.fields, h.group, a)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	if name != "" {
		h.group += name + "."
	}
	return h
}

// join appends "group.key=value". The value is quoted unless it is a single word.
func join(fields, group string, a slog.Attr) string {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range value.Group() {
			fields = join(fields, group, inner)
		}
		return fields
	}
	text := value.String()
	if text == "" || strings.ContainsAny(text, " \t\n\"=") {
		text = fmt.Sprintf("%q", text)
	}
	return strings.TrimLeft(fields+" "+group+a.Key+"="+text, " ")
}
