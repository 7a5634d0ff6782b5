package main

// Apple's icon file: "icns", the length of the file, then entries of a four-letter type, a length
// and an image. iconutil writes the same ten entries but exists only on a Mac. The format is
// described at https://relikd.github.io/icns-analysis/.

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
)

// icnsKind is the type of an entry: a square image of a size in pixels. The two smallest at one
// pixel per point are in ARGB format, which macOS 11 and later read; all others are PNG.
type icnsKind struct {
	name   string
	pixels int
	argb   bool
}

// icnsKinds are all sizes that macOS uses, at one and at two pixels per point.
var icnsKinds = []icnsKind{
	{"ic04", 16, true}, {"ic11", 32, false},
	{"ic05", 32, true}, {"ic12", 64, false},
	{"ic07", 128, false}, {"ic13", 256, false},
	{"ic08", 256, false}, {"ic14", 512, false},
	{"ic09", 512, false}, {"ic10", 1024, false},
}

// icns returns an icon file with every entry, drawn by draw.
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

// icnsEntry writes an entry: its name, its length including the header, and its data.
func icnsEntry(to *bytes.Buffer, name string, data []byte) {
	to.WriteString(name)
	to.Write(binary.BigEndian.AppendUint32(nil, uint32(8+len(data))))
	to.Write(data)
}

// argb encodes an image as "ARGB" and the four channels in that order, each compressed by pack.
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

// pack compresses bytes with the run-length encoding of icns. A byte n below 128 precedes n+1
// literal bytes. A byte n of 128 or more precedes one byte that is repeated n-125 times (3 to 130).
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
