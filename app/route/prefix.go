package route

// How much of a prompt the machines have cached. They are asked at the same time, by hashes of the
// prompt's tokens, and have little time to answer. A machine that is computing answers between two
// passes; of one that does not answer in time, what it was sent last counts.

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"headroom/app/machines"
	"headroom/engine"
	"headroom/engine/jsonbody"
	"headroom/engine/problem"
	"headroom/engine/server"
)

const (
	// defaultPrefixWait is long for a local network, and short beside the reading of a prompt.
	defaultPrefixWait = 50 * time.Millisecond
	// prefixBlock is the length of the blocks by which requests are remembered, in tokens.
	prefixBlock = 128
	// maxSent is how many hashes a question has. Longer prompts have longer blocks, up to
	// maxBlockTokens.
	maxSent = 512
	// The limits of a question. Blocks consist of the engine's pages of 32 tokens, and those of 256
	// tokens on disk consist of blocks.
	pageTokens     = 32
	maxBlockTokens = 256
	maxHashes      = 1 << 14
	maxEnds        = 256
)

// prefixQuestion is the body of POST /api/prefix. Hashes have 32 hexadecimal digits; see
// engine/prefix.
type prefixQuestion struct {
	Model       string      `json:"model"`
	BlockTokens int         `json:"block_tokens"`
	Hashes      []string    `json:"hashes"`         // of the whole blocks
	Ends        []prefixEnd `json:"ends,omitempty"` // where messages end within blocks
}

type prefixEnd struct {
	Tokens int    `json:"tokens"`
	Hash   string `json:"hash"`
}

// prefixAnswer is its answer: the tokens of the prompt's beginning that need not be computed.
type prefixAnswer struct {
	Model        string `json:"model"`
	MemoryTokens int    `json:"memory_tokens"`
	DiskTokens   int    `json:"disk_tokens"`
}

// holder is an engine that knows what it has cached.
type holder interface {
	Held(ctx context.Context, q engine.HeldQuestion) (engine.Held, bool)
}

type engineHash = engine.PrefixHash

// newHeldQuestion returns the question for a prompt, with the shortest blocks that fit.
func newHeldQuestion(tokens []int32, ends []int) engine.HeldQuestion {
	block := pageTokens
	for len(tokens)/block > maxSent && block < maxBlockTokens {
		block *= 2
	}
	return engine.NewHeldQuestion(tokens[:min(len(tokens), maxHashes*block)], block, ends)
}

// canTell reports whether an engine can say what it has cached.
func (e *target) canTell() bool {
	return e.Resident && (e.machine == nil || e.stored.Kind == machines.Headroom)
}

// askPrefixes asks engines how much of the prompt they have cached.
func (r *Router) askPrefixes(ctx context.Context, q *question, engines []target, ask []int) {
	if len(ask) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.PrefixWait)
	defer cancel()
	type answer struct {
		engine int
		ok     bool
		prefixAnswer
	}
	answers := make(chan answer, len(ask))
	for _, i := range ask {
		e, a := engines[i], answer{engine: i}
		go func() {
			if e.machine == nil {
				a.prefixAnswer, a.ok = r.heldHere(ctx, q.here, q.held)
			} else {
				a.prefixAnswer, a.ok = e.askPrefix(ctx, e.model, q.held)
			}
			answers <- a
		}()
	}
	for range ask {
		select {
		case a := <-answers:
			if a.ok {
				engines[a.engine].MemoryTokens = a.MemoryTokens
				engines[a.engine].DiskTokens = a.DiskTokens
			}
		case <-ctx.Done():
			return
		}
	}
}

// heldHere returns what this machine has cached.
func (r *Router) heldHere(ctx context.Context, model string, q engine.HeldQuestion) (
	a prefixAnswer, ok bool) {
	m, err := r.o.Here.Acquire(model)
	if err != nil {
		return a, false
	}
	h, ok := m.Engine.(holder)
	if !ok {
		return a, false
	}
	found, ok := h.Held(ctx, q)
	a.MemoryTokens, a.DiskTokens = found.MemoryTokens, found.DiskTokens
	return a, ok
}

