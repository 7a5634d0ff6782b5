package server

// What a client may take of the server: connections, time and memory. LIMITS.md lists all limits,
// and build/check holds that table to the code.

import "time"

// Limits bound what clients may take of a server. A zero field has the default.
type Limits struct {
	Connections int           // at once, from all peers; see connectionLimits
	PerPeer     int           // at once, from one address of the network
	Header      time.Duration // for the header of a request
	Idle        time.Duration // between two requests of a connection
	// Window is how long a body may take for its first bytes, and for each Window*rate after them.
	Window time.Duration
	// Linger is how long a connection stays open after an answer that did not need the whole body,
	// so that the client can read the answer.
	Linger time.Duration
	Write  time.Duration // for one write
}

// The defaults of Limits.
const (
	maxConnections = 1024
	maxPerPeer     = 128
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	bodyWindow     = 10 * time.Second
	lingerTime     = time.Second
	writeTimeout   = 30 * time.Second
)

// A body must arrive at these rates, in bytes per second. A large body takes memory that others
// wait for, so its rate is higher.
const (
	minBodyRate      = 64 << 10
	minLargeBodyRate = 1 << 20
	largeBody        = 1 << 20 // bytes from which a body is large
)

// minAnswerRate is the least rate of an answer that is written at once, in bytes per second, beyond
// the time that any write has. Until it is read, it takes memory that others wait for.
const minAnswerRate = 256 << 10

// maxHeaderBytes limits the header of a request.
const maxHeaderBytes = 64 << 10

// sendBuffer limits what the system buffers for a client that does not read. Without it, Linux
// buffers megabytes, which are minutes of an answer.
const sendBuffer = 32 << 10

func (l Limits) withDefaults() Limits {
	setDefault(&l.Header, headerTimeout)
	setDefault(&l.Idle, idleTimeout)
	setDefault(&l.Window, bodyWindow)
	setDefault(&l.Linger, lingerTime)
	setDefault(&l.Write, writeTimeout)
	total, perPeer := connectionLimits(descriptorLimit())
	setDefault(&l.Connections, total)
	setDefault(&l.PerPeer, min(perPeer, l.Connections))
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// connectionLimits returns how many connections all peers and one peer may have, in a process with
// this many file descriptors. At least half of the descriptors are left for files, pipes to the
// model's process, and downloads. Connections of this machine count as one peer only in total,
// because all of its programs have one address.
func connectionLimits(descriptors uint64) (total, perPeer int) {
	total = int(min(descriptors/2, maxConnections))
	return max(total, 1), max(min(total/4, maxPerPeer), 1)
}
