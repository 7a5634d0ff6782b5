package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
)

// BenchmarkSnapKV decodes at the end of long prompts with and without a selection of 4,096
// positions, in turns. The cache has copies of the keys and values of a short prompt. It also
// reports what the selection adds to the last rows of the prompt. HEADROOM_SHAPE is a shape of
// headroom bench.
func BenchmarkSnapKV(b *testing.B) {
	shape := os.Getenv("HEADROOM_SHAPE")
	if shape == "" {
		shape = "qwen3_5_moe-2b"
	}
	config, err := os.ReadFile(filepath.Join("..", "app", "commands", "shapes", shape+".json"))
	if err != nil {
		b.Fatal(err)
	}
	src := checkpoint.Random(config)
	parsed, err := src.Config()
	if err != nil {
		b.Fatal(err)
	}
	d := kernels.NewCPU(cpu.Options{})
	defer d.Close()
	w, err := checkpoint.Open(src, parsed, d)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	m, err := models.Load(w)
	if err != nil {
		b.Fatal(err)
	}
	kv, err := cache.ParseFormat(cache.FormatOptions{})
	if err != nil {
		b.Fatal(err)
	}
	const deepest, selected, first, observe = 131072, 4096, 128, 32
	const pages = deepest/cache.PageTokens + 32
	r := runner.New(d, m, runner.Options{KV: kv, Pages: pages + selected/cache.PageTokens, Slots: 1,
		BatchRows: 512, LogitsRows: 1})
	table := make([]int32, pages+selected/cache.PageTokens)
	for i := range table {
		table[i] = int32(i)
	}
	own := table[:pages]
	pass := func(s kernels.Span) time.Duration {
		began := time.Now()
		_, err := r.Step(someIDs(1, s.Rows), []kernels.Span{s}, []int32{int32(s.Rows - 1)})
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	pass(kernels.Span{Rows: 512, Pages: own})
	for i := 512 / cache.PageTokens; i < len(table); i++ {
		r.CopyPage(int32(i%(512/cache.PageTokens)), int32(i))
	}
	for _, depth := range []int{32768, 97280, deepest} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			c := &kernels.Compact{Prompt: depth, Observe: observe, First: first, From: depth - 512,
				Tokens: selected, Pages: table[pages:]}
			c.Table = append(append(append(c.Table, own[:first/cache.PageTokens]...), c.Pages...),
				own[c.From/cache.PageTokens:]...)
			end := kernels.Span{Rows: observe, Pos: depth - observe, Pages: own}
			without := pass(end)
			end.Compact = c
			with := pass(end)
			var plain, snap time.Duration
			for b.Loop() {
				s := kernels.Span{Rows: 1, Pos: depth, Pages: own}
				plain += pass(s)
				s.Compact = c
				snap += pass(s)
			}
			ms := func(d time.Duration, n int) float64 { return d.Seconds() * 1000 / float64(n) }
			b.ReportMetric(ms(plain, b.N), "plain-ms")
			b.ReportMetric(ms(snap, b.N), "snapkv-ms")
			b.ReportMetric(float64(plain)/float64(snap), "ratio")
			b.ReportMetric(ms(with-without, 1), "select-ms")
		})
	}
}
