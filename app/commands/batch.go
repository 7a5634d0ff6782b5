package commands

// A file of requests, answered at once. The model runs in this process, as in `run`.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"

	"headroom/app/batch"
	"headroom/app/control"
	"headroom/app/service"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Batch is `headroom batch`.
type Batch struct {
	ModelFlags
	OfferFlags
	Model string `help:"Model that answers all requests: an ID, a name, an alias or a folder. Default: the bundled demo model." placeholder:"DIR_OR_NAME"`
	JSON  bool   `name:"json" help:"Print the counts as JSON."`
	In    string `arg:"" help:"File of requests, in the form of OpenAI's batches: one JSON object per line."`
	Out   string `arg:"" help:"File for the answers. If it has some, the other requests are answered."`
}

// batchSequences is how many requests run at once unless a flag or setting says so: a batch waits
// for its last answer only.
const batchSequences = 32

// Run answers the batch. The exit code is 1 if a request has failed.
func (c *Batch) Run(ctx context.Context, t *terminal) error {
	file := service.OpenSettings()
	c.sequences = batchSequences
	h := c.newHost(file, hostUse{})
	defer h.Close()
	if err := c.load(ctx, h, file, &c.ModelFlags, c.Model, t, false); err != nil {
		return err
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	s := server.New(server.Options{Models: h, Dialects: service.Dialects, Log: slog.Default(),
		Defaults: func(modelID string) generate.Defaults {
			return control.RequestDefaults(file.Get().ForModel(modelID))
		}})
	begin := time.Now()
	bar := c.bar(t.err)
	counts, err := batch.Run(ctx, c.In, c.Out, batch.Options{Handler: s, Model: m.ID,
		Parallel: 2 * c.options(file.Get(), m.ID).MaxSequences, Progress: func(n batch.Counts) {
			bar.ChangeMax(n.Total)
			_ = bar.Set(n.Total - n.Left())
		}})
	_ = bar.Clear()
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(t.err, "Interrupted with %d of %d requests answered. The same command answers "+
			"the rest.\n", counts.Total-counts.Left(), counts.Total)
	}
	if err != nil {
		return err
	}
	return c.report(t, counts, time.Since(begin))
}

func (c *Batch) bar(out io.Writer) *progressbar.ProgressBar {
	if !isTerminal(out) {
		out = io.Discard
	}
	return progressbar.NewOptions(1, progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription("Requests"), progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish())
}

func (c *Batch) report(t *terminal, n batch.Counts, took time.Duration) error {
	if c.JSON {
		if err := printJSON(t.out, map[string]any{"total": n.Total, "before": n.Before,
			"completed": n.Completed, "failed": n.Failed + n.Refused,
			"seconds": took.Seconds()}); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d of %d requests answered in %.1f s", n.Completed, n.Total,
			took.Seconds())
		if n.Before > 0 {
			text += fmt.Sprintf(", %d were before", n.Before)
		}
		fmt.Fprintln(t.out, text+".")
	}
	if failed := n.Failed + n.Refused; failed > 0 {
		return problem.New(problem.BadRequest, count(failed, "request")+" failed",
			c.Out+" has the reasons",
			"Correct them under other custom_ids, and run it again.")
	}
	return nil
}
