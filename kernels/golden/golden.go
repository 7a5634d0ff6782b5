// Package golden keeps what the simulated Metal device answers to every kernel case, small enough
// to ship: `headroom selftest` asks a real GPU the same and compares. A Vector has a checksum of
// each output, and for float32 ones a value and a sum from each of up to 16 parts, since a GPU may
// add up in another order than the simulation does.
//
// The vectors are files of this repository, one per family, made by the test that also holds them
// against the simulation:
//
//	go test ./kernels/golden -update      # after a kernel or a case has changed
//
// Operands are made by the host from the case's name; their checksum is kept too, so that a
// difference in them is not taken for one of the GPU's.
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

// Family is the cases of one folder of kernels.
type Family struct {
	Name  string // of the folder
	Cases []kernels.Case
}

// Families are all families, by name.
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

// Vector is the answer to one case.
type Vector struct {
	Case string `json:"case"`
	// Short says that the case is in the short form: those reach every kernel, without being much
	// work or needing many sources.
	Short   bool     `json:"short,omitempty"`
	Inputs  Checksum `json:"inputs"` // of the operands as the host wrote them
	Outputs []Output `json:"outputs"`
}

// Output is one output tensor.
type Output struct {
	Bytes  Checksum  `json:"bytes"`
	Values []float32 `json:"values,omitempty"` // one element of each part; float32 outputs alone
	Sums   []float32 `json:"sums,omitempty"`   // of each part's elements
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

// Load returns a family's vectors by case. The error says which command makes those that are
// missing.
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
