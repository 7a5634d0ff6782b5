//go:build !darwin

package darwin

import (
	"fmt"
	"runtime"

	"headroom/metal"
)

// Open returns an error: Metal needs a Mac.
func Open() (metal.Device, error) {
	return nil, fmt.Errorf("Metal needs macOS: this is %s", runtime.GOOS)
}
