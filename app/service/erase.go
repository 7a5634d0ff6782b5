package service

// What Headroom has stored, and the deletion of all of it while the server runs. app/PRIVACY.md
// lists every file.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/app/batches"
	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/control"
	"headroom/app/disk"
	"headroom/app/hub"
	"headroom/app/jobs"
	"headroom/app/keys"
	"headroom/app/library"
	"headroom/app/pairing"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/app/train"
	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

// data is what a service, or a command without one, has stored.
type data struct {
	settings  *settings.File
	folders   *cache.Folders
	cacheDirs []string // of caches, which need not exist
	chats     *chats.Store
	batches   string      // folder of files and batches, "" without a home folder
	keys      *keys.Store // nil: what they have used stays
	models    []string    // folders of models
	log       func() (lines int, bytes int64)
}

// dataOf returns what an installation with these settings has stored. inUse is the folder of the
// open cache, "" for none.
func dataOf(file *settings.File, inUse string, chats *chats.Store) data {
	now, folders := file.Get(), CacheFolders()
	return data{settings: file, folders: folders, cacheDirs: cacheDirs(inUse, now, folders.List()),
		chats: chats, batches: batchesDir(), models: modelFolders(now)}
}

// cacheItem measures the caches. Their size is that of their entries, as every page shows it: not
// that of the index, which is small and belongs to no conversation.
func (d data) cacheItem() stored.Item {
	in := func(is func(dir, path string) bool) func(path string) bool {
		return func(path string) bool {
			return slices.ContainsFunc(d.cacheDirs,
				func(dir string) bool { return is(dir, path) })
		}
	}
	item := stored.Measure(stored.Cache, in(blockstore.IsOurs), d.cacheDirs...)
	item.Bytes = stored.Measure(stored.Cache, in(blockstore.IsEntry), d.cacheDirs...).Bytes
	return item
}

// list measures what is stored.
func (d data) list() stored.List {
	list := stored.List{Items: []stored.Item{}}
	if d.chats != nil {
		list.Items = append(list.Items, stored.Measure(stored.Chats, chats.IsOurs, d.chats.Dir()))
	}
	list.Items = append(list.Items, d.cacheItem())
	if d.batches != "" {
		list.Items = append(list.Items, stored.Measure(stored.Batches, batches.IsOurs, d.batches))
	}
	list.Items = append(list.Items, stored.Measure(stored.Jobs, nil, d.jobsFiles()...))
	list.Items = append(list.Items,
		stored.Measure(stored.Training, nil, train.DefaultEnvironment().Dir()))
	if d.log != nil {
		lines, bytes := d.log()
		list.Items = append(list.Items,
			stored.Item{Kind: stored.Log, Paths: []string{}, Files: lines, Bytes: bytes})
	}
	files := append(d.settings.Copies(), d.settings.Path())
	return stored.List{Items: append(list.Items, stored.Measure(stored.Settings, nil, files...),
		stored.Measure(stored.Keys, nil, d.keyFiles()...),
		stored.Measure(stored.Agents, nil, d.inSettings("agents")),
		stored.Measure(stored.Models, nil, d.models...))}
}

// keyFiles returns the files of API keys and of what they have used, of the control API's token, of
// this machine's certificate and of the encryption key, with those that were set aside.
func (d data) keyFiles() (files []string) {
	for _, name := range []string{"key*", "token*"} {
		found, _ := filepath.Glob(d.inSettings(name))
		files = append(files, found...)
	}
	return append(files, pairing.IdentityFile(filepath.Dir(d.settings.Path())))
}

func (d data) jobsPath() string { return d.inSettings(jobsFile) }

// inSettings returns the path of a file in the folder of the settings.
func (d data) inSettings(name string) string {
	return filepath.Join(filepath.Dir(d.settings.Path()), name)
}

// jobsFiles returns the files of unfinished jobs and uploads, and damaged ones that were set aside.
func (d data) jobsFiles() []string {
	return append(disk.Copies(d.jobsPath(), damagedLabel), d.jobsPath(), d.inSettings(uploadsFile))
}

