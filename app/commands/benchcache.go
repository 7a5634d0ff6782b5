package commands

// What the prefix cache saves: a long prompt cold, after a restart and from memory; concurrent
// streams compared with sequential ones; a growing conversation. Prompts are rendered by the
// model's chat template, because the cache stores recurrent states at the ends of turns. Each
// measurement opens a new engine and warms it up with a short prompt.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/problem"
)

// BenchCache is `headroom bench cache`.
type BenchCache struct {
	Model   string   `arg:"" optional:"" help:"Model folder or name. Default: the demo model."`
	Threads int      `help:"Compute threads. Default: one per performance core."`
	Only    []string `help:"Parts to measure." enum:"restart,streams,turns" default:"restart,streams,turns"`
	Repeat  int      `help:"Runs of restart and streams; the median counts." default:"3"`
	Prompt  int      `help:"Tokens of the prompt that is prefilled cold and restored from disk and from memory." default:"18000"`
	Stream  int      `help:"Tokens of each stream's prompt." default:"8000"`
	Head    int      `help:"Tokens that the streams' prompts share, in the runs with a shared prefix." default:"6000"`
	Streams int      `help:"Number of concurrent streams." default:"3"`
	Tokens  int      `help:"Tokens that each stream decodes." default:"128"`
	Turns   int      `help:"Turns of the conversation." default:"21"`
	Grow    int      `help:"Tokens of the conversation at its end." default:"30000"`
	DeviceFlag
	KVFlags
}

// cacheBench is one run.
type cacheBench struct {
	*BenchCache
	ctx   context.Context
	t     *terminal
	name  string
	src   engine.Source
	dir   string             // holds the block stores
	store *engine.BlockStore // of the open engine; nil: none
}

