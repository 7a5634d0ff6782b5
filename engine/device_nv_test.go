//go:build nv && linux

package engine_test

import (
	"headroom/engine"
	"headroom/metal/nv"
)

func init() {
	o := nv.FromEnvironment()
	metalDevices = append([]string{engine.DeviceNV}, metalDevices...)
	errUnavailable = append(errUnavailable, nv.ErrUnavailable)
	nvOnly, compileOnly = o != (nv.Options{}), o.CompileOnly
}
