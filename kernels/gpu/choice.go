package gpu

// Choices: how a kernel divides its work, where that changes its time and no bits. Which value is
// fastest depends on the GPU and on the sizes of the operator. Package kernels/tune measures it.

import (
	"slices"

	"headroom/kernels"
)

// Choice is a decision of an operator that changes the speed of its kernels and no bit of their
// results. Choices are package-level values, listed by their family.
type Choice struct {
	Name    string // family and decision, such as "attention/decode simdgroups"
	Values  []int  // all values, in ascending order
	Untuned string // the rule for the value where nothing was measured
}

// Shape is what the fastest value of a choice depends on: sizes and formats, in an order that the
// operator defines. Sizes that vary with each request, such as the context, are rounded by Octave.
// Unused numbers are 0.
type Shape [6]int32

// Key identifies one measurement: a choice for operators of one shape.
type Key struct {
	Choice *Choice
	Shape  Shape
}

// Octave returns n rounded down to a power of two, so that similar sizes have the same Shape. It
// returns 0 for 0.
func Octave(n int) int32 {
	power := int32(0)
	for ; n > 0 && power < 1<<30; n >>= 1 {
		power = max(1, 2*power)
	}
	return power
}

// Choose returns the value of a choice for an operator of this shape: the measured one if there is
// any, else untuned. untuned must be one of the choice's values.
func (c *Context) Choose(choice *Choice, shape Shape, untuned int) int {
	key := Key{choice, shape}
	if c.chosen != nil {
		c.chosen(key, untuned)
	}
	if value, ok := c.tuned[key]; ok {
		return value
	}
	return untuned
}

// SetTuned makes Choose return these values. Values that a choice does not have are left out. The
// device keeps the map, which the caller must not change afterwards. nil: nothing was measured.
func (d *Device) SetTuned(values map[Key]int) {
	for key, value := range values {
		if !slices.Contains(key.Choice.Values, value) {
			delete(values, key)
		}
	}
	d.context.tuned = values
}

// OnChoice calls f for every choice of the following operators, with the value that Choose returns
// where nothing was measured. nil: nothing is called.
func (d *Device) OnChoice(f func(key Key, untuned int)) { d.context.chosen = f }

// Try runs op like Run, but returns the error of recording it, such as a limit of the device that
// this kernel exceeds. The device then goes on as if op had not been run.
func (d *Device) Try(op kernels.Op) error {
	c := &d.context
	if c.err != nil {
		return c.err
	}
	d.Run(op)
	err := c.err
	if !c.lost {
		c.err = nil
	}
	return err
}

// GPUSeconds returns the time by the GPU's clock of all work that was waited for.
func (d *Device) GPUSeconds() float64 { return d.context.seconds }
