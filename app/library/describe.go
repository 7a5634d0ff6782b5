package library

// Cached descriptions of folders. The engine reads a model's headers, which is too slow for every
// scan. A description is valid while the folder's files are unchanged. A scan also renews a limited
// number of descriptions that are older than staleAfter.

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// describer caches the engine's descriptions of folders.
type describer struct {
	describe Describe

	mu      sync.Mutex
	known   map[string]described // by real path; "" is the bundled model
	digests map[string]digested  // by real path; see places.go
}

type described struct {
	signature uint64
	at        time.Time
	engine.Description
	err error
}

// staleAfter is the age at which the description of a usable model is renewed. It depends on the
// folder of a draft model, too.
const staleAfter = 30 * time.Second

func (d *describer) bundled(src engine.Source, o engine.Options, s *scanner) (engine.Description,
	error) {
	return d.cached("", 0, src, o, s)
}

// folder describes the model in a folder.
func (d *describer) folder(f folder, o engine.Options, s *scanner) (engine.Description, error) {
	return d.cached(f.at.real, f.at.signature(), engine.Source{Dir: f.dir}, o, s)
}

// cached returns the cached description for the key, unless the folder has changed, or the
// description is stale and the scan may renew one more.
func (d *describer) cached(key string, signature uint64, src engine.Source, o engine.Options,
	s *scanner) (engine.Description, error) {
	d.mu.Lock()
	known, ok := d.known[key]
	d.mu.Unlock()
	if ok && known.signature == signature {
		// A draft model does not change why a folder is refused.
		if known.err != nil || time.Since(known.at) < staleAfter || s.renew <= 0 {
			return known.Description, known.err
		}
		s.renew--
	}
	known = described{signature: signature, at: time.Now()}
	known.Description, known.err = safely(d.describe, src, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]described{}
	}
	d.known[key] = known
	return known.Description, known.err
}

// forget removes the descriptions of folders that are gone.
func (d *describer) forget(present map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.known {
		if key == "" || present[key] {
			continue
		}
		if _, err := os.Stat(key); err != nil {
			delete(d.known, key)
			delete(d.digests, key)
		}
	}
}

// DescribeWith describes a listed model with the given options instead of the model's. It caches
// nothing. The error is a Problem: the model is not ready, or the options do not fit it.
func (l *Library) DescribeWith(m Model, o engine.Options) (engine.Description, error) {
	if m.Err != nil {
		return engine.Description{}, m.Err
	}
	return safely(l.describer.describe, m.Source, o)
}

// Renew drops the cached description of a model whose options have changed. The next scan describes
// it again.
func (l *Library) Renew(m Model) {
	real := ""
	if !m.Bundled {
		var err error
		if real, err = filepath.EvalSymlinks(m.Dir); err != nil {
			return // the folder is gone; forget removes its description
		}
	}
	l.describer.mu.Lock()
	defer l.describer.mu.Unlock()
	delete(l.describer.known, real)
}

// noLimit is the memory that a description assumes: more than any machine has. What a model needs
// does not depend on what is free, but for the context that is chosen, and a description has what
// chooses it (engine.Description.ContextWithin).
const noLimit = 1 << 60

// safely turns a panic in describe into an error, so that one folder cannot break the list.
func safely(describe Describe, src engine.Source, o engine.Options) (description engine.Description,
	err error) {
	defer func() {
		if r := recover(); r != nil {
			err = problem.New(problem.Internal, "The model could not be examined", fmt.Sprint(r),
				"Please report it.")
		}
	}()
	o.AvailableBytes = noLimit
	description, err = describe(src, o)
	if err != nil {
		return engine.Description{}, problem.From(err)
	}
	return description, nil
}

// signature returns a hash of the names, sizes and times of the files.
func (l *listing) signature() uint64 {
	return once(l, "signature", func() uint64 {
		h := fnv.New64a()
		for _, f := range l.files {
			fmt.Fprintf(h, "%s %s %d %d\n", f.name, f.real, f.size, f.changed.UnixNano())
		}
		return h.Sum64()
	})
}

// DescribeSource describes a model that is in no folder. The error is a Problem.
func DescribeSource(src engine.Source, o engine.Options) (engine.Description, error) {
	return safely(engine.Describe, src, o)
}
