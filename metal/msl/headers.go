package msl

import "embed"

// Headers are what OpenCL's text needs from every device, in this order: msl_types.h, then the
// device's own header for threads (which may use the types and declares the plain math functions),
// then msl_math.h.
//
//go:embed shim/*.h
var Headers embed.FS
