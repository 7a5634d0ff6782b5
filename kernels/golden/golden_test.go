package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/sim"
)

var update = flag.Bool("update", false, "write the golden vectors anew, from the simulated device")

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

// answer runs a case on a device of its own, and says which kernels it took.
func answer(t *testing.T, m metal.Device, c kernels.Case) (v Vector, reached []string) {
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
	for _, p := range d.Pipelines() {
		if !slices.Contains(reached, p.Kernel) {
			reached = append(reached, p.Kernel)
		}
	}
	return r.Vector(c), reached
}

// The vectors in the repository are what the simulation answers now, for all cases and no others.
func TestGolden(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("the simulated device takes long")
	}
	m := simulated(t)
	for _, f := range Families() {
		t.Run(f.Name, func(t *testing.T) {
			var list []Vector
			reached := map[string][]string{}
			for _, c := range f.Cases {
				v, kernels := answer(t, m, c)
				list, reached[c.Name] = append(list, v), kernels
			}
			chooseShort(f, list, reached)
			path := "vectors/" + f.Name + ".json"
			text := encode(t, list)
			if *update {
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			kept, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(kept, text) {
				t.Errorf("%s is not what the simulated device answers (%v): if a kernel or a case has changed, go test ./kernels/golden -update", path, err)
			}
		})
	}
}

// chooseShort marks cases that reach every kernel together, the cheapest first.
func chooseShort(f Family, list []Vector, reached map[string][]string) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	work := func(i int) int64 { return f.Cases[i].Bytes + f.Cases[i].Flops }
	slices.SortStableFunc(order, func(a, b int) int { return int(min(max(work(a)-work(b), -1), 1)) })
	seen := map[string]bool{}
	for _, i := range order {
		for _, k := range reached[list[i].Case] {
			if !seen[k] {
				seen[k], list[i].Short = true, true
			}
		}
	}
}

// encode writes a vector to a line, so that a change shows which cases it is in.
func encode(t *testing.T, list []Vector) []byte {
	t.Helper()
	var b bytes.Buffer
	for i, v := range list {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%s: %v", v.Case, err)
		}
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	return b.Bytes()
}
