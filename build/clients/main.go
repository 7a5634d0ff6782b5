// Clients runs real clients against Headroom, each as its users run it: agents, SDKs and an
// evaluation harness from npm and PyPI, in the versions of this folder's lock files.
//
//	go run ./build/clients agents     the coding agents
//	go run ./build/clients sdks       SDKs, lm-eval, Open WebUI's requests and Schemathesis
//	go run ./build/clients codex pi   some clients, by their names in table.go
//
// The model that comes with Headroom is small. It answers what the SDKs ask, so these run against
// bin/headroom as it is. It cannot follow an agent's prompt of thousands of tokens. For agents the
// server of app/service therefore runs in this process, with the same model, whose answers to the
// prompts of the test are prescribed (script.go). All else is real: HTTP, the dialect, the chat
// template, the forward passes over prompt and answer, the prefix cache, the parser of tool calls.
//
// A client has done something only if this program saw it: a file that a tool call wrote, a text
// that the client printed, cached tokens that the server counted. -write writes what each client
// did to results.json and to the table in engine/server/API.md. Without it, the program fails if
// that has changed. The tests of this package hold the table to results.json, without any client.
//
// Packages are installed into bin/clients. It needs Node.js with npm, and Python 3.11 or 3.12.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	write := flag.Bool("write", false, "write results.json and the table in API.md")
	verbose := flag.Bool("v", false, "print what clients and server print")
	keep := flag.Bool("keep", false, "keep the folder with home folders and logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args(), *write, *verbose, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

// longest is how long one client may take. Most of it is the first pass over an agent's prompt.
const longest = 5 * time.Minute

// bench is what the clients of a run share.
type bench struct {
	dir     string // for home folders, work folders and logs
	verbose bool
	tools   tools
	agents  *scriptedServer // nil: no agent runs
	sdks    *program        // nil: no SDK runs
}

// run runs the clients with these names or of these kinds; without names, all.
func run(ctx context.Context, names []string, write, verbose, keep bool) (err error) {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headroom-clients-")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if keep {
		fmt.Println("clients: folder", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	b := &bench{dir: dir, verbose: verbose}
	if b.tools, err = install(ctx, chosen); err != nil {
		return err
	}
	if err := b.start(ctx, chosen); err != nil {
		return err
	}
	defer b.stop()
	done, failed := []result{}, 0
	for _, c := range chosen {
		begin := time.Now()
		did, err := b.run(ctx, c)
		took := time.Since(begin).Round(100 * time.Millisecond)
		if err != nil {
			failed++
			fmt.Printf("FAIL  %s (%s)\n%v\n", c.name, took, err)
			continue
		}
		fmt.Printf("ok    %s: %d things (%s)\n", c.name, len(did), took)
		done = append(done, result{Client: c.name, Package: c.label(), Version: b.tools.version(c),
			API: c.api, Did: did})
	}
	fmt.Printf("%d passed, %d failed\n", len(done), failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d clients failed", failed, len(chosen))
	}
	return compareResults(done, write)
}

// run runs one client, in folders of its own.
func (b *bench) run(ctx context.Context, c client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s := &session{bench: b, client: c, home: filepath.Join(b.dir, c.name, "home"),
		work: filepath.Join(b.dir, c.name, "work")}
	for _, dir := range []string{s.home, s.work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	did, err := c.run(ctx, s)
	if err == nil && len(did) == 0 {
		err = fmt.Errorf("%s did nothing", c.name)
	}
	return did, err
}

// start starts the servers that the clients need.
func (b *bench) start(ctx context.Context, chosen []client) (err error) {
	is := func(k kind) func(client) bool { return func(c client) bool { return c.kind == k } }
	if slices.ContainsFunc(chosen, is(agents)) {
		if b.agents, err = startScripted(ctx, b); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(chosen, is(sdks)) {
		if b.sdks, err = startProgram(ctx, b); err != nil {
			b.stop()
			return err
		}
	}
	return nil
}

func (b *bench) stop() {
	if b.agents != nil {
		b.agents.stop()
	}
	if b.sdks != nil {
		b.sdks.stop()
	}
}
