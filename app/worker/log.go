package worker

// The worker sends its log records to the parent, which writes them to the log between its own.

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// write writes a record of the worker to the parent's log.
func (r *record) write(log *slog.Logger) {
	level := slog.Level(r.Level)
	if !log.Enabled(context.Background(), level) {
		return
	}
	line := slog.NewRecord(r.At, level, r.Message, 0)
	for _, a := range r.Attrs {
		line.Add(a.Key, a.Value)
	}
	_ = log.Handler().Handle(context.Background(), line)
}

// forwarder is a slog.Handler that sends records to the parent.
type forwarder struct {
	send  func(*record)
	level slog.Leveler // lowest level that is sent
	attrs []attr       // of WithAttrs
	group string       // "outer.inner." of WithGroup
}

func (f *forwarder) Enabled(_ context.Context, level slog.Level) bool {
	return level >= f.level.Level()
}

func (f *forwarder) Handle(_ context.Context, r slog.Record) error {
	line := &record{At: r.Time, Level: int(r.Level), Message: r.Message,
		Attrs: slices.Clone(f.attrs)}
	r.Attrs(func(a slog.Attr) bool {
		line.Attrs = flatten(line.Attrs, f.group, a)
		return true
	})
	f.send(line)
	return nil
}

func (f *forwarder) WithAttrs(attrs []slog.Attr) slog.Handler {
	g := *f
	g.attrs = slices.Clone(f.attrs)
	for _, a := range attrs {
		g.attrs = flatten(g.attrs, f.group, a)
	}
	return &g
}

func (f *forwarder) WithGroup(name string) slog.Handler {
	g := *f
	if name != "" {
		g.group += name + "."
	}
	return &g
}

// flatten appends an attribute, or the attributes of a group, in types that CBOR can carry.
func flatten(list []attr, group string, a slog.Attr) []attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range value.Group() {
			list = flatten(list, group, inner)
		}
		return list
	case slog.KindInt64, slog.KindFloat64, slog.KindBool:
		return append(list, attr{group + a.Key, value.Any()})
	case slog.KindTime:
		return append(list, attr{group + a.Key, value.Time().Format(time.RFC3339Nano)})
	}
	return append(list, attr{group + a.Key, value.String()})
}
