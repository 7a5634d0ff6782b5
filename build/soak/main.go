// Soak runs a Headroom server for hours under the load of agents, chats, batches and clients that
// leave, while it kills, stops and starves the server's processes. Every answer must equal the
// answer of a server without caches that was asked alone. After each cycle the load pauses, and
// the server must be as it was: no growth of memory, goroutines, descriptors or files, and an index
// that lists the files of the cache.
//
//	make soak HOURS=8            real time: a cycle takes a minute
//	make soak HOURS=1 CYCLE=8s   the same number of cycles, each of eight seconds
//
// The result is a table in Markdown, with a row for each kind of fault and the samples of the run;
// SOAK.md has some. The exit status is 1 if an invariant was broken.
//
// The clock of the computer is not changed: Go reads it without a system call, so a test cannot
// replace it for one process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.program, "headroom", "bin/headroom", "path of the headroom program")
	flag.Float64Var(&o.hours, "hours", 1, "number of hours; an hour has 60 cycles")
	flag.DurationVar(&o.cycle, "cycle", time.Minute, "duration of a cycle")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the order of requests and faults")
	flag.StringVar(&o.out, "out", "", "also write the table, in Markdown, to this path")
	flag.Parse()
	if flag.NArg() > 0 || o.hours <= 0 || o.cycle < time.Second {
		fmt.Fprintln(os.Stderr, "soak: -hours must be above 0 and -cycle at least 1s; see -h")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	broken, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	case broken > 0:
		fmt.Fprintf(os.Stderr, "soak: %d invariants were broken\n", broken)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program string
	hours   float64
	cycle   time.Duration
	seed    uint64
	out     string
}

// cycles returns the number of cycles of the run.
func (o options) cycles() int { return max(int(o.hours*60+0.5), 1) }
