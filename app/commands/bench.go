package commands

// Speed and memory of models on this machine, held against what it could do: the bandwidth at which
// memory reads, since a token costs a read of the weights and the cache, and the rate of
// multiply-adds, since a long prompt costs those. Both are measured before and after each run.

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"headroom/app/bench"
	"headroom/app/demo"
	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/kernels"
)

// shapes are the config.json of public models, for benchmarks without their weights.
//
//go:embed shapes/*.json
var shapes embed.FS

// Bench is `headroom bench`: what it measures (benchtable.go, here and benchcache.go), and what it
// works out (benchkv.go).
type Bench struct {
	Table BenchTable `cmd:"" default:"withargs" help:"Every figure that Headroom has a target for, beside what this machine could do; what bench alone means."`
	Speed BenchSpeed `cmd:"" help:"Prefill, decode and peak memory of any model."`
	Cache BenchCache `cmd:"" name:"cache" help:"What the prefix cache saves: restarts, streams at once, long conversations."`
	KV    BenchKV    `cmd:"" name:"kv" help:"What keys, values and state take, for any config.json, without weights."`
}

// BenchSpeed is `headroom bench speed`.
type BenchSpeed struct {
	Models  []string `arg:"" optional:"" name:"model" help:"Model folders or names, or the shapes of public models with random weights. Default: the demo model and qwen3-0.6b."`
	Threads int      `help:"Threads that compute. Default: one per performance core."`
	Float32 bool     `name:"float32" help:"Exact float32 activations instead of 8-bit ones."`
	Repeat  int      `help:"Runs of each measurement; the best counts." default:"3"`
	Prefill []int    `help:"Prompt lengths to read." default:"128,512,2048"`
	Decode  []int    `help:"Contexts to decode after." default:"0,4096"`
	Tokens  int      `help:"Tokens to decode in each run." default:"64"`
	// Operators costs a little time for each of them, so figures with it stand a percent below
	// those without.
	Operators bool `help:"Show too where the time goes, by operator; on the CPU."`
	DeviceFlag
	KVFlags

	// Of the processes that measure one model each.
	Here bool `hidden:"" help:"Measure the one model in this process."`
	// Ceilings spares tests measuring them.
	Ceilings []float64 `hidden:"" help:"Bytes, int8 and float32 operations per second that this machine does at best. Default: measured."`

	times *kernels.OperatorTimes // nil: nobody asks
	yard  *bench.Yardstick       // nil: Ceilings
	seen  []bench.Ceilings       // every reading
}

// Run prints a table per model. Each model is measured in a process of its own, so that its peak
// memory is its own too.
func (c *BenchSpeed) Run(ctx context.Context, t *terminal) error {
	c.Repeat = max(c.Repeat, 1)
	if err := c.choose(ctx); err != nil {
		return err
	}
	if c.Here && len(c.Models) == 1 {
		return c.model(ctx, t, c.Models[0])
	}
	if len(c.Models) == 0 {
		c.Models = []string{demo.ID, "qwen3-0.6b"}
	}
	fmt.Fprintf(t.out, "%s/%s, %d cores\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, name := range c.Models {
		if err := c.apart(ctx, t, name); err != nil {
			return err
		}
	}
	return nil
}

// apart measures one model in a child process.
func (c *BenchSpeed) apart(ctx context.Context, t *terminal, name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"bench", "speed", name, "--here", fmt.Sprintf("--threads=%d", c.Threads),
		fmt.Sprintf("--repeat=%d", c.Repeat), fmt.Sprintf("--tokens=%d", c.Tokens),
		fmt.Sprintf("--float32=%t", c.Float32),
		"--prefill=" + joined(c.Prefill), "--decode=" + joined(c.Decode), "--device=" + c.Device,
		fmt.Sprintf("--operators=%t", c.Operators)}
	args = append(args, c.KVFlags.args()...)
	child := exec.CommandContext(ctx, program, args...)
	child.Stdout, child.Stderr = t.out, t.err
	if err := child.Run(); err != nil {
		return exitProblem // it has said why
	}
	return nil
}

