package commands

// What Headroom says about config.json files as they are found on the hub: those of known
// checkpoints with their real sizes, every way to quantize, and odd ones.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// hubConfig is a row of testdata/configs.jsonl.
type hubConfig struct {
	Name string `json:"name"`
	// Want is "runs", or the state and the sentence of `headroom models`. A config runs if only
	// its weights are missing: the folder has one tensor, because real ones are too large.
	Want   string                     `json:"want"`
	Of     string                     `json:"of,omitempty"`     // the row that this one changes
	Drop   []string                   `json:"drop,omitempty"`   // keys of Of that are missing
	Config map[string]json.RawMessage `json:"config,omitempty"` // keys, also instead of Of's
	Raw    *string                    `json:"raw,omitempty"`    // text after the keys, as it is
	Files  []string                   `json:"files,omitempty"`  // more; one after "-" is missing
}

const (
	runs       = "runs"
	noWeights  = "Damaged: The model's weights do not match its config.json: "
	configRows = "testdata/configs.jsonl"
)

var updateConfigs = flag.Bool("update", false, "write what TestConfigs finds into "+configRows)

// readConfigs returns the rows of testdata/configs.jsonl, by name, and the names in their order.
func readConfigs(t *testing.T) (rows map[string]*hubConfig, names []string) {
	t.Helper()
	file, err := os.ReadFile(configRows)
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string]*hubConfig{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		row := &hubConfig{}
		if err := json.Unmarshal(lines.Bytes(), row); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if row.Name == "" || row.Want == "" || rows[row.Name] != nil {
			t.Fatalf("the row %s has no name of its own, or no verdict", lines.Text())
		}
		rows[row.Name] = row
		names = append(names, row.Name)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, names
}

// writeConfigs writes the rows.
func writeConfigs(t *testing.T, rows map[string]*hubConfig, names []string) {
	t.Helper()
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for _, name := range names {
		if err := lines.Encode(rows[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(configRows, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// keys returns the keys of a row's config.
func (c *hubConfig) keys(t *testing.T, rows map[string]*hubConfig) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	if c.Of != "" {
		if rows[c.Of] == nil {
			t.Fatalf("%s: there is no row %s", c.Name, c.Of)
		}
		all = rows[c.Of].keys(t, rows)
	}
	for _, key := range c.Drop {
		delete(all, key)
	}
	maps.Copy(all, c.Config)
	return all
}

// text returns a row's config.json. Raw follows the keys, so that it can have one of them twice.
func (c *hubConfig) text(t *testing.T, rows map[string]*hubConfig) string {
	t.Helper()
	keys := c.keys(t, rows)
	if len(keys) == 0 && c.Raw != nil {
		return *c.Raw
	}
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	if c.Raw == nil {
		return string(text)
	}
	mark, more, _ := strings.Cut(*c.Raw, "{")
	if more != "}" {
		more = "," + more
	}
	return mark + strings.TrimSuffix(string(text), "}") + more
}

// plant writes the folder of a row.
func (c *hubConfig) plant(t *testing.T, dir string, rows map[string]*hubConfig) {
	t.Helper()
	var weights strings.Builder
	if err := safetensors.Write(&weights, []safetensors.Tensor{{Name: "model.norm.weight",
		DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)}}, nil); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"config.json": c.text(t, rows), "tokenizer.json": "{}",
		weightsFile: weights.String()}
	for _, name := range c.Files {
		if missing, ok := strings.CutPrefix(name, "-"); ok {
			delete(files, missing)
		} else {
			files[name] = "{}"
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// examinedBytes bounds what examining one config may allocate, however large its numbers are. The
// 92 layers of GLM-4.6 take 0.7 MB.
const examinedBytes = 8 << 20

// TestConfigs checks the verdict on every config. After a change of what runs,
// `go test ./app/commands -run Configs -update` writes the new ones; read them in the diff.
func TestConfigs(t *testing.T) {
	rows, names := readConfigs(t)
	root := filepath.Join(isolate(t), "found")
	for name, row := range rows {
		row.plant(t, filepath.Join(root, name), rows)
	}
	code, out, errOut := headroom("", "models", "--models-dir", root)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	said := saidAbout(strings.ReplaceAll(out, root+string(filepath.Separator), ""))
	for _, name := range names {
		row, got := rows[name], said[name]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if strings.HasPrefix(got, noWeights) {
			got = verdictWithWeights(row.text(t, rows))
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > examinedBytes {
			t.Errorf("%s: examining it allocates %d MB", name, n>>20)
		}
		if *updateConfigs {
			row.Want = got
		}
		if got != row.Want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, row.Want)
		}
		if got != runs && !isSentence(got) {
			t.Errorf("%s: %q is no sentence", name, got)
		}
	}
	if *updateConfigs {
		writeConfigs(t, rows, names)
	}
}

// verdictWithWeights is the verdict on a config whose weights have the sizes that it names.
func verdictWithWeights(config string) string {
	_, err := engine.DescribeCache([]byte(config), engine.Options{})
	if err == nil {
		return runs
	}
	p, state := problem.From(err), "Damaged: "
	if p.Code == problem.UnknownArchitecture {
		state = "Not supported: "
	}
	return state + p.Message + ": " + p.Why + ". " + p.Fix
}

// isSentence reports whether a verdict says what is wrong and what to do, in printable text.
func isSentence(verdict string) bool {
	state, sentence, ok := strings.Cut(verdict, ": ")
	control := strings.ContainsFunc(verdict, unicode.IsControl)
	return ok && !control && len(sentence) < 600 && strings.HasSuffix(sentence, ".") &&
		strings.Contains(sentence, ". ") && (state == "Damaged" || state == "Not supported")
}
