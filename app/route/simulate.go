package route

// A simulation of many machines and conversations. What the router remembers, which machines it
// asks and what it chooses is the code of real requests. The engines are simulated: each has a
// cache of a fixed size from which the least recently used prefixes go, reads one prompt at a time,
// and decodes beside that.

import (
	"container/heap"
	"container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"headroom/engine"
)

// Simulation says what is simulated. Zero values get the defaults in the comments.
type Simulation struct {
	Machines     int     // 100
	Sessions     int     // 10,000 conversations, each by an agent
	Turns        int     // 10 of each conversation
	CacheTokens  int     // 1,000,000 of a machine
	SpeedTokens  float64 // 2,000 tokens a second that a machine reads
	DecodeTokens float64 // 40 tokens a second of one answer
	Load         float64 // 0.5: the share of the time that reading would take without a cache
	Prompts      int     // 20 system prompts that the conversations share
	Seed         uint64
}

// withDefaults returns the simulation with its defaults.
func (s Simulation) withDefaults() Simulation {
	for to, value := range map[*int]int{&s.Machines: 100, &s.Sessions: 10_000, &s.Turns: 10,
		&s.CacheTokens: 1_000_000, &s.Prompts: 20} {
		if *to == 0 {
			*to = value
		}
	}
	for to, value := range map[*float64]float64{&s.SpeedTokens: 2000, &s.DecodeTokens: 40,
		&s.Load: 0.5} {
		if *to == 0 {
			*to = value
		}
	}
	return s
}

// Simulated are the figures of one way to choose.
type Simulated struct {
	Way string `json:"way"`
	// HitRate is the share of the prompt tokens that came from caches, and Possible what one
	// machine with a cache of any size would have reached, of which HitRate is OfPossible.
	HitRate    float64 `json:"hit_rate"`
	Possible   float64 `json:"possible"`
	OfPossible float64 `json:"of_possible"`
	// Balance is how long the busiest machine has read, divided by the mean.
	Balance float64 `json:"balance"`
	// First are the median and the 95th percentile of the time to the first token, in seconds.
	First50 float64 `json:"first_token_p50_seconds"`
	First95 float64 `json:"first_token_p95_seconds"`
	// Decision is the time of a choice, in microseconds, without the network.
	Decision50 float64 `json:"decision_p50_us"`
	Decision99 float64 `json:"decision_p99_us"`
	Requests   int     `json:"requests"`
}

// Simulate runs the simulation with the router's choice, and with the machines in turn.
func Simulate(s Simulation) []Simulated {
	s = s.withDefaults()
	possible := s.possible()
	var results []Simulated
	for _, way := range []string{"router", "in turn"} {
		w := newWorld(s)
		if way == "router" {
			w.choose = w.byRouter
		} else {
			w.choose = w.inTurn
		}
		w.run()
		results = append(results, w.result(way, possible))
	}
	return results
}

// dialog is one simulated conversation.
type dialog struct {
	session session
	tokens  []int32 // of its next prompt
	known   []engineHash
	turn    int
	random  *rand.Rand
}

// newDialog returns a conversation that begins with one of the system prompts. It is the same one
// for the same seed.
func (s *Simulation) newDialog(number int) *dialog {
	d := &dialog{session: session(number + 1),
		random: rand.New(rand.NewPCG(s.Seed, uint64(number)))}
	system := d.random.IntN(s.Prompts)
	for i := range 2000 + 300*system {
		d.tokens = append(d.tokens, int32(system*7919+i))
	}
	d.grow(300, 1500)
	return d
}

// grow adds least to most tokens that no other conversation has.
func (d *dialog) grow(least, most int) {
	for range least + d.random.IntN(most-least) {
		d.tokens = append(d.tokens, int32(d.random.Uint32()>>1))
	}
}

// chain returns the hashes of the prompt's blocks.
func (d *dialog) chain() []engineHash {
	d.known = engine.ExtendPrefixChain(d.known, d.tokens, prefixBlock)
	return slices.Clip(d.known)
}

// answerTokens is the mean length of an answer.
const answerTokens = 250

// possible returns the hit rate of one machine with a cache of any size.
func (s *Simulation) possible() float64 {
	cache := newSimCache(0)
	var hits, all int
	for number := range s.Sessions {
		d := s.newDialog(number)
		for range s.Turns {
			chain := d.chain()
			hits += cache.held(chain)
			all += len(d.tokens)
			d.answer()
			cache.put(d.chain())
			d.grow(200, 1800)
		}
	}
	return float64(hits) / float64(all)
}

// answer adds an answer, and returns its length.
func (d *dialog) answer() int {
	before := len(d.tokens)
	d.grow(answerTokens/2, answerTokens*3/2)
	return len(d.tokens) - before
}

// simCache is the cache of a simulated engine: prefixes by their hashes.
type simCache struct {
	blocks map[engineHash]*list.Element
	order  list.List // of engineHash, the most recent first
	most   int       // blocks; 0: any number
}

func newSimCache(most int) *simCache {
	return &simCache{blocks: map[engineHash]*list.Element{}, most: most}
}

// held returns how many tokens of a prompt are cached.
func (c *simCache) held(chain []engineHash) int {
	n := 0
	for n < len(chain) && c.blocks[chain[n]] != nil {
		n++
	}
	return n * prefixBlock
}

// put adds a prompt. Its end is older than its beginning, so that it goes first.
func (c *simCache) put(chain []engineHash) {
	for _, h := range slices.Backward(chain) {
		if e := c.blocks[h]; e != nil {
			c.order.MoveToFront(e)
			continue
		}
		c.blocks[h] = c.order.PushFront(h)
	}
	for c.most > 0 && c.order.Len() > c.most {
		oldest := c.order.Back()
		delete(c.blocks, oldest.Value.(engineHash))
		c.order.Remove(oldest)
	}
}

