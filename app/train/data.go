package train

// The data of a training: a folder with train.jsonl, valid.jsonl and test.jsonl, one sample a line.
// As in mlx-lm, the first line of a file decides the form of all of its lines:
//
//	{"messages": [...], "tools": [...]}      a conversation; tools may be left out
//	{"prompt": "...", "completion": "..."}   one question and its answer
//	{"text": "..."}                          a text, without the chat template
//
// In place of the folder, a single file of any name can be given. If it has enough samples, each
// tenth one is for the validation (split.go).
//
// Everything is checked before a process starts, so that a fault of line 9,000 costs no hour.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/textproc"
	"headroom/engine/tokenizer"

	"golang.org/x/sys/unix"
)

const (
	maxLine = 16 << 20 // bytes of a line
	maxData = 4 << 30  // bytes of a file; mlx-lm holds all of it in memory
	shown   = 2        // samples to show of a file
	// maxFaults is how many faults of a file are named.
	maxFaults = 10
)

// Form is the form of the lines of a file.
type Form string

// The forms.
const (
	Messages    Form = "messages"
	Completions Form = "prompt and completion"
	Text        Form = "text"
)

// Keys are the names of the fields, which a configuration file may change.
type Keys struct{ Prompt, Completion, Chat, Text string }

func (k *Keys) fill() {
	first(&k.Prompt, "prompt")
	first(&k.Completion, "completion")
	first(&k.Chat, "messages")
	first(&k.Text, "text")
}

// Fault is a line that is no sample.
type Fault struct {
	File string
	Line int
	Why  error
}

// Set is what is known of one file.
type Set struct {
	Name    string // "train.jsonl"
	Form    Form
	Samples int
	Tokens  int64 // of all samples, also beyond the maximum length
	Longest int   // tokens of the longest sample
	Median  int
	Cut     int      // samples that are longer than the maximum length, and so cut
	Masked  int      // samples of which nothing is trained: the prompt takes the whole length
	Shown   []string // the beginnings of the first samples, as the model reads them
	Faults  []Fault  // at most maxFaults
}

// Data is what is known of the files of a folder. A file that does not exist is nil.
type Data struct{ Train, Valid, Test *Set }

// Faults returns the faults of all files.
func (d *Data) Faults() (all []Fault) {
	for _, set := range []*Set{d.Train, d.Valid, d.Test} {
		if set != nil {
			all = append(all, set.Faults...)
		}
	}
	return all
}

// ReadData reads and checks the files in a folder, or a single file. The error is a Problem, or
// ctx's. The Data then has what was read, with its faults.
func ReadData(ctx context.Context, dir string, p *textproc.Processor, o *Options) (Data, error) {
	var d Data
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return d, notStarted(problem.BadRequest, "Name a folder with a train.jsonl by --data.",
			"there is no folder %s", dir)
	case !info.IsDir():
		return readSplit(ctx, dir, p, o)
	}
	for _, f := range []struct {
		name string
		set  **Set
	}{{"train.jsonl", &d.Train}, {"valid.jsonl", &d.Valid}, {"test.jsonl", &d.Test}} {
		set, err := readFile(ctx, filepath.Join(dir, f.name), nil, p, o)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if set != nil {
			set.Name = f.name
			*f.set = set
		}
		if err != nil {
			return d, dataProblem(ctx, err)
		}
	}
	return d, d.check(dir, o)
}

func dataProblem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return notStarted(problem.BadRequest, "Correct the data.", "%v", err)
}

// check compares the number of samples with what mlx-lm needs.
func (d *Data) check(dir string, o *Options) error {
	switch {
	case d.Train == nil:
		return notStarted(problem.BadRequest, "Name a folder with a train.jsonl by --data.",
			"%s has no train.jsonl", dir)
	case o.Test && d.Test == nil:
		return notStarted(problem.BadRequest, "Add the file, or leave --test out.",
			"%s has no test.jsonl, which --test needs", dir)
	}
	for _, set := range []*Set{d.Train, d.Valid, d.Test} {
		if set == nil || set == d.Test && !o.Test {
			continue
		}
		if set.Samples < o.BatchSize {
			samples := fmt.Sprint(set.Samples, " samples")
			if set.Samples == 1 {
				samples = "1 sample"
			}
			return notStarted(problem.BadRequest, fmt.Sprintf("Add samples, or use --batch-size "+
				"%d.", max(set.Samples, 1)), "%s has %s, and a batch has %d", set.Name, samples,
				o.BatchSize)
		}
		if o.MaskPrompt && set.Form == Text {
			return notStarted(problem.BadRequest, "Leave --mask-prompt out.",
				"--mask-prompt is not possible with %s: its samples have no prompt", set.Name)
		}
	}
	if d.Train.Masked == d.Train.Samples {
		return notStarted(problem.BadRequest, "Use a larger --max-seq-length.",
			"the prompt of every sample takes all %d tokens", o.MaxSeqLength)
	}
	return nil
}

