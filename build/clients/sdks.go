package main

// SDKs and lm-eval. Most are scripts in the folder sdks, which print a line "did: ..." for each
// thing that the client has done; sdks/checks.py says how.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	didPrefix = "did: "
	// fromCache begins the words of the check of a second turn. The server's log must confirm it.
	fromCache = "a second turn from the cache"
	// longPrompt is the length in tokens from which a prompt is that of such a turn.
	longPrompt = 1000
)

// scriptFile returns a run function for a script in the folder sdks.
func scriptFile(name string) func(context.Context, *session) ([]string, error) {
	return func(ctx context.Context, s *session) ([]string, error) {
		interpreter, dir := s.path("python"), source+"/sdks"
		if s.client.from == npm {
			interpreter = "node"
			if node := s.bench.tools.node(); node != "" {
				interpreter = filepath.Join(node, "node")
			}
			var err error
			if dir, err = s.bench.tools.scripts(); err != nil {
				return nil, err
			}
		}
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		mark := s.bench.sdks.log.mark()
		out, err := s.command(ctx, []string{"HEADROOM_URL=" + s.bench.sdks.url,
			s.bench.tools.bytecode(), "DO_NOT_TRACK=1"}, interpreter, path)
		if err != nil {
			return nil, err
		}
		var did []string
		for line := range strings.Lines(out) {
			if words, ok := strings.CutPrefix(line, didPrefix); ok {
				did = append(did, strings.TrimSpace(words))
			}
		}
		return did, checkLog(s.bench.sdks.log.requests(mark), did)
	}
}

// scripts copies the scripts for Node.js to the packages that they import, and returns the folder.
func (t tools) scripts() (string, error) {
	dir := filepath.Join(t.dir, "npm/sdks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files, err := filepath.Glob(source + "/sdks/*.mjs")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// checkLog returns an error if a request failed, or if the log does not confirm that a second turn
// came from the cache: the last long prompt.
func checkLog(requests []request, did []string) error {
	last := request{}
	for _, r := range requests {
		if r.status >= 500 {
			return fmt.Errorf("a request failed: %s", r.line)
		}
		if r.prompt > longPrompt && r.status == 200 {
			last = r
		}
	}
	for _, words := range did {
		if strings.HasPrefix(words, fromCache) &&
			float64(last.cached) < leastCached*float64(max(last.prompt, 1)) {
			return fmt.Errorf("the second turn did not come from the cache: %s", last.line)
		}
	}
	return nil
}

// lmEval runs tasks of its own: lm-eval's come from the network.
func lmEval(ctx context.Context, s *session) ([]string, error) {
	tasks, err := filepath.Abs(source + "/sdks/lm_eval")
	if err != nil {
		return nil, err
	}
	tokenizer, err := filepath.Abs("app/demo/model")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(s.work, "lm_eval"), os.DirFS(tasks)); err != nil {
		return nil, err
	}
	mark := s.bench.sdks.log.mark()
	if _, err := s.command(ctx, []string{"HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1"},
		s.path("lm_eval"), "--model", "local-completions", "--model_args",
		"model=headroom-demo,base_url="+s.bench.sdks.url+"/v1/completions,num_concurrent=2,"+
			"tokenizer="+tokenizer, "--include_path", "lm_eval", "--output_path", "out",
		"--tasks", "headroom_choice,headroom_text,headroom_generate"); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(s.work, "out/*/results*.json"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("lm-eval wrote no results: %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	var got struct{ Results map[string]map[string]any }
	if err := json.Unmarshal(data, &got); err != nil {
		return nil, err
	}
	perplexity, _ := got.Results["headroom_text"]["word_perplexity,none"].(float64)
	// The texts are the demo model's own, so it prefers the right words and generates them.
	if got.Results["headroom_choice"]["acc,none"] != 1.0 ||
		got.Results["headroom_generate"]["exact_match,none"] != 1.0 || perplexity < 1 ||
		perplexity > 5 {
		return nil, fmt.Errorf("lm-eval: %s", data)
	}
	return []string{"log-likelihoods of choices", "log-likelihoods of whole texts",
		"generation until a stop text"}, checkLog(s.bench.sdks.log.requests(mark), nil)
}
