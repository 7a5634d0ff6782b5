package commands

// The memory of a conversation for any model and KV format, calculated only from config.json.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"headroom/engine"
	"headroom/engine/problem"
)

// BenchKV is `headroom bench kv`.
type BenchKV struct {
	Models []string `arg:"" optional:"" name:"model" help:"A config.json, a model folder or name, or the shape of a public model. Default: qwen3_5_moe-35b-a3b."`
	KVFlags
}

// kvFormats are the rows of the tables, with the flags that select each format.
var kvFormats = []struct {
	flags string
	o     engine.Options
}{
	{"--kv-format f16", engine.Options{KVFormat: "f16"}},
	{"--kv-format q8_0", engine.Options{KVFormat: "q8_0"}},
	{"--kv-bits 8", engine.Options{KVBits: "8"}},
	{"the default", engine.Options{}},
	{"--kv-boundary-layers 0", engine.Options{KVBoundaryLayers: -1}},
	{"--kv-format q4_0", engine.Options{KVFormat: "q4_0"}},
}

// kvContexts are the columns of the second table, in tokens.
var kvContexts = []int{8 << 10, 32 << 10, 128 << 10, 256 << 10}

// Run prints the memory of layers and conversations for each model. Flags that select a KV format
// add a row; --max-kv-size and --state-format apply to all rows.
func (c *BenchKV) Run(_ context.Context, t *terminal) error {
	if len(c.Models) == 0 {
		c.Models = []string{"qwen3_5_moe-35b-a3b"}
	}
	formats := kvFormats
	if (c.KVFlags != KVFlags{MaxKVSize: c.MaxKVSize, StateFormat: c.StateFormat}) {
		formats = append(formats[:len(formats):len(formats)], kvFormats[0])
		last := &formats[len(formats)-1]
		last.flags, last.o = "these flags", c.apply(engine.Options{})
	}
	for i, name := range c.Models {
		config, err := configOf(name)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		var costs []engine.CacheCost
		for _, f := range formats {
			o := f.o
			o.MaxKVTokens, o.StateFormat = c.MaxKVSize, c.StateFormat
			cost, err := engine.DescribeCache(config, o)
			if err != nil {
				return err
			}
			costs = append(costs, cost)
		}
		fmt.Fprintf(t.out, "%s (%s), trained for %d tokens\n", name, costs[0].Architecture,
			costs[0].ContextTokens)
		w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
		if err := printStates(w, config); err != nil {
			return err
		}
		fmt.Fprintln(w, "\nformat\tlayers\t\tper layer: bytes per token\tor per conversation")
		for i, f := range formats {
			printLayers(w, f.flags, costs[i].Layers)
		}
		fmt.Fprintln(w, "\nformat\tbytes per token\tconversation of "+contexts())
		for i, f := range formats {
			fmt.Fprintf(w, "%s\t%d", f.flags, costs[i].BytesPerToken)
			if c := &costs[i]; c.StartTokens > 0 {
				fmt.Fprintf(w, " (%d for the first %d tokens)", c.StartBytesPerToken, c.StartTokens)
			}
			for _, tokens := range kvContexts {
				fmt.Fprint(w, "\t"+size(costs[i].ContextBytes(tokens)))
			}
			fmt.Fprintln(w)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func contexts() string {
	words := make([]string, len(kvContexts))
	for i, n := range kvContexts {
		words[i] = fmt.Sprintf("%dk", n>>10)
	}
	return strings.Join(words, "\t")
}

// printStates prints the size of recurrent states, if the model has any.
func printStates(w *tabwriter.Writer, config []byte) error {
	for i, format := range []string{"f32", "bf16", "int8"} {
		cost, err := engine.DescribeCache(config, engine.Options{StateFormat: format})
		if err != nil {
			return err
		}
		for _, l := range cost.Layers {
			if cost.StateBytes == 0 || l.Format != "" {
				continue
			}
			if i == 0 {
				fmt.Fprintln(w, "\nformat\tlayers\tbytes per conversation and layer\ttotal")
			}
			fmt.Fprintf(w, "--state-format %s\t%d x %s\t%d\t%d\n", format, l.Layers, l.Kind,
				l.BytesPerSequence, int64(l.Layers)*l.BytesPerSequence)
		}
	}
	return nil
}

// printLayers prints a row for each kind of attention layer.
func printLayers(w *tabwriter.Writer, flags string, layers []engine.LayerCost) {
	for _, l := range layers {
		if l.Format == "" {
			continue
		}
		fmt.Fprintf(w, "%s\t%d x %s\t%s", flags, l.Layers, l.Kind, l.Format)
		if l.BytesPerToken > 0 {
			fmt.Fprintf(w, "\t%d\n", l.BytesPerToken)
		} else {
			fmt.Fprintf(w, "\t\t%d\n", l.BytesPerSequence)
		}
		flags = ""
	}
}

// size formats bytes in GB (2^30) or MB (2^20), with enough digits to tell formats apart.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/(1<<30))
}

// maxConfigBytes bounds a config.json: real ones stay under 1 MB.
const maxConfigBytes = 16 << 20

// configOf returns the config.json of a known shape, a file, a folder, or a model in the library.
func configOf(name string) ([]byte, error) {
	if config, ok := shape(name); ok {
		return config, nil
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		name = filepath.Join(name, "config.json")
		if info, err = os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(problem.ModelNotFound,
				"There is no model in "+filepath.Dir(name), "it has no config.json",
				"Choose the folder that contains config.json.")
		}
	}
	switch {
	case err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfigBytes):
		return nil, problem.New(problem.BadRequest, name+" is not a config.json",
			fmt.Sprintf("it has %d bytes (%s)", info.Size(), info.Mode().Type()), "")
	case err == nil:
		return os.ReadFile(name)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, problem.Wrap(problem.BadRequest, err, name+" cannot be read", "")
	}
	source, err := resolveBench(name)
	if err != nil {
		return nil, err
	}
	config, err := source.ReadFile("config.json")
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "config.json cannot be read", "")
	}
	return config, nil
}
