package convert

// The text with which a conversion is calibrated: plain text, or JSON Lines of texts or chats. It
// becomes sequences of tokens, which one pass computes together.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/textproc"
	"headroom/engine/tokenizer"
)

const (
	// sampleTokens is how many tokens are used at most. All of them are in memory together.
	sampleTokens = 16384
	// leastSampleTokens is how many are needed: with fewer, what is learned is the text.
	leastSampleTokens = 1024
	// sequenceTokens is the length at which a text is cut.
	sequenceTokens = 1024
	// mostSampleBytes is the size of the largest file that is read.
	mostSampleBytes = 256 << 20
)

// sampleText is a text of which a conversion learns what layers get as inputs.
type sampleText struct {
	sequences [][]int32
	tokens    int  // of all sequences
	left      bool // the file has more text
	digest    [sha256.Size]byte
}

// document is a line of JSON Lines.
type document struct {
	Text     *string        `json:"text"`
	Messages []chat.Message `json:"messages"`
}

// sampleSize is how much of a text a model can take.
type sampleSize struct {
	tokens   int  // of all sequences, at most
	sequence int  // tokens of a sequence, at most
	one      bool // there is one sequence, of all texts
}

var defaultSample = sampleSize{tokens: sampleTokens, sequence: sequenceTokens}

// readSample reads the file for a model. It takes text from all over the file. Errors are Problems.
func readSample(ctx context.Context, path string, source checkpoint.Source, size sampleSize) (
	*sampleText, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > mostSampleBytes {
		return nil, sampleProblem(path, "it has %d MB, and at most %d MB are read",
			info.Size()>>20, mostSampleBytes>>20)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, wrapSample(err)
	}
	processor, err := textproc.Read(source)
	if err != nil {
		return nil, err
	}
	texts, err := readTexts(ctx, path, data, processor.Template())
	if err != nil {
		return nil, err
	}
	s := &sampleText{digest: sha256.Sum256(data)}
	var all [][]int32
	total := 0
	for _, t := range texts {
		ids, err := processor.Tokenizer().EncodeContext(ctx, t.text,
			tokenizer.EncodeOptions{AddSpecial: !t.chat})
		if err != nil {
			return nil, problem.Wrap(problem.BadRequest, err,
				"The calibration text cannot be encoded", "Use another text.")
		}
		for from := 0; from < len(ids); from += size.sequence {
			all = append(all, ids[from:min(from+size.sequence, len(ids))])
		}
		total += len(ids)
	}
	if total < leastSampleTokens {
		return nil, sampleProblem(path, "it has %d tokens, and at least %d are needed", total,
			leastSampleTokens)
	}
	s.take(all, total, size.tokens)
	if size.one {
		s.sequences = [][]int32{slices.Concat(s.sequences...)}
	}
	return s, nil
}

// take takes sequences at equal distances, so that every part of the file counts.
func (s *sampleText) take(all [][]int32, total, most int) {
	wanted := min(total, most)
	next := 0.0
	step := float64(total) / float64(wanted)
	at := 0
	for _, ids := range all {
		if s.tokens < wanted && float64(at) >= next {
			ids = ids[:min(len(ids), wanted-s.tokens)]
			s.sequences = append(s.sequences, ids)
			s.tokens += len(ids)
			next += float64(len(ids)) * step
		}
		at += len(ids)
	}
	s.left = total > s.tokens
}

// wrapSample returns the Problem of a file that cannot be read.
func wrapSample(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EISDIR):
		return problem.New(problem.BadRequest, "The calibration text cannot be read",
			"it is a folder", "Name a file with text.")
	}
	return problem.Wrap(problem.BadRequest, err, "The calibration text cannot be read",
		"Check the path.")
}

func sampleProblem(path, format string, args ...any) error {
	return problem.New(problem.BadRequest, "The calibration text cannot be used",
		filepath.Base(path)+": "+fmt.Sprintf(format, args...),
		"Use plain text, or JSON Lines of {\"text\": …} or {\"messages\": […]}, of some pages.")
}

// sampleDocument is the text of a document. That of a chat has its special tokens.
type sampleDocument struct {
	text string
	chat bool
}

// readTexts returns the texts of a file. A file whose first line is a JSON object has one on each
// line.
func readTexts(ctx context.Context, path string, data []byte, template *chat.Template) (
	texts []sampleDocument, err error) {
	if !strings.HasPrefix(string(bytes.TrimLeft(data, " \t\r\n\ufeff")), "{") &&
		!strings.HasSuffix(path, ".jsonl") {
		return []sampleDocument{{text: string(data)}}, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, mostSampleBytes)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var d document
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, sampleProblem(path, "line %d is no JSON object: %v", number, err)
		}
		switch {
		case d.Text != nil:
			texts = append(texts, sampleDocument{text: *d.Text})
		case len(d.Messages) == 0:
			return nil, sampleProblem(path, "line %d has neither text nor messages", number)
		case template == nil:
			return nil, sampleProblem(path, "line %d is a chat, and the model has no chat template",
				number)
		default:
			text, err := template.Render(ctx, chat.Input{Messages: d.Messages})
			if err != nil {
				return nil, sampleProblem(path, "line %d: the chat template refuses it: %v",
					number, err)
			}
			texts = append(texts, sampleDocument{text: text, chat: true})
		}
	}
	return texts, lines.Err()
}
