// Package keys stores the named API keys of the endpoint, enforces their limits, and counts what
// their requests use.
//
// Only hashes of keys are stored. A key is 32 random bytes, so a plain SHA-256 suffices: nobody can
// try all keys, which salts and slow hashes are for. The text of a key exists only in the answer to
// Add.
//
// Several programs may use one folder: servers, and `headroom keys`. A change reads the file again
// under a lock. A server looks at the file with each request, so that a removed key ends at once,
// also for requests that are running.
//
// Damage to the file never opens the endpoint: a file that cannot be read at the start closes it,
// and what happens to the file later does not remove a key from a running server, except a change
// that can be read. Limits hold for each server by itself; usage is the sum of all.
//
//	keys.go    the keys, and who may pass
//	file.go    the file of keys, and changes of it
//	limits.go  what a key may do at once and in a minute
//	usage.go   what its requests have used
//	paired.go  the keys of paired machines, which pass at the port for machines alone
package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"headroom/engine/guard"
)

// Key is a named key, without its text.
type Key struct {
	ID      string    `json:"id"` // the first digits of Hash
	Name    string    `json:"name"`
	Hash    string    `json:"hash"` // SHA-256 of the key's text, in hexadecimal digits
	Created time.Time `json:"created"`
	// Certificate is that of the paired machine that holds the key, as hexadecimal digits of its
	// SHA-256; "": any client may hold it. See paired.go.
	Certificate string `json:"certificate,omitempty"`
	Limits
}

// Limits are what a key allows. The zero value allows everything.
type Limits struct {
	Models             []string `json:"models,omitempty"`             // IDs; none: all
	RequestsPerMinute  int      `json:"requestsPerMinute,omitempty"`  // 0: any number
	ConcurrentRequests int      `json:"concurrentRequests,omitempty"` // 0: any number
	Priority           Priority `json:"priority,omitempty"`
}

// Priority says which requests run first while others wait.
type Priority string

// The priorities.
const (
	Interactive Priority = ""      // in the order of arrival
	Batch       Priority = "batch" // after all interactive ones
)

// engine returns the priority as the engine takes it.
func (p Priority) engine() int {
	if p == Batch {
		return -1
	}
	return 0
}

// Listed is a key with its usage.
type Listed struct {
	Key
	Usage
}

// Store is the keys in a folder. Its methods are safe for concurrent use, also by other processes.
type Store struct {
	dir string
	now func() time.Time

	mu       sync.Mutex
	list     []Key
	hashes   [][sha256.Size]byte // of list
	unread   error               // why the file cannot be read, and there are no earlier keys
	readOnly bool                // a later Headroom wrote the file; writing would lose its fields
	info     os.FileInfo         // of the file that list was read from; nil: there was none
	warned   os.FileInfo         // of the file whose fault was logged
	states   map[string]*state   // by ID
	saving   *time.Timer         // saves the usage; nil: nothing has been used since the last time
	closed   bool
}

// Open reads the keys in dir, which need not exist. The Store is usable even if Open returns an
// error: then no key passes.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, now: time.Now, states: map[string]*state{}}
	return s, s.load()
}

// newKey returns the text of a random key.
func newKey() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return guard.KeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// idDigits is the length of an ID. Of a thousand keys, two have the same with a chance of 2^-45.
const idDigits = 16

// hashed returns the key with this text.
func hashed(text string) Key {
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	return Key{ID: hash[:idDigits], Hash: hash}
}

// Any implements guard.Keys. A file that cannot be read may have keys. Those of paired machines do
// not count.
func (s *Store) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.unread != nil || forClients(s.list) > 0
}

// Count returns the number of keys, without those of paired machines.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return forClients(s.list)
}

// forClients counts the keys that any client may hold.
func forClients(list []Key) (n int) {
	for i := range list {
		if list[i].Certificate == "" {
			n++
		}
	}
	return n
}

// Find implements guard.Keys. It does not find the keys of paired machines.
func (s *Store) Find(text string) *guard.Caller { return s.find(text, "") }

// find returns the holder of a key that has a certificate; nil if there is none. It compares with
// every key, and of hashes only, so the time says nothing about a key.
func (s *Store) find(text, certificate string) *guard.Caller {
	sum := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	found := -1
	for i := range s.hashes { // all of them, also after the right one
		if subtle.ConstantTimeCompare(s.hashes[i][:], sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 || s.list[found].Certificate != certificate {
		return nil
	}
	k := s.list[found]
	s.use(k.ID, Usage{LastUse: s.now()})
	return s.caller(k, true)
}

// caller returns who holds a key.
func (s *Store) caller(k Key, limited bool) *guard.Caller {
	return &guard.Caller{ID: k.ID, Name: k.Name, Models: slices.Clone(k.Models),
		Priority: k.Priority.engine(), Begin: s.begin(k.ID, limited)}
}

// Background returns the holder of the key with an ID for requests in the background; nil if there
// is no such key. They count as use, but not for the limits of requests per minute and at once:
// they take only what others leave, and the key's other requests should not wait for them.
func (s *Store) Background(id string) *guard.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	i := s.indexOf(id)
	if i < 0 {
		return nil
	}
	return s.caller(s.list[i], false)
}

// List returns the keys in the order of their names, with what they have used until now.
func (s *Store) List() []Listed {
	saved := s.readUsage()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	list := make([]Listed, len(s.list))
	for i, k := range s.list {
		k.Models = slices.Clone(k.Models)
		list[i] = Listed{k, saved.Keys[k.ID]}
		if st := s.states[k.ID]; st != nil {
			list[i].Usage = list[i].Usage.plus(st.unsaved)
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return compareNames(a.Name, b.Name) })
	return list
}

// path returns the path of the file of keys, which need not exist.
func (s *Store) path() string { return filepath.Join(s.dir, fileName) }
