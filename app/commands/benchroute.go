package commands

// What the router's choice of machines yields, among simulated ones.

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"headroom/app/route"
)

// BenchRoute is `headroom bench route`.
type BenchRoute struct {
	Machines    int     `help:"Machines, which read prompts at half, once and 1.5 times the speed." default:"100"`
	Sessions    int     `help:"Conversations of agents, ten of which begin at once." default:"10000"`
	Turns       int     `help:"Requests of each conversation." default:"10"`
	CacheTokens int     `help:"Tokens that a machine's cache holds." default:"1000000"`
	Speed       float64 `help:"Tokens of prompts that a machine reads in a second." default:"2000"`
	Load        float64 `help:"Share of the time in which the machines would read prompts if they had no cache." default:"0.5"`
	Prompts     int     `help:"System prompts, of 2,000 to 8,000 tokens, that the conversations share." default:"20"`
	Seed        uint64  `help:"Seed of the conversations." default:"1"`
	JSON        bool    `name:"json" help:"Print the figures as JSON."`
}

// Validate rejects what cannot be simulated. kong calls it.
func (c *BenchRoute) Validate() error {
	const most = 1_000_000
	for _, n := range []struct {
		flag  string
		value int
	}{{"machines", c.Machines}, {"sessions", c.Sessions}, {"turns", c.Turns},
		{"prompts", c.Prompts}, {"cache-tokens", c.CacheTokens}} {
		if n.value < 1 || n.value > most*100 || n.value > most && n.flag != "cache-tokens" {
			return fmt.Errorf("--%s is %d, expected 1 to %d", n.flag, n.value, most)
		}
	}
	if !(c.Speed >= 1 && c.Speed <= 1e9) || !(c.Load >= 0.001 && c.Load <= 10) {
		return errors.New("--speed must be 1 to 1,000,000,000, and --load 0.001 to 10")
	}
	return nil
}

// Run prints the table.
func (c *BenchRoute) Run(t *terminal) error {
	results := route.Simulate(route.Simulation{Machines: c.Machines, Sessions: c.Sessions,
		Turns: c.Turns, CacheTokens: c.CacheTokens, SpeedTokens: c.Speed, Load: c.Load,
		Prompts: c.Prompts, Seed: c.Seed})
	if c.JSON {
		return printJSON(t.out, struct {
			Results []route.Simulated `json:"results"`
		}{results})
	}
	fmt.Fprintf(t.out, "Simulated: %s of %s on %s. One machine with a cache of any size would hit "+
		"%.1f %% of the prompt tokens.\n", numberOf(results[0].Requests, "request"),
		numberOf(c.Sessions, "conversation"), numberOf(c.Machines, "machine"),
		100*results[0].Possible)
	fmt.Fprint(t.out, "Times to the first token are simulated; times of a decision are "+
		"measured.\n\n")
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "CHOICE\tHIT RATE\tOF POSSIBLE\tBUSIEST MACHINE\tFIRST TOKEN P50\tP95\t"+
		"DECISION P50\tP99")
	for _, r := range results {
		decision, worst := "-", "-"
		if r.Decision50 > 0 {
			decision = fmt.Sprintf("%.0f µs", r.Decision50)
			worst = fmt.Sprintf("%.0f µs", r.Decision99)
		}
		fmt.Fprintf(table, "%s\t%.1f %%\t%.1f %%\t%.2f times the mean\t%.2f s\t%.2f s\t%s\t%s\n",
			r.Way, 100*r.HitRate, 100*r.OfPossible, r.Balance, r.First50, r.First95, decision,
			worst)
	}
	return table.Flush()
}
