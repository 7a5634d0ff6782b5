package models_test

// This test runs whole models on the simulated Metal device. Prompt rows must use the kernels on
// matrix units. The logits must not depend on the chunks of a prompt or on the rest of the batch.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/gpu"
	"headroom/metal/sim"
)

// metalDevice returns the simulated device with its additional checks disabled, or skips the test.
func metalDevice(t *testing.T) *gpu.Device { return metalDeviceWith(t, sim.Options{}) }

func metalDeviceWith(t *testing.T, o sim.Options) *gpu.Device {
	t.Helper()
	if testing.Short() {
		t.Skip("the simulated device is slow")
	}
	m, err := sim.Open(o)
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := gpu.New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// read returns the logits after each of ids. It computes them in passes of the given numbers of
// tokens. The first prompt ids are the prompt, and the others count as generated.
func (r *rig) read(ids []int32, prompt int, pieces ...int) [][]float32 {
	var all [][]float32
	for from := 0; len(pieces) > 0; pieces = pieces[1:] {
		to := from + pieces[0]
		all = append(all, r.step(ids[from:to],
			kernels.Span{Rows: to - from, Pos: from, Pages: r.pages[0],
				Prefill: max(0, min(to, prompt)-from)})...)
		from = to
	}
	return all
}

// metalPart returns every eighth tiny model from the one with the given number on, and all of them
// with HEADROOM_LONG: the simulated device is slow.
func metalPart(from int) (names []string) {
	for i, name := range tiny {
		if long() || i%8 == from {
			names = append(names, name)
		}
	}
	return names
}

func TestMetalPromptsOnMatrixUnits(t *testing.T) {
	const prompt, generated = 75, 6
	for _, name := range metalPart(0) {
		t.Run(name, func(t *testing.T) {
			d := metalDevice(t)
			r := newTinyWith(t, d, name,
				runner.Options{KV: cache.Plain(kernels.F32), Slots: 3, BatchRows: rigRows})
			ids := readExpected(t, name)[4].IDs[:prompt+generated]
			decoded := r.read(ids, 0, prompt+generated)
			if d.Kernels()["prefill"] || d.Kernels()["attend_prefill"] {
				t.Error("generated rows were computed by the kernels on matrix units")
			}
			whole := r.read(ids, prompt, prompt+generated)
			// Latent attention has no kernel on matrix units.
			latent := layersOf(t, name)[0].ValueDim > 0
			if !d.Kernels()["prefill"] || d.Kernels()["attend_prefill"] == latent {
				t.Error("a prompt was not computed by the kernels on matrix units")
			}
			for i := range whole {
				for v, x := range whole[i] {
					if diff := x - decoded[i][v]; !(diff <= logitTolerance &&
						diff >= -logitTolerance) {
						t.Fatalf("row %d, logit %d: %g, with the decode kernels %g", i, v, x,
							decoded[i][v])
					}
				}
			}
			for _, pieces := range [][]int{{32, 32, 11, 1, 1, 1, 1, 1, 1}, {1, 40, 33, 7},
				{74, 3, 4}} {
				if got := r.read(ids, prompt, pieces...); !equalBits(got, whole) {
					t.Errorf("computing the prompt in pieces of %v changes the logits", pieces)
				}
			}
			last, err := r.Step(ids[:prompt],
				[]kernels.Span{{Rows: prompt, Prefill: prompt, Pages: r.pages[0]}},
				[]int32{prompt - 1})
			if err != nil || !equalBits([][]float32{last}, whole[prompt-1:prompt]) {
				t.Errorf("requesting only the logits of the last row changes them (%v)", err)
			}
			// In a batch, after a decode row of another sequence and before another prompt.
			tokens := slices.Concat(ids[:1], ids[:prompt+generated], ids[20:60])
			const end = 1 + prompt + generated
			got := r.step(tokens, kernels.Span{Rows: 1, Slot: 1, Pages: r.pages[1]},
				kernels.Span{Row: 1, Rows: prompt + generated, Prefill: prompt, Pages: r.pages[0]},
				kernels.Span{Row: end, Rows: 40, Prefill: 40, Slot: 2, Pages: []int32{30, 28}})
			if !equalBits(got[1:end], whole) {
				t.Error("other sequences in the batch change the logits")
			}
		})
	}
}

// TestMetalShortBuffers runs tiny models on the shortest Metal buffers that hold its keys,
// values, states and activations. The bits of prompts and of decoding must be those of undivided
// memory. All arenas, and all files but those of smallFiles, are longer than that.
func TestMetalShortBuffers(t *testing.T) {
	const prompt, generated = 40, 4
	o := runner.Options{KV: cache.Plain(kernels.F16), Slots: 3, BatchRows: 64}
	for _, name := range metalPart(2) {
		t.Run(name, func(t *testing.T) {
			ids := readExpected(t, name)[4].IDs[:prompt+generated]
			read := func(longest int) [][]float32 {
				o := o
				o.LongestBuffer = longest
				d := metalDeviceWith(t, sim.Options{MaxBufferLength: uint64(longest)})
				return newTinyWith(t, d, name, o).read(ids, prompt, prompt, 1, generated-1)
			}
			longest := shortestBuffer(t, name, o)
			if whole := read(0); !equalBits(read(longest), whole) {
				t.Errorf("buffers of at most %d bytes change the logits", longest)
			}
		})
	}
}

// smallFiles are the models with a file shorter than the keys and values of a layer.
var smallFiles = []string{"qwen3_mxfp4", "deepseek_v2", "deepseek_v3", "dots1", "glm4_moe_lite"}

// shortestBuffer returns the length in bytes of the shortest buffer with which a rig can run.
func shortestBuffer(t *testing.T, name string, o runner.Options) int {
	t.Helper()
	src := checkpoint.Source{Dir: filepath.Join("testdata", "tiny", name)}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, kernels.NewDryRun())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := models.Load(w)
	if err != nil {
		t.Fatal(err)
	}
	o.Pages, o.LogitsRows = rigPages, o.BatchRows
	scratch, longest := runner.ScratchBytes(m, o)
	for _, l := range cache.New(kernels.NewDryRun(), m.Spec().Layers, o.Cache()) {
		for _, b := range l.Buffers() {
			longest = max(longest, b.Size)
		}
	}
	page := os.Getpagesize()
	longest = (longest + page - 1) / page * page
	if scratch <= longest || int(w.SizeBytes()) <= longest && !slices.Contains(smallFiles, name) {
		t.Fatalf("the file or the arena is not longer than a buffer of %d bytes", longest)
	}
	t.Logf("buffers of %d KiB for %d of weights and %d of activations", longest>>10,
		w.SizeBytes()>>10, scratch>>10)
	return longest
}
