package convert

// Fusing an adapter: the rows of the modules that it changes get what it adds. The tensors that
// full fine-tuning has written take the places of the model's.

import (
	"fmt"

	"headroom/engine/adapter"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
)

// fuse reads the adapter of the options, if there is one, and finds the tensors that it changes.
// Each of its modules must be one of them.
func (c *conversion) fuse() error {
	if c.o.Adapter == "" {
		return nil
	}
	if adapter.IsFull(c.o.Adapter) {
		return c.replace()
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

// replace gives tensors the values that full fine-tuning has written.
func (c *conversion) replace() error {
	if c.model != nil {
		return problem.New(problem.BadRequest, "The trained weights cannot be fused",
			"the model is a GGUF file", "Convert it first.")
	}
	full, err := adapter.ReadFull(c.o.Adapter)
	if err != nil {
		return err
	}
	c.full, c.adapter = full, full.Digest
	var names []string
	for _, t := range c.tensors {
		values, ok, err := full.Find(t.name, t.shape)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		names = append(names, t.name)
		if _, ok := floatTypes[values.DType]; !ok || t.isRaw {
			return problem.New(problem.BadRequest, "The trained weights cannot be fused",
				fmt.Sprintf("tensor %.200s is %s, expected F32, F16 or BF16 in both",
					values.Name, values.DType), "Use the model that was trained.")
		}
		v := &checkpoint.Values{Name: values.Name, Shape: values.Shape, Tensor: values}
		t.values, t.pick, t.transposed, t.add, t.scale = []*checkpoint.Values{v}, pick{}, false, 0,
			nil
		c.reads.replaced[v] = full.File
	}
	if other := full.Other(names); other != "" {
		return problem.New(problem.BadRequest, "The trained weights do not fit this model",
			fmt.Sprintf("the result has no tensor %.200s", other),
			"Use the model that was trained.")
	}
	return nil
}
