package host

// The list of models on this machine: what each needs at a given context length, the changes of the
// list, and the operations on it.

import (
	"slices"
	"sync"
	"time"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// ModelList is the document of /control/models.
type ModelList struct {
	Models []Model `json:"models"` // the bundled one first
	// ContextTokens is the context length that needBytes and fits are for; 0 means the length that
	// each model would be loaded with.
	ContextTokens int `json:"contextTokens"`
	// RoomBytes is the memory that fits is judged by: what is available for a model once the
	// loaded ones that are not pinned are unloaded.
	RoomBytes int64 `json:"roomBytes"`
	// LargestParameters estimates how many parameters a model at 4 bits may have that fits.
	LargestParameters int64       `json:"largestParameters"`
	Folders           []string    `json:"folders"` // the folders that are scanned
	Watch             ModelsWatch `json:"watch"`
}

// ModelsWatch says how the list follows the disk.
type ModelsWatch struct {
	On             bool `json:"on"` // folders are watched
	Paused         bool `json:"paused"`
	WatchedFolders int  `json:"watchedFolders"`
	// scanned every few seconds, because they cannot be watched
	PolledFolders int    `json:"polledFolders"`
	PollReason    string `json:"pollReason"`
}

// Place is a folder with a copy of a model.
type Place struct {
	ID     string         `json:"id"` // the ID of this copy if it were the only one
	Path   string         `json:"path"`
	Origin library.Origin `json:"origin"`
}

// Download is the progress of an incomplete model.
type Download struct {
	DoneBytes  int64    `json:"doneBytes"`
	TotalBytes int64    `json:"totalBytes"` // 0: unknown
	Missing    []string `json:"missing"`
	Parts      []string `json:"parts"`
}

// ModelChange is an entry of the list that was added, removed or changed.
type ModelChange struct {
	Kind  library.ChangeKind `json:"kind"`
	ID    string             `json:"id"`
	State library.State      `json:"state"`
}

// Models lists the models, each with the memory that it needs for one conversation of
// contextTokens. 0 means the context length that the model would be loaded with. While Listed
// returns false, models may be missing; see modelsSoon.
func (h *Host) Models(contextTokens int) ModelList {
	models := h.modelsSoon()
	_, _, room := h.readMemory()
	running := h.runningTargets()
	models = h.withAdapters(withRunning(models, running))
	l := ModelList{Models: modelViews(models, running, room, contextTokens),
		ContextTokens: contextTokens, RoomBytes: room, Folders: h.options.Library.Roots(),
		LargestParameters: largestParameters(room)}
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

// modelView returns an entry of the list.
func modelView(m library.Model, running *target, roomBytes int64, contextTokens int) Model {
	d := m.Description
	need := needOf(d, running, roomBytes, contextTokens)
	v := Model{ID: m.ID, Name: m.Name, Path: m.Dir, Architecture: d.Architecture, Task: d.Task,
		Parameters: d.Parameters, Quantization: d.Quantization, Drafts: d.Drafts,
		BlockUnused: d.BlockUnused, Convertible: m.GGUF,
		SizeBytes: m.SizeBytes, NeedBytes: need.TotalBytes(), Need: need,
		ContextTokens: d.ContextTokens, Bundled: m.Bundled, State: m.State, Places: []Place{},
		Adapters: []Adapter{}}
	if !m.UpdatedAt.IsZero() {
		v.UpdatedAtUnixMs = m.UpdatedAt.UnixMilli()
	}
	for _, p := range m.Places {
		v.Places = append(v.Places, Place{p.ID, p.Dir, p.Origin})
	}
	for _, a := range m.Adapters {
		v.Adapters = append(v.Adapters, Adapter{ID: m.ID + server.AdapterSign + a.Name,
			Name: a.Name, Path: a.Dir, DoRA: a.Info.DoRA, Rank: a.Info.Rank,
			SizeBytes: a.SizeBytes})
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

// RescanModels scans all model folders and returns when the list is current.
func (h *Host) RescanModels() { h.models.rescan() }

// PauseWatching pauses or resumes the watching of folders, and stores the choice with
// Options.RememberPause. Resuming scans the folders again.
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

// RemoveModel moves the copy of a model at path to the Trash; "" means the only copy.
func (h *Host) RemoveModel(id, path string) error {
	models := h.models.list()
	i := slices.IndexFunc(models, func(m library.Model) bool { return m.ID == id })
	if i < 0 {
		return library.NotFound(id, models, nil)
	}
	h.mu.Lock()
	used := slices.ContainsFunc(h.instances, func(i *instance) bool {
		return i.model.ID == id && (i.want != nil && i.failure == nil || i.have != nil || i.opening)
	})
	h.mu.Unlock()
	if used {
		return problem.New(problem.BadRequest, "The model "+id+" is in use", "",
			"Stop the model, then remove it.")
	}
	if err := h.options.Library.Remove(models[i], path); err != nil {
		return err
	}
	h.mu.Lock()
	if i := h.instanceFor(models[i]); i != nil && i.failure != nil {
		h.setWanted(i, nil) // loading it is not tried again
		if h.chosen == i {
			h.chosen = nil
		}
	}
	h.mu.Unlock()
	h.log.Info("model moved to the trash", "model", id, "path", path)
	h.models.rescan()
	return nil
}

// ModelChanges returns the changes after the one with the given number, oldest first, and the
// number of the last change. The last 256 are kept; a caller that missed more calls Models instead.
func (h *Host) ModelChanges(after int) (changes []ModelChange, last int) {
	return h.models.changesAfter(after)
}

// modelList caches the library's list, because State needs it several times a second and folders
// may be on slow disks. A watcher keeps it current; without one, it is refreshed when it is older
// than modelListAge.
type modelList struct {
	library *library.Library
	watcher *library.Watcher // nil: folders are not watched

	mu         sync.Mutex
	models     []library.Model
	at         time.Time // of the last scan; zero: none yet
	refreshing bool
	// withoutEffect is what noteAliases found last.
	withoutEffect []string
	changes       []ModelChange
	last          int // number of the last change
}

const (
	modelListAge  = 10 * time.Second
	maxOldChanges = 256
)

// watch starts watching the folders and calls notify after changes.
func (l *modelList) watch(o library.WatchOptions, notify func([]library.Change)) {
	l.watcher = l.library.Watch(o)
	l.watcher.Subscribe(func(changes []library.Change, _ []library.Model) {
		l.note(changes)
		notify(changes)
	})
}

// noteAliases logs the aliases without effect, once until they change. It does nothing if folders
// are not watched or the first scan has not ended: it does not wait for a scan.
func (h *Host) noteAliases() {
	if w := h.models.watcher; w == nil || !w.Listed() {
		return
	}
	found := library.WithoutEffect(h.models.list(), h.requestRules().Aliases)
	h.models.mu.Lock()
	defer h.models.mu.Unlock()
	before := h.models.withoutEffect
	h.models.withoutEffect = found
	for _, sentence := range found {
		if !slices.Contains(before, sentence) {
			h.log.Warn("an alias in the settings has no effect", "which", sentence, "fix",
				"give each alias to one model, and use no name that another model has")
		}
	}
}

// modelsChanged notes which models are gone, or have come back.
func (h *Host) modelsChanged(changes []library.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		if i := h.instanceFor(c.Model); i != nil {
			i.vanished = c.Kind == library.Vanished
		}
	}
	h.subscribers.notify()
}

// note records changes.
func (l *modelList) note(changes []library.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		l.changes = append(l.changes, ModelChange{c.Kind, c.Model.ID, c.Model.State})
	}
	l.last += len(changes)
	if surplus := len(l.changes) - maxOldChanges; surplus > 0 {
		l.changes = slices.Delete(l.changes, 0, surplus)
	}
}

func (l *modelList) changesAfter(after int) ([]ModelChange, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := min(max(l.last-after, 0), len(l.changes))
	return slices.Clone(l.changes[len(l.changes)-count:]), l.last
}

// list returns the watcher's list, or the cached one. An outdated cached list is refreshed in the
// background; only the first call waits for a scan.
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
