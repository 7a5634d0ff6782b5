//go:build !darwin

package darwin

import (
	"fmt"
	"runtime"

	"headroom/metal"
)

// Open returns the Mac's GPU; on other systems an error.
func Open() (metal.Device, error) {
	return nil, fmt.Errorf("no Metal on %s: it is Apple's", runtime.GOOS)
}
