package main

// Apple's icon file: "icns", the file's length, then entries of four letters, their length and a
// picture. iconutil writes the same ten, and exists on a Mac alone; format and entries as found by
// https://relikd.github.io/icns-analysis/.

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
)

// icnsKind is one entry: a picture of so many pixels. The two smallest at one pixel a point are
// "ARGB", which macOS shows in bundles there from version 11 on; all others are PNG.
type icnsKind struct {
	name   string
	pixels int
	argb   bool
}

// icnsKinds are all sizes that macOS asks for, at one and at two pixels a point.
var icnsKinds = []icnsKind{
	{"ic04", 16, true}, {"ic11", 32, false},
	{"ic05", 32, true}, {"ic12", 64, false},
	{"ic07", 128, false}, {"ic13", 256, false},
	{"ic08", 256, false}, {"ic14", 512, false},
	{"ic09", 512, false}, {"ic10", 1024, false},
}

// icns is the file with every entry, as draw draws each size.
func icns(draw func(pixels int) *image.NRGBA) ([]byte, error) {
	var body bytes.Buffer
	for _, kind := range icnsKinds {
		data := []byte(nil)
		if picture := draw(kind.pixels); kind.argb {
			data = argb(picture)
		} else {
			var out bytes.Buffer
			if err := png.Encode(&out, picture); err != nil {
				return nil, err
			}
			data = out.Bytes()
		}
		icnsEntry(&body, kind.name, data)
	}
	var file bytes.Buffer
	icnsEntry(&file, "icns", body.Bytes())
	return file.Bytes(), nil
}

// icnsEntry writes a name, the length of the whole entry, and its data.
func icnsEntry(to *bytes.Buffer, name string, data []byte) {
	to.WriteString(name)
	to.Write(binary.BigEndian.AppendUint32(nil, uint32(8+len(data))))
	to.Write(data)
}

// argb is the word itself and the four channels one after another, alpha first, each packed.
func argb(picture *image.NRGBA) []byte {
	out := []byte("ARGB")
	for _, channel := range []int{3, 0, 1, 2} {
		plane := make([]byte, 0, len(picture.Pix)/4)
		for i := channel; i < len(picture.Pix); i += 4 {
			plane = append(plane, picture.Pix[i])
		}
		out = append(out, pack(plane)...)
	}
	return out
}

// pack is the run lengths of icns: a byte n below 128 goes before n+1 bytes as they are, one from
// 128 on before a byte that stands for n-125 of it (3 to 130).
func pack(plane []byte) []byte {
	var out, literal []byte
	flush := func() {
		for len(literal) > 0 {
			n := min(len(literal), 128)
			out = append(append(out, byte(n-1)), literal[:n]...)
			literal = literal[n:]
		}
	}
	for i := 0; i < len(plane); {
		run := 1
		for i+run < len(plane) && plane[i+run] == plane[i] && run < 130 {
			run++
		}
		if run >= 3 {
			flush()
			out = append(out, byte(run+125), plane[i])
		} else {
			literal = append(literal, plane[i:i+run]...)
		}
		i += run
	}
	flush()
	return out
}
