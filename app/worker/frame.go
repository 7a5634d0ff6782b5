package worker

// How messages get over a pipe: four bytes of length, lowest first, then one CBOR document. CBOR
// carries every float and every byte of a text as it is, which JSON does not.
//
// Who sends never waits for who reads: messages gather in an outbox, and whatever has gathered goes
// out in one write. So tokens of several requests that are ready together cost one system call.

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

// maxFrameBytes is far more than what the longest conversations that fit into memory take, which
// Remembered lists.
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
		panic("worker: CBOR's options: " + err.Error())
	}
	return v
}

// outbox is a pipe's sending end. Its methods may be called from any goroutine.
type outbox struct {
	pipe io.WriteCloser

	mu      sync.Mutex
	waiting bytes.Buffer
	spare   bytes.Buffer // what is being written, or was
	ended   bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when the writer has returned
}

// newOutbox begins to write to the pipe, and closes it in the end.
func newOutbox(pipe io.WriteCloser) *outbox {
	o := &outbox{pipe: pipe, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.write()
	return o
}

// send leaves a message to the writer. After the end, or when nobody reads, it does nothing: who
// cares learns it from the other pipe.
func (o *outbox) send(message any) {
	data, err := encoding.Marshal(message)
	if err == nil && len(data) > maxFrameBytes {
		err = fmt.Errorf("%d bytes, %d are allowed", len(data), maxFrameBytes)
	}
	if err != nil {
		// a type of ours that the wire test does not know
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

// close has the writer write what waits, and close the pipe.
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

const keptBytes = 1 << 20 // of a buffer that is empty

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

// inbox is a pipe's receiving end, for one goroutine.
type inbox struct {
	pipe *bufio.Reader
	data bytes.Buffer
}

func newInbox(pipe io.Reader) *inbox { return &inbox{pipe: bufio.NewReaderSize(pipe, 64<<10)} }

// errMalformed is what cannot be understood.
var errMalformed = errors.New("a message that cannot be understood")

// receive reads the next message into message, which must be empty. It is io.EOF where the pipe
// ends between two. No more memory is taken than bytes have come, whatever the length says.
func (i *inbox) receive(message any) error {
	var head [headBytes]byte
	if _, err := io.ReadFull(i.pipe, head[:]); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > maxFrameBytes {
		return fmt.Errorf("%w: its length is %d, at most %d is allowed", errMalformed, length,
			maxFrameBytes)
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
