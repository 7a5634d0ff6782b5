package commands

// `headroom agents` sets up coding agents with the address and a model of the running server. It
// works on the same records as the server's Agents page, and with the variables of this shell, such
// as CODEX_HOME.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"text/tabwriter"

	"headroom/app/agents"
	"headroom/app/control"
	"headroom/app/keys"
	"headroom/engine/problem"
)

// Agents is `headroom agents`.
type Agents struct {
	List   AgentsList   `cmd:"" default:"1" help:"List the coding agents and how they are set up (the default)."`
	Show   AgentsShow   `cmd:"" help:"Show what would be written for an agent, and the command that runs it without that."`
	Write  AgentsWrite  `cmd:"" help:"Write an agent's configuration, after showing it and asking."`
	Undo   AgentsUndo   `cmd:"" help:"Take back what was written, after showing it and asking."`
	Launch AgentsLaunch `cmd:"" help:"Run an agent in this terminal with the server's address and model. No file is written."`
}

// AgentModel is the flag of the model.
type AgentModel struct {
	Model string `help:"Model that the agent is to use, as models lists it. Default: the one that the server runs." placeholder:"NAME"`
}

// AgentsList is `headroom agents list`.
type AgentsList struct {
	AgentModel
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// AgentsShow is `headroom agents show`.
type AgentsShow struct {
	Name string `arg:"" help:"Name of the agent, as list shows it: codex."`
	AgentModel
}

// AgentsWrite is `headroom agents write`.
type AgentsWrite struct {
	Name string `arg:"" help:"Name of the agent, as list shows it: codex."`
	AgentModel
	Yes bool `help:"Write without asking."`
}

// AgentsUndo is `headroom agents undo`.
type AgentsUndo struct {
	Name string `arg:"" help:"Name of the agent, as list shows it: codex."`
	Yes  bool   `help:"Take back without asking."`
}

// AgentsLaunch is `headroom agents launch`.
type AgentsLaunch struct {
	Name string `arg:"" help:"Name of the agent, as list shows it: codex."`
	AgentModel
	Args []string `arg:"" optional:"" passthrough:"" help:"Further arguments for the agent, after --."`
}

// agentRecords are the records of this user, the keys that agents get, and what agents are to use.
type agentRecords struct {
	*agents.Store
	keys   *keys.Store
	target agents.Target
}

func (r agentRecords) close() { _ = r.keys.Close() } // only what keys have used is saved then

// openAgents opens the records of this user. The error is a Problem.
func openAgents() (agentRecords, error) {
	dir, err := control.SettingsDir()
	if err != nil {
		return agentRecords{}, problem.Wrap(problem.Internal, err, "The records cannot be found",
			"")
	}
	named, err := openKeys()
	if err != nil {
		return agentRecords{}, err
	}
	return agentRecords{Store: agents.New(dir, agents.Here(), named), keys: named}, nil
}

// open opens the records and asks the running servers for the target. The error is a Problem.
func (m AgentModel) open(ctx context.Context) (agentRecords, error) {
	target, err := m.target(ctx)
	if err != nil {
		return agentRecords{}, err
	}
	r, err := openAgents()
	r.target = target
	return r, err
}

// show opens the records and prints what would be written for an agent. The error is a Problem.
func (m AgentModel) show(ctx context.Context, t *terminal, name string) (agentRecords, agents.Plan,
	error) {
	r, err := m.open(ctx)
	if err != nil {
		return r, agents.Plan{}, err
	}
	plan, err := r.Plan(name, r.target)
	if err != nil {
		r.close()
		return r, plan, err
	}
	printPlan(t.out, plan)
	return r, plan, nil
}

// target asks the running servers what agents are to use; it is empty if none runs.
func (m AgentModel) target(ctx context.Context) (t agents.Target, err error) {
	eachServer(func(s runningServer) bool {
		var list control.AgentList
		path := "control/agents?model=" + url.QueryEscape(m.Model)
		if err = s.ask(ctx, askTimeout, http.MethodGet, path, &list); err == nil {
			t = list.Target
		}
		return err != nil
	})
	return t, err
}

// stateWords are the states as the table shows them.
var stateWords = map[agents.State]string{agents.NotWritten: "not set up", agents.Current: "set up",
	agents.Outdated: "out of date", agents.Edited: "changed since", agents.Manual: "by hand"}

// Run prints the table.
func (c *AgentsList) Run(ctx context.Context, t *terminal) error {
	records, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer records.close()
	target := records.target
	list := control.AgentList{Target: target, Agents: records.List(target)}
	if c.JSON {
		return printJSON(t.out, list)
	}
	if target.URL == "" {
		fmt.Fprintln(t.out, "Headroom is not running. Start it: headroom serve")
	} else {
		fmt.Fprintf(t.out, "Agents are set up for %s at %s.\n", oneLine(target.Model), target.URL)
	}
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tFOUND\tCONFIGURATION\tAPI KEY")
	for _, a := range list.Agents {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", a.ID, stateWords[a.State], orDash(a.Program),
			orDash(a.Path), orDash(oneLine(a.KeyName)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, a := range list.Agents {
		if a.Unavailable != "" {
			fmt.Fprintf(t.out, "%s: %s\n", a.Name, oneLine(a.Unavailable))
		}
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Run prints the plan.
func (c *AgentsShow) Run(ctx context.Context, t *terminal) error {
	records, _, err := c.show(ctx, t, c.Name)
	if err != nil {
		return err
	}
	defer records.close()
	command, err := records.LaunchPlan(c.Name, records.target)
	if err == nil && command != "" {
		fmt.Fprintf(t.out, "\nWithout writing anything, `headroom agents launch %s` runs:\n%s\n",
			c.Name, printable(command))
	}
	return err
}

// lineMarks stand before the lines of a difference.
var lineMarks = map[agents.LineKind]string{agents.Same: "  ", agents.Added: "+ ",
	agents.Removed: "- ", agents.Gap: "  ..."}

// printPlan prints a plan as a difference.
func printPlan(out io.Writer, p agents.Plan) {
	switch {
	case p.Path == "":
	case len(p.Lines) == 0 && !p.Creates && !p.Deletes:
		fmt.Fprintf(out, "Nothing changes in %s.\n", oneLine(p.Path))
	case p.Deletes:
		fmt.Fprintf(out, "This removes %s:\n", oneLine(p.Path))
	case p.Creates:
		fmt.Fprintf(out, "This makes %s:\n", oneLine(p.Path))
	default:
		fmt.Fprintf(out, "This changes %s:\n", oneLine(p.Path))
	}
	for _, l := range p.Lines {
		fmt.Fprintf(out, "%s%s\n", lineMarks[l.Kind], printable(l.Text))
	}
	if p.LeadsTo != "" {
		fmt.Fprintf(out, "The path is a link to %s.\n", oneLine(p.LeadsTo))
	}
	if p.NewKey != "" {
		fmt.Fprintf(out, "The server needs an API key, so the key %q is made.\n", p.NewKey)
	}
	for _, note := range p.Notes {
		fmt.Fprintln(out, oneLine(note))
	}
	printSteps(out, p)
}

// printSteps prints what is left to do.
func printSteps(out io.Writer, p agents.Plan) {
	for i, step := range p.Steps {
		fmt.Fprintf(out, "%d. %s\n", i+1, oneLine(step))
	}
}

// Run shows the plan, asks, and writes.
func (c *AgentsWrite) Run(ctx context.Context, t *terminal) error {
	records, plan, err := c.show(ctx, t, c.Name)
	if err != nil {
		return err
	}
	defer records.close()
	if len(plan.Lines) == 0 && !plan.Creates && plan.NewKey == "" {
		return nil
	}
	if err := agreed(ctx, t, c.Yes, "Write it?"); err != nil {
		return err
	}
	done, err := records.Write(c.Name, records.target, plan.Token)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "Written. To take it back: headroom agents undo %s\n", c.Name)
	printSteps(t.out, done)
	return nil
}

// agreed asks, unless yes is given. Without a terminal, nothing is agreed to.
func agreed(ctx context.Context, t *terminal, yes bool, question string) error {
	if yes {
		return nil
	}
	ok, err := askYes(ctx, t, question, false)
	if err == nil && !ok {
		err = exitProblem // nobody needs to hear that
	}
	return err
}

// Run shows what is taken back, asks, and takes it back.
func (c *AgentsUndo) Run(ctx context.Context, t *terminal) error {
	records, err := openAgents()
	if err != nil {
		return err
	}
	defer records.close()
	plan, err := records.UndoPlan(c.Name)
	if err != nil {
		return err
	}
	printPlan(t.out, plan)
	if err := agreed(ctx, t, c.Yes, "Take it back?"); err != nil {
		return err
	}
	if _, err := records.Undo(c.Name, plan.Token); err != nil {
		return err
	}
	fmt.Fprintln(t.out, "Taken back.")
	return nil
}

// Run runs the agent in this terminal, with its exit code.
func (c *AgentsLaunch) Run(ctx context.Context, t *terminal) error {
	records, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer records.close()
	command, err := records.Command(c.Name, records.target)
	if err != nil {
		return err
	}
	for _, warning := range records.Warnings(c.Name, records.target) {
		fmt.Fprintln(t.err, oneLine(warning))
	}
	if len(c.Args) > 0 && c.Args[0] == "--" {
		c.Args = c.Args[1:]
	}
	run := exec.Command(command.Args[0], append(command.Args[1:], c.Args...)...)
	run.Stdin, run.Stdout, run.Stderr = t.in, t.out, t.err
	run.Env = command.Environ(os.Environ())
	err = run.Run() // Ctrl-C reaches the agent, which decides
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return exitCode(128 + int(s.Signal())) // as a shell has it
		}
		return exitCode(exit.ExitCode())
	}
	if err != nil {
		return problem.Wrap(problem.NotFound, err, "The agent could not be run",
			"Install it, and have it on the PATH.")
	}
	return nil
}
