package blockstore

// A replay of generated days measures the rules for writing: how many of the tokens that are no
// longer in memory are found on disk, and what is written for that. The days are made by a
// generator, so nothing of a person is in them:
//
//   - agents: 4 tasks a day of 20 to 60 turns, which share a system prompt; every second task is
//     continued on the next day
//   - chats: 10 a day of 1 to 4 turns; every fifth is continued on the next day
//   - a program that sends 150 texts a day, each once
//
// Memory holds the conversations used last, and loses them twice a day, as by a restart.
// DECISIONS.md has the table of a week: HEADROOM_LONG=1 go test -run Replay -v ./engine/blockstore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	memoryTokens = 60_000 // of conversations in memory
	systemTokens = 3_000  // of the agents' system prompt
)

// turnOf is one request: the conversation's length in tokens at its end.
type turnOf struct {
	at     time.Duration // since the beginning of the first day
	talk   int
	tokens int
}

// week returns the requests of that many days in order, and the number of conversations.
func week(days int, r *rand.Rand) (turns []turnOf, agents, talks int) {
	add := func(talk, tokens, n, least, most int, at, gap time.Duration) int {
		for range n {
			tokens += least + r.IntN(most-least)
			turns = append(turns, turnOf{at, talk, tokens})
			at += gap + time.Duration(r.Int64N(int64(gap)))
		}
		return tokens
	}
	hour := func(day int) time.Duration {
		work := time.Duration(r.Int64N(int64(8 * time.Hour)))
		return time.Duration(day)*24*time.Hour + 9*time.Hour + work
	}
	agents = 4 * days
	for i := range agents {
		tokens := add(i, systemTokens, 20+r.IntN(40), 100, 900, hour(i/4), 10*time.Second)
		if i%2 == 0 {
			add(i, tokens, 10+r.IntN(20), 100, 900, hour(i/4+1), 10*time.Second)
		}
	}
	talks = agents
	for i := range 10 * days {
		tokens := add(talks, 0, 1+r.IntN(4), 80, 600, hour(i/10), time.Minute)
		if i%5 == 0 {
			add(talks, tokens, 1+r.IntN(4), 80, 600, hour(i/10+1), time.Minute)
		}
		talks++
	}
	for i := range 150 * days {
		add(talks, 0, 1, 300, 1500, hour(i/150), time.Second)
		talks++
	}
	slices.SortFunc(turns, func(a, b turnOf) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.talk, b.talk))
	})
	return turns, agents, talks
}

// replayed counts the tokens of a replay. lost are the tokens of prompts that had been computed
// before and were no longer in memory, and found those of them that were on disk.
type replayed struct {
	prompts, lost, found int
	writtenBytes         int64
}

// rule is a way to write: which sequences count as likely to be read again.
type rule struct {
	name    string
	sparing bool // write only those
	likely  func(reused bool) bool
}

var rules = []rule{
	{name: "everything", likely: func(bool) bool { return true }},
	{name: "reused only", sparing: true, likely: func(reused bool) bool { return reused }},
	{name: "Headroom's", likely: func(reused bool) bool { return reused }},
}

