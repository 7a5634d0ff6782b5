package golden

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/sim"
)

var update = flag.Bool("update", false, "write the simulated device's answers as golden vectors")

func simulated(t *testing.T) metal.Device {
	t.Helper()
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// answered is the answer to a case and the cost of the run.
type answered struct {
	vector    Vector
	pipelines []gpu.PipelineReport
	work      int64 // bytes of operands and outputs, plus the case's Bytes and Flops
}

// answer runs a case on a new device.
func answer(t *testing.T, m metal.Device, c kernels.Case) answered {
	t.Helper()
	d, err := gpu.New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := Prepare(d, c)
	if err == nil {
		err = r.Compute()
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	a := answered{vector: r.Vector(c), pipelines: d.Pipelines(), work: c.Bytes + c.Flops}
	for _, b := range r.buffers {
		a.work += int64(b.Size)
	}
	return a
}

// TestGolden checks that the vectors in the repository are the answers of the simulated device, for
// all cases and no others.
func TestGolden(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("the simulated device is slow")
	}
	m := simulated(t)
	for _, f := range Families() {
		t.Run(f.Name, func(t *testing.T) {
			var all []answered
			for _, c := range f.Cases {
				all = append(all, answer(t, m, c))
			}
			chooseShort(all)
			path := "vectors/" + f.Name + ".json"
			text := encode(t, all)
			if *update {
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			kept, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(kept, text) {
				t.Errorf(
					"%s: the simulated device answers differently (%v). If a kernel or a case has "+
						"changed, run go test ./kernels/golden -update", path, err)
			}
		})
	}
}

// shortWork is the most work of a case that joins the short self-test although it adds no kernel.
const shortWork = 4 << 20

// chooseShort marks the cases of the short self-test. Together they dispatch every kernel. It
// considers cases with 4-bit weights first, since the demo model compiles the same sources, and
// cheap cases before expensive ones. It then adds small cases that need no further source: on a
// real GPU, compiling takes most of the time.
func chooseShort(all []answered) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(usual(all[j]), usual(all[i])),
			cmp.Compare(all[i].work, all[j].work))
	})
	kernels, sources := map[string]bool{}, map[string]bool{}
	for _, i := range order {
		for _, p := range all[i].pipelines {
			if !kernels[p.Kernel] {
				kernels[p.Kernel], all[i].vector.Short = true, true
			}
		}
		for _, p := range all[i].pipelines {
			sources[p.Source] = sources[p.Source] || all[i].vector.Short
		}
	}
	for i := range all {
		known := !slices.ContainsFunc(all[i].pipelines,
			func(p gpu.PipelineReport) bool { return !sources[p.Source] })
		all[i].vector.Short = all[i].vector.Short || known && all[i].work <= shortWork
	}
}

// usual returns 1 for a case with 4-bit weights and 0 for all others.
func usual(a answered) int {
	if slices.ContainsFunc(a.pipelines,
		func(p gpu.PipelineReport) bool { return strings.Contains(p.Source, "_4-bit") }) {
		return 1
	}
	return 0
}

// encode writes one vector per line, so that a diff shows which cases have changed.
func encode(t *testing.T, all []answered) []byte {
	t.Helper()
	var b bytes.Buffer
	for i, a := range all {
		line, err := json.Marshal(a.vector)
		if err != nil {
			t.Fatalf("%s: %v", a.vector.Case, err)
		}
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}
