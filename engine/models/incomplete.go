package models

// Blocks that draft (blocks.go) of which a checkpoint has a part, or whose layers are others than
// those that can be loaded. The model then runs without drafts of its own.

import (
	"fmt"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/problem"
)

// CheckBlockTensors returns a Problem if a model, which Load or LoadDrafter has loaded without a
// block that drafts, has tensors of one.
func CheckBlockTensors(w *checkpoint.Weights) error {
	forms := blockForms[w.Config.ModelType]
	var n blockCount
	if len(forms) == 0 || w.Config.Decode(&n) != nil {
		return nil
	}
	names := w.AllNames()
	for _, f := range forms {
		for _, prefix := range f.prefixes {
			prefix = strings.ReplaceAll(prefix, "%d", fmt.Sprint(n.NumHiddenLayers))
			if why := f.incomplete(names, prefix); why != "" {
				return problem.New(problem.ModelBroken,
					"The model's block that drafts tokens cannot be used", why,
					"Download or convert the model again.")
			}
		}
	}
	return nil
}

// incomplete returns what is wrong with the block whose tensors begin with prefix; "": none do.
func (f *blockForm) incomplete(names []string, prefix string) string {
	if prefix == "" { // names that begin with nothing may mean something else
		return ""
	}
	project, found := prefix+f.project+".weight", ""
	for _, name := range names {
		part, ok := strings.CutPrefix(name, prefix)
		switch {
		case name == project:
			return "its layers are not those that Headroom can run"
		case ok && found == "" && f.owns(part):
			found = name
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf("it has the tensor %s, but not %s", found, project)
}

// owns reports whether a tensor, whose name is given without the prefix, is one that only a block
// has.
func (f *blockForm) owns(part string) bool {
	for _, own := range []string{f.embeddingNorm, f.hiddenNorm, f.norm, f.layer} {
		if own != "" && strings.HasPrefix(part, strings.TrimSuffix(own, ".")+".") {
			return true
		}
	}
	return false
}
