//go:build !linux || !amd64

package sim

import (
	"fmt"
	"runtime"

	"headroom/metal"
)

// Open returns an error: the simulated device needs Linux on x86-64.
func Open(Options) (metal.Device, error) {
	return nil, fmt.Errorf("%w: it needs Linux on x86-64, this is %s on %s", ErrUnavailable,
		runtime.GOOS, runtime.GOARCH)
}
