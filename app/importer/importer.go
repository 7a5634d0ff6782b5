// Package importer brings models from anywhere on this machine into Headroom's own folder: by a
// copy, by a move, or by a link.
//
//	paths --Plan (plan.go, walk.go, names.go)--> items --Import (run.go, copyfile.go)--> folders in the root
//
// A path may be a model's folder, a folder of models in any layout that the library knows, or a
// file of a model. Plan reads headers only and changes nothing: it says what would happen, in
// bytes, and for what cannot be imported, why. A copy shares its blocks with the original where the
// file system can do that (APFS, Btrfs, XFS); else its bytes are written, read back and compared.
//
// A copy grows in a hidden folder beside its goal, with a journal of the files that are whole
// (journal.go), and takes its name when all is there and checked. So it goes on after an end of any
// kind, and nobody ever sees half a model.
//
// Invariants: nothing is ever overwritten; no name from a path leads out of the root, and no link
// out of the model's folder is followed; an original is removed only after all of its copy has been
// read back.
package importer

import (
	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
)

// Mode is how a model is brought in.
type Mode string

// The modes.
const (
	Copy Mode = "copy"
	Move Mode = "move"
	Link Mode = "link" // a symbolic link: the model stays where it is
)

// Options configure an Importer. Root and Describe are required.
type Options struct {
	Root     string           // the folder that models are brought into; it need not exist
	Describe library.Describe // how models are checked: engine.Describe, or a stand-in for tests
	Engine   engine.Options   // with which they would be opened
	// Known is what is listed already, and need not be imported; nil: nothing.
	Known func() []library.Model

	clone func(from, to string) error // nil: disk.Clone
	write func() error                // called before each write, for its error; nil: none
}

// Importer imports models. Its methods may be called from several goroutines.
type Importer struct{ options Options }

// New makes an Importer.
func New(o Options) *Importer {
	if o.Root == "" || o.Describe == nil {
		panic("importer: New without a Root or Describe: set both in Options")
	}
	if o.Known == nil {
		o.Known = func() []library.Model { return nil }
	}
	return &Importer{o}
}

// Root is the folder that models are brought into.
func (i *Importer) Root() string { return i.options.Root }

// library looks through a folder as the list of models would.
func (i *Importer) library(roots ...string) *library.Library {
	return library.New(roots, i.options.Engine, i.options.Describe)
}

// Plan is what an import would do.
type Plan struct {
	Mode  Mode
	Root  string
	Items []Item
	// WrittenBytes is what the items take of the disk together, FreeBytes what is free there; below
	// 0: not known.
	WrittenBytes int64
	FreeBytes    int64
}

// Item is one model, or something that is none.
type Item struct {
	Name   string // that it gets: "name" or "org/name"; "" for what cannot be told
	Source string // its folder, links followed, or the path that was given
	Goal   string // the folder that it will be
	Mode   Mode
	Bytes  int64 // of its files
	// WrittenBytes is what it takes of the disk: 0 for a link and for a move on one file system.
	WrittenBytes int64
	// Clones says that the file system is of a kind that can share the original's blocks;
	// WrittenBytes is what it takes if it cannot.
	Clones  bool
	Refused error // why it cannot be imported, a *problem.Problem; nil: it can

	files []source
}

// Importable are the items that are not refused.
func (p *Plan) Importable() []Item {
	var items []Item
	for _, item := range p.Items {
		if item.Refused == nil {
			items = append(items, item)
		}
	}
	return items
}

func refusal(message, why, fix string) error {
	return problem.New(problem.BadRequest, message, why, fix)
}
