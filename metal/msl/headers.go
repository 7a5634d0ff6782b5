package msl

import "embed"

// Headers is the shim: Metal's standard library in C++ for OpenCL, for the text of Program.OpenCL.
// A device includes the files in this order, with headers of the device between them:
//
//	msl_types.h       types and attributes
//	                  the device's thread functions and C math functions
//	msl_simdgroup.h   simdgroup functions for each type
//	msl_math.h        the math library
//	                  the device's part of simdgroup_matrix
//	msl_matrix.h      simdgroup_matrix
//	msl_arguments.h   types of kernel arguments
//	                  the entry point through which the device calls a kernel
//
//go:embed shim/*.h
var Headers embed.FS
