package blockstore

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"headroom/engine/safetensors"
)

func testHeader() *header {
	return &header{
		kind: kindTail, fingerprint: "fp", format: `k8"v4`, model: "Modell <ä>", parent: Key{31: 5},
		position: 512, title: "line\nbreak \u2028 \\",
		seconds: 1.25, created: time.Unix(1_800_000_000, 0).UTC(), tokens: []int32{5, -6, 7},
		tensors: []layout{{"0.k", 2, 96}, {`a"b`, 1, 3}},
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	for _, change := range []func(h *header){
		func(h *header) {},
		func(h *header) { h.kind, h.tokens, h.tensors = kindState, []int32{}, nil },
		func(h *header) {
			h.kind, h.tokens, h.position, h.parent = kindBlock, count(0, 256), 0, Key{}
		},
		func(h *header) { h.title, h.model = "", "" },
	} {
		h := testHeader()
		change(h)
		head, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(head)-4*len(h.tokens)) + h.dataBytes()
		got, at, err := decode(append(head, 1, 2, 3), size, false)
		if err != nil || at != len(head) || !reflect.DeepEqual(got, h) {
			t.Errorf("%+v became %+v, tensors at %d of %d, %v", h, got, at, len(head), err)
		}
		if at%4 != 0 {
			t.Errorf("the tensors begin at %d, which is not a multiple of 4", at)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for want, change := range map[string]func(h *header){
		"not valid UTF-8":      func(h *header) { h.title = "\xff" },
		"the name is reserved": func(h *header) { h.tensors[0].name = "crc32c" },
		"reserved, not unique": func(h *header) { h.tensors[0].name = h.tensors[1].name },
		"expected at least":    func(h *header) { h.tensors[0].pieces = 0 },
		"0 bytes, expected a":  func(h *header) { h.tensors[0].pieceBytes = 0 },
		"exceeds the limit":    func(h *header) { h.model = strings.Repeat("x", maxHeaderBytes) },
	} {
		h := testHeader()
		change(h)
		if _, err := h.encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, expected one with %q", err, want)
		}
	}
}

// TestDecodeRefuses changes one part of a valid header at a time.
func TestDecodeRefuses(t *testing.T) {
	h := testHeader()
	right, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(right)-4*len(h.tokens)) + h.dataBytes()
	for _, c := range []struct{ old, new, want string }{
		{`"version":"headroom block 1"`, `"version":"headroom block 0"`, "version"},
		{`"kind":"tail"`, `"kind":"snag"`, "does not fit"},
		{`"kind":"tail"`, `"kind":"root"`, "does not fit"},
		{`"position":"512"`, `"position":"513"`, "position"},
		{`"position":"512"`, `"position":"000"`, "position"},
		{`"position":"512"`, `"position":"-25"`, "position"},
		{`"seconds":"1.25"`, `"seconds":"-1.0"`, "cost"},
		{`"seconds":"1.25"`, `"seconds":" NaN"`, "invalid"},
		{`"parent":"00`, `"parent":"0g`, "not a key"},
		{`"created":"2027`, `"created":"20x7`, "cannot parse"},
		{`"I32","shape":[3]`, `"I32","shape":[4]`, "has 12 bytes"},
		{`"dtype":"I32"`, `"dtype":"U32"`, "expected"},
		{`"shape":[2,96]`, `"shape":[3,96]`, "has 192 bytes"},
		{`"shape":[2,96]`, `"shape":[2,-6]`, "whole number"},
		{`"data_offsets":[12,204]`, `"data_offsets":[13,204]`, "begin at 12"},
		{`"data_offsets":[12,204]`, `"data_offsets":[12,004]`, "whole number"},
		{`"crc32c":{"dtype":"U8","shape":[4]`, `"crc32d":{"dtype":"U8","shape":[4]`,
			`expected ","`},
		{`"0.k":{`, `"0.k" {`, "expected"},
		{`}}`, `} `, "expected"},
	} {
		if !bytes.Contains(right, []byte(c.old)) {
			t.Fatalf("the header has no %s: %s", c.old, right)
		}
		_, _, err := decode(bytes.Replace(right, []byte(c.old), []byte(c.new), 1), size, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, expected one with %q", c.new, err, c.want)
		}
	}
	for n := range right {
		if _, _, err := decode(right[:n], size, false); err == nil {
			t.Fatalf("decoded a header cut to %d of %d bytes", n, len(right))
		}
	}
	for _, wrong := range []int64{0, 7, size - 1, size + 1} {
		if _, _, err := decode(right, wrong, false); err == nil {
			t.Errorf("a file of %d bytes was accepted, expected one of %d", wrong, size)
		}
	}
	huge := binary.LittleEndian.AppendUint64(nil, 1<<63)
	if _, _, err := decode(append(huge, right[8:]...), 1<<62, false); err == nil {
		t.Error("a header length of 2^63 bytes was accepted")
	}
}

// FuzzDecode checks that no input causes a panic, and that decode accepts only what encode writes.
func FuzzDecode(f *testing.F) {
	h := testHeader()
	head, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head, int64(len(head))+h.dataBytes()-12)
	h.kind, h.tokens, h.tensors = kindState, nil, nil
	if head, err = h.encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(head, int64(len(head)+checksumBytes))
	f.Add([]byte("\x10\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":"), int64(40))
	f.Fuzz(func(t *testing.T, head []byte, size int64) {
		h, at, err := decode(head, size, false)
		if err != nil {
			return
		}
		if at > len(head) || int64(at) > size {
			t.Fatalf("tensors at %d of %d bytes, file of %d", at, len(head), size)
		}
		again, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := decode(again, int64(len(again)-4*len(h.tokens))+h.dataBytes(), false)
		if err != nil || got.key(nil) != h.key(nil) || !reflect.DeepEqual(got.tensors, h.tensors) {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
	})
}

// TestFileIsSafetensors checks that other safetensors readers can read the files.
func TestFileIsSafetensors(t *testing.T) {
	dir := t.TempDir()
	o := options(t)
	o.Key = nil
	s := open(t, dir, o)
	v := s.Model(testModel)
	tokens := numbers(3, 300)
	save(t, v, sequence(tokens, true))
	chain := v.keys.chain(tokens)
	path := entryPath(dir, chain[0])
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if names := strings.Join(f.Names(), " "); names != "0.k 0.v crc32c tokens" {
		t.Errorf("tensors %s", names)
	}
	k, _ := f.Tensor("0.k")
	if want := bytes.Join(kvPieces(tokens, 0, 256)[0].Pieces, nil); k.DType != safetensors.U8 ||
		!reflect.DeepEqual(k.Shape, []int{8, 96}) || !bytes.Equal(k.Data, want) {
		t.Errorf("0.k is %s %v", k.DType, k.Shape)
	}
	n, _ := f.Tensor("tokens")
	if n.DType != safetensors.I32 || !bytes.Equal(n.Data, appendTokens(nil, tokens[:256])) {
		t.Errorf("tokens are %s %v", n.DType, n.Shape)
	}
	m := f.Metadata()
	if m["model"] != "Test 1B" || m["position"] != "0" || m["kind"] != "block" ||
		m["seconds"] != "2.56" || m["title"] != "a conversation" {
		t.Errorf("metadata %v", m)
	}
	for path, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700,
		filepath.Join(dir, indexName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, expected %v", path, info.Mode(), err, want)
		}
	}
}
