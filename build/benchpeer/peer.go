package main

// llama-bench: its flags, and the JSON it answers with (-o json).

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// test is one of llama-bench's results. Of the fields that it writes these matter here.
type test struct {
	Commit     string  `json:"build_commit"`
	ModelType  string  `json:"model_type"` // as "qwen3 0.6B Q4_0"
	ModelBytes int64   `json:"model_size"`
	Parameters int64   `json:"model_n_params"`
	Prompt     int     `json:"n_prompt"`
	Answer     int     `json:"n_gen"`
	Depth      int     `json:"n_depth"`
	Speed      float64 `json:"avg_ts"` // tokens per second
}

// build is what the peer is, and what it ran.
type build struct {
	Commit, Type      string
	Bytes, Parameters int64
}

// runPeer runs llama-bench once for prompts and an answer at an empty context, and once at depth;
// flash is 1 with flash attention.
func (c *comparison) runPeer(ctx context.Context, flash int) (figures, build, error) {
	common := []string{"-m", c.model, "-t", strconv.Itoa(c.threads), "-ngl", "0", "-fa",
		strconv.Itoa(flash), "-r", "1", "-o", "json"}
	if c.peerKV != "f16" { // values can be quantized with flash attention alone
		common = append(common, "-ctk", c.peerKV)
		if flash == 1 {
			common = append(common, "-ctv", c.peerKV)
		}
	}
	lengths := ""
	for i, n := range prompts {
		if i > 0 {
			lengths += ","
		}
		lengths += strconv.Itoa(n)
	}
	calls := [][]string{{"-p", lengths, "-n", strconv.Itoa(answer)}}
	if c.depth > 0 {
		calls = append(calls, []string{"-p", "0", "-n", strconv.Itoa(answer), "-d",
			strconv.Itoa(c.depth)})
	}
	all, made := figures{}, build{}
	for _, call := range calls {
		out, err := output(ctx, c.peer, append(call, common...)...)
		if err != nil {
			return nil, made, err
		}
		f, b, err := parse(out)
		if err != nil {
			return nil, made, fmt.Errorf("%s: %w", c.peer, err)
		}
		for id, v := range f {
			all[id] = append(all[id], v...)
		}
		made = b
	}
	return all, made, nil
}

// parse reads llama-bench's JSON, which may follow lines of the backends that it loads.
func parse(out []byte) (figures, build, error) {
	var tests []test
	start := bytes.Index(out, []byte("[\n"))
	if start < 0 {
		start = max(bytes.IndexByte(out, '['), 0)
	}
	if err := json.Unmarshal(out[start:], &tests); err != nil {
		return nil, build{}, fmt.Errorf("its answer is no list of results: %w", err)
	}
	f, made := figures{}, build{}
	for _, t := range tests {
		made = build{t.Commit, t.ModelType, t.ModelBytes, t.Parameters}
		id := ""
		switch {
		case t.Speed <= 0:
			return nil, made, fmt.Errorf("a result has avg_ts %g, expected tokens per second",
				t.Speed)
		case t.Prompt > 0 && t.Answer == 0 && t.Depth == 0:
			id = fmt.Sprintf("prefill-%d", t.Prompt)
		case t.Prompt == 0 && t.Answer > 0:
			id = fmt.Sprintf("decode-%d", t.Depth)
		default:
			return nil, made, fmt.Errorf(
				"a result reads %d and decodes %d tokens at %d, expected one of both", t.Prompt,
				t.Answer, t.Depth)
		}
		f[id] = append(f[id], t.Speed)
	}
	return f, made, nil
}
