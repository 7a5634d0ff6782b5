package main

// The alternating runs, and the table of their medians.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"headroom/app/bench"
	"headroom/engine"
)

// comparison holds the command-line arguments.
type comparison struct {
	headroom, peer, model, peerKV string
	shape, config                 string // name, and path of its config.json
	weights                       int64  // of Headroom in bytes
	threads, rounds, depth        int
	prompts                       []int // lengths in tokens; nil: defaultPrompts
}

// defaultPrompts are the prompt lengths that both programs prefill.
var defaultPrompts = []int{128, 512, 2048}

// lengths returns the prompt lengths, separated by commas.
func (c *comparison) lengths() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(c.prompts), " ", ","), "[]")
}

// describe returns the model that Headroom generates for a config.json.
func describe(config []byte) (engine.Description, error) {
	return engine.Describe(engine.Random(config),
		engine.Options{ContextTokens: 256, MaxSequences: 1})
}

// decodeTokens is the number of tokens that both programs decode.
const decodeTokens = 64

// rows returns Headroom's IDs of the benchmarks that both programs run.
func (c *comparison) rows() []string {
	var rows []string
	for _, n := range c.prompts {
		rows = append(rows, fmt.Sprintf("prefill-%d", n))
	}
	rows = append(rows, "decode-0")
	if c.depth > 0 {
		rows = append(rows, fmt.Sprintf("decode-%d", c.depth))
	}
	return rows
}

// samples holds the speeds of a row's runs in tokens per second, in order, by row ID.
type samples map[string][]float64

func (c *comparison) run(ctx context.Context, out, progress io.Writer) error {
	if c.prompts == nil {
		c.prompts = defaultPrompts
	}
	loadBefore := bench.LoadAverage()
	headroom, plain, withFlash := samples{}, samples{}, samples{}
	var device string
	var used build
	for round := range c.rounds + 1 {
		fmt.Fprintf(progress, "round %d of %d: headroom\n", round, c.rounds)
		report, err := c.runHeadroom(ctx)
		if err != nil {
			return err
		}
		sides := []samples{speeds(report.Rows()), nil, nil}
		for flash := range 2 {
			fmt.Fprintf(progress, "round %d of %d: llama-bench, flash attention %d\n", round,
				c.rounds, flash)
			if sides[1+flash], used, err = c.runPeer(ctx, flash); err != nil {
				return err
			}
		}
		device = report.Parts[0].Device
		if round == 0 {
			continue // warm-up
		}
		for i, all := range []samples{headroom, plain, withFlash} {
			for _, id := range c.rows() {
				if len(sides[i][id]) == 0 {
					return fmt.Errorf("a run has no result for %s", id)
				}
				all[id] = append(all[id], sides[i][id]...)
			}
		}
	}
	fmt.Fprintf(out,
		"%s. Headroom: %s, weights %.2f GB, default cache. llama.cpp %s: %s, %.2f GB, "+
			"%.0f million parameters, cache %s. Load average %.1f before.\n", c.shape, device,
		float64(c.weights)/1e9, used.Commit, used.Type, float64(used.Bytes)/1e9,
		float64(used.Parameters)/1e6, c.peerKV, loadBefore)
	return c.table(out, headroom, plain, withFlash)
}

// table prints medians in tokens/s, and the ratio of Headroom to the better llama.cpp run.
func (c *comparison) table(out io.Writer, headroom, plain, withFlash samples) error {
	var b bytes.Buffer
	b.WriteString("\n| tok/s | Headroom | llama.cpp | with flash attention | ratio |\n" +
		"|---|--:|--:|--:|--:|\n")
	for _, id := range c.rows() {
		own := median(headroom[id])
		peer, peerFlash := median(plain[id]), median(withFlash[id])
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %.2f x |\n", id, own, peer, peerFlash,
			own/max(peer, peerFlash))
	}
	_, err := out.Write(b.Bytes())
	return err
}

// median returns the middle of samples, NaN if there are none.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// speeds returns the samples of rows by ID, without the first one of each row, unless it is the
// only one: llama-bench computes something before it measures, too, so that the weights are mapped.
func speeds(rows []bench.Row) samples {
	byID := samples{}
	for _, r := range rows {
		byID[r.ID] = r.Samples[min(1, max(0, len(r.Samples)-1)):]
	}
	return byID
}

func (c *comparison) runHeadroom(ctx context.Context) (*bench.Report, error) {
	dir, err := os.MkdirTemp("", "benchpeer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "report.json")
	contexts := "--contexts=" + strconv.Itoa(max(c.depth, 1))
	_, err = output(ctx, c.headroom, "bench", "--only=dense", "--device=cpu", "--repeat=2",
		"--dense="+c.config, "--threads="+strconv.Itoa(c.threads), "--prompts="+c.lengths(),
		contexts, "--tokens="+strconv.Itoa(decodeTokens), "--json="+file)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	report := &bench.Report{}
	if err := json.Unmarshal(text, report); err != nil || report.Format != bench.Format ||
		len(report.Parts) == 0 {
		return nil, fmt.Errorf("%s wrote a report of format %d with %d parts, want format %d (%v)",
			c.headroom, report.Format, len(report.Parts), bench.Format, err)
	}
	return report, nil
}

// output runs a program and returns its standard output. The error contains its standard error.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		call := program + " " + strings.Join(args, " ")
		return nil, fmt.Errorf("%s: %w\n%s", call, err, stderr.Bytes())
	}
	return out, nil
}
