package checkpoint

// Weights that are all zeros. A download into a file of the full size that was broken off leaves
// zeros where nothing has arrived, and a model computes with them without an error. Such a hole
// covers whole modules that are neighbours in the file. A single one of zeros is none, with its
// scales: biases may be zero, and so are the output projections of layers that were added to a
// trained model.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// zeroSamples is the number of places of a tensor that are looked at first. Only if all are zero is
// all of it read.
const zeroSamples = 64

// CheckHoles returns a Problem if neighbouring tensors that the model has read are all zeros. It
// must be called after loading. It looks at a few bytes of each tensor.
func (w *Weights) CheckHoles() error {
	for _, m := range w.modules {
		if err := m.CheckHoles(); err != nil {
			return err
		}
	}
	if w.files == nil {
		return nil
	}
	for _, f := range w.files.Files() {
		if name, more := w.hole(f); more > 0 {
			return problem.New(problem.ModelBroken, "The model's weights are incomplete",
				fmt.Sprintf("tensor %s and %d after it in %s are all zeros, as a download leaves "+
					"them that was broken off", name, more, f.Path()),
				"Download the model again.")
		}
	}
	return nil
}

// hole returns the first of the neighbouring tensors of zeros of several modules, and how many
// follow it; 0: there are none.
func (w *Weights) hole(f *safetensors.File) (first string, more int) {
	run, modules, matrix, last := 0, 0, false, ""
	for _, t := range inOrder(f) {
		switch {
		case !w.read[t.Name] || mayBeZero(t.Name) || len(t.Data) == 0:
			continue
		case !isZero(t.Data):
			if matrix && modules > 1 {
				return first, run - 1
			}
			run, modules, matrix, last = 0, 0, false, ""
			continue
		case run == 0:
			first = t.Name
		}
		run, matrix = run+1, matrix || isMatrix(t)
		if module := t.Name[:max(strings.LastIndexByte(t.Name, '.'), 0)]; module != last {
			modules, last = modules+1, module
		}
	}
	if matrix && modules > 1 {
		return first, run - 1
	}
	return "", 0
}

// mayBeZero reports whether a tensor of that name says nothing if it is all zeros: a bias, the zero
// points of symmetric codes, or the groups of inputs if there is one.
func mayBeZero(name string) bool {
	return strings.HasSuffix(name, ".bias") || strings.Contains(name, "zero") ||
		strings.HasSuffix(name, "g_idx")
}

// isMatrix reports whether a tensor is one of those that are never all zeros next to another one:
// weights of a projection. Experts that nothing is sent to may be.
func isMatrix(t safetensors.Tensor) bool {
	return len(t.Shape) > 1 && !strings.Contains(t.Name, ".experts.")
}

// isZero reports whether all bytes are 0.
func isZero(b []byte) bool {
	for i := range zeroSamples {
		if b[i*(len(b)-1)/zeroSamples] != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(b, func(v byte) bool { return v != 0 })
}
