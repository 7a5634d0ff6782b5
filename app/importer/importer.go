// Package importer imports models from anywhere on this machine into Headroom's own folder, by a
// copy, a move or a link.
//
//	paths --Plan--> items --Import--> folders in the root
//	      plan.go, walk.go, names.go  run.go, copyfile.go
//
// A path may be a model's folder, a folder of models in any layout that the library knows, or a
// file of a model. Plan reads only headers and changes nothing. It returns what an import would do
// and how many bytes it would write, or why a model cannot be imported. A copy shares its blocks
// with the original if the file system can clone files (APFS, Btrfs, XFS). Otherwise its bytes are
// written, read back and compared.
//
// A copy is written to a hidden folder beside its target, with a journal of complete files
// (journal.go). It is renamed to the target once it is complete and verified. So an import can be
// resumed after any interruption, and no program ever sees half a model.
//
// A GGUF file becomes a folder in MLX's format in the same way, by engine/convert (convert.go). The
// file stays.
//
// Invariants: nothing is ever overwritten. Names never lead out of the root, and links out of the
// model's folder are never followed. An original is removed only after its whole copy was verified.
package importer

import (
	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
)

// Mode is the way a model is imported.
type Mode string

// The modes of an import.
const (
	Copy Mode = "copy"
	Move Mode = "move"
	Link Mode = "link" // a symbolic link: the model stays where it is
)

// Options configure an Importer. Root and Describe are required.
type Options struct {
	Root     string           // the folder for imported models, which need not exist
	Describe library.Describe // checks a model: engine.Describe, or a fake in tests
	Engine   engine.Options   // for Describe
	// Known returns the models that are already listed and need no import; nil: none.
	Known func() []library.Model

	clone func(from, to string) error // nil: disk.Clone
	write func() error                // called before each write, to inject errors; may be nil
}

// Importer imports models. Its methods are safe for concurrent use.
type Importer struct{ options Options }

// New returns an Importer. It panics without Root or Describe.
func New(o Options) *Importer {
	if o.Root == "" || o.Describe == nil {
		panic("importer: New without a Root or Describe: set both in Options")
	}
	if o.Known == nil {
		o.Known = func() []library.Model { return nil }
	}
	return &Importer{o}
}

// Root returns the folder for imported models.
func (i *Importer) Root() string { return i.options.Root }

// library returns a Library over the roots.
func (i *Importer) library(roots ...string) *library.Library {
	return library.New(roots, i.options.Engine, i.options.Describe)
}

// Packing says how the matrices of a converted model are packed. A zero field is that of the mode.
type Packing struct {
	Mode  string `json:"mode"`  // "affine", "mxfp4", "mxfp8" or "nvfp4"; "": affine
	Bits  int    `json:"bits"`  // of a code: 2, 3, 4, 5, 6 or 8 in affine
	Group int    `json:"group"` // elements that share a scale: 32, 64 or 128 in affine
}

// Plan describes what an import would do.
type Plan struct {
	Mode         Mode
	Root         string
	Items        []Item
	WrittenBytes int64 // disk space that the items need
	FreeBytes    int64 // free space on that disk; negative: not known
}

// Item is one model, or something that cannot be imported.
type Item struct {
	Name   string // its name in the root: "name" or "org/name"; "": not known
	Source string // its folder or GGUF file, links resolved; the given path if there is no model
	Target string // its target folder in the root
	Mode   Mode
	Bytes  int64 // of its files; if it is converted, of the result
	// WrittenBytes is the disk space that it needs: 0 for a link, and for a move within a disk.
	WrittenBytes int64
	// Converts means that Source is converted and stays, whatever Mode is: a GGUF file, or a model
	// that gets the Packing.
	Converts bool
	Packing  *Packing // nil: Source is a GGUF file, whose codes stay as they are
	// Clones means that the file system may be able to clone the files. The import then needs less
	// than WrittenBytes.
	Clones  bool
	Refused error // why it cannot be imported: a *problem.Problem; nil: it can
	// Listed is the ID of the model in the list, if Refused says that it is there; "": it is not.
	Listed string

	model engine.Source // with a Packing
	link  string        // the link by which Source was found; "": none
	files []source
}

// Importable returns the items that are not refused.
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
