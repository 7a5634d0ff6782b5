package cluster

// The messages between a cluster and the node of a host. Each is a JSON object on a line of its
// own. The cluster sends requests, the node sends replies; the last reply of a request is Done.

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"headroom/engine/problem"
)

// protocol is the version of the messages, and of what a node does with them.
const protocol = 1

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

// The operations of a node.
const (
	opPing    = "ping"
	opFacts   = "facts"   // replies Facts
	opModel   = "model"   // of Model; replies Found
	opProbe   = "probe"   // of Dir; replies Parts
	opInstall = "install" // the Python environment; replies Lines
	opListen  = "listen"  // on Addresses, until close; replies Ports
	opDial    = "dial"    // Addresses with ports; replies Ms, negative: not reached
	opClose   = "close"   // the listeners
	opRank    = "rank"    // runs Rank; replies Lines and Events until it ends
	opKill    = "kill"    // ends all ranks
)

type request struct {
	ID        int      `json:"id"`
	Op        string   `json:"op"`
	Model     string   `json:"model,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Rank      *rank    `json:"rank,omitempty"`
}

// rank is the process of one rank.
type rank struct {
	Rank  int               `json:"rank"`
	Env   map[string]string `json:"env"`
	Files map[string]string `json:"files"` // content of files, by the variable with their path
	Args  []string          `json:"args"`  // of rank.py
}

type reply struct {
	ID    int       `json:"id"`
	Done  bool      `json:"done,omitempty"`
	Error *failure  `json:"error,omitempty"`
	Facts *Facts    `json:"facts,omitempty"`
	Found *Found    `json:"found,omitempty"`
	Parts *Parts    `json:"parts,omitempty"`
	Ports []int     `json:"ports,omitempty"`
	Ms    []float64 `json:"ms,omitempty"`
	Line  string    `json:"line,omitempty"`
	Event *Event    `json:"event,omitempty"`
}

// answers reports whether the last reply of a request that did not fail has what the operation
// promises. A node may be of another version, or not Headroom's.
func (r *reply) answers(q *request) bool {
	switch q.Op {
	case opFacts:
		return r.Facts != nil
	case opModel:
		return r.Found != nil
	case opProbe:
		return r.Parts != nil
	case opListen:
		return len(r.Ports) == len(q.Addresses)
	case opDial:
		return len(r.Ms) == len(q.Addresses)
	}
	return true
}

// failure is a Problem.
type failure struct {
	Code    problem.Code `json:"code"`
	Message string       `json:"message"`
	Why     string       `json:"why,omitempty"`
	Fix     string       `json:"fix,omitempty"`
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	p := problem.From(err)
	return &failure{p.Code, p.Message, p.Why, p.Fix}
}

func (f *failure) problem() error {
	if f == nil {
		return nil
	}
	return problem.New(f.Code, f.Message, f.Why, f.Fix)
}

// Event is an event of rank.py.
type Event struct {
	// Kind is joined, loaded, beat, probed, failed or finished.
	Kind   string  `json:"event"`
	Memory int64   `json:"memory,omitempty"` // of loaded: bytes of the rank's weights
	Idle   float64 `json:"idle,omitempty"`   // of beat: seconds since the last progress
	PID    int     `json:"pid,omitempty"`    // of joined
	Error  string  `json:"error,omitempty"`  // of failed
	Parts
}

// lines writes messages. Its method is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) write(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		panic("cluster: encoding a message: " + err.Error()) // a bug: the types are ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(text, '\n'))
	return err
}

// readLines calls each with every line that is a JSON object of type T, until the end. It skips
// other lines: a shell on the way may print some. The error is nil at the end of the input.
func readLines[T any](in io.Reader, each func(*T)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		message := new(T)
		if text := lines.Bytes(); len(text) > 0 && text[0] == '{' &&
			json.Unmarshal(text, message) == nil {
			each(message)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil
}