// Run prints the three tables.
func (c *BenchCache) Run(ctx context.Context, t *terminal) (err error) {
	b := &cacheBench{BenchCache: c, ctx: ctx, t: t, name: cmp.Or(c.Model, demo.ID)}
	if b.src, err = benchSource(b.name); err != nil {
		return err
	}
	longest := max(c.Prompt+c.Tokens, c.Stream+c.Tokens, c.Grow+turnAnswer)
	d, err := engine.Describe(b.src, c.apply(engine.Options{Device: c.Device}))
	if err != nil {
		return err
	}
	if longest > d.ContextTokens {
		return problem.New(problem.ContextExceeded,
			"The benchmark's prompts are longer than the model's context",
			fmt.Sprintf("they need %d tokens, the context holds %d", longest, d.ContextTokens),
			"Shorten them with --prompt, --stream and --grow.")
	}
	if err := c.choose(ctx); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "headroom-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	fmt.Fprintf(t.out, "%s/%s, %d cores; %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		b.name)
	for _, part := range []struct {
		name    string
		measure func() error
	}{{"restart", b.restart}, {"streams", b.streams}, {"turns", b.conversation}} {
		if slices.Contains(c.Only, part.name) {
			if err := part.measure(); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens the model and warms it up. A store name that is not empty opens that block store.
func (b *cacheBench) open(store string, o engine.Options) (e *engine.Engine, err error) {
	if store != "" {
		limits := engine.BlockStoreOptions{MinFreeBytes: 1e9, DailyWriteBytes: -1}
		if b.store, err = engine.OpenBlockStore(filepath.Join(b.dir, store), limits); err != nil {
			return nil, err
		}
	}
	o.Device, o.Threads, o.MaxSequences, o.BlockStore, o.ModelName = b.Device, b.Threads,
		b.Streams+1, b.store, b.name
	if e, err = engine.Open(b.ctx, b.src, b.apply(o)); err == nil {
		_, err = decodeAll(b.ctx, e, 64, 2)
		if err != nil {
			_ = e.Close()
		}
	}
	if err != nil {
		b.closeStore()
		return nil, err
	}
	return e, nil
}

// close closes the engine, which first writes pending blocks to its store.
func (b *cacheBench) close(e *engine.Engine) {
	_ = e.Close()
	b.closeStore()
}

func (b *cacheBench) closeStore() {
	if b.store != nil {
		_ = b.store.Close()
		b.store = nil
	}
}

// restart measures the time to first token of a long prompt: cold, from disk, from memory.
func (b *cacheBench) restart() error {
	var all [3][]time.Duration // cold, from disk, from memory
	var tokens int
	var bytes int64
	for i := range max(b.Repeat, 1) {
		times, n, size, err := b.restartOnce(i)
		if err != nil {
			return err
		}
		for j := range all {
			all[j] = append(all[j], times[j])
		}
		tokens, bytes = n, size
	}
	fmt.Fprintf(b.t.out, "\nTime to first token of a prompt of %d tokens, median of %d:\n", tokens,
		len(all[0]))
	w := tabwriter.NewWriter(b.t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "prompt\ttime\tspeedup\t")
	for j, name := range []string{"cold", "from disk, after a restart", "from memory"} {
		fmt.Fprintf(w, "%s\t%s\t%.1f x\t\n", name, milliseconds(median(all[j])),
			median(all[0]).Seconds()/median(all[j]).Seconds())
	}
	w.Flush()
	fmt.Fprintf(b.t.out,
		"The store's %s had just been written, so the system's page cache held them. A cold disk "+
			"adds its read time.\n", formatBytes(bytes))
	return nil
}

// restartOnce submits one prompt three times: cold, again, and again after engine and store were
// reopened. It returns the times to first token (cold, from disk, from memory), the tokens of the
// prompt, and the bytes of the store.
func (b *cacheBench) restartOnce(i int) (times [3]time.Duration, tokens int, bytes int64,
	err error) {
	store := fmt.Sprint("restart", i)
	var prompt []int32
	read := func(into ...*time.Duration) error {
		e, err := b.open(store, engine.Options{})
		if err != nil {
			return err
		}
		defer b.close(e)
		if prompt == nil {
			p, err := newPrompts(e)
			if err != nil {
				return err
			}
			prompt = p.render(p.turn(i, b.Prompt))
		}
		for _, t := range into {
			_, done, err := complete(b.ctx, e, prompt, 2)
			if err != nil {
				return err
			}
			*t = done.Timing.FirstToken
		}
		bytes = b.store.Stats().Bytes
		return nil
	}
	if err = read(&times[0], &times[2]); err == nil {
		err = read(&times[1])
	}
	return times, len(prompt), bytes, err
}

// streamRows are the ways to run streams. The first is the baseline.
var streamRows = []struct {
	name   string
	atOnce bool
	o      engine.Options
}{
	{"one after another, no prefix cache", false, engine.Options{NoPrefixCache: true}},
	{"one after another", false, engine.Options{}},
	{"at once", true, engine.Options{}},
	{"at once, --prefer-prefill", true, engine.Options{PreferPrefill: true}},
}

// streams measures the time of several streams, sequential and concurrent, with different prompts
// and with a shared prefix. The rows are interleaved, so that other load on the machine affects all
// of them.
func (b *cacheBench) streams() error {
	for _, shared := range []int{0, b.Head} {
		what := "different prompts"
		if shared > 0 {
			what = fmt.Sprintf("a shared prefix of %d", shared)
		}
		results := make([][]streamsResult, len(streamRows))
		for range max(b.Repeat, 1) {
			for i, row := range streamRows {
				r, err := b.runStreams(shared, row.atOnce, row.o)
				if err != nil {
					return err
				}
				results[i] = append(results[i], r)
			}
		}
		fmt.Fprintf(b.t.out,
			"\n%d streams of %d tokens, %s, %d tokens decoded by each, median of %d:\n", b.Streams,
			b.Stream, what, b.Tokens, len(results[0]))
		w := tabwriter.NewWriter(b.t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "streams\ttime\tspeedup\tcomputed\tlast first token\tlongest gap\t")
		base := medianRun(results[0]).total
		for i, row := range streamRows {
			r := medianRun(results[i])
			fmt.Fprintf(w, "%s\t%s\t%.2f x\t%d\t%s\t%s\t\n", row.name, milliseconds(r.total),
				base.Seconds()/r.total.Seconds(), r.computedTokens,
				milliseconds(r.lastFirst), milliseconds(r.longestGap))
		}
		w.Flush()
	}
	return nil
}

// medianRun returns the run of median duration.
func medianRun(runs []streamsResult) streamsResult {
	slices.SortFunc(runs, func(a, b streamsResult) int { return cmp.Compare(a.total, b.total) })
	return runs[len(runs)/2]
}

// streamsResult is the result of one run of the streams.
type streamsResult struct {
	total          time.Duration
	lastFirst      time.Duration // until the last stream's first token
	longestGap     time.Duration // between two tokens of a stream
	computedTokens int           // prompt tokens that were not cached
}

func (b *cacheBench) runStreams(shared int, atOnce bool, o engine.Options) (r streamsResult,
	err error) {
	e, err := b.open("", o)
	if err != nil {
		return r, err
	}
	defer b.close(e)
	p, err := newPrompts(e)
	if err != nil {
		return r, err
	}
	prompts := make([][]int32, b.Streams)
	for i := range prompts {
		if shared == 0 {
			prompts[i] = p.render(p.turn(100+i, b.Stream))
		} else {
			prompts[i] = p.render(p.turn(99, shared),
				chat.Message{Role: "assistant", Content: "Yes."}, p.turn(100+i, b.Stream-shared))
		}
	}
	var mu sync.Mutex
	start := time.Now()
	one := func(prompt []int32) error {
		submitted := time.Since(start)
		_, done, err := complete(b.ctx, e, prompt, b.Tokens)
		mu.Lock()
		defer mu.Unlock()
		r.lastFirst = max(r.lastFirst, submitted+done.Timing.FirstToken)
		r.longestGap = max(r.longestGap, done.Timing.LongestGap)
		r.computedTokens += done.Usage.PromptTokens - done.Usage.CachedTokens
		return err
	}
	failures := make([]error, len(prompts))
	var running sync.WaitGroup
	for i, prompt := range prompts {
		running.Go(func() { failures[i] = one(prompt) })
		if !atOnce {
			running.Wait()
		}
	}
	running.Wait()
	r.total = time.Since(start)
	return r, cmp.Or(failures...)
}

// turnAnswer is the length of an answer in the conversation, in tokens.
const turnAnswer = 48

// conversation measures each turn of a growing conversation. Only the new tokens should be
// computed.
func (b *cacheBench) conversation() error {
	e, err := b.open("conversation", engine.Options{})
	if err != nil {
		return err
	}
	defer func() { b.close(e) }()
	p, err := newPrompts(e)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.t.out, "\nA conversation of %d turns:\n", b.Turns)
	w := tabwriter.NewWriter(b.t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "turn\tprompt_tokens\tcomputed_tokens\tttft\t")
	var messages []chat.Message
	perTurn := b.Grow/max(b.Turns, 1) - turnAnswer
	for turn := range b.Turns {
		messages = append(messages, p.turn(200+turn, perTurn))
		said, done, err := complete(b.ctx, e, p.render(messages...), turnAnswer)
		if err != nil {
			return err
		}
		messages = append(messages, chat.Message{Role: "assistant", Content: said})
		u := done.Usage
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t\n", turn+1, u.PromptTokens, u.PromptTokens-u.CachedTokens,
			milliseconds(done.Timing.FirstToken))
	}
	return w.Flush()
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
