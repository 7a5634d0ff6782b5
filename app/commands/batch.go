package commands

// A file of requests, answered at once. The model runs in this process, as in `run`.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"headroom/app/batch"
	"headroom/app/control"
	"headroom/app/demo"
	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Batch is `headroom batch`.
type Batch struct {
	ModelFlags
	OfferFlags
	Model    string `help:"Model that answers the requests, all of which name it or none: an ID, a name, an alias or a folder. Default: the model that they name, or the bundled demo model if they name none." placeholder:"DIR_OR_NAME"`
	AnyModel bool   `help:"Let --model answer all requests, whatever model they name."`
	JSON     bool   `name:"json" help:"Print the counts as JSON."`
	In       string `arg:"" optional:"" help:"File of requests, in the form of OpenAI's batches: one JSON object per line."`
	Out      string `arg:"" optional:"" help:"File for the answers. If it has some, the other requests are answered."`

	// As vllm run-batch is called.
	Input  string `short:"i" aliases:"input-file" hidden:"" type:"path"`
	Output string `short:"o" aliases:"output-file" hidden:"" type:"path"`
}

// Validate takes both files, as arguments or as flags. kong calls it.
func (c *Batch) Validate() error {
	if c.Input != "" && c.In != "" && c.Out == "" { // headroom batch -i in.jsonl out.jsonl
		c.In, c.Out = "", c.In
	}
	for _, file := range []struct{ argument, flag *string }{{&c.In, &c.Input},
		{&c.Out, &c.Output}} {
		if *file.argument != "" && *file.flag != "" {
			return fmt.Errorf("a file is named twice: %s and %s", *file.argument, *file.flag)
		}
		*file.argument = cmp.Or(*file.argument, *file.flag)
		*file.flag = ""
	}
	if c.In == "" || c.Out == "" {
		return errors.New("expected two files: headroom batch requests.jsonl answers.jsonl")
	}
	return nil
}

// batchSequences is how many requests run at once unless a flag or setting says so: a batch waits
// for its last answer only.
const batchSequences = 32

// Run answers the batch. The exit code is 1 if a request has failed.
func (c *Batch) Run(ctx context.Context, t *terminal) error {
	file := service.OpenSettings()
	c.sequences = batchSequences
	named, err := batch.Models(c.In)
	if err != nil {
		return err
	}
	h := c.newHost(file, hostUse{})
	defer h.Close()
	m, err := c.start(ctx, h, file, named, t)
	if err != nil {
		return err
	}
	s := server.New(server.Options{Models: h, Dialects: service.Dialects, Log: slog.Default(),
		Defaults: func(modelID string) generate.Defaults {
			return control.RequestDefaults(file.Get().ForModel(modelID))
		}})
	begin := time.Now()
	bar := c.bar(t.err)
	counts, err := batch.Run(ctx, c.In, c.Out, batch.Options{Handler: s, ModelFor: c.modelFor(m),
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

// start loads the model that answers the requests. named are the models that they name, which must
// all be that one, unless --any-model says otherwise.
func (c *Batch) start(ctx context.Context, h *host.Host, file *settings.File, named []batch.Named,
	t *terminal) (m server.Model, err error) {
	name := c.Model
	if c.AnyModel {
		named = nil
	}
	all := slices.Clone(named)
	named = slices.DeleteFunc(named, func(n batch.Named) bool { return host.MeansAny(n.Model) })
	if name == "" && len(named) > 0 {
		if name, err = h.Resolve(named[0].Model); err != nil {
			// It may be a model that can be downloaded, with its name in the hub.
			if name = named[0].Model; hub.CheckID(name) != nil || len(named) > 1 {
				return m, refuseModels(named, "")
			}
		}
		if len(others(h, named, name)) > 0 {
			return m, refuseModels(named, "")
		}
		if len(all) > len(named) && name != demo.ID { // the others mean the demo model
			return m, refuseModels(all, "")
		}
	}
	if err := c.load(ctx, h, file, &c.ModelFlags, name, t, false); err != nil {
		return m, err
	}
	if m, err = h.Acquire(""); err != nil {
		return m, err
	}
	if a, err := h.Acquire(c.Model); err == nil && a.ID == m.ID {
		m = a // with its adapter
	}
	if wrong := others(h, named, m.ID); len(wrong) > 0 {
		return m, refuseModels(wrong, m.ID)
	}
	return m, nil
}

// others returns those of the named models that are not the one with the given ID.
func others(h *host.Host, named []batch.Named, id string) (list []batch.Named) {
	for _, n := range named {
		if got, err := h.Resolve(n.Model); got != id && (err == nil || n.Model != id) {
			list = append(list, n)
		}
	}
	return list
}

// refuseModels says that requests name models that do not answer them. id is that of --model; "":
// it was not given.
func refuseModels(named []batch.Named, id string) error {
	const most = 5
	texts := []string{}
	for _, n := range named[:min(most, len(named))] {
		texts = append(texts, n.String())
	}
	if more := len(named) - most; more > 0 {
		texts = append(texts, count(more, "more model"))
	}
	list, name := strings.Join(texts, ", "), cmp.Or(id, "MODEL")
	if slices.ContainsFunc(named, func(n batch.Named) bool { return host.MeansAny(n.Model) }) {
		list += "; those that name none get " + demo.ID
	}
	fix := "To answer all of them with one model, add --any-model and --model " + name + "."
	switch {
	case id != "":
		return problem.New(problem.BadRequest, "Requests name another model than "+id, list, fix)
	case len(named) > 1:
		return problem.New(problem.BadRequest, "The requests name several models", list,
			"Give each model a file of its own. "+fix)
	}
	return problem.New(problem.ModelNotFound, "The requests name a model that is not there", list,
		fix)
}

// modelFor returns which model answers requests: m all of them with --any-model, or else those that
// name none. Its name includes the adapter, so that answers name it.
func (c *Batch) modelFor(m server.Model) func(named string) string {
	return func(named string) string {
		if c.AnyModel || m.Adapter != nil && host.MeansAny(named) {
			return m.Name()
		}
		return named
	}
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