// Padded returns the largest number of tokens that a sample takes in a batch: mlx-lm pads to a
// multiple of 32, and one more.
func (d *Data) Padded(maxSeqLength int) int {
	longest := d.Train.Longest
	if d.Valid != nil {
		longest = max(longest, d.Valid.Longest)
	}
	return min(1+(longest+31)/32*32, maxSeqLength)
}

// reader reads the samples of one file.
type reader struct {
	p       *textproc.Processor
	o       *Options
	set     *Set
	lengths []int
}

// readFile reads one file: the lines that belong to the set, or all if belongs is nil. The error
// names the line, unless the file cannot be opened or read.
func readFile(ctx context.Context, path string, belongs func(line int) bool,
	p *textproc.Processor, o *Options) (*Set, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSet(ctx, path, f, belongs, p, o)
}

// openFile opens a file of data. The caller closes it.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a file", path)
	case info.Size() > maxData:
		err = fmt.Errorf("%s has %d bytes, expected at most %d", path, info.Size(),
			int64(maxData))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// linesOf returns the lines of a file of data.
func linesOf(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return lines
}

// readSet reads the samples in r: the lines that belong to the set, or all if belongs is nil.
// Errors name the line in path. If lines are no samples, the error is about the first one, and the
// Set has all of them, up to maxFaults.
func readSet(ctx context.Context, path string, r io.Reader, belongs func(line int) bool,
	p *textproc.Processor, o *Options) (*Set, error) {
	read := reader{p: p, o: o, set: &Set{}}
	lines := linesOf(r)
	line := 0
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		line++
		if belongs != nil && !belongs(line) {
			continue
		}
		if err := read.sample(ctx, lines.Bytes()); err != nil {
			read.set.Faults = append(read.set.Faults, Fault{path, line, err})
			if ctx.Err() != nil || len(read.set.Faults) == maxFaults {
				break
			}
		}
	}
	if faults := read.set.Faults; len(faults) > 0 {
		return read.set, fmt.Errorf("%s:%d: %w", path, faults[0].Line, faults[0].Why)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
		return nil, fmt.Errorf("%s:%d: %w", path, line+1, err)
	}
	if line == 0 {
		return nil, fmt.Errorf("%s is empty, expected a sample in every line", path)
	}
	if len(read.lengths) == 0 {
		return nil, fmt.Errorf("%s has no samples", path)
	}
	slices.Sort(read.lengths)
	read.set.Median = read.lengths[len(read.lengths)/2]
	return read.set, nil
}

// sample reads one line.
func (r *reader) sample(ctx context.Context, line []byte) error {
	fields, err := object(line)
	if err != nil {
		return err
	}
	form := formOf(fields, r.o.Keys)
	switch {
	case r.set.Samples == 0 && form == "":
		return fmt.Errorf("got %s, expected %q, %q with %q, or %q", keysOf(fields), r.o.Keys.Chat,
			r.o.Keys.Prompt, r.o.Keys.Completion, r.o.Keys.Text)
	case r.set.Samples == 0:
		r.set.Form = form
	case !has(fields, r.set.Form, r.o.Keys):
		return fmt.Errorf("got %s, expected %s as in the first line", keysOf(fields), r.set.Form)
	}
	text, tokens, prompt, err := r.tokens(ctx, fields)
	if err != nil {
		return err
	}
	if tokens == 0 {
		return errors.New("the sample has no tokens")
	}
	s := r.set
	s.Samples++
	s.Tokens += int64(tokens)
	s.Longest = max(s.Longest, tokens)
	r.lengths = append(r.lengths, tokens)
	if tokens > r.o.MaxSeqLength {
		s.Cut++
	}
	if prompt >= min(tokens, r.o.MaxSeqLength) {
		s.Masked++
	}
	if len(s.Shown) < shown {
		s.Shown = append(s.Shown, text)
	}
	return nil
}

func object(line []byte) (fields map[string]json.RawMessage, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("the line is empty, expected a JSON object")
	}
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("got %.40q, expected a JSON object", line)
	}
	return fields, nil
}

