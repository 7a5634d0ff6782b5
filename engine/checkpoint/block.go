package checkpoint

// The weights of a block that drafts tokens (engine/models, mtp.go). They are among those of the
// model, in a file beside them, or in a folder of their own. Conversions leave the block out, and
// others publish it: with or without "mtp." before its names, and often in other bits than the
// model. Their statements about its packing differ (mtplx_mtp_quantization, the quantization of a
// folder of its own, none), so the shapes of its tensors alone decide.

import (
	"os"
	"path/filepath"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// blockFiles are the names of files beside a model's that have its block. One whose name begins
// with "model" is a part of the model's checkpoint anyway.
var blockFiles = []string{"mtp.safetensors", "mtp/weights.safetensors"}

// blockPrefixes begin the names of the block's tensors, unless these are at the root.
var blockPrefixes = []string{"language_model.mtp.", "model.mtp.", "mtp."}

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
// tensors of the model, or in a file beside these, which it opens. ok is false if there is none.
func (w *Weights) FindBlock() (s Scope, ok bool) {
	if w.modules[blockModule] == nil {
		if s, ok = w.block(); ok {
			return s, true
		}
		w.attachBeside()
	}
	if block := w.modules[blockModule]; block != nil {
		return block.block()
	}
	return s, false
}

// block returns the scope of the block among the tensors of w.
func (w *Weights) block() (s Scope, ok bool) {
	s = w.At(blockPrefixes...)
	if ok = s.Has("fc.weight"); !ok {
		s = w.At("")
		ok = s.Has("fc.weight") && s.Has("pre_fc_norm_hidden.weight")
	}
	s.inBlock = true
	return s, ok
}

// attachBeside opens the weights of a block in a file beside the model's, if there is one.
func (w *Weights) attachBeside() {
	if w.source.Dir == "" {
		return
	}
	for _, name := range blockFiles {
		path := filepath.Join(w.source.Dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err != nil {
			continue
		}
		files, err := safetensors.OpenFile(path)
		if err != nil {
			w.refuse(problem.Wrap(problem.ModelBroken, err,
				"The block that drafts tokens is damaged or incomplete",
				"Download "+name+" again, or remove it."))
			return
		}
		w.attach(files)
		return
	}
}
