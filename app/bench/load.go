package bench

// Loading: the time from opening a checkpoint, already in the system's page cache, to the first
// token, and the resident memory of the process at that time.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v3/process"

	"headroom/engine"
	"headroom/engine/problem"
)

// WriteCheckpoint writes the dense model into a folder for the group Load. Its embedding has 8
// bits, as in mixed quantizations. In the shape of Qwen3-0.6B it then has 400 MB, the size for
// which the target is set.
func (p *Plan) WriteCheckpoint(dir string) error {
	config := map[string]any{}
	if err := json.Unmarshal(p.Dense.Config, &config); err != nil {
		return problem.Wrap(problem.BadRequest, err, "The shape's config.json cannot be read", "")
	}
	if q, ok := config["quantization"].(map[string]any); ok {
		q["model.embed_tokens"] = map[string]any{"bits": 8, "group_size": q["group_size"]}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return engine.WriteRandom(dir, text)
}

func (r *run) load() error {
	info, err := os.Stat(filepath.Join(r.Checkpoint, "model.safetensors"))
	if err != nil {
		return problem.Wrap(problem.ModelNotFound, err, "There is no checkpoint to load", "")
	}
	resident := 0.0
	once := func() (seconds float64, err error) {
		start := time.Now()
		e, err := engine.Open(r.ctx, engine.Source{Dir: r.Checkpoint},
			engine.Options{Device: r.Device, Threads: r.Threads, ContextTokens: 2048,
				MaxSequences: 1})
		if err != nil {
			return 0, err
		}
		defer e.Close()
		if _, err := ask(r.ctx, e, tokens(e, 1, 1), 1); err != nil {
			return 0, err
		}
		seconds = time.Since(start).Seconds()
		if resident == 0 { // only in the first run, because each run leaves memory behind
			r.part.Device = e.Info().Device
			resident, err = residentBytes()
		}
		return seconds, err
	}
	r.say("loading a checkpoint")
	if _, err := once(); err != nil { // fills the page cache
		return err
	}
	taken, err := r.repeat(func(int) (float64, error) { return once() })
	if err != nil {
		return err
	}
	size := Cost{Bytes: info.Size()}
	r.add(Row{ID: "load", What: "checkpoint of " + megabytes(info.Size()) +
		", from opening to the first token, warm", Model: r.Dense.Name, Unit: unitSeconds},
		taken, 1, size)
	times := resident / float64(info.Size())
	r.put(Row{ID: "resident", What: "resident memory, as a multiple of the checkpoint's size",
		Model: r.Dense.Name, Unit: unitTimes, Samples: []float64{times}, Value: times,
		Ceiling: 1, Bound: boundCheckpoint})
	return nil
}

// residentBytes returns the resident memory of this process, mapped files included.
func residentBytes() (float64, error) {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0, err
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return float64(m.RSS), nil
}
