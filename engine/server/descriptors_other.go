//go:build !unix

package server

// descriptorLimit returns the number of connections that is certainly possible here, times two.
func descriptorLimit() uint64 { return 2 * maxConnections }
