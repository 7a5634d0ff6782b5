// Package stored describes what Headroom keeps on this computer: where, how much, and what of it
// can be deleted at once. Keys and Agents stay then. app/PRIVACY.md is the same list for readers;
// app/service deletes.
package stored

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Kind is a kind of data.
type Kind string

// The kinds of data.
const (
	Chats    Kind = "chats"    // conversations of the Chat page
	Cache    Kind = "cache"    // the prefix cache on SSD
	Batches  Kind = "batches"  // files and batches of OpenAI's API
	Jobs     Kind = "jobs"     // unfinished imports, downloads and moves
	Training Kind = "training" // the Python environment of headroom train
	Log      Kind = "log"      // the latest lines of the log, in memory only
	Settings Kind = "settings" // settings, also damaged ones that were set aside
	Keys     Kind = "keys"     // API keys and their use, the control token, the encryption key
	Agents   Kind = "agents"   // what was written for coding agents, with copies of their files
	Models   Kind = "models"   // models in Headroom's own folders
)

// Item is what is stored of one kind.
type Item struct {
	Kind  Kind     `json:"kind"`
	Paths []string `json:"paths"` // files and folders; none if it is only in memory
	Files int      `json:"files"` // for Log: lines
	Bytes int64    `json:"bytes"`
}

// List is the document of everything that is stored, in the order of the kinds.
type List struct {
	Items []Item `json:"items"`
}

// Choice is what to delete in addition to chats, cache, batches, unfinished jobs and log.
type Choice struct {
	// Settings resets the settings. The API key stays: without it, others might use the endpoint.
	Settings bool `json:"settings"`
	// Models moves the models in Headroom's own folders to the Trash.
	Models bool `json:"models"`
}

// Deleted is the result of a deletion.
type Deleted struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Left says what could not be deleted and why, in sentences.
	Left []string `json:"left"`
}

// Add counts the files of one kind as deleted, or notes in a sentence why they are left.
func (d *Deleted) Add(was Item, left string) {
	if left != "" {
		d.Left = append(d.Left, left)
		return
	}
	d.Files += was.Files
	d.Bytes += was.Bytes
}

// Measure returns an item with these files and folders. The files in a folder for which ours
// returns true count; all of them if ours is nil.
func Measure(k Kind, ours func(path string) bool, paths ...string) Item {
	item := Item{Kind: k, Paths: []string{}}
	for _, path := range paths {
		if _, err := os.Lstat(path); path == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		item.Paths = append(item.Paths, path)
		_ = filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || ours != nil && !ours(file) {
				return nil
			}
			if info, err := e.Info(); err == nil {
				item.Files++
				item.Bytes += info.Size()
			}
			return nil
		})
	}
	return item
}
