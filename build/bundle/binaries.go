package main

// Checks of a program and of an icon. Both read bytes only, so they run on any system.

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"image/png"
	"io"
	"strconv"
	"strings"
)

// Load commands of a Mach-O file that debug/macho does not define (mach-o/loader.h).
const (
	loadCodeSignature = 0x1d
	loadBuildVersion  = 0x32
	platformMac       = 1
)

// checkProgram checks a Mach-O program. It must be for Apple silicon, run on the promised version
// of macOS, and have at least its linker's signature, because unsigned arm64 code does not run. It
// must use no library that is not part of macOS.
func checkProgram(data io.ReaderAt, promised string) (problems []string) {
	f, err := macho.NewFile(data)
	if err != nil {
		return []string{"no Mach-O program for a single architecture: " + err.Error()}
	}
	defer f.Close()
	if f.Cpu != macho.CpuArm64 || f.Type != macho.TypeExec {
		problems = append(problems,
			fmt.Sprintf("is %v for %v, want %v for %v", f.Type, f.Cpu, macho.TypeExec,
				macho.CpuArm64))
	}
	minimum, signed := "", false
	for _, load := range f.Loads {
		raw := load.Raw() // at least 8 bytes
		switch f.ByteOrder.Uint32(raw) {
		case loadBuildVersion:
			if len(raw) < 16 {
				return append(problems, "its LC_BUILD_VERSION is truncated")
			}
			if platform := f.ByteOrder.Uint32(raw[8:]); platform != platformMac {
				problems = append(problems,
					fmt.Sprintf("is built for platform %d, want %d (macOS)", platform, platformMac))
			}
			v := f.ByteOrder.Uint32(raw[12:])
			minimum = fmt.Sprintf("%d.%d", v>>16, v>>8&0xff)
		case loadCodeSignature:
			signed = true
		}
	}
	if minimum == "" {
		problems = append(problems, "has no minimum macOS version (LC_BUILD_VERSION)")
	} else if newer(minimum, promised) {
		problems = append(problems,
			fmt.Sprintf("needs macOS %s, but the bundle promises %s: build it with "+
				"build/darwin/app, which sets the deployment target", minimum, promised))
	}
	if !signed {
		problems = append(problems, "is not signed, so it does not run on Apple silicon")
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, library := range libraries {
		if !strings.HasPrefix(library, "/usr/lib/") &&
			!strings.HasPrefix(library, "/System/Library/") {
			problems = append(problems, "needs "+library+", which is not part of macOS")
		}
	}
	return problems
}

// newer reports whether macOS version a is newer than b.
func newer(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x > y
		}
	}
	return false
}

// iconSizes are the entries of an .icns file that cover every size at one and two pixels per point,
// with their width in pixels.
var iconSizes = []struct {
	name   string
	pixels int
}{
	{"ic04", 16}, {"ic11", 32}, {"ic05", 32}, {"ic12", 64}, {"ic07", 128}, {"ic13", 256},
	{"ic08", 256}, {"ic14", 512}, {"ic09", 512}, {"ic10", 1024},
}

// checkIcon checks that an .icns file has an entry for every size, with the right pixel size.
func checkIcon(data []byte) (problems []string) {
	entries := map[string][]byte{}
	if len(data) < 8 || string(data[:4]) != "icns" ||
		uint64(binary.BigEndian.Uint32(data[4:])) != uint64(len(data)) {
		return []string{"not an .icns file, or a truncated one"}
	}
	for rest := data[8:]; len(rest) > 0; {
		if len(rest) < 8 {
			return []string{"an entry is truncated"}
		}
		length := uint64(binary.BigEndian.Uint32(rest[4:]))
		if length < 8 || length > uint64(len(rest)) {
			return []string{fmt.Sprintf("entry %q has length %d, but %d bytes are left", rest[:4],
				length, len(rest))}
		}
		entries[string(rest[:4])] = rest[8:length]
		rest = rest[length:]
	}
	for _, size := range iconSizes {
		entry, ok := entries[size.name]
		if !ok {
			problems = append(problems,
				fmt.Sprintf("has no %s (%d pixels)", size.name, size.pixels))
			continue
		}
		if bytes.HasPrefix(entry, []byte("ARGB")) && size.pixels <= 32 {
			continue // compressed pixels without a size; build/icon tests them
		}
		picture, err := png.DecodeConfig(bytes.NewReader(entry))
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s is not a PNG: %v", size.name, err))
		} else if picture.Width != size.pixels || picture.Height != size.pixels {
			problems = append(problems,
				fmt.Sprintf("%s has %dx%d pixels, want %d", size.name, picture.Width,
					picture.Height, size.pixels))
		}
	}
	return problems
}
