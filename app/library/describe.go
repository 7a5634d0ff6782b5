package library

// Descriptions of folders, cached. Asking the engine reads a model's headers, which is too slow for every look at the list; an
// answer holds while the folder's files stay the same, and half a minute at most.

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

// describer asks the engine about folders and remembers the answers.
type describer struct {
	describe Describe

	mu    sync.Mutex
	known map[string]described // by real path; "" is the bundled model
}

type described struct {
	signature uint64
	at        time.Time
	engine.Description
	err error
}

// staleAfter bounds how long an answer is kept: what a model needs follows the free memory, since the size of its cache does.
const staleAfter = 30 * time.Second

func (d *describer) bundled(src engine.Source, o engine.Options) (engine.Description, error) {
	return d.remembered("", 0, src, o)
}

func (d *describer) folder(dir string, o engine.Options) (engine.Description, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return engine.Description{}, problem.Wrap(problem.ModelBroken, err, "The folder cannot be read", "")
	}
	if !isFile(filepath.Join(real, "config.json")) {
		return engine.Description{}, problem.New(problem.ModelBroken, "The model is incomplete", "config.json is missing",
			"Finish the download, or download the model again.")
	}
	return d.remembered(real, signature(real), engine.Source{Dir: dir}, o)
}

// remembered serves the last answer for the key unless the folder has changed since, or time has passed.
func (d *describer) remembered(key string, signature uint64, src engine.Source, o engine.Options) (engine.Description, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[key]
	if ok && known.signature == signature && time.Since(known.at) < staleAfter {
		return known.Description, known.err
	}
	known = described{signature: signature, at: time.Now()}
	known.Description, known.err = safely(d.describe, src, o)
	if d.known == nil {
		d.known = map[string]described{}
	}
	d.known[key] = known
	return known.Description, known.err
}

// forget drops the answers about folders that are gone.
func (d *describer) forget(present map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.known {
		if _, err := os.Stat(key); key != "" && !present[key] && err != nil {
			delete(d.known, key)
		}
	}
}

// safely turns a panic over one odd folder into that folder's error: the list must not end with it.
func safely(describe Describe, src engine.Source, o engine.Options) (description engine.Description, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = problem.New(problem.Internal, "The model could not be examined", fmt.Sprint(r), "Please report it.")
		}
	}()
	description, err = describe(src, o)
	if err != nil {
		return engine.Description{}, problem.From(err)
	}
	return description, nil
}

// signature changes when a file of the folder does: its name, size or time.
func signature(dir string) uint64 {
	entries, _ := os.ReadDir(dir)
	h := fnv.New64a()
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path) // of the target: the hub cache links to blobs
		if err != nil {
			fmt.Fprintf(h, "%s gone\n", entry.Name())
			continue
		}
		fmt.Fprintf(h, "%s %d %d\n", entry.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return h.Sum64()
}

// changed is the time of a folder's last change, zero when it is gone.
func changed(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