// simEngine is a simulated engine.
type simEngine struct {
	cache    *simCache
	free     float64 // the time when it has read all prompts, in seconds
	requests int     // running or waiting
	speed    float64
	busy     float64 // seconds that it has read
}

// world is a run of a simulation.
type world struct {
	s       Simulation
	engines []simEngine
	ids     []string
	events  events
	memory  *memory
	choose  func(d *dialog, chain []engineHash, now float64) int
	next    int // of inTurn

	hits, all int
	first     []float64 // seconds
	decisions []float64 // microseconds
}

// event happens at a time, in seconds.
type event struct {
	at float64
	do func(now float64)
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWorld(s Simulation) *world {
	w := &world{s: s, engines: make([]simEngine, s.Machines), ids: make([]string, s.Machines),
		memory: newMemory()}
	random := rand.New(rand.NewPCG(s.Seed, 1))
	for i := range w.engines {
		// From a laptop to a workstation.
		w.engines[i] = simEngine{cache: newSimCache(s.CacheTokens / prefixBlock),
			speed: s.SpeedTokens * []float64{0.5, 1, 1, 1.5}[random.IntN(4)]}
		w.ids[i] = "machine-" + strconv.Itoa(i)
	}
	return w
}

// run simulates all conversations. They begin in bursts, and each waits for its tools between two
// turns.
func (w *world) run() {
	random := rand.New(rand.NewPCG(w.s.Seed, 2))
	meanTurn := 4000 + 1250*float64(w.s.Turns)/2 // tokens of a prompt, about
	perSecond := w.s.Load * float64(w.s.Machines) * w.s.SpeedTokens / meanTurn
	length := float64(w.s.Sessions*w.s.Turns) / perSecond
	at := 0.0
	for number := range w.s.Sessions {
		if number%10 == 0 { // ten at once
			at = random.Float64() * length
		}
		w.at(at, func(now float64) { w.turn(w.s.newDialog(number), now) })
	}
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		e.do(e.at)
	}
}

func (w *world) at(at float64, do func(now float64)) { heap.Push(&w.events, event{at, do}) }

// turn sends the next request of a conversation.
func (w *world) turn(d *dialog, now float64) {
	chain := d.chain()
	i := w.choose(d, chain, now)
	e := &w.engines[i]
	e.requests++
	e.free = max(e.free, now)
	held := e.cache.held(chain)
	compute := len(d.tokens) - held
	e.free += float64(compute) / e.speed
	e.busy += float64(compute) / e.speed
	w.hits += held
	w.all += len(d.tokens)
	w.first = append(w.first, e.free-now)
	// Requests at the same time see the cache as it was when each is read.
	w.at(e.free, func(now float64) { e.cache.put(chain) })
	answer := d.answer()
	w.at(e.free+float64(answer)/w.s.DecodeTokens, func(now float64) {
		e.requests--
		e.cache.put(d.chain())
		if d.turn++; d.turn < w.s.Turns {
			d.grow(200, 1800)
			w.at(now+d.random.ExpFloat64()*8, func(now float64) { w.turn(d, now) })
		}
	})
}

// inTurn chooses the machines in turn.
func (w *world) inTurn(*dialog, []engineHash, float64) int {
	w.next++
	return w.next % len(w.engines)
}

// byRouter chooses as the router does.
func (w *world) byRouter(d *dialog, chain []engineHash, now float64) int {
	clock := time.Unix(0, 0).Add(time.Duration(now * float64(time.Second)))
	began := time.Now()
	candidates := make([]Candidate, len(w.engines))
	for i := range w.engines {
		candidates[i] = Candidate{Remote: true, Resident: true, Requests: w.engines[i].requests,
			TokensPerSecond: w.engines[i].speed}
	}
	ask := w.memory.prepare(d.session, chain, w.ids, candidates, func(int) bool { return true })
	took := time.Since(began)
	for _, i := range ask {
		candidates[i].MemoryTokens = w.engines[i].cache.held(chain)
	}
	began = time.Now()
	chosen := Choose(Prompt{Tokens: len(d.tokens)}, candidates)
	w.memory.note(d.session, chain, w.ids[chosen], len(d.tokens), clock)
	w.decisions = append(w.decisions, float64(took+time.Since(began))/float64(time.Microsecond))
	return chosen
}

func (w *world) result(way string, possible float64) Simulated {
	r := Simulated{Way: way, HitRate: float64(w.hits) / float64(max(1, w.all)), Possible: possible,
		Requests: len(w.first)}
	r.OfPossible = 1 // of nothing, if no prompt repeats another
	if possible > 0 {
		r.OfPossible = r.HitRate / possible
	}
	most, sum := 0.0, 0.0
	for i := range w.engines {
		most, sum = max(most, w.engines[i].busy), sum+w.engines[i].busy
	}
	r.Balance = 1
	if sum > 0 {
		r.Balance = most * float64(len(w.engines)) / sum
	}
	r.First50, r.First95 = quantile(w.first, 0.5), quantile(w.first, 0.95)
	r.Decision50, r.Decision99 = quantile(w.decisions, 0.5), quantile(w.decisions, 0.99)
	return r
}

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(q*float64(len(sorted)-1))]
}

// String returns the figures as a line.
func (r Simulated) String() string {
	return fmt.Sprintf("%s: hit rate %.3f, %.1f %% of what is possible, balance %.2f, first token "+
		"%.2f s and %.2f s, decision %.0f µs", r.Way, r.HitRate, 100*r.OfPossible, r.Balance,
		r.First50, r.First95, r.Decision50)
}