// before returns an item of the list.
func before(list stored.List, k stored.Kind) stored.Item {
	i := slices.IndexFunc(list.Items, func(one stored.Item) bool { return one.Kind == k })
	if i < 0 {
		return stored.Item{Kind: k}
	}
	return list.Items[i]
}

// erase deletes chats, cache, batches and the Python environment for training, and what API keys
// have used. Nothing may be writing the former. destroyKey makes unreadable what the disk still
// holds of them, and comes first.
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
	var caches []string
	for _, dir := range d.cacheDirs {
		if why := d.eraseCache(dir); why != "" {
			caches = append(caches, why)
		}
	}
	gone.Add(before(was, stored.Cache), strings.Join(caches, " "))
	if d.batches != "" {
		left := ""
		if err := batches.Erase(d.batches); err != nil {
			left = sentence("Files and batches could not be deleted", err)
		}
		gone.Add(before(was, stored.Batches), left)
	}
	left = ""
	if err := train.DefaultEnvironment().Remove(); err != nil {
		left = sentence("The Python environment for training could not be deleted", err)
	}
	gone.Add(before(was, stored.Training), left)
	if d.keys == nil {
		return
	}
	if err := d.keys.ClearUsage(); err != nil {
		gone.Left = append(gone.Left, sentence("The usage of API keys could not be deleted", err))
	}
}

// eraseCache deletes the cache in a folder. It returns a sentence about what is left, or "".
func (d data) eraseCache(dir string) (left string) {
	if d.isForeign(dir) {
		return "The cache in " + dir + " was not deleted: this Headroom has never opened it, and " +
			"it may be another installation's. Delete the folder yourself."
	}
	err := blockstore.Erase(dir)
	switch {
	case errors.Is(err, blockstore.ErrInUse) && !blockstore.HasEntries(dir):
		return "" // another server has deleted what was in it
	case errors.Is(err, blockstore.ErrInUse):
		return "Another program has the cache in " + dir +
			" open. Quit it, then delete everything again."
	case err != nil:
		return sentence("The cache in "+dir+" could not be deleted", err)
	case !slices.Contains(d.folders.List(), dir):
		return ""
	case !cache.Connected(dir):
		return "The cache in " + dir + " was not deleted, because its disk may not be connected. " +
			"Connect it, then delete everything again."
	}
	if err := d.folders.Forget(dir); err != nil {
		return sentence("The folder "+dir+" could not be removed from the list of caches", err)
	}
	return ""
}

// isForeign reports whether a folder has an encrypted cache that this installation has not opened,
// as far as it knows. A cache that it opens is in the list, or in the default folder.
func (d data) isForeign(dir string) bool {
	return dir != cache.DefaultDir() && !slices.Contains(d.folders.List(), dir) &&
		blockstore.Encrypted(dir)
}

// cacheDirs returns the folders that may have a cache: the one in use, that of the settings, the
// default one, and those that have had one.
func cacheDirs(inUse string, s settings.Settings, had []string) []string {
	list := append(had, inUse, s.Cache.Dir, cache.DefaultDir())
	if s.Cache.Dir != "" {
		list = append(list, cache.Target(s.Cache.Dir))
	}
	list = slices.DeleteFunc(list, func(dir string) bool { return dir == "" })
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
	if removed := removeAll(file.Copies()); removed != nil {
		left = sentence("The settings could not be deleted", removed)
	}
	gone.Add(was, left)
}

