package chats

// The file of a conversation: lines of JSON, first the header, then its setup if it has one, then
// one for each message. If a line is damaged, the others can still be read. The header has the
// length of the rest, so that a truncated file is detected without reading it.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	version = 1
	// maxHeaderBytes is more than any header takes: a character of the title has at most 12 bytes.
	maxHeaderBytes = 8 << 10
)

// header is the first line.
type header struct {
	Version         int    `json:"version"`
	ID              string `json:"id"`
	Title           string `json:"title"`
	UpdatedAtUnixMs int64  `json:"updatedAt"`
	Revision        int    `json:"revision"`
	Messages        int    `json:"messages"`
	BodyBytes       int64  `json:"bodyBytes"` // of the lines after it
}

// setupLine is the line of a conversation's setup. No message has this field.
type setupLine struct {
	Setup *Setup `json:"setup"`
}

func encode(c Chat) []byte {
	var body bytes.Buffer
	if c.Setup != nil {
		body.Write(line(setupLine{c.Setup}))
	}
	for _, m := range c.Messages {
		body.Write(line(m))
	}
	s := c.Summary
	return append(line(header{version, s.ID, s.Title, s.UpdatedAtUnixMs, s.Revision,
		len(c.Messages), int64(body.Len())}), body.Bytes()...)
}

// line returns v as a line of JSON. It does not escape <, > and &, so that people can read files.
func line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("chats: line: " + err.Error()) // cannot happen for these types
	}
	return b.Bytes()
}

// parse reads as much of a file as possible. The summary's Damage describes what is wrong with it.
func parse(data []byte, id string) Chat {
	first, body, _ := bytes.Cut(data, []byte("\n"))
	h, damage := parseHeader(first, id, int64(len(body)))
	c := Chat{Messages: []Message{}}
	broken := 0
	for _, l := range bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n")) {
		var m Message
		if len(bytes.TrimSpace(l)) == 0 {
			continue
		}
		if bytes.HasPrefix(l, []byte(`{"setup":`)) && c.Setup == nil {
			var s setupLine
			if json.Unmarshal(l, &s) == nil && s.Setup != nil {
				c.Setup = s.Setup
				continue
			}
		}
		if err := json.Unmarshal(l, &m); err != nil || m.fault() != "" ||
			len(c.Messages) == maxMessages {
			broken++
			continue
		}
		c.Messages = append(c.Messages, m)
	}
	if damage == "" && (broken > 0 || len(c.Messages) != h.Messages) {
		damage = fmt.Sprintf("%d of %d messages can be read", len(c.Messages),
			max(h.Messages, len(c.Messages)+broken))
	}
	c.Summary = h.summary(id, damage)
	c.Summary.Messages = len(c.Messages)
	return c
}

// parseHeader parses the first line. damage describes what is wrong with it, or with the number of
// bytes that follow.
func parseHeader(first []byte, id string, bodyBytes int64) (h header, damage string) {
	if err := json.Unmarshal(first, &h); err != nil {
		return header{}, "its first line is not a header"
	}
	switch {
	case h.Version > version:
		return h,
			fmt.Sprintf("a later version of Headroom wrote it, in format %d; this one knows %d",
				h.Version, version)
	case h.Version != version || h.Revision < 1 || h.Messages < 0 || h.UpdatedAtUnixMs < 0:
		return header{}, "its first line is not a header"
	case h.ID != id:
		return h, fmt.Sprintf("its header names another conversation, %.80q", h.ID)
	case h.BodyBytes != bodyBytes:
		return h, fmt.Sprintf("%d bytes follow its first line, expected %d", bodyBytes, h.BodyBytes)
	}
	return h, ""
}

func (h header) summary(id, damage string) Summary {
	return Summary{ID: id, Title: h.Title, UpdatedAtUnixMs: max(h.UpdatedAtUnixMs, 0),
		Messages: max(h.Messages, 0), Revision: max(h.Revision, 0), Damage: damage}
}

// summarize reads only the header of a file.
func (k keys) summarize(path, id string, info fs.FileInfo) Summary {
	first, size, damage := k.beginning(path, id)
	h := header{}
	if first != nil {
		line, _, found := bytes.Cut(first, []byte("\n"))
		fault := "its first line is not a header"
		if found {
			h, fault = parseHeader(line, id, size-int64(len(line)+1))
		}
		damage = cmp.Or(damage, fault)
	}
	if info.Size() > maxFileBytes {
		damage = tooLong(info.Size())
	}
	s := h.summary(id, damage)
	s.Path = path
	if s.UpdatedAtUnixMs == 0 {
		s.UpdatedAtUnixMs = info.ModTime().UnixMilli()
	}
	return s
}

func tooLong(size int64) string {
	return fmt.Sprintf("it has %d bytes; the limit is %d", size, maxBytes)
}

// readFile reads a regular file up to limit bytes. Other files are refused: reading a pipe might
// never end.
func readFile(path string, limit int64) ([]byte, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit))
	return data, info, err
}

// excerptChars is the number of characters shown before and after a match.
const excerptChars = 40

// Search returns the conversations whose title and messages contain all words of text, ignoring
// case, the latest change first.
func (s *Store) Search(text string) ([]Summary, error) {
	words := strings.Fields(strings.ToLower(text))
	s.mu.Lock()
	list, err := s.list()
	s.mu.Unlock()
	if err != nil || len(words) == 0 || len(list) == 0 {
		return list, err
	}
	k, err := s.keys()
	if err != nil {
		return nil, err
	}
	found := []Summary{}
	for _, one := range list {
		if containsAll(strings.ToLower(one.Title), words) {
			found = append(found, one)
			continue
		}
		// This needs no lock, because files are replaced atomically.
		c, _, err := k.read(one.Path, one.ID)
		if err != nil {
			continue
		}
		texts := []string{one.Title}
		for _, m := range c.Messages {
			texts = append(texts, m.Content)
		}
		if whole := strings.Join(texts, "\n"); containsAll(strings.ToLower(whole), words) {
			one.Excerpt = excerpt(whole[len(one.Title):], words)
			found = append(found, one)
		}
	}
	return found, nil
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// excerpt returns the text around the first of the words that it contains, on one line.
func excerpt(text string, words []string) string {
	runes := []rune(text)
	lower := []rune(strings.ToLower(text))
	if len(lower) != len(runes) { // some letter has a longer lower-case form
		lower = runes
	}
	for _, w := range words {
		before, _, ok := strings.Cut(string(lower), w)
		if !ok {
			continue
		}
		at := len([]rune(before))
		from, to := max(at-excerptChars, 0), min(at+len([]rune(w))+excerptChars, len(runes))
		cut := strings.Join(strings.Fields(string(runes[from:to])), " ")
		if from > 0 {
			cut = "…" + cut
		}
		if to < len(runes) {
			cut += "…"
		}
		return cut
	}
	return ""
}
