package service

// What Headroom has stored, and the deletion of all of it while the server runs. app/PRIVACY.md
// lists every file.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/control"
	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/app/vault"
	"headroom/engine/blockstore"
)

// data is what a service, or a command without one, has stored.
type data struct {
	settingsDir string
	cacheDirs   []string // of caches, which need not exist
	chats       *chats.Store
	models      []string // folders of models
	log         func() (lines int, bytes int64)
}

// list measures what is stored.
func (d data) list() stored.List {
	in := func(name string) string { return filepath.Join(d.settingsDir, name) }
	list := stored.List{Items: []stored.Item{}}
	if d.chats != nil {
		list.Items = append(list.Items, stored.Measure(stored.Chats, chats.IsOurs, d.chats.Dir()))
	}
	ours := func(path string) bool {
		return slices.ContainsFunc(d.cacheDirs,
			func(dir string) bool { return blockstore.IsOurs(dir, path) })
	}
	list.Items = append(list.Items, stored.Measure(stored.Cache, ours, d.cacheDirs...))
	list.Items = append(list.Items, stored.Measure(stored.Jobs, nil, in(jobsFile)))
	if d.log != nil {
		lines, bytes := d.log()
		list.Items = append(list.Items,
			stored.Item{Kind: stored.Log, Paths: []string{}, Files: lines, Bytes: bytes})
	}
	files := append(setAside(d.settingsDir), in("settings.json"))
	return stored.List{Items: append(list.Items, stored.Measure(stored.Settings, nil, files...),
		stored.Measure(stored.Models, nil, d.models...))}
}

// before returns an item of the list.
func before(list stored.List, k stored.Kind) stored.Item {
	i := slices.IndexFunc(list.Items, func(one stored.Item) bool { return one.Kind == k })
	if i < 0 {
		return stored.Item{Kind: k}
	}
	return list.Items[i]
}

// erase deletes chats and cache. Nothing may be writing to them. destroyKey makes unreadable what
// the disk still holds of them, and comes first.
func (d data) erase(destroyKey func() error, gone *stored.Deleted) {
	was := d.list()
	if destroyKey != nil {
		if err := destroyKey(); err != nil {
			gone.Left = append(gone.Left, sentence("The encryption key could not be deleted", err))
		}
	}
	left := ""
	if d.chats != nil {
		if err := d.chats.Erase(); err != nil {
			left = err.Error()
		}
	}
	gone.Add(before(was, stored.Chats), left)
	left = ""
	for _, dir := range d.cacheDirs {
		if err := blockstore.Erase(dir); errors.Is(err, blockstore.ErrInUse) {
			left = "Another program has the cache in " + dir +
				" open. Quit it, then delete everything again."
		} else if err != nil {
			left = sentence("The cache in "+dir+" could not be deleted", err)
		}
	}
	gone.Add(before(was, stored.Cache), left)
}

