package commands

// A job in a terminal: one line shows its progress while it runs.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/app/jobs"
)

// reportEvery is how often a line of progress is written where there is no terminal. Tests shorten
// it.
var reportEvery = 5 * time.Second

// watchJob waits for a job to end and shows its progress, in one line on a terminal. When ctx ends,
// it stops the job, which keeps its work so far, and returns ctx's error.
func watchJob(ctx context.Context, out io.Writer, list *jobs.List, id string) (jobs.Job, error) {
	const step = 250 * time.Millisecond
	onTerminal := isTerminal(out)
	reported, last := time.Now(), ""
	for {
		soon, cancel := context.WithTimeout(ctx, step)
		job, err := list.Wait(soon, id)
		cancel()
		if onTerminal && err != nil {
			fmt.Fprint(out, "\r\x1b[K"+clip(jobLine(job), 120))
		}
		if !onTerminal && err != nil && time.Since(reported) >= reportEvery {
			reported = time.Now()
			if line := clip(jobLine(job), 120); line != last {
				fmt.Fprintln(out, line)
				last = line
			}
		}
		if err == nil || ctx.Err() != nil {
			if onTerminal {
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

// jobLine describes a job's progress: "org/name: 3.2 GB of 18.6 GB (17 %), 412 MB/s, 38 s left".
func jobLine(j jobs.Job) string {
	var b strings.Builder
	b.WriteString(j.Title + ": " + formatBytes(j.DoneBytes))
	if j.TotalBytes > 0 {
		fmt.Fprintf(&b, " of %s (%d %%)", formatBytes(j.TotalBytes),
			min(100*j.DoneBytes/j.TotalBytes, 100))
	}
	if j.BytesPerSecond > 0 {
		fmt.Fprintf(&b, ", %s/s", formatBytes(int64(j.BytesPerSecond)))
	}
	if j.Left >= 0 {
		fmt.Fprintf(&b, ", %s left", j.Left.Round(time.Second))
	}
	if j.Phase != "" {
		fmt.Fprintf(&b, " [%s]", strings.TrimSpace(j.Phase+" "+j.File))
	}
	return b.String()
}
