package darwin

// Encoding is the hot path: selectors are cached, there is no reflection, and scratch memory
// belongs to the Commands. A dispatch takes up to five calls: pipeline, buffers, label, dispatch,
// barrier. A pipeline that is already set is not set again.

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

// mtlSize is MTLSize (https://developer.apple.com/documentation/metal/mtlsize). On arm64 it is
// passed by reference.
type mtlSize struct{ width, height, depth uint64 }

type commands struct {
	d *device

	recording bool
	// the thread's autorelease pool while recording; the goroutine is locked to the thread
	pool      unsafe.Pointer
	buffer    objc.ID // MTLCommandBuffer, retained
	encoder   objc.ID // MTLComputeCommandEncoder, retained
	pipeline  objc.ID // the one set most recently
	labels    map[string]objc.ID
	err       error // first mistake
	committed bool

	// handler is the only completion handler, made on first use: purego never frees a callback.
	handler objc.Block
	done    func(error)
	called  chan struct{}
	seconds float64

	ids             [msl.MaxBuffers]objc.ID
	offsets         [msl.MaxBuffers]uint64
	groups, threads mtlSize

	selPipeline, selBuffers, selThreadgroup, selLabel, selDispatch, selBarrier objc.SEL
}

// NewCommands implements metal.Device.
func (d *device) NewCommands() metal.Commands {
	return &commands{
		d: d, labels: map[string]objc.ID{}, called: make(chan struct{}, 1),
		selPipeline:    selector("setComputePipelineState:"),
		selBuffers:     selector("setBuffers:offsets:withRange:"),
		selThreadgroup: selector("setThreadgroupMemoryLength:atIndex:"),
		selLabel:       selector("insertDebugSignpost:"),
		selDispatch:    selector("dispatchThreadgroups:threadsPerThreadgroup:"),
		selBarrier:     selector("memoryBarrierWithScope:"),
	}
}

func (c *commands) fail(format string, arguments ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, arguments...)
	}
}

// begin makes the command buffer and encoder at the first call of a recording. The command buffer
// does not retain buffers, which outlive it. Its error says which dispatches had run
// (https://developer.apple.com/documentation/metal/mtlcommandbufferdescriptor).
func (c *commands) begin() bool {
	if c.recording {
		return c.encoder != 0
	}
	if c.committed {
		c.fail("recording after Commit: call Wait first, or record into other Commands")
		return false
	}
	runtime.LockOSThread()
	c.pool, c.recording, c.pipeline = poolPush(), true, 0
	descriptor := send(class("MTLCommandBufferDescriptor"), "new")
	send(descriptor, "setRetainedReferences:", 0)
	send(descriptor, "setErrorOptions:", errorOptionEncoderDetails)
	// https://developer.apple.com/documentation/metal/mtlcommandqueue/makecommandbuffer(descriptor:)
	c.buffer = retain(send(c.d.queue, "commandBufferWithDescriptor:", uintptr(descriptor)))
	release(descriptor)
	// https://developer.apple.com/documentation/metal/mtlcommandbuffer/makecomputecommandencoder(dispatchtype:)
	c.encoder = retain(send(c.buffer, "computeCommandEncoderWithDispatchType:", dispatchConcurrent))
	if c.encoder == 0 {
		c.fail("Metal returned no command buffer or encoder")
		return false
	}
	// https://developer.apple.com/documentation/metal/mtlcommandencoder/label
	send(c.encoder, "setLabel:", uintptr(c.name("Headroom")))
	// https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/waitforfence(_:)
	send(c.encoder, "waitForFence:", uintptr(c.d.fence))
	return true
}

// SetPipeline implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/setcomputepipelinestate(_:)).
func (c *commands) SetPipeline(p metal.Pipeline) {
	own, ok := p.(*pipeline)
	if !ok || own == nil {
		c.fail("SetPipeline: got %T, expected a pipeline of this device", p)
		return
	}
	if c.begin() && own.id != c.pipeline {
		purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selPipeline), uintptr(own.id))
		c.pipeline = own.id
	}
}

// SetBuffers implements metal.Commands with one call
// (https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/setbuffers(_:offsets:range:)).
func (c *commands) SetBuffers(first int, bindings ...metal.Binding) {
	if first < 0 || first+len(bindings) > msl.MaxBuffers {
		c.fail("SetBuffers: indices [%d, %d), expected them within [0, %d)", first,
			first+len(bindings), msl.MaxBuffers)
		return
	}
	if len(bindings) == 0 || !c.begin() {
		return
	}
	for i, b := range bindings {
		c.ids[i], c.offsets[i] = 0, 0
		if b.Buffer == nil {
			continue
		}
		own, ok := b.Buffer.(*buffer)
		if !ok || own.d != c.d || b.Offset < 0 || b.Offset >= len(own.memory) {
			c.fail("SetBuffers: buffer %d: offset %d of %q, expected an offset within a buffer of "+
				"this device", first+i, b.Offset, b.Buffer.Label())
			return
		}
		c.ids[i], c.offsets[i] = own.id, uint64(b.Offset)
	}
	purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selBuffers),
		uintptr(unsafe.Pointer(&c.ids[0])), uintptr(unsafe.Pointer(&c.offsets[0])),
		uintptr(first), uintptr(len(bindings)))
}

