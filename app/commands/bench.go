package commands

// Speed and peak memory of models on this machine, compared with its ceilings: memory bandwidth,
// which bounds decode because each token reads the weights and the KV cache, and arithmetic, which
// bounds prefill. Both ceilings are measured before and after each run.

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
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/kernels"
)

// shapes are the config.json of public models, for benchmarks without their weights.
//
//go:embed shapes/*.json
var shapes embed.FS

// Bench is `headroom bench`. All but kv and route measure; kv calculates, and route simulates.
type Bench struct {
	Table     BenchTable     `cmd:"" default:"withargs" help:"Measure every figure that Headroom has a target for, with this machine's ceilings (the default)."`
	Speed     BenchSpeed     `cmd:"" help:"Measure prefill, decode and peak memory of any model."`
	Cache     BenchCache     `cmd:"" name:"cache" help:"Measure what the prefix cache saves: after a restart, with concurrent streams, in long conversations."`
	Speculate BenchSpeculate `cmd:"" help:"Measure decoding ahead with random weights, by depth and acceptance."`
	SnapKV    BenchSnapKV    `cmd:"" name:"snapkv" help:"Measure decoding at the end of long prompts with SnapKV, with random weights, on the CPU."`
	KV        BenchKV        `cmd:"" name:"kv" help:"Calculate the size of the KV cache and recurrent states from any config.json, without weights."`
	Route     BenchRoute     `cmd:"" name:"route" help:"Simulate how requests are routed among many machines: cache hits, balance, time of a choice."`
}

// BenchSpeed is `headroom bench speed`.
type BenchSpeed struct {
	Models  []string `arg:"" optional:"" name:"model" help:"Model folders or names, or shapes of public models, which get random weights: ${shapes}. Default: the demo model and qwen3-0.6b."`
	Threads int      `help:"Compute threads. Default: one per performance core."`
	Float32 bool     `name:"float32" help:"Compute activations in float32 instead of 8 bits."`
	Repeat  int      `help:"Runs of each measurement; the best one counts." default:"3"`
	Prefill []int    `help:"Prompt lengths to prefill, in tokens." default:"128,512,2048"`
	Decode  []int    `help:"Context lengths to decode at, in tokens." default:"0,4096"`
	Tokens  int      `help:"Tokens to decode per run." default:"64"`
	// Operators slows each operator a little, so speeds with it are about 1 % lower.
	Operators bool `help:"Also show the time per operator; CPU only."`
	DeviceFlag
	KVFlags

	// The field Here is set by the parent of a process that measures one model.
	Here bool `hidden:"" help:"Measure the one model in this process."`
	// Ceilings are given by tests that skip measuring them.
	Ceilings []float64 `hidden:"" help:"Ceilings of this machine: bytes read, int8 and float32 operations per second. Default: measured."`

	times *kernels.OperatorTimes // nil: not measured
	yard  *bench.Yardstick       // nil: Ceilings is given
	seen  []bench.Ceilings       // every reading
}

// Run prints a table per model. Each model is measured in a separate process, so that its peak
// memory includes no other model.
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
		if err := c.runChild(ctx, t, name); err != nil {
			return err
		}
	}
	return nil
}

