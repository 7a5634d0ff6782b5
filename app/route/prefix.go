package route

// How much of a prompt the machines have cached. They are asked at the same time, by hashes of the
// prompt's tokens, and have little time to answer. A machine that is computing answers between two
// passes; of one that does not answer in time, what it was sent last counts.

import (
	"bytes"
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
	// maxSent is how many hashes are sent in one question. Longer prompts have longer blocks.
	maxSent = 512
	// The limits of a question. Blocks are made of the engine's pages of 32 tokens.
	pageTokens     = 32
	maxBlockTokens = 1024
	maxHashes      = 1 << 14
)

// prefixQuestion is the body of POST /api/prefix.
type prefixQuestion struct {
	Model       string   `json:"model"`
	BlockTokens int      `json:"block_tokens"`
	Hashes      []string `json:"hashes"`
}

// prefixAnswer is its answer: the tokens of the prompt's beginning that need not be computed.
type prefixAnswer struct {
	Model        string `json:"model"`
	MemoryTokens int    `json:"memory_tokens"`
	DiskTokens   int    `json:"disk_tokens"`
}

// holder is an engine that knows what it has cached.
type holder interface {
	Held(ctx context.Context, chain []engineHash, blockTokens int) (tokens int, ok bool)
}

type engineHash = engine.PrefixHash

// asking is a question for prefixes.
type asking struct {
	chain []engineHash
	block int // tokens
}

// newAsking returns the question for a prompt, with the shortest blocks that fit.
func newAsking(tokens []int32) asking {
	block := pageTokens
	for len(tokens)/block > maxSent && block < maxBlockTokens {
		block *= 2
	}
	return asking{engine.PrefixChain(tokens[:min(len(tokens), maxSent*block)], block), block}
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
				a.prefixAnswer, a.ok = r.heldHere(ctx, q.here, q.asking)
			} else {
				a.prefixAnswer, a.ok = e.askPrefix(ctx, e.model, q.asking)
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
func (r *Router) heldHere(ctx context.Context, model string, q asking) (a prefixAnswer, ok bool) {
	m, err := r.o.Here.Acquire(model)
	if err != nil {
		return a, false
	}
	h, ok := m.Engine.(holder)
	if !ok {
		return a, false
	}
	a.MemoryTokens, ok = h.Held(ctx, q.chain, q.block)
	return a, ok
}

// askPrefix asks a machine what it has cached.
func (m *machine) askPrefix(ctx context.Context, model string, of asking) (a prefixAnswer,
	ok bool) {
	q := prefixQuestion{Model: model, BlockTokens: of.block,
		Hashes: make([]string, len(of.chain))}
	for i := range of.chain {
		q.Hashes[i] = hex.EncodeToString(of.chain[i][:])
	}
	body, err := json.Marshal(q)
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

// parsePrefix reads the body of POST /api/prefix. The error is a Problem.
func parsePrefix(body []byte) (q prefixQuestion, chain []engineHash, err error) {
	if err := jsonbody.Check(body); err != nil {
		return q, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&q); err != nil {
		return q, nil, problem.Wrap(problem.BadRequest, err,
			"The body is not a question for a prefix",
			`Send {"model": "…", "block_tokens": 128, "hashes": ["…"]}.`)
	}
	bad := func(field, why string) error {
		return problem.New(problem.BadRequest, field+" is not valid", why, "")
	}
	switch {
	case q.BlockTokens < pageTokens || q.BlockTokens > maxBlockTokens ||
		q.BlockTokens%pageTokens != 0:
		return q, nil, bad("block_tokens", fmt.Sprintf("got %d, expected a multiple of %d up to %d",
			q.BlockTokens, pageTokens, maxBlockTokens))
	case len(q.Hashes) == 0 || len(q.Hashes) > maxHashes:
		return q, nil, bad("hashes", fmt.Sprintf("got %d, expected 1 to %d", len(q.Hashes),
			maxHashes))
	}
	chain = make([]engineHash, len(q.Hashes))
	for i, text := range q.Hashes {
		if n, err := hex.Decode(chain[i][:], []byte(text[:min(len(text), 2*len(chain[i]))])); err !=
			nil || n != len(chain[i]) || len(text) != 2*n {
			return q, nil, bad(fmt.Sprintf("hashes[%d]", i),
				fmt.Sprintf("expected %d hexadecimal digits", 2*len(chain[i])))
		}
	}
	return q, chain, nil
}

// prefixPatience is how long a machine looks for what it has cached. Who asks waits less.
const prefixPatience = 250 * time.Millisecond

// answerPrefix answers POST /api/prefix. A model that is not in memory has nothing there.
func answerPrefix(ctx context.Context, body []byte, with server.Resources) (any, error) {
	q, chain, err := parsePrefix(body)
	if err != nil {
		return nil, err
	}
	answer := prefixAnswer{Model: q.Model}
	m, err := with.Models.Acquire(q.Model)
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
	if answer.MemoryTokens, ok = h.Held(ctx, chain, q.BlockTokens); !ok {
		return nil, problem.New(problem.Busy, "The model is computing", "",
			"Ask again, or do without.")
	}
	return answer, nil
}
