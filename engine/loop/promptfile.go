package loop

// Prompt caches as files (engine/promptfile). A file is written from pages and states in memory,
// and read into them, as the blocks of the store are: the loop only does the bookkeeping, and the
// scheduler holds the memory meanwhile.

import (
	"context"
	"errors"
	"fmt"

	"headroom/engine/blockstore"
	"headroom/engine/cache"
	"headroom/engine/prefix"
	"headroom/engine/promptfile"
	"headroom/engine/sched"
)

// Errors of SavePrompt and LoadPrompt.
var (
	// ErrNotCached means that the prompt is not in memory, or no longer.
	ErrNotCached = errors.New("loop: the prompt is not cached in memory")
	// ErrNoRoom means that a prompt cache does not fit into the memory of the caches.
	ErrNoRoom = errors.New("loop: the prompt does not fit into the memory of the prefix cache")
	errEnded  = errors.New("loop: the model is being unloaded")
)

// SavePrompt calls write with the cached keys, values and states of tokens. A request must have
// computed them. write runs on the goroutine of the caller. It sets Info, and uses the content only
// until it returns. The error is ErrNotCached, or that of write.
func (l *Loop) SavePrompt(tokens []int32, write func(c promptfile.Content) error) error {
	type start struct {
		held    prefix.Held
		content promptfile.Content
		err     error
	}
	started := make(chan start, 1)
	l.runOnLoop(func() {
		s := start{err: ErrNotCached}
		if l.waitForDevice() {
			s.held = l.sched.Hold(0, tokens) // of the model without an adapter
			if s.content, s.err = l.content(tokens, s.held); s.err != nil {
				l.sched.Release(s.held)
			} else {
				l.stored.pending++
			}
		}
		started <- s
	})
	var s start
	select {
	case s = <-started:
	case <-l.inbox.ended:
		return errEnded
	}
	if s.err != nil {
		return s.err
	}
	defer l.runOnLoop(func() {
		l.stored.pending--
		l.sched.Release(s.held)
	})
	return write(s.content)
}

// content returns what is held of tokens.
func (l *Loop) content(tokens []int32, held prefix.Held) (c promptfile.Content, err error) {
	c = promptfile.Content{Tokens: tokens, PageTokens: cache.PageTokens,
		Block: func(from, to int) ([]blockstore.Tensor, error) {
			pages := held.Pages[from/cache.PageTokens : pagesFor(to)]
			return usedTensors(l.regionsAt(from), pages, to-from), nil
		}}
	states := l.statesToStore(&conversation{tokens: tokens}, held, true)
	byPosition := map[int]func() []blockstore.Tensor{}
	for _, s := range states {
		c.States = append(c.States, s.Position)
		byPosition[s.Position] = s.Tensors
	}
	c.State = func(position int) ([]blockstore.Tensor, error) { return byPosition[position](), nil }
	noState := l.config.Sched.Recurrent && byPosition[len(tokens)] == nil
	if held.Tokens < len(tokens) || noState {
		return c, ErrNotCached
	}
	return c, nil
}

// LoadPrompt reads a prompt cache into memory, so that a request that begins with its tokens
// resumes after them. The caller has checked that the file belongs to the model and its formats.
// The error is ErrNoRoom, or that of reading the file.
func (l *Loop) LoadPrompt(ctx context.Context, f *promptfile.File) error {
	vocab := l.runner.VocabSize()
	for _, t := range f.Tokens() {
		if int(t) >= vocab {
			return fmt.Errorf("%w: it has token %d, and the model has %d", promptfile.ErrDamaged, t,
				vocab)
		}
	}
	states := f.States()
	if l.config.Sched.Recurrent &&
		(len(states) == 0 || states[len(states)-1] != len(f.Tokens())) {
		return fmt.Errorf("%w: it has no state after its last token", promptfile.ErrDamaged)
	}
	p, err := l.startLoading(f.Tokens())
	if p == nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.stored.ctx, cancel)()
	kv, state := l.targets(p)
	if p.Slot < 0 {
		state = nil
	}
	err = f.Read(ctx, p.From, kv, state)
	ended := make(chan struct{})
	l.runOnLoop(func() {
		l.stored.pending--
		l.sched.Promoted(p, err == nil)
		close(ended)
	})
	<-ended // the loop makes the call before it ends, because of pending
	return err
}

// startLoading allocates memory for tokens. Without an error the result is nil if they are in
// memory already.
func (l *Loop) startLoading(tokens []int32) (*sched.Promotion, error) {
	type start struct {
		p   *sched.Promotion
		err error
	}
	started := make(chan start, 1)
	l.runOnLoop(func() {
		var s start
		var known bool
		if s.p, known = l.sched.Load(tokens); s.p != nil {
			l.waitForDevice()
			l.stored.pending++
		} else if !known {
			s.err = ErrNoRoom
		}
		started <- s
	})
	select {
	case s := <-started:
		return s.p, s.err
	case <-l.inbox.ended:
		return nil, errEnded
	}
}