// replay runs the requests with a store of these limits.
func replay(t *testing.T, turns []turnOf, agents int, rule rule, maxBytes,
	daily int64) (sum replayed) {
	clock := newClock()
	begin := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	o := options(t)
	o.now, o.disk = clock.Now, &fakeDisk{}
	o.MaxBytes, o.DailyWriteBytes = maxBytes, daily
	s := open(t, t.TempDir(), o)
	if err := s.SetLimits(Limits{MaxBytes: maxBytes, MinFreeBytes: -1, DailyWriteBytes: daily,
		Sparing: rule.sparing}); err != nil {
		t.Fatal(err)
	}
	v := s.Model(Model{Fingerprint: "f", Format: "q"})
	system, memory, known := numbers(1, systemTokens), newMemory(), map[int]int{}
	half := -1
	for _, turn := range turns {
		clock.set(begin.Add(turn.at))
		if now := int(turn.at / (12 * time.Hour)); now != half {
			half, memory = now, newMemory()
		}
		tokens, shared := numbers(turn.talk+2, turn.tokens), 0
		if turn.talk < agents {
			copy(tokens, system)
			shared = systemTokens
		}
		limit := known[turn.talk] // what was computed before
		if limit == 0 && turn.talk < agents && sum.prompts > 0 {
			limit = min(shared, known[-1])
		}
		inMemory := min(memory.prefix(turn.talk, shared), limit)
		p := v.Find(tokens, limit, inMemory, false)
		fromDisk := max(p.Tokens-inMemory, 0)
		if fromDisk > 0 {
			v.Used(p)
		}
		sum.prompts += turn.tokens
		sum.lost += limit - inMemory
		sum.found += fromDisk
		q := sequence(tokens, true)
		q.Reused = rule.likely(inMemory+fromDisk > 0)
		sum.writtenBytes += save(t, v, q).Bytes
		known[turn.talk] = turn.tokens
		if shared > 0 {
			known[-1] = shared
		}
		memory.use(turn.talk, turn.tokens, shared > 0)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	return sum
}

// memory holds the lengths of the conversations used last.
type memory struct {
	order  []int // least recently used first
	tokens map[int]int
	sum    int
	system bool // an agent's system prompt is among them
}

func newMemory() *memory { return &memory{tokens: map[int]int{}} }

// prefix returns the length of the prefix in memory.
func (m *memory) prefix(talk, shared int) int {
	if n := m.tokens[talk]; n > 0 || !m.system {
		return n
	}
	return shared
}

func (m *memory) use(talk, tokens int, agent bool) {
	if i := slices.Index(m.order, talk); i >= 0 {
		m.order = slices.Delete(m.order, i, i+1)
	}
	m.order = append(m.order, talk)
	m.sum += tokens - m.tokens[talk]
	m.tokens[talk] = tokens
	m.system = m.system || agent
	for m.sum > memoryTokens && len(m.order) > 1 {
		m.sum -= m.tokens[m.order[0]]
		delete(m.tokens, m.order[0])
		m.order = m.order[1:]
	}
}

// replayLimit has the limits of a replay, as parts of what writing everything takes: 4 means a
// quarter, 0 no limit.
type replayLimit struct{ daily, size int64 }

func TestReplay(t *testing.T) {
	if testing.Short() || testKey == nil { // what is found on disk does not depend on encryption
		t.Skip("it computes a lot")
	}
	days, limits := 1, []replayLimit{{0, 2}}
	if os.Getenv("HEADROOM_LONG") != "" {
		days = 4
		limits = []replayLimit{{0, 0}, {0, 2}, {0, 4}, {2, 0}, {4, 0}, {4, 4}}
	}
	turns, agents, talks := week(days, rand.New(rand.NewPCG(1, 1)))
	all := replay(t, turns, agents, rules[0], -1, -1)
	perDay := all.writtenBytes / int64(days)
	var table strings.Builder
	fmt.Fprintf(&table, "%d days, %d conversations, %d requests, %d tokens, %d of them lost from "+
		"memory\n\n", days, talks, len(turns), all.prompts, all.lost)
	fmt.Fprintf(&table, "| daily limit | size limit | rule | found on disk | written |\n")
	fmt.Fprintf(&table, "|---|---|---|---|---|\n")
	shares := map[string]float64{}
	for _, limit := range limits {
		part := func(of int64, n int64) (int64, string) {
			if n == 0 {
				return -1, "none"
			}
			return of / n, fmt.Sprintf("1/%d", n)
		}
		daily, dailyName := part(perDay, limit.daily)
		size, sizeName := part(all.writtenBytes, limit.size)
		for _, rule := range rules {
			r := replay(t, turns, agents, rule, size, daily)
			found := float64(r.found) / float64(r.lost)
			shares[dailyName+sizeName+rule.name] = found
			fmt.Fprintf(&table, "| %s | %s | %s | %.0f %% | %.0f %% |\n", dailyName, sizeName,
				rule.name, 100*found, 100*float64(r.writtenBytes)/float64(all.writtenBytes))
			if daily > 0 && r.writtenBytes > daily*int64(days+1) {
				t.Errorf("%s: %d bytes written in %d days, the limit is %d a day", rule.name,
					r.writtenBytes, days, daily)
			}
		}
	}
	t.Log("\n" + table.String())
	for name, share := range shares {
		if limits, ours := strings.CutSuffix(name, "Headroom's"); ours {
			if all := shares[limits+"everything"]; share < all-0.01 {
				t.Errorf("%s: %.2f found, less than the %.2f of writing everything", limits, share,
					all)
			}
		}
	}
}
