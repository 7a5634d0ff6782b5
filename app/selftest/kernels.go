package selftest

// The kernel checks compare the output of every case with its golden vector. Every repetition must
// give the same bits. The short form runs only small cases, but at least one for each kernel.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/kernels"
	"headroom/kernels/golden"
	"headroom/kernels/gpu"
	"headroom/kernels/matmul"
	"headroom/metal"
)

// families returns the kernel families. Tests replace it.
var families = golden.Families

// family checks the cases of one family. It opens a gpu.Device for them and closes it, which frees
// the memory of all cases.
func (r *Report) family(ctx context.Context, m metal.Device, f golden.Family, o *Options) {
	vectors, err := golden.Load(f.Name)
	if err != nil {
		r.add(groupKernels, f.Name, err, "")
		return
	}
	d, err := gpu.New(m)
	if err != nil {
		r.add(groupKernels, f.Name, err, "")
		return
	}
	defer d.Close()
	o.Say(groupKernels + ": " + f.Name)
	for _, c := range f.Cases {
		v, ok := vectors[c.Name]
		if ctx.Err() != nil || o.Short && !v.Short {
			continue
		}
		if !ok {
			r.add(groupKernels, f.Name+": "+c.Name,
				errors.New("no golden vector: run go test ./kernels/golden -update"), "")
			continue
		}
		note, err := checkCase(d, c, v, o.Repeats)
		r.add(groupKernels, f.Name+": "+c.Name, err, note)
		if d.Sync() != nil {
			break // after an error the device computes nothing
		}
	}
	r.Sources = append(r.Sources, d.Sources()...)
	r.Pipelines = append(r.Pipelines, d.Pipelines()...)
}

// checkCase runs one case. note is a remark on a case that passed.
func checkCase(
	d kernels.Device, c kernels.Case, v golden.Vector, repeats int,
) (note string, err error) {
	run, err := golden.Prepare(d, c)
	if err != nil {
		return "", err
	}
	var first [][]byte
	for i := range repeats {
		if err := run.Compute(); err != nil {
			return "", err
		}
		got := run.Outputs()
		if first == nil {
			first = got
		} else if !slices.EqualFunc(first, got, bytes.Equal) {
			return "", fmt.Errorf("run %d gives other bits than the first run", i+1)
		}
	}
	if golden.Inputs(c) != v.Inputs {
		if v, err = referenceVector(c); err != nil {
			return "", err
		}
		note = "this machine generates other operands than the golden vectors have, so the " +
			"output was compared with the CPU reference"
	}
	same, err := run.Compare(c, v)
	if err == nil && note == "" && !same && golden.Portable(run.Op()) {
		note = "within the tolerance, but not the same bits as the portable result"
	}
	return note, err
}

// referenceVector returns the result of the scalar reference on this machine.
func referenceVector(c kernels.Case) (golden.Vector, error) {
	d := kernels.NewReference()
	defer d.Close()
	run, err := golden.Prepare(d, c)
	if err == nil {
		err = run.Compute()
	}
	if err != nil {
		return golden.Vector{}, err
	}
	return run.Vector(c), nil
}

// speeds measures products of one row with a matrix, in the sizes of real models. These products
// take most of the time of decoding.
func (r *Report) speeds(ctx context.Context, m metal.Device, o *Options) {
	for _, c := range matmul.LargeCases() {
		if ctx.Err() != nil || !strings.HasPrefix(c.Name, "linear_") ||
			!strings.Contains(c.Name, "_m1_") {
			continue
		}
		o.Say("speed: " + c.Name)
		s, err := speed(m, c, min(o.Repeats, 20))
		if err != nil {
			r.add(groupKernels, "speed of "+c.Name, err, "")
			return
		}
		r.Speeds = append(r.Speeds, s)
	}
}

func speed(m metal.Device, c kernels.Case, repeats int) (Speed, error) {
	d, err := gpu.New(m)
	if err != nil {
		return Speed{}, err
	}
	defer d.Close()
	op, _ := c.New(d, c.Rand())
	d.Run(op) // compiles
	if err := d.Sync(); err != nil {
		return Speed{}, err
	}
	start := time.Now()
	for range repeats {
		d.Run(op)
	}
	if err := d.Sync(); err != nil {
		return Speed{}, err
	}
	took := time.Since(start) / time.Duration(repeats)
	return Speed{Name: c.Name, Bytes: c.Bytes, Took: took,
		GBPerSecond: float64(c.Bytes) / took.Seconds() / 1e9}, nil
}
