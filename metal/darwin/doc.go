// Package darwin is Metal itself: a Mac's GPU, driven from Go without cgo, so that the program for
// a Mac is built and linked anywhere. Objective-C messages go through purego; every method here
// names Apple's page on what it calls. Elsewhere than on a Mac, Open says so.
//
// Rules that hold throughout:
//
//   - Objects that Metal hands out autoreleased are retained inside a pool of this thread (pool.go); "new..." ones are owned already.
//   - Structs of more than 16 bytes (MTLSize) are passed by reference on arm64, NSRange in two registers: the AAPCS64 convention.
//   - Encoding a dispatch makes five calls of about 0.1 microseconds each and allocates nothing that lives on; see commands.go.
//   - Buffers are shared storage without hazard tracking: barriers within commands, and a fence between them, order everything.
//
// No test here has run on a Mac: metal/UNVERIFIED.md lists what that leaves open.
package darwin