// runChild measures one model in a child process.
func (c *BenchSpeed) runChild(ctx context.Context, t *terminal, name string) error {
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
		return exitProblem // the child has printed the error
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

// benchSource returns the model of a name or folder, or one with random weights in the shape of a
// name or config.json.
func benchSource(name string) (engine.Source, error) {
	if config, ok := shape(name); ok {
		return engine.Random(config), nil
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		config, err := configOf(name)
		return engine.Random(config), err
	}
	return resolveBench(name)
}

// shape returns the config.json of a shape. It ignores the case of the name.
func shape(name string) (config []byte, ok bool) {
	config, err := shapes.ReadFile(path.Join("shapes", strings.ToLower(name)+".json"))
	return config, err == nil
}

// shapeNames returns the names of all shapes, sorted and separated by commas.
func shapeNames() string {
	entries, err := shapes.ReadDir("shapes")
	if err != nil {
		panic("commands: shapeNames: the embedded folder is missing: " + err.Error())
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return strings.Join(names, ", ")
}

// resolveBench returns the model of a name or folder. Its error names the shapes too.
func resolveBench(name string) (engine.Source, error) {
	m, err := resolveAlone(nil, name, "bench takes a model without an adapter", "")
	if p := problem.From(err); err != nil && p.Code == problem.ModelNotFound {
		return m.Source, problem.New(p.Code, p.Message, p.Why+"; the shapes are "+shapeNames(),
			"Use one of these, the folder of another model, or the path of a config.json.")
	}
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
	if len(c.Ceilings) != 3 { // first, so that peak memory minus yardBytes is the model's
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
			NoPrefixCache: true, // each run prefills its prompt
			Times:         c.times, Tuning: tuningDir()}))
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
		row(w, best, "decode at context", n, 1, bench.DecodeCost(e, 1, n+c.Tokens/2))
		shares = append(shares, operatorShares{fmt.Sprintf("decode at context %d", n), best.taken})
	}
	w.Flush()
	fmt.Fprintf(t.out,
		"ceilings: memory reads %s GB/s, int8 products %s Gop/s, float32 products %s GFLOP/s\n",
		c.rangeOf(func(m bench.Ceilings) float64 { return m.ReadBytes }),
		c.rangeOf(func(m bench.Ceilings) float64 { return m.Int8Ops }),
		c.rangeOf(func(m bench.Ceilings) float64 { return m.Float32Ops }))
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
	// ceilings is the mean of the readings before and after the run.
	ceilings bench.Ceilings
	// taken is the time per operator of the last run, prefill included.
	taken map[string]kernels.OperatorTime
}

// best runs a measurement Repeat times and returns the fastest run.
func (c *BenchSpeed) best(ctx context.Context, e *engine.Engine, prompt, tokens int,
	speed func(engine.Event) float64) (best bestRun, err error) {
	for range c.Repeat {
		before, err := c.readCeilings()
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
		after, err := c.readCeilings()
		if err != nil {
			return best, err
		}
		if now := speed(done); now > best.speed {
			best.speed, best.ceilings = now, bench.Mean(before, after)
		}
	}
	return best, nil
}

// readCeilings measures what this machine can do now.
func (c *BenchSpeed) readCeilings() (now bench.Ceilings, err error) {
	if c.yard != nil {
		now, err = c.yard.Measure(bench.ReadingTime)
	} else {
		now = bench.Ceilings{ReadBytes: c.Ceilings[0], Int8Ops: c.Ceilings[1],
			Float32Ops: c.Ceilings[2]}
	}
	c.seen = append(c.seen, now)
	return now, err
}

// rangeOf returns the lowest and the highest reading of a ceiling, in billions.
func (c *BenchSpeed) rangeOf(of func(bench.Ceilings) float64) string {
	var all []float64
	for _, m := range c.seen {
		all = append(all, of(m)/1e9)
	}
	return fmt.Sprintf("%.1f to %.1f", slices.Min(all), slices.Max(all))
}

// operatorShares is the time per operator of a run.
type operatorShares struct {
	run   string
	taken map[string]kernels.OperatorTime
}

// print writes a line per operator with its rates, the slowest first.
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

// rate formats operations per second in billions; "" for none.
func rate(operations int64, d time.Duration) string {
	if operations == 0 || d == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(operations)/1e9/d.Seconds())
}

// row prints a speed and its ceiling. n is the length of the prompt or context. tokens is the
// number of tokens that cost covers.
func row(w io.Writer, best bestRun, what string, n, tokens int, cost bench.Cost) {
	least, byMemory := best.ceilings.Time(cost)
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
func decodeAll(ctx context.Context, e *engine.Engine, n, tokens int) (done engine.Event,
	err error) {
	vocab := uint32(e.Tokenizer().VocabSize())
	prompt := make([]int32, n)
	for i, x := 0, uint32(12345); i < n; i++ {
		// the generator of Numerical Recipes: any fixed, well-distributed IDs work
		x = x*1664525 + 1013904223
		prompt[i] = int32((x >> 8) % vocab)
	}
	_, done, err = complete(ctx, e, prompt, tokens)
	return done, err
}

// complete prefills a prompt and decodes the given number of tokens, ignoring end tokens. It
// returns the decoded text and the last event.
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

// peakBytes returns the peak resident memory of this process. On Linux, getrusage keeps the
// parent's figure across exec, so peakBytes reads VmHWM instead.
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
