package cluster

// The model of a cluster: how it can be split, what each rank holds, and whether that fits.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"headroom/app/memory"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// The ways to split a model.
const (
	Tensor   = "tensor"   // each rank has a part of every layer
	Pipeline = "pipeline" // each rank has some of the layers
)

// Found is a model on a host.
type Found struct {
	ID     string `json:"id"`  // the name by which requests mean it
	Dir    string `json:"dir"` // its folder
	Digest string `json:"digest"`
}

// Parts is what mlx-lm says of a model: how it can be split, and the bytes of its weights.
type Parts struct {
	Tensor   bool    `json:"tensor,omitempty"`
	Pipeline bool    `json:"pipeline,omitempty"`
	Layers   []int64 `json:"layers,omitempty"` // bytes of each
	Other    int64   `json:"other,omitempty"`  // bytes of embeddings, last norm and head
	Context  int     `json:"context,omitempty"`
}

// digest names the content of a model's folder: the configuration, the names and sizes of the files
// of weights, and their headers. It does not read the weights.
func digest(dir string) (string, error) {
	sum := sha256.New()
	config, err := modelfile.Read(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", err
	}
	sum.Write(config)
	paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors")) // sorted
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		if err := addHeader(sum, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

func addHeader(to io.Writer, path string) error {
	const most = 64 << 10 // of a header: it has the names, shapes and places of many tensors
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		fmt.Fprintf(to, "\n%s %d\n", filepath.Base(path), info.Size())
		_, err = io.Copy(to, io.LimitReader(f, most))
	}
	return err
}

// mode returns how a model is split: as asked, or by tensors if mlx-lm can, else by layers.
func (p Parts) mode(asked, model string) (string, error) {
	switch {
	case !p.Tensor && !p.Pipeline:
		return "", notStarted(problem.UnknownArchitecture,
			"Choose another model, or run it on one machine.",
			"mlx-lm cannot split models of the type of %s", model)
	case asked == Tensor && !p.Tensor:
		return "", notStarted(problem.UnknownArchitecture, "Use --pipeline.",
			"mlx-lm splits %s only by layers", model)
	case asked == Pipeline && !p.Pipeline:
		return "", notStarted(problem.UnknownArchitecture, "Use --tensor.",
			"mlx-lm cannot split %s by layers", model)
	case asked != "":
		return asked, nil
	case p.Tensor:
		return Tensor, nil
	}
	return Pipeline, nil
}

// weights returns the bytes of weights of each rank. By layers, rank 0 has the last ones, and the
// low ranks have one more if the number does not divide, as in mlx-lm's PipelineMixin. Every rank
// has the weights outside the layers; some models split the head too, so that is an upper bound.
func (p Parts) weights(mode string, ranks int) []int64 {
	need := make([]int64, ranks)
	if mode == Tensor {
		var all int64
		for _, b := range p.Layers {
			all += b
		}
		for r := range need {
			need[r] = (all+int64(ranks)-1)/int64(ranks) + p.Other
		}
		return need
	}
	end := len(p.Layers)
	for r := range need {
		n := len(p.Layers) / ranks
		if r < len(p.Layers)%ranks {
			n++
		}
		for _, b := range p.Layers[end-n : end] {
			need[r] += b
		}
		need[r] += p.Other
		end -= n
	}
	return need
}

// The memory that a rank needs beside its weights, for keys, values and buffers. It is a rule of
// thumb: MLX allocates keys and values as conversations grow.
const (
	spareShare = 0.15
	spareBytes = 256 << 20
)

// Share is what one machine takes.
type Share struct {
	Host      string `json:"host"`
	Ranks     []int  `json:"ranks"`
	Weights   int64  `json:"weightBytes"`    // of its ranks
	Need      int64  `json:"needBytes"`      // with what they need beside
	Available int64  `json:"availableBytes"` // of the machine
}

// shares returns what each machine takes. names and available are those of the ranks' machines.
func shares(weights []int64, names []string, available []int64) []Share {
	var all []Share
	at := map[string]int{}
	for r, bytes := range weights {
		i, ok := at[names[r]]
		if !ok {
			i = len(all)
			at[names[r]] = i
			all = append(all, Share{Host: names[r], Available: available[r]})
		}
		all[i].Ranks = append(all[i].Ranks, r)
		all[i].Weights += bytes
		all[i].Need += bytes + int64(float64(bytes)*spareShare) + spareBytes
	}
	return all
}

// fits refuses shares that are larger than their machines. The error is a Problem.
func fits(all []Share) error {
	for _, s := range all {
		if s.Need > s.Available {
			return notStarted(problem.DoesNotFit, "Close programs there, add a machine, or choose "+
				"a smaller model.", "%s needs %s for its part of the model, and has %s", s.Host,
				memory.Text(s.Need), memory.Text(s.Available))
		}
	}
	return nil
}

// notStarted returns the Problem of a cluster that was refused.
func notStarted(code problem.Code, fix, why string, values ...any) error {
	return problem.New(code, "The cluster was not started", fmt.Sprintf(why, values...), fix)
}