// askPrefix asks a machine what it has cached.
func (m *machine) askPrefix(ctx context.Context, model string, q engine.HeldQuestion) (
	a prefixAnswer, ok bool) {
	body, err := json.Marshal(encoded(model, q))
	if err != nil {
		return a, false
	}
	request, err := m.newRequest(ctx, http.MethodPost, "/api/prefix", body)
	if err != nil {
		return a, false
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := m.client.Do(request)
	if err != nil {
		return a, false
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(data, &a) != nil {
		return a, false
	}
	a.MemoryTokens, a.DiskTokens = max(0, a.MemoryTokens), max(0, a.DiskTokens)
	return a, true
}

// encoded returns a question as it is sent.
func encoded(model string, q engine.HeldQuestion) prefixQuestion {
	p := prefixQuestion{Model: model, BlockTokens: q.BlockTokens,
		Hashes: make([]string, len(q.Chain))}
	for i := range q.Chain {
		p.Hashes[i] = hex.EncodeToString(q.Chain[i][:])
	}
	for _, e := range q.Ends {
		p.Ends = append(p.Ends, prefixEnd{e.Tokens, hex.EncodeToString(e.Hash[:])})
	}
	return p
}

// parsePrefix reads the body of POST /api/prefix. The error is a Problem.
func parsePrefix(body []byte) (model string, q engine.HeldQuestion, err error) {
	if err := jsonbody.Check(body); err != nil {
		return "", q, err
	}
	var p prefixQuestion
	if err := json.Unmarshal(body, &p); err != nil {
		return "", q, problem.Wrap(problem.BadRequest, err,
			"The body is not a question for a prefix",
			`Send {"model": "…", "block_tokens": 128, "hashes": ["…"]}.`)
	}
	bad := func(field, why string) error {
		return problem.New(problem.BadRequest, field+" is not valid", why, "")
	}
	switch {
	case p.BlockTokens < pageTokens || maxBlockTokens%p.BlockTokens != 0:
		return "", q, bad("block_tokens", fmt.Sprintf("got %d, expected 32, 64, 128 or 256",
			p.BlockTokens))
	case len(p.Hashes) == 0 || len(p.Hashes) > maxHashes:
		return "", q, bad("hashes", fmt.Sprintf("got %d, expected 1 to %d", len(p.Hashes),
			maxHashes))
	case len(p.Ends) > maxEnds:
		return "", q, bad("ends", fmt.Sprintf("got %d, expected at most %d", len(p.Ends), maxEnds))
	}
	q.BlockTokens, q.Chain = p.BlockTokens, make([]engineHash, len(p.Hashes))
	digits := fmt.Sprintf("expected %d hexadecimal digits", 2*len(engineHash{}))
	for i, text := range p.Hashes {
		if !parseHash(text, &q.Chain[i]) {
			return "", q, bad(fmt.Sprintf("hashes[%d]", i), digits)
		}
	}
	for i, e := range p.Ends {
		end := engine.PrefixEnd{Tokens: e.Tokens}
		switch {
		case !parseHash(e.Hash, &end.Hash):
			return "", q, bad(fmt.Sprintf("ends[%d].hash", i), digits)
		case e.Tokens < 1 || e.Tokens > (len(p.Hashes)+1)*p.BlockTokens:
			return "", q, bad(fmt.Sprintf("ends[%d].tokens", i),
				fmt.Sprintf("got %d, expected 1 to the end of the block after the last one",
					e.Tokens))
		}
		q.Ends = append(q.Ends, end)
	}
	return p.Model, q, nil
}

// parseHash reads a hash. It reports whether text is one.
func parseHash(text string, h *engineHash) bool {
	if len(text) != 2*len(h) {
		return false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return err == nil
}

// prefixPatience is how long a machine looks for what it has cached. Who asks waits less.
const prefixPatience = 250 * time.Millisecond

// answerPrefix answers POST /api/prefix. A model that is not in memory has nothing there.
func answerPrefix(ctx context.Context, body []byte, with server.Resources) (any, error) {
	model, q, err := parsePrefix(body)
	if err != nil {
		return nil, err
	}
	answer := prefixAnswer{Model: model}
	m, err := with.Models.Acquire(model)
	switch {
	case err != nil && problem.From(err).Code == problem.NotRunning,
		err != nil && problem.From(err).Code == problem.Loading:
		return answer, nil
	case err != nil:
		return nil, err
	}
	answer.Model = m.ID
	h, ok := m.Engine.(holder)
	if !ok || m.Adapter != nil {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, prefixPatience)
	defer cancel()
	found, ok := h.Held(ctx, q)
	if !ok {
		return nil, problem.New(problem.Busy, "The model is computing", "",
			"Ask again, or do without.")
	}
	answer.MemoryTokens, answer.DiskTokens = found.MemoryTokens, found.DiskTokens
	return answer, nil
}