func joined(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// benchSource finds a model by name or folder, or makes up one in a known shape.
func benchSource(name string) (engine.Source, error) {
	if config, err := shapes.ReadFile(path.Join("shapes", name+".json")); err == nil {
		return engine.Random(config), nil
	}
	m, err := library.New(library.Roots(nil), engine.Options{}, engine.Describe).Resolve(name)
	return m.Source, err
}

func (c *BenchSpeed) model(ctx context.Context, t *terminal, name string) error {
	src, err := benchSource(name)
	if err != nil {
		return err
	}
	if c.Operators {
		c.times = &kernels.OperatorTimes{}
	}
	var yardBytes int64
	if len(c.Ceilings) != 3 { // first, so that all of it is in the peak, and can be taken off again
		if c.yard, err = bench.NewYardstick(c.Device, c.Threads); err != nil {
			return err
		}
		defer c.yard.Close()
		yardBytes = c.yard.Bytes()
	}
	longest := slices.Max(append(append([]int{c.Tokens}, c.Prefill...), c.Decode...)) + c.Tokens + 1
	e, err := engine.Open(ctx, src,
		c.apply(engine.Options{Device: c.Device, Threads: c.Threads, Float32Activations: c.Float32,
			ContextTokens: longest, MaxSequences: 1, ChunkTokens: bench.ChunkTokens,
			NoPrefixCache: true, Times: c.times})) // each run reads its prompt
	if err != nil {
		return err
	}
	defer e.Close()
	info := e.Info()
	fmt.Fprintf(t.out, "\n%s (%s, %s): weights %.2f GB, %s, KV %s, state %s\n", name,
		info.Architecture, info.Quantization,
		float64(info.Need.WeightsBytes)/1e9, info.Device, info.KVFormat, info.StateFormat)
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "measured\ttokens\ttok/s\tceiling\tshare\tbound by\t")
	var shares []operatorShares
	for _, n := range c.Prefill {
		best, err := c.best(ctx, e, n, 1,
			func(done engine.Event) float64 { return float64(n) / done.Timing.Prefill.Seconds() })
		if err != nil {
			return err
		}
		row(w, best, "prefill", n, n, bench.PromptCost(e, bench.ChunkTokens, 0, n))
		shares = append(shares, operatorShares{fmt.Sprintf("prefill %d", n), best.taken})
	}
	for _, n := range c.Decode {
		best, err := c.best(ctx, e, max(n, 1), c.Tokens+1,
			func(done engine.Event) float64 { return done.Timing.DecodeTokensPerSecond() })
		if err != nil {
			return err
		}
		row(w, best, "decode after", n, 1, bench.DecodeCost(e, 1, n+c.Tokens/2))
		shares = append(shares, operatorShares{fmt.Sprintf("decode after %d", n), best.taken})
	}
	w.Flush()
	fmt.Fprintf(t.out,
		"memory reads at %s GB/s, int8 products run at %s Gop/s, float32 ones at %s GFLOP/s\n",
		c.between(func(m bench.Ceilings) float64 { return m.ReadBytes }),
		c.between(func(m bench.Ceilings) float64 { return m.Int8Ops }),
		c.between(func(m bench.Ceilings) float64 { return m.Float32Ops }))
	for _, s := range shares {
		if c.Operators {
			fmt.Fprintln(t.out)
			s.print(w)
			w.Flush()
		}
	}
	fmt.Fprintf(t.out, "peak memory %.2f GB\n", (peakBytes()-float64(yardBytes))/1e9)
	return nil
}

// bestRun is the fastest of some runs.
type bestRun struct {
	speed float64
	could bench.Ceilings // what the machine could do around it
	// by the operators of the last run, reading the prompt included
	taken map[string]kernels.OperatorTime
}

// best runs a measurement as often as asked.
func (c *BenchSpeed) best(ctx context.Context, e *engine.Engine, prompt, tokens int,
	speed func(engine.Event) float64) (best bestRun, err error) {
	for range c.Repeat {
		before, err := c.could()
		if err != nil {
			return best, err
		}
		if c.times != nil {
			c.times.Start()
		}
		done, err := decodeAll(ctx, e, prompt, tokens)
		if err != nil {
			return best, err
		}
		if c.times != nil {
			best.taken = c.times.Stop()
		}
		after, err := c.could()
		if err != nil {
			return best, err
		}
		if now := speed(done); now > best.speed {
			best.speed, best.could = now, bench.Mean(before, after)
		}
	}
	return best, nil
}

