package main

// The flags of llama-bench, and its JSON output (-o json).

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// result is one result of llama-bench, with the fields that are used here.
type result struct {
	Commit     string  `json:"build_commit"`
	ModelType  string  `json:"model_type"` // for example "qwen3 0.6B Q4_0"
	ModelBytes int64   `json:"model_size"`
	Parameters int64   `json:"model_n_params"`
	Prompt     int     `json:"n_prompt"`
	Answer     int     `json:"n_gen"`
	Depth      int     `json:"n_depth"`
	Speed      float64 `json:"avg_ts"` // tokens per second
}

// build identifies the llama.cpp build and the model that it ran.
type build struct {
	Commit, Type      string
	Bytes, Parameters int64
}

// runPeer runs llama-bench once for prefill and decode with an empty context, and once for decode
// at c.depth. flash is 1 with flash attention, 0 without.
func (c *comparison) runPeer(ctx context.Context, flash int) (samples, build, error) {
	common := []string{"-m", c.model, "-t", strconv.Itoa(c.threads), "-ngl", "0", "-fa",
		strconv.Itoa(flash), "-r", "1", "-o", "json"}
	if c.peerKV != "f16" { // llama.cpp quantizes values only with flash attention
		common = append(common, "-ctk", c.peerKV)
		if flash == 1 {
			common = append(common, "-ctv", c.peerKV)
		}
	}
	calls := [][]string{{"-p", c.lengths(), "-n", strconv.Itoa(decodeTokens)}}
	if c.depth > 0 {
		calls = append(calls, []string{"-p", "0", "-n", strconv.Itoa(decodeTokens), "-d",
			strconv.Itoa(c.depth)})
	}
	all, used := samples{}, build{}
	for _, call := range calls {
		out, err := output(ctx, c.peer, append(call, common...)...)
		if err != nil {
			return nil, used, err
		}
		f, b, err := parse(out)
		if err != nil {
			return nil, used, fmt.Errorf("%s: %w", c.peer, err)
		}
		for id, v := range f {
			all[id] = append(all[id], v...)
		}
		used = b
	}
	return all, used, nil
}

// parse reads llama-bench's JSON, which may follow log lines of the backends.
func parse(out []byte) (samples, build, error) {
	var results []result
	start := bytes.Index(out, []byte("[\n"))
	if start < 0 {
		start = max(bytes.IndexByte(out, '['), 0)
	}
	if err := json.Unmarshal(out[start:], &results); err != nil {
		return nil, build{}, fmt.Errorf("parse the output as a list of results: %w", err)
	}
	f, used := samples{}, build{}
	for _, t := range results {
		used = build{t.Commit, t.ModelType, t.ModelBytes, t.Parameters}
		id := ""
		switch {
		case t.Speed <= 0:
			return nil, used, fmt.Errorf("a result has avg_ts %g, want a positive speed", t.Speed)
		case t.Prompt > 0 && t.Answer == 0 && t.Depth == 0:
			id = fmt.Sprintf("prefill-%d", t.Prompt)
		case t.Prompt == 0 && t.Answer > 0:
			id = fmt.Sprintf("decode-%d", t.Depth)
		default:
			return nil, used, fmt.Errorf(
				"a result has n_prompt %d, n_gen %d and n_depth %d, want prefill or decode alone",
				t.Prompt, t.Answer, t.Depth)
		}
		f[id] = append(f[id], t.Speed)
	}
	return f, used, nil
}