// cacheDirs returns the folders that may have a cache: the one in use, that of the settings, and
// the default one.
func cacheDirs(inUse string, s settings.Settings) []string {
	list := slices.DeleteFunc([]string{inUse, s.Cache.Dir, cache.DefaultDir()},
		func(dir string) bool { return dir == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// sentence says what failed and why.
func sentence(what string, err error) string {
	return fmt.Sprintf("%s: %s.", what, strings.TrimRight(err.Error(), "."))
}

// resetSettings resets the settings, except for the API key, the host names and the origins of the
// endpoint, and removes damaged ones.
func resetSettings(file *settings.File, gone *stored.Deleted, was stored.Item) {
	err := file.Change(func(s *settings.Settings) {
		key, hosts, origins := s.APIKey, s.AllowHosts, s.AllowOrigins
		*s = settings.Default()
		s.APIKey, s.AllowHosts, s.AllowOrigins = key, hosts, origins
	})
	left := ""
	if err != nil {
		left = sentence("The settings could not be reset", err)
	}
	for _, path := range setAside(filepath.Dir(file.Path())) {
		if removed := os.Remove(path); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			left = sentence("The settings could not be deleted", removed)
		}
	}
	gone.Add(was, left)
}

// damagedName matches a damaged settings file that was set aside; see settings.Open.
var damagedName = regexp.MustCompile(`^settings\.json\.damaged-[1-9][0-9]*$`)

// setAside returns the damaged settings files that were set aside, and those that a killed program
// was writing.
func setAside(dir string) (paths []string) {
	paths = disk.Temporary(dir, func(name string) bool { return name == "settings.json" })
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && damagedName.MatchString(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// Stored implements control.Stored.
func (s *Service) Stored() stored.List { return s.data().list() }

func (s *Service) data() data {
	now := s.settings.Get()
	d := data{settingsDir: filepath.Dir(s.settings.Path()),
		cacheDirs: cacheDirs(s.Host.State().Cache.Dir, now), chats: s.chats,
		models: modelFolders(now)}
	if s.logs != nil {
		d.log = s.logs.Size
	}
	return d
}

// modelFolders returns the folders whose models are Headroom's.
func modelFolders(s settings.Settings) []string {
	list := []string{library.Own()}
	if s.ImportFolder != "" && s.ImportFolder != list[0] {
		list = append(list, s.ImportFolder)
	}
	return slices.DeleteFunc(list, func(dir string) bool { return dir == "" })
}

// DeleteStored implements control.Stored.
func (s *Service) DeleteStored(ctx context.Context, choice stored.Choice) (stored.Deleted, error) {
	s.erasing.Lock()
	defer s.erasing.Unlock()
	gone := stored.Deleted{Left: []string{}}
	was := s.Stored()
	s.removeJobs(&gone, before(was, stored.Jobs))
	err := s.Host.WithAllForgotten(ctx, func() error {
		s.data().erase(s.vault.Destroy, &gone)
		return nil
	})
	if err != nil {
		return gone, err
	}
	if choice.Settings {
		resetSettings(s.settings, &gone, before(was, stored.Settings))
	}
	if choice.Models {
		s.trashModels(&gone, before(was, stored.Models))
	}
	if s.logs != nil {
		s.logs.Clear()
	}
	slog.Info("everything was deleted", "files", gone.Files, "bytes", gone.Bytes,
		"left", len(gone.Left))
	return gone, nil
}

// removeJobs stops all jobs and removes what the unfinished ones have written.
func (s *Service) removeJobs(gone *stored.Deleted, was stored.Item) {
	left := ""
	for _, j := range s.jobs.Jobs() {
		if err := s.jobs.Remove(j.ID); err != nil {
			left = sentence("The job “"+j.Title+"” could not be removed", err)
		}
	}
	if len(s.jobs.Jobs()) == 0 {
		left = ""
	}
	gone.Add(was, left)
}

// trashModels moves the models in Headroom's own folders to the Trash.
func (s *Service) trashModels(gone *stored.Deleted, was stored.Item) {
	s.Host.Stop() // the model may be one of them
	left := ""
	for _, m := range s.Host.Models(0).Models {
		for _, p := range m.Places {
			if !slices.ContainsFunc(modelFolders(s.settings.Get()),
				func(dir string) bool { return inside(dir, p.Path) }) {
				continue
			}
			if err := s.Host.RemoveModel(m.ID, p.Path); err != nil {
				left = sentence("The model "+m.ID+" could not be moved to the Trash", err)
			}
		}
	}
	gone.Add(was, left)
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}

// StoredHere lists what is stored, for a command without a server.
func StoredHere(file *settings.File) stored.List {
	return dataHere(file, OpenVault()).list()
}

// DeleteHere deletes what is stored, while no server runs. Models stay.
func DeleteHere(file *settings.File, choice stored.Choice) stored.Deleted {
	v := OpenVault()
	d, gone := dataHere(file, v), stored.Deleted{Left: []string{}}
	was := d.list()
	d.erase(v.Destroy, &gone)
	if kept, err := jobs.ReadKept(filepath.Join(d.settingsDir, jobsFile)); err == nil &&
		len(kept) > 0 {
		gone.Left = append(gone.Left, "Unfinished downloads and imports are left. Start Headroom "+
			"to remove them.")
	}
	if choice.Settings {
		resetSettings(file, &gone, before(was, stored.Settings))
	}
	return gone
}

func dataHere(file *settings.File, v *vault.Vault) data {
	dir := filepath.Dir(file.Path())
	if file.Path() == "" {
		dir, _ = control.SettingsDir()
	}
	return data{settingsDir: dir, cacheDirs: cacheDirs("", file.Get()), chats: openChats(v),
		models: modelFolders(file.Get())}
}