// could is what this machine can do now.
func (c *BenchSpeed) could() (now bench.Ceilings, err error) {
	if c.yard != nil {
		now, err = c.yard.Measure(bench.ReadingTime)
	} else {
		now = bench.Ceilings{ReadBytes: c.Ceilings[0], Int8Ops: c.Ceilings[1],
			Float32Ops: c.Ceilings[2]}
	}
	c.seen = append(c.seen, now)
	return now, err
}

// between is the least and the most of a ceiling that was seen, in billions.
func (c *BenchSpeed) between(of func(bench.Ceilings) float64) string {
	var all []float64
	for _, m := range c.seen {
		all = append(all, of(m)/1e9)
	}
	return fmt.Sprintf("%.1f to %.1f", slices.Min(all), slices.Max(all))
}

// operatorShares is what the operators of a run took.
type operatorShares struct {
	run   string
	taken map[string]kernels.OperatorTime
}

// print writes an operator a line, the longest first, with its rates.
func (s operatorShares) print(w io.Writer) {
	var all time.Duration
	for _, o := range s.taken {
		all += o.Time
	}
	names := slices.SortedFunc(maps.Keys(s.taken),
		func(a, b string) int { return cmp.Compare(s.taken[b].Time, s.taken[a].Time) })
	fmt.Fprintf(w, "%s\truns\tms\tshare\tint8 Gop/s\tGFLOP/s\t\n", s.run)
	for _, name := range names {
		o := s.taken[name]
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.1f %%\t%s\t%s\t\n", name, o.Runs, 1e3*o.Time.Seconds(),
			100*o.Time.Seconds()/all.Seconds(), rate(o.Int8, o.Time), rate(o.Float32, o.Time))
	}
}

// rate is operations a second in billions, "" for none.
func rate(operations int64, d time.Duration) string {
	if operations == 0 || d == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(operations)/1e9/d.Seconds())
}

// row prints a speed beside what the machine could do: cost is that of so many tokens.
func row(w io.Writer, best bestRun, what string, n, tokens int, cost bench.Cost) {
	least, byMemory := best.could.Time(cost)
	if least == 0 {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t\t\t\t\n", what, n, best.speed)
		return
	}
	bound, ceiling := "arithmetic", float64(tokens)/least.Seconds()
	if byMemory {
		bound = "memory"
	}
	fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.0f %%\t%s\t\n", what, n, best.speed, ceiling,
		100*best.speed/ceiling, bound)
}

// decodeAll submits a prompt of n pseudo-random tokens and decodes the given number of tokens,
// ignoring end tokens.
func decodeAll(ctx context.Context, e *engine.Engine, n, tokens int) (done engine.Event, err error) {
	vocab := uint32(e.Tokenizer().VocabSize())
	prompt := make([]int32, n)
	for i, x := 0, uint32(12345); i < n; i++ {
		// Numerical Recipes' generator: any fixed, well spread ids will do
		x = x*1664525 + 1013904223
		prompt[i] = int32((x >> 8) % vocab)
	}
	_, done, err = complete(ctx, e, prompt, tokens)
	return done, err
}

// complete reads a prompt and decodes so many tokens after it, end tokens or not.
func complete(ctx context.Context, e *engine.Engine, prompt []int32, tokens int) (text string,
	done engine.Event, err error) {
	s, err := e.Submit(engine.Request{Prompt: prompt, MaxTokens: tokens, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}})
	if err != nil {
		return "", done, err
	}
	defer s.Cancel()
	var said strings.Builder
	for done.Type != engine.Done {
		if done, err = s.Next(ctx); err != nil {
			return "", done, err
		}
		said.WriteString(done.Text)
	}
	if done.Err != nil {
		return "", done, done.Err
	}
	if done.Finish != engine.FinishLength {
		return "", done, problem.New(problem.Internal, "A benchmark run ended early",
			strings.TrimSpace(string(done.Finish)), "")
	}
	return said.String(), done, nil
}

// peakBytes is the most memory the process has had resident. Linux carries getrusage's figure over
// from the parent across exec, so there the kernel's count for this program is read.
func peakBytes() float64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			var kb float64
			if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kb); n == 1 {
				return kb * 1024
			}
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	if runtime.GOOS == "darwin" {
		return float64(u.Maxrss)
	}
	return float64(u.Maxrss) * 1024
}
