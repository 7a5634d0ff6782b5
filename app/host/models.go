package host

// The models that are on this machine, for those who look: the list in full with what each needs at
// a context that somebody thinks of, what changed in it, and the few things that can be done to it.

import (
	"slices"
	"sync"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

// ModelList is the document of /api/models.
type ModelList struct {
	Models []Model `json:"models"` // the bundled one first
	// ContextTokens is the length of the one conversation that needBytes and fits are for; 0: what
	// each would be opened with.
	ContextTokens int `json:"contextTokens"`
	// what fits is judged by: the headroom, and what the running model would give back
	RoomBytes int64       `json:"roomBytes"`
	Folders   []string    `json:"folders"` // that are looked through
	Watch     ModelsWatch `json:"watch"`
}

// ModelsWatch says how the list is kept.
type ModelsWatch struct {
	On             bool   `json:"on"` // changes are noticed by themselves
	Paused         bool   `json:"paused"`
	WatchedFolders int    `json:"watchedFolders"`
	PolledFolders  int    `json:"polledFolders"` // looked at every few seconds instead
	PollReason     string `json:"pollReason"`
}

// Place is one where a model lies.
type Place struct {
	ID     string         `json:"id"` // that it would have if it lay there alone
	Path   string         `json:"path"`
	Origin library.Origin `json:"origin"`
}

// Download is how far an incomplete model is.
type Download struct {
	DoneBytes  int64    `json:"doneBytes"`
	TotalBytes int64    `json:"totalBytes"` // 0: not known
	Missing    []string `json:"missing"`
	Parts      []string `json:"parts"`
}

// ModelChange is an entry of the list that is new, gone or another.
type ModelChange struct {
	Kind  library.ChangeKind `json:"kind"`
	ID    string             `json:"id"`
	State library.State      `json:"state"`
}

// Models lists what there is, with what one conversation of contextTokens needs; 0: of the length
// that each model would be opened with.
func (h *Host) Models(contextTokens int) ModelList {
	models := h.models.list()
	reading, err := h.options.Meter.Read()
	if err != nil {
		h.log.Debug("reading the memory", "err", err)
	}
	h.mu.Lock()
	running, have := h.running(), h.have
	h.mu.Unlock()
	var stats engine.Stats
	if have != nil {
		stats = have.engine.Stats()
	}
	used := engineBytes(stats)
	room := reading.HeadroomBytes(used) + used.Total()
	l := ModelList{Models: h.view(models, running, room, contextTokens),
		ContextTokens: contextTokens, RoomBytes: room, Folders: h.options.Library.Roots()}
	if w := h.models.watcher; w != nil {
		s := w.Status()
		l.Watch = ModelsWatch{On: !s.Paused, Paused: s.Paused, WatchedFolders: s.WatchedFolders,
			PolledFolders: s.PolledFolders, PollReason: s.PollReason}
	}
	if l.Folders == nil {
		l.Folders = []string{}
	}
	return l
}

// needBytes is what a model needs for one conversation of so many tokens, and no more than it was
// trained for; 0: with the options that it would be opened with.
func needBytes(d engine.Description, contextTokens int) int64 {
	need := d.Need
	if contextTokens > 0 {
		need.KVBytes = d.KVBytes(min(contextTokens, d.ContextTokens))
	}
	return need.TotalBytes()
}

// modelView words one entry.
func modelView(m library.Model, roomBytes int64, contextTokens int) Model {
	d := m.Description
	v := Model{ID: m.ID, Name: m.Name, Path: m.Dir, Architecture: d.Architecture,
		Parameters: d.Parameters, Quantization: d.Quantization, SizeBytes: m.SizeBytes,
		NeedBytes: needBytes(d, contextTokens), ContextTokens: d.ContextTokens, Bundled: m.Bundled,
		State: m.State, Places: []Place{}}
	if !m.UpdatedAt.IsZero() {
		v.UpdatedAtUnixMs = m.UpdatedAt.UnixMilli()
	}
	for _, p := range m.Places {
		v.Places = append(v.Places, Place{p.ID, p.Dir, p.Origin})
	}
	if d := m.Download; d != nil {
		v.Download = &Download{DoneBytes: d.DoneBytes, TotalBytes: d.TotalBytes,
			Missing: slices.Concat([]string{}, d.Missing),
			Parts:   slices.Concat([]string{}, d.Parts)}
	}
	v.Fits = memory.Fits(v.NeedBytes, roomBytes)
	if m.Err != nil {
		v.Error, v.Fits = m.Err.Error(), memory.No
	}
	return v
}

// RescanModels reads all folders anew and returns when the list is that of the disk.
func (h *Host) RescanModels() { h.models.rescan() }

// PauseWatching stops the list from following the disk, or lets it, and catches up. It is
// remembered where Options say how.
func (h *Host) PauseWatching(paused bool) error {
	w := h.models.watcher
	if w == nil {
		return problem.New(problem.BadRequest, "This program does not watch folders", "", "")
	}
	w.Pause(paused)
	if h.options.RememberPause != nil {
		return h.options.RememberPause(paused)
	}
	return nil
}

// RemoveModel moves a model to the trash: the copy in the folder at path, or "" for the only one.
func (h *Host) RemoveModel(id, path string) error {
	models := h.models.list()
	i := slices.IndexFunc(models, func(m library.Model) bool { return m.ID == id })
	if i < 0 {
		return library.NotFound(id, models)
	}
	h.mu.Lock()
	used := h.want != nil && h.want.model.ID == id || h.have != nil && h.have.model.ID == id
	h.mu.Unlock()
	if used {
		return problem.New(problem.BadRequest, "The model "+id+" is in use", "",
			"Stop the engine, then remove it.")
	}
	if err := h.options.Library.Remove(models[i], path); err != nil {
		return err
	}
	h.log.Info("model moved to the trash", "model", id, "path", path)
	h.models.rescan()
	return nil
}

// ModelChanges returns the changes of the list after the one of that number, oldest first, and the
// number of the last. Only the last few hundred are kept: who has missed more looks at the list.
func (h *Host) ModelChanges(after int) (changes []ModelChange, last int) {
	return h.models.changesAfter(after)
}

// modelList is the library's answer, kept by a watcher, or without one remembered for a while:
// states are asked for several times a second, and folders lie on slow disks too.
type modelList struct {
	library *library.Library
	watcher *library.Watcher // nil: nobody watches

	mu         sync.Mutex
	models     []library.Model
	at         time.Time // of the last answer; zero: none yet
	refreshing bool
	changes    []ModelChange
	last       int // number of the last of changes
}

const (
	modelListAge   = 10 * time.Second
	mostOldChanges = 256
)

// watch begins to watch; announce is called after changes.
func (l *modelList) watch(o library.WatchOptions, announce func()) {
	l.watcher = l.library.Watch(o)
	l.watcher.Subscribe(func(changes []library.Change, _ []library.Model) {
		l.note(changes)
		announce()
	})
}

func (l *modelList) note(changes []library.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		l.changes = append(l.changes, ModelChange{c.Kind, c.Model.ID, c.Model.State})
	}
	l.last += len(changes)
	if surplus := len(l.changes) - mostOldChanges; surplus > 0 {
		l.changes = slices.Delete(l.changes, 0, surplus)
	}
}

func (l *modelList) changesAfter(after int) ([]ModelChange, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := min(max(l.last-after, 0), len(l.changes))
	return slices.Clone(l.changes[len(l.changes)-count:]), l.last
}

// list returns the watcher's list, or the last answer, which is renewed in the background when it
// is old. The first call waits.
func (l *modelList) list() []library.Model {
	if l.watcher != nil {
		return l.watcher.Models()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.at.IsZero():
		l.models, l.at = l.library.Scan(), time.Now()
	case time.Since(l.at) > modelListAge && !l.refreshing:
		l.refreshing = true
		go l.refresh()
	}
	return l.models
}

func (l *modelList) refresh() {
	models := l.library.Scan()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models, l.at, l.refreshing = models, time.Now(), false
}

func (l *modelList) rescan() {
	if l.watcher != nil {
		l.watcher.Rescan()
		return
	}
	l.refresh()
}

func (l *modelList) close() {
	if l.watcher != nil {
		l.watcher.Close()
	}
}
