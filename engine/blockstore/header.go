package blockstore

// The file of an entry is a safetensors file that any reader can open. Order and spacing are fixed,
// so that it can be read in one scan. A file in any other layout is not an entry.
//
//	u64 n | n bytes of JSON, padded to 8
//	tokens I32 [n]
//	the engine's tensors, each U8 [pieces, bytes of a piece]
//	crc32c U8 [4]
//
// In an encrypted folder the file is a sealed file (engine/seal), whose content is the same without
// crc32c: opening it verifies every byte.
//
// The JSON holds __metadata__, then the tensors in file order. The metadata are strings in
// ascending order of their names. The index row and the key are computed from the metadata and the
// tokens. crc32c is the little-endian CRC-32C of every byte before it, header included.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxHeaderBytes = 1 << 20
	checksumBytes  = 4
	tokensName     = "tokens"
	checksumName   = "crc32c"
	metadataName   = "__metadata__"
	maxTitleBytes  = 200
)

// header is the content of a file without the data of the engine's tensors.
type header struct {
	kind        kind
	fingerprint string
	format      string // of the cache
	model       string // display name
	parent      Key
	position    int // of the first token
	title       string
	seconds     float64 // what computing the entry cost
	created     time.Time
	tokens      []int32
	tensors     []layout
	sealed      bool // the file has no crc32c
}

// layout is one of the engine's tensors in the file.
type layout struct {
	name       string
	pieces     int
	pieceBytes int
}

func (l layout) bytes() int64 { return int64(l.pieces) * int64(l.pieceBytes) }

// key computes the key from the content, with the secret of an encrypted folder.
func (h *header) key(secret []byte) Key {
	return newKeys(h.fingerprint, h.format, secret).key(h.kind, h.parent, h.tokens)
}

// dataBytes returns the length of the content after its JSON.
func (h *header) dataBytes() int64 {
	n := int64(4 * len(h.tokens))
	if !h.sealed {
		n += checksumBytes
	}
	for _, t := range h.tensors {
		n += t.bytes()
	}
	return n
}

