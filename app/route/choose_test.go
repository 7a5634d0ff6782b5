package route

import "testing"

// TestChoose: each row differs from the others in what it is about.
func TestChoose(t *testing.T) {
	loaded := Candidate{Resident: true}
	with := func(change func(*Candidate)) Candidate {
		c := loaded
		change(&c)
		return c
	}
	for _, c := range []struct {
		name   string
		prompt int
		list   []Candidate
		want   int
	}{
		{"none", 1000, nil, -1},
		{"one", 1000, []Candidate{{}}, 0},
		{"resident before cached", 8000, []Candidate{
			{MemoryTokens: 8000, DiskTokens: 8000}, loaded}, 1},
		{"the longest prefix", 8000, []Candidate{
			with(func(c *Candidate) { c.MemoryTokens = 2000 }),
			with(func(c *Candidate) { c.MemoryTokens = 7000 }),
			with(func(c *Candidate) { c.MemoryTokens = 6999 })}, 1},
		{"a prefix on disk is nearly as good", 8000, []Candidate{
			with(func(c *Candidate) { c.DiskTokens = 7000 }),
			with(func(c *Candidate) { c.MemoryTokens = 6000 })}, 0},
		{"memory before disk", 8000, []Candidate{
			with(func(c *Candidate) { c.DiskTokens = 7000 }),
			with(func(c *Candidate) { c.MemoryTokens = 7000 })}, 1},
		{"more than the prompt is cached", 100, []Candidate{
			with(func(c *Candidate) { c.MemoryTokens, c.Requests = 9000, 1 }),
			with(func(c *Candidate) { c.MemoryTokens = 100 })}, 1},
		{"a queue of one is worth a longer prefix", 8000, []Candidate{
			with(func(c *Candidate) { c.MemoryTokens, c.Requests = 7000, 1 }),
			with(func(c *Candidate) { c.MemoryTokens = 1000 })}, 0},
		{"a long queue is not", 8000, []Candidate{
			with(func(c *Candidate) { c.MemoryTokens, c.Requests = 7000, 20 }),
			with(func(c *Candidate) { c.MemoryTokens = 1000 })}, 1},
		{"the faster one", 8000, []Candidate{
			with(func(c *Candidate) { c.TokensPerSecond = 300 }),
			with(func(c *Candidate) { c.TokensPerSecond = 3000 })}, 1},
		{"the conversation's", 8000, []Candidate{loaded,
			with(func(c *Candidate) { c.Sticky = true }), loaded}, 1},
		{"the conversation's although it has many", 800, []Candidate{loaded,
			with(func(c *Candidate) { c.Sticky, c.Conversations = true, 1000 })}, 1},
		{"a new conversation goes where there are fewer", 800, []Candidate{
			with(func(c *Candidate) { c.MemoryTokens, c.Conversations = 500, 30 }), loaded}, 1},
		{"this machine", 800, []Candidate{
			with(func(c *Candidate) { c.Remote, c.RoomBytes = true, 9 }), loaded}, 1},
		{"free memory", 800, []Candidate{
			with(func(c *Candidate) { c.RoomBytes = 1 }),
			with(func(c *Candidate) { c.RoomBytes = 2 })}, 1},
		{"the order", 800, []Candidate{
			with(func(c *Candidate) { c.Order = 2 }),
			with(func(c *Candidate) { c.Order = 1 })}, 0},
	} {
		if got := Choose(Prompt{Tokens: c.prompt}, c.list); got != c.want {
			t.Errorf("%s: chose %d, want %d", c.name, got, c.want)
		}
	}
}

// TestOrder: equal engines share new conversations.
func TestOrder(t *testing.T) {
	count := map[string]int{}
	engines := []string{"a", "b", "c", "d"}
	for s := range session(4000) {
		best := engines[0]
		for _, e := range engines {
			if order(s, e) > order(s, best) {
				best = e
			}
		}
		count[best]++
	}
	for _, e := range engines {
		if count[e] < 800 || count[e] > 1200 {
			t.Errorf("of 4000 conversations: %v", count)
			break
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	list := make([]Candidate, 100)
	for i := range list {
		list[i] = Candidate{Resident: true, Requests: i % 7, MemoryTokens: 100 * i,
			Order: uint64(i)}
	}
	for b.Loop() {
		Choose(Prompt{Tokens: 8000}, list)
	}
}
