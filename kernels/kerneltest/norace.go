//go:build !race

package kerneltest

const RaceDetector = false
