package commands

// Imports and downloads: what the control API needs for them, and a job on a terminal: one line
// that says how far it is, for as long as it runs.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/app/control"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/settings"
	"headroom/engine"
)

// transfers are the imports and downloads of a service. Folder and hub are those that the settings
// name when something begins.
func (s *Service) transfers(file *settings.File) *control.Transfers {
	tokens := new(hub.Tokens)
	return &control.Transfers{
		Jobs:   s.jobs,
		Tokens: tokens,
		Importer: func() (*importer.Importer, error) {
			root, err := importFolder("", file.Get())
			if err != nil {
				return nil, err
			}
			return importer.New(importer.Options{Root: root, Describe: engine.Describe,
				Known: s.listed}), nil
		},
		Hub: func() (*hub.Client, error) { return newHub(file.Get().HubEndpoint, tokens) },
	}
}

// listed are the models of the list, by ID and place.
func (s *Service) listed() []library.Model {
	var models []library.Model
	for _, m := range s.Host.Models(0).Models {
		one := library.Model{ID: m.ID}
		for _, p := range m.Places {
			one.Places = append(one.Places, library.Place{ID: p.ID, Dir: p.Path, Origin: p.Origin})
		}
		models = append(models, one)
	}
	return models
}

// watchJob waits for a job to end, and shows how far it is where somebody looks. When ctx ends it
// stops the job, which keeps what it has done, and returns ctx's error.
func watchJob(ctx context.Context, out io.Writer, list *jobs.List, id string) (jobs.Job, error) {
	const step = 250 * time.Millisecond
	shows := isTerminal(out)
	for {
		soon, cancel := context.WithTimeout(ctx, step)
		job, err := list.Wait(soon, id)
		cancel()
		if shows && err != nil {
			fmt.Fprint(out, "\r\x1b[K"+clip(jobLine(job), 120))
		}
		if err == nil || ctx.Err() != nil {
			if shows {
				fmt.Fprint(out, "\r\x1b[K")
			}
			if err != nil {
				if stopped := list.Stop(id); stopped != nil {
					return job, stopped
				}
			}
			return job, err
		}
	}
}

// jobLine words how far a job is: "org/name: 3.2 GB of 18.6 GB (17 %), 412 MB/s, 38 s left".
func jobLine(j jobs.Job) string {
	var b strings.Builder
	b.WriteString(j.Title + ": " + bytesWords(j.DoneBytes))
	if j.TotalBytes > 0 {
		fmt.Fprintf(&b, " of %s (%d %%)", bytesWords(j.TotalBytes),
			min(100*j.DoneBytes/j.TotalBytes, 100))
	}
	if j.BytesPerSecond > 0 {
		fmt.Fprintf(&b, ", %s/s", bytesWords(int64(j.BytesPerSecond)))
	}
	if j.Left >= 0 {
		fmt.Fprintf(&b, ", %s left", j.Left.Round(time.Second))
	}
	if j.Phase != "" {
		fmt.Fprintf(&b, " [%s]", strings.TrimSpace(j.Phase+" "+j.File))
	}
	return b.String()
}
