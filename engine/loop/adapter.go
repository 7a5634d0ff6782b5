package loop

// Adapters of requests. Submit, on its caller's goroutine, reads an adapter that is not loaded and
// fits it to the model. The loop then copies it into memory of the device before the first request
// that uses it runs. It stays there for later requests until its place is needed, or its files have
// changed. The keys and values of a token depend on the adapter, so each adapter has a space of its
// own in the prefix tree, and a view of its own in the block store.

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"headroom/engine/adapter"
	"headroom/engine/problem"
	"headroom/kernels"
)

// Adapter names an adapter of a model.
type Adapter struct {
	Name string // as requests name it, for messages
	Dir  string // its folder
}

// maxAdapters is the maximum number of adapters on the device. Those that no request uses are
// dropped for others.
const maxAdapters = 8

// adapters holds those that are loaded. The zero value has none.
type adapters struct {
	fit func(dir string) (*adapter.Fitted, error) // of Config

	fitting sync.Mutex // one adapter is read at a time
	mu      sync.Mutex
	loaded  [maxAdapters]*loadedAdapter // by number-1
	spaces  map[[sha256.Size]byte]int32 // of every adapter that was ever loaded
	uses    int64
}

// loadedAdapter is an adapter with a number for kernels.Span.Adapter. A nil one stands for the
// model alone.
type loadedAdapter struct {
	name, dir string
	stamp     string // of its files
	index     int32  // number-1
	spaceID   int32
	digest    [sha256.Size]byte
	// fitted is in memory of the host until the loop has placed it; then nil.
	fitted *adapter.Fitted

	users   int   // requests that have not ended
	lastUse int64 // the value of adapters.uses
}

// number returns the number for kernels.Span.Adapter.
func (a *loadedAdapter) number() int32 {
	if a == nil {
		return 0
	}
	return a.index + 1
}

// space returns the space of the prefix tree.
func (a *loadedAdapter) space() int32 {
	if a == nil {
		return 0
	}
	return a.spaceID
}

// key returns what tells the tokens that were computed with the adapter from others.
func (a *loadedAdapter) key() string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(" #%x", a.digest[:16])
}

// acquire returns the adapter of a request, and loads it if it is not loaded. The caller must
// release it. It returns nil for nil. Errors are Problems.
func (s *adapters) acquire(of *Adapter) (*loadedAdapter, error) {
	if of == nil {
		return nil, nil
	}
	if s.fit == nil {
		return nil, NoAdapters()
	}
	stamp := stampOf(of.Dir)
	if a := s.find(of.Dir, stamp); a != nil {
		return a, nil
	}
	s.fitting.Lock()
	defer s.fitting.Unlock()
	if a := s.find(of.Dir, stamp); a != nil { // it was loaded meanwhile
		return a, nil
	}
	s.mu.Lock()
	full := s.free() < 0
	s.mu.Unlock()
	if full {
		return nil, tooMany()
	}
	fitted, err := s.fit(of.Dir)
	if err != nil {
		return nil, err
	}
	return s.add(&loadedAdapter{name: of.Name, dir: of.Dir, stamp: stamp, fitted: fitted,
		digest: fitted.Digest})
}

// NoAdapters returns the Problem of a model that computes vectors and is to use an adapter.
func NoAdapters() error {
	return problem.New(problem.BadRequest, "This model cannot use an adapter",
		"it computes vectors, not text", "Use it without an adapter.")
}

// find returns the loaded adapter of a folder whose files have that stamp; nil: there is none.
func (s *adapters) find(dir, stamp string) *loadedAdapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.loaded {
		if a != nil && a.dir == dir && a.stamp == stamp {
			s.use(a)
			return a
		}
	}
	return nil
}

// use counts a request of a. The caller holds mu.
func (s *adapters) use(a *loadedAdapter) {
	s.uses++
	a.users++
	a.lastUse = s.uses
}

// add gives a number to a: one that is free, or that of the least recently used adapter which no
// request uses.
func (s *adapters) add(a *loadedAdapter) (*loadedAdapter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := s.free()
	if best < 0 {
		return nil, tooMany()
	}
	if s.spaces == nil {
		s.spaces = map[[sha256.Size]byte]int32{}
	}
	if s.spaces[a.digest] == 0 {
		s.spaces[a.digest] = int32(len(s.spaces) + 1)
	}
	a.index, a.spaceID = int32(best), s.spaces[a.digest]
	s.loaded[best] = a
	s.use(a)
	return a, nil
}

// free returns the index of a place that is empty, or else that of the least recently used adapter
// which no request uses; -1: there is none. The caller holds mu.
func (s *adapters) free() int {
	best := -1
	for i, other := range s.loaded {
		if other == nil {
			return i
		}
		if other.users == 0 && (best < 0 || other.lastUse < s.loaded[best].lastUse) {
			best = i
		}
	}
	return best
}

func tooMany() error {
	return problem.New(problem.Busy, "Too many adapters are in use",
		fmt.Sprintf("requests use %d different ones, the limit is %d", maxAdapters, maxAdapters),
		"Try again when some of them have ended.")
}

// release ends the use of an adapter by a request; nil: it has none.
func (s *adapters) release(a *loadedAdapter) {
	if a == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.users--
}

// placeAdapter copies an adapter into memory of the device, unless it is there; nil: there is none.
// The memory of the adapter that had its number is used again if it suffices.
func (l *Loop) placeAdapter(a *loadedAdapter) {
	if a == nil || a.fitted == nil {
		return
	}
	l.waitForDevice() // until then a pass may use that memory
	memory := &l.adapterMemory[a.index]
	if *memory == nil || (*memory).Size < a.fitted.Bytes() {
		*memory = l.runner.NewBuffer(a.fitted.Bytes())
	}
	l.runner.SetAdapter(int(a.number()), a.fitted.Place(*memory))
	a.fitted = nil
}

// adapterMemory has the buffer of each number; nil: none.
type adapterMemory [maxAdapters]*kernels.Buffer

// stampOf returns what changes when the files of an adapter are replaced.
func stampOf(dir string) (stamp string) {
	for _, name := range adapter.Files {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			stamp += fmt.Sprint(name, info.Size(), info.ModTime().UnixNano(), " ")
		}
	}
	return stamp
}