// SetThreadgroupMemory implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/setthreadgroupmemorylength(_:index:)).
func (c *commands) SetThreadgroupMemory(index, bytes int) {
	if err := base.CheckThreadgroupArgument(index, bytes); err != nil {
		c.fail("%w", err)
		return
	}
	if c.begin() {
		purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selThreadgroup), uintptr(bytes),
			uintptr(index))
	}
}

// Dispatch implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/dispatchthreadgroups(_:threadsperthreadgroup:)).
// The label is a debug signpost, which GPU captures show and errors list
// (https://developer.apple.com/documentation/metal/mtlcommandencoder/insertdebugsignpost(_:)).
func (c *commands) Dispatch(label string, groups, threads metal.Size) {
	if groups.X < 1 || groups.Y < 1 || groups.Z < 1 || threads.X < 1 || threads.Y < 1 ||
		threads.Z < 1 {
		c.fail(
			"dispatch %q: %s threadgroups of %s threads, expected at least one in each dimension",
			label, groups, threads)
		return
	}
	if !c.begin() || c.pipeline == 0 {
		c.fail("dispatch %q: no pipeline: call SetPipeline first", label)
		return
	}
	purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selLabel), uintptr(c.name(label)))
	c.groups = mtlSize{uint64(groups.X), uint64(groups.Y), uint64(groups.Z)}
	c.threads = mtlSize{uint64(threads.X), uint64(threads.Y), uint64(threads.Z)}
	if runtime.GOARCH == "arm64" {
		purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selDispatch),
			uintptr(unsafe.Pointer(&c.groups)), uintptr(unsafe.Pointer(&c.threads)))
		return
	}
	// x86-64 passes such structs on the stack, after the six register arguments
	purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selDispatch), 0, 0, 0, 0,
		uintptr(groups.X), uintptr(groups.Y), uintptr(groups.Z), uintptr(threads.X),
		uintptr(threads.Y), uintptr(threads.Z))
}

// name returns label as an NSString. The strings are kept: there are as many labels as operators.
func (c *commands) name(label string) objc.ID {
	s, ok := c.labels[label]
	if !ok {
		s = retain(nsString(label))
		c.labels[label] = s
	}
	return s
}

// Barrier implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/memorybarrier(scope:)).
func (c *commands) Barrier() {
	if c.begin() {
		purego.SyscallN(messageSend, uintptr(c.encoder), uintptr(c.selBarrier), barrierBuffers)
	}
}

// end ends encoding and unlocks the thread.
func (c *commands) end() {
	if c.encoder != 0 {
		// https://developer.apple.com/documentation/metal/mtlcomputecommandencoder/updatefence(_:)
		send(c.encoder, "updateFence:", uintptr(c.d.fence))
		// https://developer.apple.com/documentation/metal/mtlcommandencoder/endencoding()
		send(c.encoder, "endEncoding")
		release(c.encoder)
	}
	c.encoder, c.recording = 0, false
	poolPop(c.pool)
	runtime.UnlockOSThread()
}

// Commit implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcommandbuffer/commit()).
func (c *commands) Commit(done func(error)) {
	if c.committed {
		c.fail("Commit: already committed, call Wait first")
		return
	}
	c.begin() // an empty recording is committed too, so that Metal calls done
	if c.recording && c.buffer != 0 && c.err == nil {
		c.committed, c.done = true, done
		if done != nil {
			// https://developer.apple.com/documentation/metal/mtlcommandbuffer/addcompletedhandler(_:)
			if c.handler == 0 {
				c.handler = objc.NewBlock(func(_ objc.Block, buffer objc.ID) {
					c.done(commandError(buffer))
					c.called <- struct{}{}
				})
			}
			send(c.buffer, "addCompletedHandler:", uintptr(c.handler))
		}
	}
	if c.recording {
		c.end()
	}
	if c.committed {
		send(c.buffer, "commit")
	} else if done != nil {
		done(c.err)
	}
}

// Wait implements metal.Commands
// (https://developer.apple.com/documentation/metal/mtlcommandbuffer/waituntilcompleted()).
func (c *commands) Wait() error {
	err := c.err
	if c.recording { // recorded but not committed
		c.end()
	}
	if c.committed {
		inPool(func() {
			send(c.buffer, "waitUntilCompleted")
			err = errors.Join(err, commandError(c.buffer))
			// https://developer.apple.com/documentation/metal/mtlcommandbuffer/gpustarttime
			c.seconds = sendDouble(c.buffer, selector("GPUEndTime")) -
				sendDouble(c.buffer, selector("GPUStartTime"))
		})
		if c.done != nil {
			<-c.called
		}
	}
	release(c.buffer)
	c.buffer, c.err, c.committed, c.done = 0, nil, false, nil
	return err
}

// commandError returns the error of a completed command buffer, nil if it succeeded
// (https://developer.apple.com/documentation/metal/mtlcommandbuffer/error). The user info lists the
// signposts of the dispatches that had run.
func commandError(buffer objc.ID) error {
	if send(buffer, "status") == statusCompleted {
		return nil
	}
	e := send(buffer, "error")
	err := nsError(e)
	if goString(send(e, "domain")) == errorDomain && int(send(e, "code")) == errorTimeout {
		err = fmt.Errorf("%w: %w", metal.ErrTimeout, err)
	}
	if details := goString(send(send(e, "userInfo"), "description")); details != "" {
		err = fmt.Errorf("%w: %s", err, details)
	}
	return fmt.Errorf("running commands on the GPU: %w", err)
}

// GPUTime implements metal.Commands.
func (c *commands) GPUTime() float64 { return c.seconds }