// formOf returns the form of a sample as mlx-lm determines it, "" for none.
func formOf(fields map[string]json.RawMessage, k Keys) Form {
	for _, form := range []Form{Completions, Messages, Text} {
		if has(fields, form, k) {
			return form
		}
	}
	return ""
}

func has(fields map[string]json.RawMessage, form Form, k Keys) bool {
	in := func(key string) bool { _, ok := fields[key]; return ok }
	switch form {
	case Completions:
		return in(k.Prompt) && in(k.Completion)
	case Messages:
		return in(k.Chat)
	}
	return in(k.Text)
}

func keysOf(fields map[string]json.RawMessage) string {
	if len(fields) == 0 {
		return "an object without fields"
	}
	var names []string
	for name := range fields {
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	slices.Sort(names)
	if len(names) > 5 {
		names = append(names[:5], "…")
	}
	return strings.Join(names, ", ")
}

// tokens returns a sample as the model reads it, the number of its tokens, and how many of them are
// the prompt, which is masked.
func (r *reader) tokens(ctx context.Context, fields map[string]json.RawMessage) (text string,
	tokens, prompt int, err error) {
	if r.set.Form == Text {
		if text, err = textOf(fields, r.o.Keys.Text); err != nil {
			return "", 0, 0, err
		}
		ids, err := r.encode(ctx, text, true)
		if n := len(ids); err == nil && (n == 0 || !r.p.IsEOS(ids[n-1])) {
			ids = append(ids, 0) // mlx-lm adds the end-of-sequence token
		}
		return text, len(ids), 0, err
	}
	messages, err := r.messages(fields)
	if err != nil {
		return "", 0, 0, err
	}
	tools, err := toolsOf(fields)
	if err != nil {
		return "", 0, 0, err
	}
	in := chat.Input{Messages: messages, Tools: tools}
	text, ids, err := r.render(ctx, in)
	if err != nil || !r.o.MaskPrompt {
		return text, len(ids), 0, err
	}
	in.Messages = messages[:len(messages)-1]
	in.AddGenerationPrompt = messages[len(messages)-1].Role == "assistant"
	_, masked, err := r.render(ctx, in)
	return text, len(ids), len(masked), err
}

func (r *reader) render(ctx context.Context, in chat.Input) (string, []int32, error) {
	t := r.p.Template()
	if t == nil {
		return "", nil, fmt.Errorf("the model has no chat template, which %s needs; use %q",
			r.set.Form, r.o.Keys.Text)
	}
	text, err := t.Render(ctx, in)
	if err != nil {
		return "", nil, fmt.Errorf("the chat template refuses the sample: %w", err)
	}
	ids, err := r.encode(ctx, text, false)
	return text, ids, err
}

func (r *reader) encode(ctx context.Context, text string, special bool) ([]int32, error) {
	return r.p.Tokenizer().EncodeContext(ctx, text, tokenizer.EncodeOptions{AddSpecial: special})
}

// messages returns the messages of a sample; those of a prompt and its completion are two.
func (r *reader) messages(fields map[string]json.RawMessage) ([]chat.Message, error) {
	k := r.o.Keys
	if r.set.Form == Completions {
		prompt, err := textOf(fields, k.Prompt)
		if err != nil {
			return nil, err
		}
		completion, err := textOf(fields, k.Completion)
		return []chat.Message{{Role: "user", Content: prompt},
			{Role: "assistant", Content: completion}}, err
	}
	var messages []chat.Message
	if err := json.Unmarshal(fields[k.Chat], &messages); err != nil {
		return nil, fmt.Errorf("%q is not a list of messages: %w", k.Chat, err)
	}
	if len(messages) == 0 {
		return nil, fmt.Errorf("%q is empty, expected messages", k.Chat)
	}
	return messages, nil
}

func textOf(fields map[string]json.RawMessage, key string) (text string, err error) {
	var value any
	if err := json.Unmarshal(fields[key], &value); err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%q is %.40s, expected a text", key, fields[key])
	}
	return text, nil
}

func toolsOf(fields map[string]json.RawMessage) (tools []json.RawMessage, err error) {
	raw, ok := fields["tools"]
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &tools); err != nil {
		return nil, fmt.Errorf("\"tools\" is %.40s, expected a list", raw)
	}
	for i, tool := range tools {
		if _, err := object(tool); err != nil {
			return nil, fmt.Errorf("tools[%d]: %w", i, err)
		}
	}
	return tools, nil
}
