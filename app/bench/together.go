package bench

// Several streams that share the weights, several threads that share the work, and a mixture of
// experts with recurrent layers.

import (
	"fmt"
	"sync"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels"
)

// streamPrompt is the length of each stream's prompt.
const streamPrompt = 16

func (r *run) streams() error {
	most := maxOf(r.Streams)
	e, err := r.open(r.Dense,
		engine.Options{ContextTokens: (streamPrompt + r.Tokens + 64) * most, MaxSequences: most,
			NoPrefixCache: true})
	if err != nil {
		return err
	}
	defer e.Close()
	speeds := make([]samples, len(r.Streams))
	err = r.inTurn(func(i int) error {
		// The numbers of streams take turns, so that other load on the machine affects all of them
		// alike.
		for j, n := range r.Streams {
			r.say(r.Dense.Name + ": " + plural(n, "stream"))
			if err := r.sample(&speeds[j],
				func() (float64, error) { return r.streamSpeed(e, n, i) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for j, n := range r.Streams {
		r.add(Row{ID: fmt.Sprintf("streams-%d", n), What: plural(n, "stream") + ", in total",
			Model: r.Dense.Name, Unit: unitSpeed},
			speeds[j], n, DecodeCost(e, n, streamPrompt+r.Tokens/2))
	}
	for j, n := range r.Streams {
		if r.Streams[0] == 1 && n > 1 {
			r.put(ratioRow(fmt.Sprintf("streams-%d-ratio", n),
				fmt.Sprintf("%d streams compared with one", n), r.Dense.Name, speeds[j].values,
				speeds[0].values, float64(n)))
		}
	}
	return nil
}

// attempts is the maximum number of starts. On a busy machine, streams with short answers sometimes
// do not overlap; they are then started again.
const attempts = 20

// streamSpeed returns the tokens per second of n streams while all of them decode.
func (r *run) streamSpeed(e *engine.Engine, n, seed int) (speed float64, err error) {
	for range attempts {
		all, failures := make([]answer, n), make([]error, n)
		var running sync.WaitGroup
		for i := range n {
			prompt := tokens(e, 100*seed+i, streamPrompt)
			running.Go(func() { all[i], failures[i] = ask(r.ctx, e, prompt, r.Tokens+1) })
		}
		running.Wait()
		for _, err := range failures {
			if err != nil {
				return 0, err
			}
		}
		if speed, err = overlapSpeed(all); err == nil {
			break
		}
	}
	return speed, err
}

// overlapSpeed returns the tokens per second of all streams while all of them decode: from the
// latest first token to the earliest last token.
func overlapSpeed(all []answer) (float64, error) {
	from, to := all[0].at[0], all[0].at[len(all[0].at)-1]
	for _, a := range all {
		if a.at[0].After(from) {
			from = a.at[0]
		}
		if end := a.at[len(a.at)-1]; end.Before(to) {
			to = end
		}
	}
	count := 0
	for _, a := range all {
		for _, t := range a.at {
			if t.After(from) && !t.After(to) {
				count++
			}
		}
	}
	if count == 0 {
		return 0, problem.New(problem.Internal, "The benchmark's streams did not overlap",
			"", "Let them generate more tokens: --tokens.")
	}
	return float64(count) / to.Sub(from).Seconds(), nil
}

// threads measures the same prompts alternately with one thread and with all threads.
func (r *run) threads() error {
	if len(r.Prompts) == 0 {
		return nil
	}
	n := min(maxOf(r.Prompts), 512)
	o := engine.Options{ContextTokens: max(n+16, 256), MaxSequences: 1, NoPrefixCache: true}
	all, err := r.open(r.Dense, o)
	if err != nil {
		return err
	}
	defer all.Close()
	o.Threads = 1
	one, err := r.open(r.Dense, o)
	if err != nil {
		return err
	}
	defer one.Close()
	cases := []struct {
		engine  *engine.Engine
		threads int
		speeds  samples
	}{{engine: one, threads: 1}, {engine: all, threads: r.Threads}}
	err = r.inTurn(func(i int) error {
		for j := range cases {
			c := &cases[j]
			r.say(fmt.Sprintf("%s: a prompt of %s tokens, with one thread and with all",
				r.Dense.Name, thousands(n)))
			if err := r.sampleWith(c.threads, &c.speeds, func() (float64, error) {
				a, err := ask(r.ctx, c.engine, tokens(c.engine, i, n), 1)
				return float64(n) / a.Timing.Prefill.Seconds(), err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	alone, both := cases[0].speeds, cases[1].speeds
	r.add(Row{ID: fmt.Sprintf("prefill-%d-one-thread", n),
		What: fmt.Sprintf("prompt of %s tokens, one thread", thousands(n)), Model: r.Dense.Name,
		Unit: unitSpeed},
		alone, n, PromptCost(one, ChunkTokens, 0, n))
	// Threads may share a core's arithmetic units or its clock. So the ceiling is the ratio of the
	// rates of multiply-adds.
	row := ratioRow("threads-ratio", "all threads compared with one, same prompt", r.Dense.Name,
		both.values, alone.values, 0)
	for i := range row.Samples {
		if a, b := both.ceilings[i].Int8Ops, alone.ceilings[i].Int8Ops; b > 0 {
			row.Ceilings, row.Bound = append(row.Ceilings, a/b), boundArithmetic
		}
	}
	r.put(row)
	return nil
}

// mixture measures a mixture of experts: decode, prefill, and the share of the prefill time that
// its recurrent layers need.
func (r *run) mixture() error {
	n := min(max(maxOf(r.Prompts), 16), 512)
	times := &kernels.OperatorTimes{}
	e, err := r.open(r.MoE, engine.Options{ContextTokens: max(n, 1) + r.Tokens + 16,
		MaxSequences: 1, NoPrefixCache: true, Times: times})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := r.decode(e, r.MoE.Name, "", 0); err != nil {
		return err
	}
	if err := r.prompts(e, r.MoE.Name, []int{n}); err != nil || r.Device != engine.DeviceCPU {
		return err
	}
	taken, err := r.repeat(func(i int) (float64, error) {
		times.Start()
		_, err := ask(r.ctx, e, tokens(e, 9000+i, n), 1)
		counted := times.Stop()
		var recurrent, sum time.Duration
		for name, t := range counted {
			sum += t.Time
			if name == "conv_gated_delta" {
				recurrent += t.Time
			}
		}
		return 100 * recurrent.Seconds() / sum.Seconds(), err
	})
	if err != nil {
		return err
	}
	r.put(Row{ID: "moe-recurrent-share",
		What:  fmt.Sprintf("GatedDeltaNet's share of a prompt of %s tokens", thousands(n)),
		Model: r.MoE.Name, Unit: unitPercent,
		Samples: taken.values, Value: median(taken.values)})
	return nil
}
