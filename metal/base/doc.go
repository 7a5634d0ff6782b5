// Package base is the code that implementations of package metal share: a Library that makes each
// pipeline once, a Recorder that checks and records dispatches, and checks of a buffer's memory.
// Each device compiles and runs kernels in its own way.
package base
