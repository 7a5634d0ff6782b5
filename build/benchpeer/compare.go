package main

// The runs in turn, and the table of what they gave.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"headroom/app/bench"
)

// comparison is what is asked for.
type comparison struct {
	headroom, peer, model, shape, peerKV string
	threads, rounds, depth               int
}

// prompts that both read, and answer is how many tokens they decode.
var prompts = []int{128, 512, 2048}

const answer = 64

// rows are what both do, by Headroom's IDs.
func (c *comparison) rows() []string {
	var rows []string
	for _, n := range prompts {
		rows = append(rows, fmt.Sprintf("prefill-%d", n))
	}
	rows = append(rows, "decode-0")
	if c.depth > 0 {
		rows = append(rows, fmt.Sprintf("decode-%d", c.depth))
	}
	return rows
}

// figures are tokens per second by row: of each run, in order.
type figures map[string][]float64

func (c *comparison) run(ctx context.Context, out, progress io.Writer) error {
	own, without, with := figures{}, figures{}, figures{} // flash attention
	var device string
	var made build
	for round := range c.rounds + 1 {
		fmt.Fprintf(progress, "round %d of %d: headroom\n", round, c.rounds)
		report, err := c.runHeadroom(ctx)
		if err != nil {
			return err
		}
		sides := []figures{speeds(report.Rows()), nil, nil}
		for flash := range 2 {
			fmt.Fprintf(progress, "round %d of %d: llama-bench, flash attention %d\n", round,
				c.rounds, flash)
			if sides[1+flash], made, err = c.runPeer(ctx, flash); err != nil {
				return err
			}
		}
		device = report.Parts[0].Device
		if round == 0 {
			continue // it warmed up
		}
		for i, all := range []figures{own, without, with} {
			for _, id := range c.rows() {
				if len(sides[i][id]) == 0 {
					return fmt.Errorf("a run has no figure for %s", id)
				}
				all[id] = append(all[id], sides[i][id]...)
			}
		}
	}
	fmt.Fprintf(out,
		"Headroom (%s): %s, %s, default cache. llama.cpp %s: %s, %.2f GB, %.0f million "+
			"parameters, cache %s.\n", c.shape, device, report4bits, made.Commit, made.Type,
		float64(made.Bytes)/1e9, float64(made.Parameters)/1e6, c.peerKV)
	return c.table(out, own, without, with)
}

const report4bits = "4 bits in groups of 64"

// table prints medians in tokens/s, and how many times llama.cpp's better one Headroom is.
func (c *comparison) table(out io.Writer, own, without, with figures) error {
	var b bytes.Buffer
	b.WriteString(
		"\n| tok/s | Headroom | llama.cpp | with flash attention | ratio " +
			"|\n|---|--:|--:|--:|--:|\n")
	for _, id := range c.rows() {
		h, plain, flash := median(own[id]), median(without[id]), median(with[id])
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %.2f x |\n", id, h, plain, flash,
			h/max(plain, flash))
	}
	_, err := out.Write(b.Bytes())
	return err
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// speeds are the samples of rows in tokens/s.
func speeds(rows []bench.Row) figures {
	f := figures{}
	for _, r := range rows {
		f[r.ID] = r.Samples
	}
	return f
}

func (c *comparison) runHeadroom(ctx context.Context) (*bench.Report, error) {
	dir, err := os.MkdirTemp("", "benchpeer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "report.json")
	contexts := "--contexts=" + strconv.Itoa(max(c.depth, 1))
	_, err = output(ctx, c.headroom, "bench", "--only=dense", "--device=cpu", "--repeat=1",
		"--dense="+c.shape, "--threads="+strconv.Itoa(c.threads),
		"--prompts="+strings.Trim(strings.ReplaceAll(fmt.Sprint(prompts), " ", ","), "[]"),
		contexts, "--tokens="+strconv.Itoa(answer), "--json="+file)
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
		return nil,
			fmt.Errorf("%s wrote a report of format %d with %d parts, expected format %d (%v)",
				c.headroom, report.Format, len(report.Parts), bench.Format, err)
	}
	return report, nil
}

// output runs a program and returns what it prints; what it says on stderr is in the error.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	var said bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}
