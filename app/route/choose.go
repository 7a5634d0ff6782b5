package route

// The choice of an engine. It is a function of what is known of the engines and nothing else, so
// that a simulation runs the same code; see simulate.

// Candidate is an engine that has the model of a request.
type Candidate struct {
	Remote   bool // the engine is on another machine
	Resident bool // the model is in memory
	// MemoryTokens of the beginning of the prompt are in the engine's cache in memory, and
	// DiskTokens in that on disk.
	MemoryTokens, DiskTokens int
	Sticky                   bool // the engine has answered the conversation's last request
	// Requests are those that it runs or that wait for it, with those that were sent a moment ago.
	Requests int
	// Conversations are those of the last minutes that the engine has answered last.
	Conversations   int
	TokensPerSecond float64 // of reading prompts; 0: unknown
	RoomBytes       int64   // free memory; 0: unknown
	Order           uint64  // decides between equal engines
}

// Prompt is what is known of a request.
type Prompt struct {
	Tokens int // may be estimated
}

// The costs of an engine are seconds until the first token, as far as they can be told.
const (
	// usualSpeed is the speed of reading prompts where it is unknown, in tokens per second.
	usualSpeed = 1000
	// diskFactor is how many times as fast a prompt is read from disk as computed.
	diskFactor = 20
	// requestTokens is how many tokens of prompt each request before costs: it has a prompt of its
	// own to read, or takes a part of each pass to decode.
	requestTokens = 512
	// conversationTokens is what each conversation costs that an engine has already, for one that
	// is new to it: a new one takes memory from theirs. Without it, all conversations that begin
	// with the same system prompt would go to one machine.
	conversationTokens = 512
	// remoteSeconds is what another machine costs. Of equal engines, that of this machine answers.
	remoteSeconds = 0.02
	// loadSeconds is how long loading a model takes, about.
	loadSeconds = 30
)

// cost returns what a request would cost at an engine.
func (p Prompt) cost(c *Candidate) float64 {
	speed := c.TokensPerSecond
	if speed <= 0 {
		speed = usualSpeed
	}
	memory := min(c.MemoryTokens, p.Tokens)
	disk := max(0, min(c.DiskTokens, p.Tokens)-memory)
	tokens := float64(p.Tokens-memory-disk) + float64(disk)/diskFactor +
		float64(requestTokens*c.Requests)
	if !c.Sticky {
		tokens += float64(conversationTokens * c.Conversations)
	}
	seconds := tokens / speed
	if c.Remote {
		seconds += remoteSeconds
	}
	if !c.Resident {
		seconds += loadSeconds
	}
	return seconds
}

// Choose returns the index of the engine that shall answer a request; -1 if there is none. It takes
// the least cost; then the engine that answered before; then the one with the most free memory.
func Choose(p Prompt, list []Candidate) int {
	best, least := -1, 0.0
	for i := range list {
		c := &list[i]
		cost := p.cost(c)
		if best < 0 || cost < least || cost == least && preferred(c, &list[best]) {
			best, least = i, cost
		}
	}
	return best
}

// preferred reports whether a goes before b, whose cost is the same.
func preferred(a, b *Candidate) bool {
	switch {
	case a.Sticky != b.Sticky:
		return a.Sticky
	case a.RoomBytes != b.RoomBytes:
		return a.RoomBytes > b.RoomBytes
	}
	return a.Order > b.Order
}
