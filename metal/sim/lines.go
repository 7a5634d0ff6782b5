//go:build linux && amd64

package sim

import (
	"fmt"
	"os/exec"
	"strings"
)

// sourceLine returns "file:line" in the kernel's source for an address in a compiled library, or ""
// if it is unknown. address counts from the library's start. Everything is inlined into the kernel,
// including the shim's functions, so it takes the innermost call that is in the kernel's source.
// addr2line comes with every compiler on Linux, in binutils.
func sourceLine(libraryPath string, address uint64) string {
	out, err := exec.Command("addr2line", "--inlines", "--exe", libraryPath,
		fmt.Sprintf("%#x", address)).Output()
	if err != nil {
		return "" // a fault is reported without its line
	}
	for place := range strings.Lines(string(out)) {
		place, _, _ = strings.Cut(strings.TrimSpace(place), " ") // "(discriminator 2)" may follow
		name, line, _ := strings.Cut(strings.TrimPrefix(place, sourceRoot+"/"), ":")
		if ours(name) {
			return name + ":" + line
		}
	}
	return ""
}
