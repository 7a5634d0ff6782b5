package checkpoint

// The modules of a model by name, for adapters: what the model multiplies with, under the names of
// its checkpoint.

import "headroom/kernels"

// Register records that the module called name has these weights: one, or several that follow each
// other in the rows of the module. The methods that load a whole module call it. An architecture
// calls it for a module that it has under another name than its checkpoint.
func (s Scope) Register(name string, weights ...*kernels.Weight) {
	if _, dry := s.w.Device.(*kernels.DryRun); dry || s.w.err != nil || s.inBlock {
		return // a plan has no adapters
	}
	if s.w.linears == nil {
		s.w.linears = map[string][]*kernels.Weight{}
	}
	s.w.linears[s.path+name] = weights
}

// Linears returns the modules of the loaded model and their weights, by name. The caller must not
// change the map.
func (w *Weights) Linears() map[string][]*kernels.Weight { return w.linears }
