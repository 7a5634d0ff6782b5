// Package darwin implements package metal on a Mac's GPU. It calls Metal through purego, without
// cgo, so that the program for a Mac can be built on any system. Comments link to Apple's page on
// each call. On systems other than macOS Open returns an error.
//
// Rules that hold throughout:
//
//   - Autoreleased objects are retained inside an autorelease pool of the current thread (inPool).
//     Objects returned by "new..." methods are already owned.
//   - On arm64 (AAPCS64), structs larger than 16 bytes (MTLSize) are passed by reference, and
//     NSRange in two registers.
//   - A dispatch takes at most five calls and allocates nothing that outlives it
//     (commands_darwin.go).
//   - Buffers have shared storage and untracked hazards. Barriers within Commands and a fence
//     between them order all access.
//
// No test of this package has run on a Mac yet: metal/UNVERIFIED.md lists the open points.
package darwin