// removeAll removes copies that were set aside; see disk.Copies.
func removeAll(copies []string) (err error) {
	for _, path := range copies {
		if removed := os.Remove(path); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// Stored implements control.Stored.
func (s *Service) Stored() stored.List { return s.data().list() }

func (s *Service) data() data {
	d := dataOf(s.settings, s.Host.State().Cache.Dir, s.chats)
	if s.logs != nil {
		d.log = s.logs.Size
	}
	d.keys = s.keys
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
	s.data().removeJobs(s.jobs, &gone, before(was, stored.Jobs))
	err := s.batches.Forget(func() error {
		return s.Host.WithAllForgotten(ctx, func() error {
			s.data().erase(s.vault.Destroy, &gone)
			return nil
		})
	})
	if err != nil {
		return gone, err
	}
	forgetResponses()
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

// forgetResponses makes the dialects forget the answers that they keep in memory for clients.
func forgetResponses() {
	for _, d := range Dialects {
		if d, ok := d.(interface{ Forget() }); ok {
			d.Forget()
		}
	}
}

// removeJobs stops all jobs and removes what the unfinished ones have written.
func (d data) removeJobs(list *jobs.List, gone *stored.Deleted, was stored.Item) {
	var left []string
	for _, j := range list.Jobs() {
		err := list.Remove(j.ID)
		if err != nil && problem.From(err).Code != problem.NotFound { // removed meanwhile
			left = append(left, sentence("“"+j.Title+"” could not be removed", err))
		}
	}
	if err := removeAll(disk.Copies(d.jobsPath(), damagedLabel)); err != nil {
		left = append(left, sentence("A list of unfinished jobs could not be deleted", err))
	}
	if err := hub.ForgetUploads(d.inSettings(uploadsFile)); err != nil {
		left = append(left, sentence("The list of unfinished uploads could not be emptied", err))
	}
	gone.Add(was, strings.Join(left, " "))
}

// trashModels moves the models in Headroom's own folders to the Trash. A folder from which Headroom
// can load nothing may be somebody's other work, and stays.
func (s *Service) trashModels(gone *stored.Deleted, was stored.Item) {
	s.Host.Stop() // the model may be one of them
	models, left := s.Host.Models(0).Models, ""
	if !s.Host.Listed() {
		left = "Models may be left: their folders are still being searched. Try again later."
	}
	for _, m := range models {
		for _, p := range m.Places {
			if !library.Contains(modelFolders(s.settings.Get()), p.Path) {
				continue
			}
			if m.Error != "" && m.Download == nil {
				left = "The folder " + p.Path + " was left, because Headroom can load no model " +
					"from it. Remove it on the Models page, or yourself."
				continue
			}
			if err := s.Host.RemoveModel(m.ID, p.Path); err != nil {
				left = sentence("The model "+m.ID+" could not be moved to the Trash", err)
			}
		}
	}
	gone.Add(was, left)
}

// StoredHere lists what is stored, for a command without a server.
func StoredHere(file *settings.File) stored.List {
	return dataOf(file, "", openChats(OpenVault())).list()
}

// DeleteHere deletes what is stored, while no server runs. Models stay.
func DeleteHere(file *settings.File, choice stored.Choice) stored.Deleted {
	v := OpenVault()
	d, gone := dataOf(file, "", openChats(v)), stored.Deleted{Left: []string{}}
	d.keys = OpenKeys(file)
	was := d.list()
	d.removeJobsHere(&gone, before(was, stored.Jobs))
	d.erase(v.Destroy, &gone)
	if choice.Settings {
		resetSettings(file, &gone, before(was, stored.Settings))
	}
	return gone
}

// removeJobsHere removes the unfinished jobs of an earlier run, and what they have written.
func (d data) removeJobsHere(gone *stored.Deleted, was stored.Item) {
	if was.Files == 0 {
		return
	}
	list := jobs.NewList()
	defer list.Close()
	end := KeepJobs(filepath.Dir(d.settings.Path()), list, d.transfersHere(list))
	d.removeJobs(list, gone, was)
	end()
	kept, err := jobs.ReadKept(d.jobsPath())
	if err != nil || len(kept) > 0 {
		gone.Left = append(gone.Left, "Unfinished downloads, imports or moves of the cache are "+
			"left: another Headroom may be using them. Quit it, then delete everything again.")
	}
}

// transfersHere returns what recreates unfinished jobs without a server, to remove them.
func (d data) transfersHere(list *jobs.List) *control.Transfers {
	t := newTransfers(list, d.settings, nil)
	t.Mover = func() (*cache.Mover, error) {
		return &cache.Mover{Current: func() (string, engine.BlockStoreLimits) {
			dir := cmp.Or(d.settings.Get().Cache.Dir, cache.DefaultDir())
			return cache.Target(dir), engine.BlockStoreLimits{}
		}}, nil
	}
	return t
}
