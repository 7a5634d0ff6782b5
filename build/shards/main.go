// Command shards decides which of the slow tests a commit has to pass in CI. All of them would take
// too long, so they are divided into shards, steps of build/test. A shard is due if it is its turn,
// by the number of the commit, or if the commit changes its files and there is time. Over turns
// consecutive commits every shard is run.
//
//	go run ./build/shards due     prints the name and the time limit of each shard that is due
//	go run ./build/shards fuzz    prints the folder and the name of each fuzz target that is due
//
// What is not due, and why the rest is, goes to stderr.
//
// The change is that since the commit CI_BASE. Without that variable it is that of the last 12
// hours before the commit, and at least that of the last commits, one for every turn.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: go run ./build/shards due | fuzz"))
	}
	c, err := readCommit(os.Getenv("CI_BASE"))
	if err != nil {
		fail(err)
	}
	switch os.Args[1] {
	case "due":
		printDue(os.Stdout, os.Stderr, c)
	case "fuzz":
		targets, err := fuzzTargets(os.DirFS("."))
		if err != nil {
			fail(err)
		}
		for _, f := range dueTargets(targets, c) {
			fmt.Println(f.folder, f.name)
		}
	default:
		fail(fmt.Errorf("got %q, expected due or fuzz", os.Args[1]))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "shards:", err)
	os.Exit(1)
}

func printDue(out, log io.Writer, c commit) {
	reasons := c.due()
	for i, s := range shards {
		if !strings.HasPrefix(reasons[i], "due") {
			fmt.Fprintf(log, "shards: %s is not due%s\n", s.name, reasons[i])
			continue
		}
		fmt.Fprintf(log, "shards: %s is %s\n", s.name, reasons[i])
		fmt.Fprintln(out, s.name, int(s.limit.Seconds()))
	}
}

// commit has the facts by which shards are due.
type commit struct {
	number  int      // commits up to this one
	changed []string // files of the change, from the root of the repository
	all     bool     // the history is incomplete, so that everything may have changed
}

// due returns for each shard why it is due, in words that begin with "due". First come the shards
// whose turn it is, and then those with changes, as long as all take at most maxTime. The others
// wait for their turn.
func (c commit) due() []string {
	reasons := make([]string, len(shards))
	var takes time.Duration
	for i, s := range shards {
		if reasons[i] = c.turn(i); reasons[i] != "" {
			takes += s.takes
		}
	}
	for i, s := range shards {
		if reasons[i] != "" {
			continue
		}
		change := c.change(s)
		if change != "" && takes+s.takes > maxTime {
			reasons[i] = ": " + change + ", but there is no time before its turn"
		} else if change != "" {
			reasons[i] = "due: " + change
			takes += s.takes
		}
	}
	return reasons
}

// turn returns why it is the turn of shard i, or "".
func (c commit) turn(i int) string {
	if c.number%turns != i%turns {
		return ""
	}
	return fmt.Sprintf("due: it is its turn at commit %d", c.number)
}

// change returns what change concerns a shard, or "".
func (c commit) change(s shard) string {
	if c.all {
		return "the history is incomplete"
	}
	for _, file := range c.changed {
		for _, path := range s.paths {
			inside := strings.HasPrefix(file, path+"/") && !strings.HasSuffix(file, ".md")
			if inside || file == path {
				return file + " has changed"
			}
		}
	}
	return ""
}

// readCommit reads the commit that is checked out. base is the commit before the change, or "".
func readCommit(base string) (c commit, err error) {
	git := func(args ...string) string {
		if err != nil {
			return ""
		}
		var text []byte
		if text, err = exec.Command("git", args...).Output(); err != nil {
			err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(text))
	}
	count := func(revision string) int {
		n, e := strconv.Atoi(git("rev-list", "--count", revision))
		if err == nil {
			err = e
		}
		return n
	}
	c.all = git("rev-parse", "--is-shallow-repository") == "true"
	c.number = count("HEAD")
	if c.all || err != nil {
		return c, err
	}
	if base == "" && c.number <= turns {
		c.all = true
		return c, err
	}
	if base == "" {
		base = fmt.Sprintf("HEAD~%d", turns)
		seconds, e := strconv.ParseInt(git("log", "-1", "--format=%ct"), 10, 64)
		if err == nil {
			err = e
		}
		before := time.Unix(seconds, 0).Add(-12 * time.Hour).Format(time.RFC3339)
		older := git("rev-list", "-1", "--before="+before, "HEAD")
		if older == "" {
			c.all = true // the whole repository is younger
			return c, err
		}
		if err == nil && count(older) < c.number-turns {
			base = older
		}
	}
	c.changed = strings.Fields(git("diff", "--name-only", base, "HEAD"))
	return c, err
}
