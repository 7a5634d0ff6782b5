package bench

// One stream: prefill of prompts of several lengths, and decode at several context lengths. A long
// prompt is computed once and stays in the prefix cache. Its answers are then decoded from there.

import (
	"fmt"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels"
)

// appended is the number of new tokens after a cached prompt.
const appended = 32

func (r *run) dense(kvFormat string) error {
	times := &kernels.OperatorTimes{}
	longest := max(maxOf(r.Contexts), maxOf(r.Prompts)) + appended + r.Tokens + 2
	e, err := r.open(r.Dense,
		engine.Options{KVFormat: kvFormat, ContextTokens: longest, MaxSequences: 2, Times: times})
	if err != nil {
		return err
	}
	defer e.Close()
	if kvFormat == "" {
		if err := r.prompts(e, r.Dense.Name, r.Prompts); err != nil {
			return err
		}
		if err := r.matrices(e, times); err != nil {
			return err
		}
	}
	if err := r.decode(e, r.Dense.Name, kvFormat, 0); err != nil {
		return err
	}
	var taken time.Duration // for the context so far
	var ceilings []Ceilings
	for i, n := range r.Contexts {
		from := 0
		if i > 0 {
			from = r.Contexts[i-1]
		}
		r.say(fmt.Sprintf("prefill up to %s tokens", thousands(n)))
		var a answer
		var reading samples
		if err := r.sample(&reading, func() (v float64, err error) {
			a, err = ask(r.ctx, e, tokens(e, 0, n), 1)
			return a.Timing.Prefill.Seconds(), err
		}); err != nil {
			return err
		}
		if cached := a.Usage.CachedTokens; max(cached-from, from-cached) > 64 {
			// An answer may happen to match the rest of the prompt, so a few more tokens may be
			// cached.
			return problem.New(problem.Internal,
				"The prefix cache did not hold a benchmark's prompt",
				fmt.Sprintf("%d tokens were cached, expected %d", cached, from), "")
		}
		taken += a.Timing.Prefill
		ceilings = append(ceilings, reading.ceilings...)
		if kvFormat == "" {
			r.add(Row{ID: fmt.Sprintf("prefill-%d", n),
				What: fmt.Sprintf("prompt of %s tokens", thousands(n)), Model: r.Dense.Name,
				Unit: unitSpeed},
				samples{[]float64{float64(n) / taken.Seconds()}, []Ceilings{Mean(ceilings...)}},
				n, PromptCost(e, ChunkTokens, 0, n))
		}
		if err := r.decode(e, r.Dense.Name, kvFormat, n); err != nil {
			return err
		}
		if kvFormat == "" && i == 0 {
			if err := r.append(e, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// prompts measures prefill of uncached prompts.
func (r *run) prompts(e *engine.Engine, model string, lengths []int) error {
	for _, n := range lengths {
		r.say(fmt.Sprintf("%s: prompts of %s tokens", model, thousands(n)))
		taken, err := r.repeat(func(i int) (float64, error) {
			a, err := ask(r.ctx, e, tokens(e, n+1+i, n), 1)
			return float64(n) / a.Timing.Prefill.Seconds(), err
		})
		if err != nil {
			return err
		}
		id := fmt.Sprintf("prefill-%d", n)
		if model != r.Dense.Name {
			id = "moe-" + id
		}
		r.add(Row{ID: id, What: fmt.Sprintf("prompt of %s tokens", thousands(n)), Model: model,
			Unit: unitSpeed}, taken, n, PromptCost(e, ChunkTokens, 0, n))
	}
	return nil
}

// matrixOperators are the operators that multiply by weights.
var matrixOperators = []string{"linear", "experts", "gate_up"}

// matrices measures only the matrix products of a prompt, and only on a CPU: the operators of a GPU
// cannot be timed one by one.
func (r *run) matrices(e *engine.Engine, times *kernels.OperatorTimes) error {
	if r.Device != engine.DeviceCPU || len(r.Prompts) == 0 {
		return nil
	}
	n := min(maxOf(r.Prompts), 512)
	taken, err := r.repeat(func(i int) (float64, error) {
		times.Start()
		_, err := ask(r.ctx, e, tokens(e, 5000+i, n), 1)
		counted := times.Stop()
		var took time.Duration
		var operations int64
		for _, name := range matrixOperators {
			took += counted[name].Time
			operations += counted[name].Int8 + counted[name].Float32
		}
		return float64(operations) / 1e9 / took.Seconds(), err
	})
	if err != nil {
		return err
	}
	row := Row{ID: "prefill-matrices",
		What:  fmt.Sprintf("matrix products of a prompt of %s tokens", thousands(n)),
		Model: r.Dense.Name, Unit: unitRate,
		Samples: taken.values, Value: median(taken.values), Bound: boundArithmetic}
	for _, c := range taken.ceilings {
		row.Ceilings = append(row.Ceilings, c.Int8Ops/1e9)
	}
	r.put(row)
	return nil
}

// decode measures decoding after n cached tokens.
func (r *run) decode(e *engine.Engine, model, kvFormat string, n int) error {
	r.say(fmt.Sprintf("%s: decode at context %s", model, thousands(n)))
	taken, err := r.repeat(func(int) (float64, error) {
		prompt := tokens(e, 1, 1)
		if n > 0 {
			prompt = tokens(e, 0, n)
		}
		a, err := ask(r.ctx, e, prompt, r.Tokens+1)
		return a.Timing.DecodeTokensPerSecond(), err
	})
	if err != nil {
		return err
	}
	row := Row{ID: fmt.Sprintf("decode-%d", n),
		What: fmt.Sprintf("decode at context %s", thousands(n)), Model: model, Unit: unitSpeed}
	if model != r.Dense.Name {
		row.ID = "moe-" + row.ID
	}
	if kvFormat != "" {
		row.ID, row.What = row.ID+"-"+kvFormat, row.What+", cache in "+kvFormat
	}
	r.add(row, taken, 1, DecodeCost(e, 1, n+r.Tokens/2))
	return nil
}

// append measures the time to first token of a few new prompt tokens after n cached ones.
func (r *run) append(e *engine.Engine, n int) error {
	r.say(fmt.Sprintf("%d new tokens after %s cached", appended, thousands(n)))
	taken, err := r.repeat(func(i int) (float64, error) {
		a, err := ask(r.ctx, e, append(tokens(e, 0, n), tokens(e, 7000+i, appended)...), 1)
		return a.Timing.FirstToken.Seconds(), err
	})
	if err != nil {
		return err
	}
	r.add(Row{ID: fmt.Sprintf("append-%d", n),
		What: fmt.Sprintf("first token of %d new tokens after a %s-token cached prefix", appended,
			thousands(n)),
		Model: r.Dense.Name, Unit: unitSeconds},
		taken, 1, PromptCost(e, ChunkTokens, n, n+appended))
	return nil
}

func maxOf(list []int) (most int) {
	for _, n := range list {
		most = max(most, n)
	}
	return most
}
