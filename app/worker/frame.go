package worker

// The framing of messages on a pipe: a length in four bytes, little-endian, then one CBOR document.
// Unlike JSON, CBOR keeps every float and every byte of a text exact.
//
// Sending never blocks: messages queue in an outbox, and one write sends all that are queued. So
// tokens of several requests that are ready together cost one system call.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// maxFrameBytes bounds a message. The largest message, Prefixes, lists the tokens of all cached
// prefixes and stays far below.
const maxFrameBytes = 64 << 20

const headBytes = 4

var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeRFC3339Nano, NaNConvert: cbor.NaNConvertNone,
		InfConvert: cbor.InfConvertNone}.EncMode())
	decoding = must(cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, IntDec: cbor.IntDecConvertSigned,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxArrayElements: maxFrameBytes, MaxMapPairs: maxFrameBytes}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("worker: invalid CBOR options: " + err.Error())
	}
	return v
}

// outbox is the sending end of a pipe. Its methods are safe for concurrent use.
type outbox struct {
	pipe io.WriteCloser

	mu      sync.Mutex
	waiting bytes.Buffer // the next write
	spare   bytes.Buffer // the write under way, or empty
	ended   bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when the writer has returned
}

// newOutbox starts a goroutine that writes to the pipe and finally closes it.
func newOutbox(pipe io.WriteCloser) *outbox {
	o := &outbox{pipe: pipe, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.write()
	return o
}

// send queues a message for the writer. After close or a failed write it does nothing: the reader
// of the other pipe notices that the process has ended.
func (o *outbox) send(message any) {
	data, err := encoding.Marshal(message)
	if err == nil && len(data) > maxFrameBytes {
		err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), maxFrameBytes)
	}
	if err != nil { // a bug, which TestEveryFieldArrives should have found
		panic(fmt.Sprintf("worker: a message cannot be sent: %v", err))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	var head [headBytes]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(data)))
	o.waiting.Write(head[:])
	o.waiting.Write(data)
	o.signal()
}

// close makes the writer send the queued messages and close the pipe.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.signal()
}

// signal wakes the writer. The caller holds mu.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// keptBytes is the largest empty buffer that is kept for reuse.
const keptBytes = 1 << 20

func (o *outbox) write() {
	defer close(o.done)
	defer o.pipe.Close()
	for range o.wake {
		o.mu.Lock()
		o.waiting, o.spare = o.spare, o.waiting
		ended := o.ended
		o.mu.Unlock()
		if _, err := o.pipe.Write(o.spare.Bytes()); err != nil {
			o.mu.Lock()
			o.ended = true
			o.waiting = bytes.Buffer{}
			o.mu.Unlock()
			return
		}
		if o.spare.Reset(); o.spare.Cap() > keptBytes {
			o.spare = bytes.Buffer{}
		}
		if ended {
			return
		}
	}
}

// inbox is the receiving end of a pipe, for use by one goroutine.
type inbox struct {
	pipe *bufio.Reader
	data bytes.Buffer
}

func newInbox(pipe io.Reader) *inbox { return &inbox{pipe: bufio.NewReaderSize(pipe, 64<<10)} }

// errMalformed is the error of a message that cannot be decoded.
var errMalformed = errors.New("malformed message")

// receive reads the next message into message, which must be zero. It returns io.EOF if the pipe
// ends between two messages. It allocates memory for the bytes that arrive, not for the length that
// the frame claims.
func (i *inbox) receive(message any) error {
	var head [headBytes]byte
	if _, err := io.ReadFull(i.pipe, head[:]); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > maxFrameBytes {
		return fmt.Errorf("%w: its length is %d bytes, at most %d are allowed", errMalformed,
			length, maxFrameBytes)
	}
	if i.data.Reset(); i.data.Cap() > keptBytes {
		i.data = bytes.Buffer{}
	}
	if _, err := io.CopyN(&i.data, i.pipe, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err := decoding.Unmarshal(i.data.Bytes(), message); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}
