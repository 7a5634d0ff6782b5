package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"testing"
)

// TestPack compares with encodings made by hand. Runs of 3 to 130 bytes are packed.
func TestPack(t *testing.T) {
	times := func(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	count := func(n int) (all []byte) {
		for i := range n {
			all = append(all, byte(i))
		}
		return all
	}
	cases := []struct {
		name        string
		plane, want []byte
	}{
		{"nothing", nil, nil},
		{"one", []byte{7}, []byte{0, 7}},
		{"two alike", []byte{7, 7}, []byte{1, 7, 7}},
		{"three alike", times(3, 7), []byte{128, 7}},
		{"the longest run", times(130, 7), []byte{255, 7}},
		{"a run and one more", times(131, 7), []byte{255, 7, 0, 7}},
		{"a literal before a run", []byte{1, 2, 7, 7, 7}, []byte{1, 1, 2, 128, 7}},
		{"a literal after a run", []byte{7, 7, 7, 1}, []byte{128, 7, 0, 1}},
		{"the longest literal", count(128), append([]byte{127}, count(128)...)},
		{"a longer literal", count(129), append(append([]byte{127}, count(128)...), 0, 128)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := pack(c.plane); !bytes.Equal(got, c.want) {
				t.Errorf("got % x, want % x", got, c.want)
			}
		})
	}
}

// TestIcns reads the file back: every entry occurs once, with the pixels that were drawn.
func TestIcns(t *testing.T) {
	file, err := icns(appIcon)
	if err != nil {
		t.Fatal(err)
	}
	if string(file[:4]) != "icns" || int(binary.BigEndian.Uint32(file[4:])) != len(file) {
		t.Fatalf("header % x for %d bytes", file[:8], len(file))
	}
	rest := file[8:]
	for _, kind := range icnsKinds {
		length := binary.BigEndian.Uint32(rest[4:])
		name, data := string(rest[:4]), rest[8:length]
		rest = rest[length:]
		if name != kind.name {
			t.Fatalf("entry %s, want %s", name, kind.name)
		}
		want := appIcon(kind.pixels)
		var got *image.NRGBA
		if kind.argb {
			got = unpacked(t, data, kind.pixels)
		} else {
			picture, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = picture.(*image.NRGBA)
		}
		if got.Bounds() != want.Bounds() || !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%s differs from the icon drawn at %d pixels", name, kind.pixels)
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes after the last entry", len(rest))
	}
}

// unpacked decodes an ARGB entry.
func unpacked(t *testing.T, data []byte, size int) *image.NRGBA {
	t.Helper()
	if string(data[:4]) != "ARGB" {
		t.Fatalf("begins with %q", data[:4])
	}
	var planes []byte
	for data = data[4:]; len(data) > 0; {
		if n := int(data[0]); n < 128 {
			planes = append(planes, data[1:n+2]...)
			data = data[n+2:]
		} else {
			planes = append(planes, bytes.Repeat(data[1:2], n-125)...)
			data = data[2:]
		}
	}
	if len(planes) != 4*size*size {
		t.Fatalf("%d bytes unpacked, want %d", len(planes), 4*size*size)
	}
	picture := image.NewNRGBA(image.Rect(0, 0, size, size))
	for i, channel := range []int{3, 0, 1, 2} {
		for p := range size * size {
			picture.Pix[4*p+channel] = planes[i*size*size+p]
		}
	}
	return picture
}
