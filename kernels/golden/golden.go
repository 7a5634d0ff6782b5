// Package golden holds the simulated Metal device's results for every kernel case, in a form small
// enough to ship. `headroom selftest` runs the cases on a real GPU and compares. A Vector has a
// checksum of each output. For float32 outputs it also has one value and one sum from each of up to
// 16 parts, since a GPU may add in another order than the simulation.
//
// The vectors are files of this repository, one for each family. The test that compares them with
// the simulation also writes them:
//
//	go test ./kernels/golden -update      # after a kernel or a case has changed
//
// The host generates operands from the case's name. Their checksum is part of the Vector, so that
// different operands are not mistaken for a fault of the GPU.
package golden

import (
	"embed"
	"encoding/json"
	"fmt"

	"headroom/kernels"
	"headroom/kernels/activation"
	"headroom/kernels/attention"
	"headroom/kernels/ceiling"
	"headroom/kernels/embedding"
	"headroom/kernels/matmul"
	"headroom/kernels/moe"
	"headroom/kernels/norm"
	"headroom/kernels/recurrent"
	"headroom/kernels/rope"
	"headroom/kernels/sampling"
	"headroom/kernels/transfer"
)

// Family is the cases of one kernel family.
type Family struct {
	Name  string // of its folder
	Cases []kernels.Case
}

// Families returns all families, sorted by name.
func Families() []Family {
	return []Family{
		{"activation", activation.Cases()},
		{"attention", attention.Cases()},
		{"ceiling", ceiling.Cases()},
		{"embedding", embedding.Cases()},
		{"matmul", matmul.Cases()},
		{"moe", moe.Cases()},
		{"norm", norm.Cases()},
		{"recurrent", recurrent.Cases()},
		{"rope", rope.Cases()},
		{"sampling", sampling.Cases()},
		{"transfer", transfer.Cases()},
	}
}

// Vector is the expected result of one case.
type Vector struct {
	Case string `json:"case"`
	// Short marks the cases of the short self-test. Together they reach every kernel, with little
	// work and few sources.
	Short   bool     `json:"short,omitempty"`
	Inputs  Checksum `json:"inputs"` // of the operands that the host generates
	Outputs []Output `json:"outputs"`
}

// Output is one output tensor.
type Output struct {
	Bytes  Checksum  `json:"bytes"`
	Values []float32 `json:"values,omitempty"` // one element of each part, for float32 outputs
	Sums   []float32 `json:"sums,omitempty"`   // the sum of each part, for float32 outputs
}

// Checksum is a CRC-32C.
type Checksum uint32

// MarshalText implements encoding.TextMarshaler.
func (c Checksum) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%08x", uint32(c)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Checksum) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%08x", (*uint32)(c))
	return err
}

//go:embed vectors/*.json
var files embed.FS

// Load returns a family's vectors by case name. The error for missing vectors names the command
// that makes them.
func Load(family string) (map[string]Vector, error) {
	text, err := files.ReadFile("vectors/" + family + ".json")
	if err != nil {
		return nil, fmt.Errorf("golden vectors of %s: %w: run go test ./kernels/golden -update",
			family, err)
	}
	var list []Vector
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("golden vectors of %s: %w", family, err)
	}
	vectors := make(map[string]Vector, len(list))
	for _, v := range list {
		vectors[v.Case] = v
	}
	return vectors, nil
}
