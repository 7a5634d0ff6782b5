package convert

// Fusing an adapter: the rows of the modules that it changes get what it adds.

import (
	"fmt"

	"headroom/engine/adapter"
	"headroom/engine/problem"
)

// fuse reads the adapter of the options, if there is one, and finds the tensors that it changes.
// Each of its modules must be one of them.
func (c *conversion) fuse() error {
	if c.o.Adapter == "" {
		return nil
	}
	a, err := adapter.Read(c.o.Adapter, 0)
	if err != nil {
		return err
	}
	head := false
	for _, t := range c.tensors {
		head = head || t.name == "lm_head.weight" || t.name == "language_model.lm_head.weight"
	}
	c.adapter = a.Digest
	found := 0
	for _, t := range c.tensors {
		m := a.Find(t.name)
		if m == nil {
			continue
		}
		if t.isRaw {
			return problem.New(problem.BadRequest, "The adapter cannot be fused",
				fmt.Sprintf("it changes %s, which stays packed", t.name),
				"Fuse it without quantizing the model.")
		}
		if t.fusion, err = a.Fuse(m, t.shape, !head); err != nil {
			return err
		}
		found++
	}
	if found == len(a.Modules) {
		return nil
	}
	for i := range a.Modules {
		name := a.Modules[i].Name
		has := false
		for _, t := range c.tensors {
			has = has || a.Find(t.name) == &a.Modules[i]
		}
		if !has {
			return problem.New(problem.BadRequest, "The adapter does not fit this model",
				fmt.Sprintf("it changes the module %.200s, which the result does not have", name),
				"Use it with the model for which it was made.")
		}
	}
	return problem.New(problem.BadRequest, "The adapter does not fit this model",
		"two tensors belong to one of its modules", "")
}
