package safetensors

// Parsing of the header, which is not trusted. parse takes the bytes of a whole file, so that the
// fuzz test can call it without a file.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"headroom/engine/modelfile"
)

const (
	lengthBytes = 8 // size of the u64 before the header
	metadataKey = "__metadata__"

	// The largest known models have 210,000 tensors of at most 5 dimensions, with names of 120
	// bytes.
	maxTensors    = 500_000
	maxDimensions = 16
	maxNameBytes  = 1024
)

// parse checks a whole file. It returns the tensors, sorted by name, and the metadata, which is nil
// if the header has none. The Data of the tensors are slices of file.
func parse(file []byte) ([]Tensor, map[string]string, error) {
	if len(file) < lengthBytes {
		return nil, nil, fmt.Errorf(
			"file has %d bytes, too few for the 8-byte header length: it is truncated or not "+
				"a safetensors file", len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	limit := modelfile.SafetensorsHeader
	if n > uint64(limit.Bytes) {
		return nil, nil, fmt.Errorf(
			"header length %d is over the limit of %d bytes: this is not a safetensors file", n,
			limit.Bytes)
	}
	if n > uint64(len(file)-lengthBytes) {
		return nil, nil, fmt.Errorf(
			"header of %d bytes does not fit into a file of %d: it is truncated or not "+
				"a safetensors file", n, len(file))
	}
	base := lengthBytes + int(n)
	if err := limit.Check(file[lengthBytes:base]); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	tensors, metadata, err := parseHeader(file[lengthBytes:base])
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if err := checkCoverage(tensors, len(file)-base); err != nil {
		return nil, nil, err
	}
	for i := range tensors {
		t := &tensors[i]
		t.From += base
		t.To += base
		t.Data = file[t.From:t.To:t.To]
	}
	slices.SortFunc(tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, metadata, nil
}

// checkCoverage sorts tensors by position and checks that they cover [0, size) without overlaps or
// gaps. Their ranges are relative to the data section.
func checkCoverage(tensors []Tensor, size int) error {
	sort.Slice(tensors, func(i, j int) bool {
		a, b := &tensors[i], &tensors[j]
		if a.From != b.From {
			return a.From < b.From
		}
		if a.To != b.To {
			return a.To < b.To
		}
		return a.Name < b.Name
	})
	end := 0
	before := func(i int) string {
		if i == 0 {
			return "the start of the data"
		}
		return fmt.Sprintf("tensor %q", tensors[i-1].Name)
	}
	for i := range tensors {
		t := &tensors[i]
		switch {
		case t.To > size:
			return fmt.Errorf(
				"tensor %q: data_offsets [%d, %d) are beyond the data section of %d bytes: "+
					"the file is truncated", t.Name, t.From, t.To, size)
		case t.From < end:
			return fmt.Errorf("tensor %q: data_offsets [%d, %d) overlap %s, which ends at %d",
				t.Name, t.From, t.To, before(i), end)
		case t.From > end:
			return fmt.Errorf(
				"tensor %q: starts at %d, with a gap of %d bytes after %s, which ends at %d",
				t.Name, t.From, t.From-end, before(i), end)
		}
		end = t.To
	}
	if end != size {
		return fmt.Errorf(
			"%d bytes at the end of the data section belong to no tensor: the last one is %s, "+
				"which ends at %d of %d", size-end, before(len(tensors)), end, size)
	}
	return nil
}

// parseHeader parses the JSON object. The ranges of the tensors are relative to the data section.
func parseHeader(header []byte) ([]Tensor, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("does not begin with '{'")
	}
	// encoding/json would replace invalid bytes with U+FFFD, so different names could become equal.
	if !utf8.Valid(header) {
		return nil, nil, errors.New("is not valid UTF-8")
	}
	var tensors []Tensor
	var metadata map[string]string
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	err := readObject(dec, func(name string) (err error) {
		if name == metadataKey {
			if metadata, err = readMetadata(dec); err != nil {
				return fmt.Errorf("%s: %w", metadataKey, err)
			}
			return nil
		}
		if len(name) > maxNameBytes {
			return fmt.Errorf("the name %q has %d bytes, expected at most %d",
				modelfile.Excerpt(name), len(name), maxNameBytes)
		}
		if len(tensors) == maxTensors {
			return fmt.Errorf("it has more than %d tensors", maxTensors)
		}
		t, err := readTensor(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		t.Name = name
		tensors = append(tensors, t)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("has text after the JSON object")
	}
	return tensors, metadata, nil
}

// readTensor reads {"dtype": …, "shape": […], "data_offsets": [from, to]} and checks that the three
// agree. It skips unknown keys, as the reference implementation does. An unknown dtype is not an
// error, because only the user of that tensor needs to know the type.
func readTensor(dec *json.Decoder) (Tensor, error) {
	var t Tensor
	var offsets []int
	var hasShape bool
	err := readObject(dec, func(key string) (err error) {
		switch key {
		case "dtype":
			var s string
			s, err = readString(dec)
			t.DType = DType(modelfile.Excerpt(s))
		case "shape":
			hasShape = true
			t.Shape, err = readInts(dec)
		case "data_offsets":
			offsets, err = readInts(dec)
		default:
			var skipped json.RawMessage
			err = dec.Decode(&skipped)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", modelfile.Excerpt(key), err)
		}
		return nil
	})
	switch {
	case err != nil:
		return t, err
	case t.DType == "" || !hasShape || offsets == nil:
		return t, errors.New("dtype, shape and data_offsets must all be present")
	case len(offsets) != 2:
		return t, fmt.Errorf("data_offsets has %d numbers, expected [from, to]", len(offsets))
	case offsets[0] > offsets[1]:
		return t, fmt.Errorf("data_offsets [%d, %d) end before they start", offsets[0], offsets[1])
	}
	t.From, t.To = offsets[0], offsets[1]
	if t.DType.Bytes() == 0 {
		if _, err := product(1, t.Shape); err != nil {
			return t, fmt.Errorf("shape %s %w", ShapeText(t.Shape...), err)
		}
		return t, nil
	}
	size, err := sizeBytes(t.DType, t.Shape)
	if err != nil {
		return t, err
	}
	if t.To-t.From != size {
		return t, fmt.Errorf("data_offsets [%d, %d) hold %d bytes, but %s of shape %s "+
			"needs %d", t.From, t.To, t.To-t.From, t.DType, ShapeText(t.Shape...), size)
	}
	return t, nil
}

// The readers below walk the token stream instead of decoding into structs, because encoding/json
// silently uses the last of duplicate keys.

// readObject reads the next value, which must be an object, and calls field for each key. field
// must read the value of the key.
func readObject(dec *json.Decoder, field func(key string) error) error {
	if err := expectDelim(dec, '{'); err != nil {
		return err
	}
	return readMembers(dec, field)
}

// readMembers reads the rest of an object whose opening brace has been read.
func readMembers(dec *json.Decoder, field func(key string) error) error {
	seen := make(map[string]struct{})
	for dec.More() {
		key, err := readString(dec)
		if err != nil {
			return err
		}
		if _, dup := seen[key]; dup {
			return fmt.Errorf("key %q appears twice", modelfile.Excerpt(key))
		}
		seen[key] = struct{}{}
		if err := field(key); err != nil {
			return err
		}
	}
	return expectDelim(dec, '}')
}

// readMetadata reads an object of strings. It returns nil for null, which MLX writes if it is given
// no metadata.
func readMetadata(dec *json.Decoder) (map[string]string, error) {
	tok, err := dec.Token()
	if tok == nil || err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, fmt.Errorf("got %v, expected an object or null", shown(tok))
	}
	return readStringMembers(dec)
}

func readStrings(dec *json.Decoder) (map[string]string, error) {
	if err := expectDelim(dec, '{'); err != nil {
		return nil, err
	}
	return readStringMembers(dec)
}

func readStringMembers(dec *json.Decoder) (map[string]string, error) {
	m := make(map[string]string)
	err := readMembers(dec, func(key string) (err error) {
		if m[key], err = readString(dec); err != nil {
			return fmt.Errorf("%q: %w", modelfile.Excerpt(key), err)
		}
		return nil
	})
	return m, err
}

// readInts reads an array of non-negative integers. The result is nil only if there is an error.
func readInts(dec *json.Decoder) ([]int, error) {
	if err := expectDelim(dec, '['); err != nil {
		return nil, err
	}
	ints := []int{}
	for dec.More() {
		if len(ints) == maxDimensions {
			return nil, fmt.Errorf("it has more than %d numbers", maxDimensions)
		}
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("got %v, expected a number", shown(tok))
		}
		// ParseUint returns an error for signs, fractions and exponents.
		n, err := strconv.ParseUint(num.String(), 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("got %s, expected an integer from 0 to 2^%d-1", shown(num),
				strconv.IntSize-1)
		}
		ints = append(ints, int(n))
	}
	return ints, expectDelim(dec, ']')
}

func readString(dec *json.Decoder) (string, error) {
	tok, err := dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("got %v, expected a string", shown(tok))
	}
	return s, nil
}

// shown returns a token as an error shows it.
func shown(tok json.Token) string { return modelfile.Excerpt(fmt.Sprint(tok)) }

func expectDelim(dec *json.Decoder, want json.Delim) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("got %v, expected %v", shown(tok), want)
	}
	return nil
}
