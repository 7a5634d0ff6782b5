package engine

import (
	"headroom/engine/adapter"
	"headroom/engine/loop"
)

// Adapter names an adapter for a model: a folder that mlx_lm.lora or PEFT has written. The engine
// loads it when the first request names it.
type Adapter = loop.Adapter

// AdapterInfo is what a folder says of its adapter without its weights.
type AdapterInfo = adapter.Info

// AdapterFiles are the names of the files by which the weights of an adapter are found.
var AdapterFiles = adapter.WeightFiles

// ReadAdapterInfo reads what a folder says of its adapter. Errors are Problems.
func ReadAdapterInfo(dir string) (AdapterInfo, error) { return adapter.ReadInfo(dir) }

// AdapterBytes returns the memory that the adapter in a folder takes once a request uses it, or 0
// if that cannot be read: loading it says why. A Need with an adapter has it in WeightsBytes.
func AdapterBytes(dir string) int64 {
	bytes, err := adapter.Size(dir)
	if err != nil {
		return 0
	}
	return bytes
}

// adapterShare is the part of the available memory that one adapter may take. It is in memory twice
// while it is loaded.
const adapterShare = 4

// fitAdapter returns the function that reads an adapter and fits it to the model; nil: the model
// has no adapters.
func (e *Engine) fitAdapter() func(dir string) (*adapter.Fitted, error) {
	if e.plan.Spec.Vectors != nil {
		return nil
	}
	model := adapter.Model{Linears: e.weights.Linears()}
	return func(dir string) (*adapter.Fitted, error) {
		a, err := adapter.Read(dir, max(1, e.plan.Available()/adapterShare))
		if err != nil {
			return nil, err
		}
		if model.Uses == nil {
			model.Uses = e.runner.Uses()
		}
		return adapter.Fit(a, model)
	}
}

// checkAdapter returns a Problem if Options.Adapter cannot be used.
func (e *Engine) checkAdapter(fit func(dir string) (*adapter.Fitted, error)) error {
	if e.options.Adapter == nil {
		return nil
	}
	if fit == nil {
		return loop.NoAdapters()
	}
	_, err := fit(e.options.Adapter.Dir)
	return err
}
