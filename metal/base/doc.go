// Package base is the code that implementations of package metal share: a Library that makes each
// pipeline once, a Recorder of dispatches that refuses mistakes visible in the calls themselves,
// and checks of a buffer's memory. How kernels are compiled and run is up to each device.
package base
