package guard

// Named keys. Each lets a request pass, as the key without a name does, and has limits of its own.
// app/keys stores them; the server enforces what depends on models and requests.

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Keys are the named keys.
type Keys interface {
	// Any reports whether there are keys. Then requests need one.
	Any() bool
	// Find returns the holder of a key; nil if there is no such key. It compares in a time that
	// does not depend on how much of the key is right.
	Find(key string) *Caller
}

// Caller is who holds a named key.
type Caller struct {
	ID       string   // of the key; no other key has had it
	Name     string   // of the key
	Models   []string // IDs of the models that the key may use; none: all
	Priority int      // requests of larger priority run first; 0: as without a named key
	// Begin counts a request. The error is a Problem: the key has reached a limit, or was removed.
	// Otherwise the caller calls end once. If the key is removed before, cancel gets a Problem.
	Begin func(cancel context.CancelCauseFunc) (end func(Used), err error)
}

// Used is what a request has used.
type Used struct {
	PromptTokens    int // computed or cached
	GeneratedTokens int
}

// Allows reports whether the key may use the model with this ID.
func (c *Caller) Allows(model string) bool {
	return len(c.Models) == 0 || slices.ContainsFunc(c.Models,
		func(id string) bool { return strings.EqualFold(id, model) })
}

type callerKey struct{}

// CallerOf returns who sends a request that has passed Key; nil if it has no named key.
func CallerOf(r *http.Request) *Caller {
	return CallerIn(r.Context())
}

// PriorityOf returns the priority of the named key of a request with this context; 0 without one.
// That of a request in the background is less than 0.
func PriorityOf(ctx context.Context) (priority int) {
	if c := CallerIn(ctx); c != nil {
		priority = c.Priority
	}
	if InBackground(ctx) {
		priority = min(priority, -1)
	}
	return priority
}

// CallerIn is CallerOf for the context of a request.
func CallerIn(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

type backgroundKey struct{}

// Background returns the context of a request for which nobody waits: all others go first.
func Background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// InBackground reports whether a request with this context is one for which nobody waits.
func InBackground(ctx context.Context) bool {
	on, _ := ctx.Value(backgroundKey{}).(bool)
	return on
}

// WithCaller returns the context of a request of this caller.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// find returns who holds a named key; nil if nobody does.
func (g *Guard) find(key string) *Caller {
	if g.Keys == nil {
		return nil
	}
	return g.Keys.Find(key)
}

// NeedsKey reports whether requests need a key.
func (g *Guard) NeedsKey() bool {
	return g.unnamedKey() != "" || g.Keys != nil && g.Keys.Any()
}
