package checkpoint

// The weights of a block that drafts tokens (engine/models, blocks.go, which knows their names).
// They are among those of the model, in a file beside them, or in a folder of their own.
// Conversions leave the block out, and others publish it, often in other bits than the model. Their
// statements about its packing differ (mtplx_mtp_quantization, the quantization of a folder of its
// own, none), so the shapes of its tensors alone decide.

import (
	"os"
	"path/filepath"
	"slices"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// blockFiles are the names of files beside a model's that have its block. One whose name begins
// with "model" is a part of the model's checkpoint anyway.
var blockFiles = []string{"mtp.safetensors", "mtp/weights.safetensors"}

// BlockNames say how to find the tensors of a block by their names.
type BlockNames struct {
	Prefixes []string // one of them begins the names; "": the names begin with nothing
	// Mark is the tensor by which a block is known, without the prefix. Names that begin with
	// nothing may mean something else, and then there must be Second, too.
	Mark, Second string
}

// blockModule is the key of the block in Weights.modules; no folder has this name.
const blockModule = "\x00block"

// AttachBlock opens the weights of a block that drafts in a folder of their own. They are closed
// with w. Errors are Problems.
func (w *Weights) AttachBlock(src Source) error {
	files, err := src.tensors()
	if err == nil {
		w.attach(files)
	}
	return err
}

func (w *Weights) attach(files *safetensors.Checkpoint) {
	if w.modules == nil {
		w.modules = map[string]*Weights{}
	}
	w.modules[blockModule] = openFiles(files, w.Config, w.Device)
}

// FindBlock returns the scope of the block that drafts: where AttachBlock has opened it, among the
// tensors of the model, or in a file beside these, which it opens. It also returns which of the
// names it has; -1: there is none. A random model has a block with the first names.
func (w *Weights) FindBlock(names ...BlockNames) (s Scope, which int) {
	if w.modules[blockModule] == nil {
		if s, which = w.block(names); which >= 0 {
			return s, which
		}
		w.attachBeside()
	}
	if block := w.modules[blockModule]; block != nil {
		return block.block(names)
	}
	return s, -1
}

// block returns the scope of the block among the tensors of w, and which of the names it has.
func (w *Weights) block(names []BlockNames) (Scope, int) {
	for i, n := range names {
		for _, prefix := range n.Prefixes {
			s := Scope{w: w, path: prefix, inBlock: true}
			if s.Has(n.Mark) && (prefix != "" || s.Has(n.Second)) {
				return s, i
			}
		}
	}
	return Scope{w: w}, -1
}

// AllNames returns the names of all tensors in the files, those of the block's included, which
// FindBlock has opened. A random model has none.
func (w *Weights) AllNames() (names []string) {
	if w.files == nil {
		return nil
	}
	names = w.files.Names()
	if block := w.modules[blockModule]; block != nil {
		names = append(slices.Clone(names), block.files.Names()...)
	}
	return names
}

// BlockFile returns the name of the file beside the model's that has its block, relative to the
// folder and with slashes; "": there is none.
func (s Source) BlockFile() string {
	if s.Dir == "" {
		return ""
	}
	for _, name := range blockFiles {
		if _, err := os.Stat(filepath.Join(s.Dir, filepath.FromSlash(name))); err == nil {
			return name
		}
	}
	return ""
}

// attachBeside opens the weights of a block in a file beside the model's, if there is one.
func (w *Weights) attachBeside() {
	name := w.source.BlockFile()
	if name == "" {
		return
	}
	files, err := safetensors.OpenFile(filepath.Join(w.source.Dir, filepath.FromSlash(name)))
	if err != nil {
		w.refuse(problem.Wrap(problem.ModelBroken, err,
			"The block that drafts tokens is damaged or incomplete",
			"Download "+name+" again, or remove it."))
		return
	}
	w.attach(files)
}
