package keys

// What the requests of each key have used. It is counted in memory, and added to a file a while
// after the first use and when the store is closed. The goroutines of requests never wait for the
// disk because of it. A process that is killed loses what it has counted since the last time.

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"headroom/app/disk"
)

const (
	usageName = "key-usage.json"
	// saveAfter is the time from the first use until it is saved.
	saveAfter = time.Minute
)

// Usage is what the requests of a key have used.
type Usage struct {
	Requests        int64     `json:"requests"` // those that use a model; lists are not counted
	PromptTokens    int64     `json:"promptTokens"`
	GeneratedTokens int64     `json:"generatedTokens"`
	LastUse         time.Time `json:"lastUse,omitzero"` // zero: never
}

func (u Usage) plus(more Usage) Usage {
	u.Requests += more.Requests
	u.PromptTokens += more.PromptTokens
	u.GeneratedTokens += more.GeneratedTokens
	if more.LastUse.After(u.LastUse) {
		u.LastUse = more.LastUse.UTC().Truncate(time.Second)
	}
	return u
}

// usageDocument is the content of the file.
type usageDocument struct {
	Version int              `json:"version"`
	Keys    map[string]Usage `json:"keys"` // by ID
}

func (s *Store) usagePath() string { return filepath.Join(s.dir, usageName) }

// use counts what the key with an ID has used. mu is locked.
func (s *Store) use(id string, more Usage) {
	st := s.stateOf(id)
	st.unsaved = st.unsaved.plus(more)
	if s.saving == nil && !s.closed {
		s.saving = time.AfterFunc(saveAfter, func() {
			if err := s.save(); err != nil {
				slog.Warn("the usage of API keys could not be saved; it is tried again with the "+
					"next request", "err", err)
			}
		})
	}
}

// Close saves what was used since the last time. After it, nothing is saved any more.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.save()
}

// save adds what was used since the last time to the file.
func (s *Store) save() error {
	s.mu.Lock()
	timer := s.saving
	s.saving = nil
	s.mu.Unlock()
	if timer == nil {
		return nil
	}
	timer.Stop()
	unlock, err := disk.LockFolder(s.dir, lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	saved := s.readUsage()
	s.mu.Lock()
	s.refresh() // so that a removed key leaves nothing
	maps.DeleteFunc(saved.Keys, func(id string, _ Usage) bool { return s.indexOf(id) < 0 })
	taken := map[string]Usage{}
	for id, st := range s.states {
		if st.unsaved != (Usage{}) {
			taken[id] = st.unsaved
			saved.Keys[id] = saved.Keys[id].plus(st.unsaved)
			st.unsaved = Usage{}
		}
	}
	s.mu.Unlock()
	if err = s.writeUsage(saved); err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range taken {
		if st := s.states[id]; st != nil {
			st.unsaved = st.unsaved.plus(u)
		}
	}
	return err
}

// ClearUsage sets what the keys have used to nothing. The keys stay.
func (s *Store) ClearUsage() error {
	unlock, err := disk.LockFolder(s.dir, lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	for _, st := range s.states {
		st.unsaved = Usage{}
	}
	s.mu.Unlock()
	if _, err := os.Lstat(s.usagePath()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.writeUsage(usageDocument{Version: version, Keys: map[string]Usage{}})
}

func (s *Store) writeUsage(d usageDocument) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(s.usagePath(), append(text, '\n'), 0o600)
}

// readUsage returns the usage in the file. If it makes no sense, counting begins anew.
func (s *Store) readUsage() usageDocument {
	data, _, err := disk.Read(s.usagePath(), maxBytes)
	var d usageDocument
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("the usage of API keys cannot be read; counting begins anew", "file",
			s.usagePath(), "err", err)
		d = usageDocument{}
	}
	d.Version = version
	if d.Keys == nil {
		d.Keys = map[string]Usage{}
	}
	return d
}