// encode returns the beginning of the file, up to the engine's first tensor.
func (h *header) encode() ([]byte, error) {
	for _, s := range []string{h.fingerprint, h.format, h.model, h.title} {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("blockstore: %q is not valid UTF-8", s)
		}
	}
	b := append(make([]byte, 8, 4096), `{"__metadata__":`...)
	b = appendJSON(b, map[string]string{
		"cache_format": h.format,
		"created":      h.created.UTC().Format(time.RFC3339),
		"fingerprint":  h.fingerprint,
		"kind":         h.kind.String(),
		"model":        h.model,
		"parent":       h.parent.String(),
		"position":     strconv.Itoa(h.position),
		"seconds":      strconv.FormatFloat(h.seconds, 'g', -1, 64),
		"title":        h.title,
		"version":      formatVersion,
	})
	at := int64(0)
	tensor := func(name, dtype, shape string, bytes int64) {
		b = append(b, ',')
		b = appendJSON(b, name)
		b = fmt.Appendf(b, `:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, dtype, shape, at,
			at+bytes)
		at += bytes
	}
	tensor(tokensName, "I32", strconv.Itoa(len(h.tokens)), int64(4*len(h.tokens)))
	seen := map[string]bool{tokensName: true, checksumName: true, metadataName: true}
	for _, t := range h.tensors {
		switch {
		case seen[t.name] || !utf8.ValidString(t.name):
			return nil,
				fmt.Errorf("blockstore: tensor %q: the name is reserved, not unique or not "+
					"valid UTF-8", t.name)
		case t.pieces <= 0 || t.pieceBytes <= 0:
			return nil, fmt.Errorf("blockstore: tensor %q has %d pieces of %d bytes, expected at "+
				"least one of each", t.name, t.pieces, t.pieceBytes)
		}
		seen[t.name] = true
		tensor(t.name, "U8", fmt.Sprintf("%d,%d", t.pieces, t.pieceBytes), t.bytes())
	}
	if !h.sealed {
		tensor(checksumName, "U8", strconv.Itoa(checksumBytes), checksumBytes)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > maxHeaderBytes {
		return nil, fmt.Errorf("blockstore: header of %d bytes exceeds the limit of %d", len(b)-8,
			maxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return appendTokens(b, h.tokens), nil
}

// appendJSON appends v, a string or a map of strings, without HTML escapes and without a newline.
func appendJSON(b []byte, v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("blockstore: encode %v: %v", v, err))
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...)
}

// jsonLength returns the length of the JSON from a file's first 8 bytes, checked against the file's
// length.
func jsonLength(first []byte, fileBytes int64) (int, error) {
	if len(first) < 8 {
		return 0, fmt.Errorf("%d bytes, too few for a header", len(first))
	}
	n := binary.LittleEndian.Uint64(first)
	if n > maxHeaderBytes || int64(n) > fileBytes-8 || n%8 != 0 {
		return 0, fmt.Errorf("header length %d does not fit a file of %d bytes", n, fileBytes)
	}
	return int(n), nil
}

// decode parses the beginning of a content of fileBytes bytes: 8 bytes of length, the JSON and the
// tokens. sealed is as in header. head may be longer. decode also returns the offset of the
// engine's first tensor. It checks every length against fileBytes before using it.
func decode(head []byte, fileBytes int64, sealed bool) (*header, int, error) {
	n, err := jsonLength(head, fileBytes)
	if err != nil {
		return nil, 0, err
	}
	if len(head) < 8+n {
		return nil, 0, fmt.Errorf("header of %d bytes is cut off after %d", n, len(head)-8)
	}
	s := scanner{text: head[8 : 8+n]}
	h, nTokens := s.header(sealed)
	if s.err != nil {
		return nil, 0, s.err
	}
	from, to := 8+n, 8+n+4*nTokens
	if to > len(head) {
		return nil, 0, fmt.Errorf("%d tokens are cut off", nTokens)
	}
	h.tokens = make([]int32, nTokens)
	for i := range h.tokens {
		h.tokens[i] = int32(binary.LittleEndian.Uint32(head[from+4*i:]))
	}
	if got, want := fileBytes-int64(from), h.dataBytes(); got != want {
		return nil, 0, fmt.Errorf("%d bytes of data, the header says %d", got, want)
	}
	return h, to, nil
}

// scanner parses the JSON exactly as encode writes it. After the first error it reads nothing more.
type scanner struct {
	text []byte
	at   int
	err  error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("header at byte %d: %s", s.at, fmt.Sprintf(format, args...))
	}
}

// accept consumes the string want if the text continues with it, and reports whether it did.
func (s *scanner) accept(want string) bool {
	if s.err != nil || !bytes.HasPrefix(s.text[s.at:], []byte(want)) {
		return false
	}
	s.at += len(want)
	return true
}

func (s *scanner) expect(want string) {
	if !s.accept(want) {
		s.fail("expected %q", want)
	}
}

// number reads a whole number from 0 to 2^62.
func (s *scanner) number() int64 {
	from := s.at
	for s.err == nil && s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	n, err := strconv.ParseInt(string(s.text[from:s.at]), 10, 64)
	if err != nil || n > 1<<62 || (s.at-from > 1 && s.text[from] == '0') {
		s.fail("expected a whole number")
		return 0
	}
	return n
}

// quoted reads a string.
func (s *scanner) quoted() string {
	from := s.at
	s.expect(`"`)
	escaped := false
	for s.err == nil {
		if s.at >= len(s.text) {
			s.fail("unterminated string")
			break
		}
		c := s.text[s.at]
		s.at++
		if c == '\\' {
			escaped = true
			s.at++
		} else if c == '"' {
			break
		}
	}
	if s.err != nil {
		return ""
	}
	if raw := s.text[from+1 : s.at-1]; !escaped && utf8.Valid(raw) {
		return string(raw)
	}
	var text string
	if err := json.Unmarshal(s.text[from:s.at], &text); err != nil {
		s.fail("invalid string: %v", err)
	}
	return text
}

// header parses the whole text. It returns the number of tokens separately, because the header does
// not hold them yet.
func (s *scanner) header(sealed bool) (*header, int) {
	s.expect(`{"__metadata__":{`)
	h := s.metadata()
	h.sealed = sealed
	s.expect("},")
	at := int64(0)
	name, nTokens, _ := s.tensor(&at, "I32", 1)
	if s.err == nil && (name != tokensName || !h.kind.fits(int(nTokens))) {
		s.fail("%d tokens in %q, which does not fit a %s", nTokens, name, h.kind)
	}
	for s.err == nil {
		if sealed && s.at < len(s.text) && s.text[s.at] == '}' {
			break
		}
		s.expect(",")
		from := s.at
		if !sealed && s.accept(`"`+checksumName+`":`) {
			s.at = from
			if _, n, _ := s.tensor(&at, "U8", 1); s.err == nil && n != checksumBytes {
				s.fail("the checksum has %d bytes, expected %d", n, checksumBytes)
			}
			break
		}
		name, pieces, pieceBytes := s.tensor(&at, "U8", 2)
		h.tensors = append(h.tensors,
			layout{name: name, pieces: int(pieces), pieceBytes: int(pieceBytes)})
	}
	s.expect("}")
	for s.accept(" ") {
	}
	if s.at != len(s.text) {
		s.fail("expected the end of the header")
	}
	return h, int(nTokens)
}

// tensor parses `"name":{"dtype":…,"shape":[a] or [a,b],"data_offsets":[from,to]}`. The tensor's
// data must begin at *at; tensor sets *at to its end.
func (s *scanner) tensor(at *int64, dtype string, dims int) (name string, a, b int64) {
	name = s.quoted()
	s.expect(`:{"dtype":"` + dtype + `","shape":[`)
	a, b = s.number(), 1
	if dims == 2 {
		s.expect(",")
		b = s.number()
	}
	s.expect(`],"data_offsets":[`)
	from := s.number()
	s.expect(",")
	to := s.number()
	s.expect("]}")
	unit := int64(1)
	if dtype == "I32" {
		unit = 4
	}
	// a and b are untrusted: they are bounded before they are multiplied.
	size := to - from
	switch {
	case s.err != nil:
	case from != *at || size < 0:
		s.fail("tensor %q is at [%d, %d), expected it to begin at %d", name, from, to, *at)
	case dims == 2 && (a == 0 || b == 0):
		s.fail("tensor %q is empty", name)
	case a > math.MaxInt32 || b > math.MaxInt32 || a*b > math.MaxInt64/4 || a*b*unit != size:
		s.fail("tensor %q of shape [%d, %d] has %d bytes", name, a, b, size)
	}
	*at = to
	return name, a, b
}

// metadata parses the members of __metadata__, in ascending order.
func (s *scanner) metadata() *header {
	h := &header{}
	member := func(name string) string {
		s.expect(`"` + name + `":`)
		v := s.quoted()
		if name != "version" {
			s.expect(",")
		}
		return v
	}
	var err, errs error
	note := func() { errs = errors.Join(errs, err) }
	h.format = member("cache_format")
	h.created, err = time.Parse(time.RFC3339, member("created"))
	note()
	h.fingerprint = member("fingerprint")
	h.kind = kindOf(member("kind"))
	h.model = member("model")
	h.parent, err = parseKey(member("parent"))
	note()
	h.position, err = strconv.Atoi(member("position"))
	note()
	h.seconds, err = strconv.ParseFloat(member("seconds"), 64)
	note()
	h.title = member("title")
	version := member("version")
	switch {
	case s.err != nil:
	case version != formatVersion:
		s.fail("version %q, expected %q", version, formatVersion)
	case errs != nil:
		s.fail("%v", errs)
	case h.position < 0 || h.position%BlockTokens != 0 || h.position > math.MaxInt32 ||
		(h.position == 0) != (h.parent == Key{}):
		s.fail("position %d does not fit the parent %s", h.position, h.parent)
	case math.IsNaN(h.seconds) || math.IsInf(h.seconds, 0) || h.seconds < 0:
		s.fail("a cost of %v seconds is not valid", h.seconds)
	}
	return h
}

func parseKey(text string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(k) || strings.ToLower(text) != text {
		return k, fmt.Errorf("%q is not a key: expected %d lower-case hexadecimal digits", text,
			2*len(k))
	}
	return Key(b), nil
}
