//go:build nv && linux

package nv

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver holds the addresses of the CUDA driver's functions, and its context.
type driver struct {
	ctx uintptr

	getErrorName, getErrorString                     uintptr
	deviceGetName, deviceGetAttribute, deviceMemory  uintptr
	ctxSetCurrent, primaryRetain, primaryRelease     uintptr
	memAlloc, memAllocManaged, memAllocHost          uintptr
	memFree, memFreeHost, memGetInfo                 uintptr
	copyToDevice, copyToHost, copyToDeviceNow, fill  uintptr
	copyWithin, prefetch                             uintptr
	moduleLoad, moduleGetFunction                    uintptr
	funcGetAttribute, funcSetAttribute, launchKernel uintptr
	streamCreate, streamWaitEvent                    uintptr
	eventCreate, eventRecord, eventSynchronize       uintptr
	eventElapsed, ctxSynchronize                     uintptr
	graphCreate, graphAddKernel, graphInstantiate    uintptr
	graphSetKernel, graphLaunch                      uintptr
	graphExecDestroy, graphDestroy                   uintptr
}

// Values of cuda.h.
const (
	// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
	attributeMajor, attributeMinor                = 75, 76
	attributeConcurrentManaged                    = 89
	funcMaxThreads, funcSharedBytes               = 0, 1 // CU_FUNC_ATTRIBUTE_*
	funcMaxDynamicSharedBytes                     = 8
	managedGlobal                                 = 1 // CU_MEM_ATTACH_GLOBAL
	streamNonBlocking                             = 1
	eventDisableTiming                            = 2
	launchBufferPointer, launchBufferSize uintptr = 1, 2 // CU_LAUNCH_PARAM_*
	oldestCapability                              = 90
)

var loadDriver = sync.OnceValues(func() (*driver, error) {
	handle, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: no CUDA driver: %w", ErrUnavailable, err)
	}
	v := &driver{}
	for _, f := range []struct {
		address *uintptr
		name    string
	}{
		{&v.getErrorName, "cuGetErrorName"}, {&v.getErrorString, "cuGetErrorString"},
		{&v.deviceGetName, "cuDeviceGetName"}, {&v.deviceGetAttribute, "cuDeviceGetAttribute"},
		{&v.deviceMemory, "cuDeviceTotalMem_v2"},
		{&v.ctxSetCurrent, "cuCtxSetCurrent"}, {&v.primaryRetain, "cuDevicePrimaryCtxRetain"},
		{&v.primaryRelease, "cuDevicePrimaryCtxRelease_v2"},
		{&v.memAlloc, "cuMemAlloc_v2"}, {&v.memAllocManaged, "cuMemAllocManaged"},
		{&v.memAllocHost, "cuMemAllocHost_v2"},
		{&v.memFree, "cuMemFree_v2"}, {&v.memFreeHost, "cuMemFreeHost"},
		{&v.memGetInfo, "cuMemGetInfo_v2"},
		{&v.copyToDevice, "cuMemcpyHtoDAsync_v2"}, {&v.copyToHost, "cuMemcpyDtoHAsync_v2"},
		{&v.copyToDeviceNow, "cuMemcpyHtoD_v2"}, {&v.fill, "cuMemsetD8_v2"},
		{&v.copyWithin, "cuMemcpyDtoDAsync_v2"}, {&v.prefetch, "cuMemPrefetchAsync"},
		{&v.moduleLoad, "cuModuleLoadData"}, {&v.moduleGetFunction, "cuModuleGetFunction"},
		{&v.funcGetAttribute, "cuFuncGetAttribute"}, {&v.funcSetAttribute, "cuFuncSetAttribute"},
		{&v.launchKernel, "cuLaunchKernel"},
		{&v.streamCreate, "cuStreamCreate"}, {&v.streamWaitEvent, "cuStreamWaitEvent"},
		{&v.eventCreate, "cuEventCreate"}, {&v.eventRecord, "cuEventRecord"},
		{&v.eventSynchronize, "cuEventSynchronize"},
		{&v.eventElapsed, "cuEventElapsedTime"}, {&v.ctxSynchronize, "cuCtxSynchronize"},
		{&v.graphCreate, "cuGraphCreate"}, {&v.graphAddKernel, "cuGraphAddKernelNode"},
		{&v.graphInstantiate, "cuGraphInstantiateWithFlags"},
		{&v.graphSetKernel, "cuGraphExecKernelNodeSetParams"},
		{&v.graphLaunch, "cuGraphLaunch"}, {&v.graphExecDestroy, "cuGraphExecDestroy"},
		{&v.graphDestroy, "cuGraphDestroy"},
	} {
		if *f.address, err = purego.Dlsym(handle, f.name); err != nil {
			return nil, fmt.Errorf("%w: the CUDA driver is too old: %w", ErrUnavailable, err)
		}
	}
	init, err := purego.Dlsym(handle, "cuInit")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := v.call("cuInit", init, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return v, nil
})

// call calls a function of the driver. The error holds its name and the driver's message.
func (v *driver) call(name string, f uintptr, arguments ...uintptr) error {
	r, _, _ := purego.SyscallN(f, arguments...)
	if code := int32(r); code != 0 {
		return fmt.Errorf("%s: %s", name, v.errorText(code))
	}
	return nil
}

func (v *driver) errorText(code int32) string {
	message := func(f uintptr) string {
		text := new(*byte)
		var pins runtime.Pinner
		defer pins.Unpin()
		pins.Pin(text)
		if r, _, _ := purego.SyscallN(f, uintptr(code),
			uintptr(unsafe.Pointer(text))); int32(r) != 0 || *text == nil {
			return "?"
		}
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(*text), n)) != 0 {
			n++
		}
		return string(unsafe.Slice(*text, n))
	}
	return fmt.Sprintf("%s (%d), %s", message(v.getErrorName), code, message(v.getErrorString))
}

// enter makes the driver's context current on this thread until leave is called.
func (v *driver) enter() (leave func(), err error) {
	runtime.LockOSThread()
	if err := v.call("cuCtxSetCurrent", v.ctxSetCurrent, v.ctx); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}

// get calls a function that writes its result to the address in its first argument. A variable
// whose address goes to the driver is pinned, here and elsewhere, because Go may move a stack.
func get[T any](v *driver, name string, f uintptr, arguments ...uintptr) (T, error) {
	result := new(T)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(result)
	err := v.call(name, f, append([]uintptr{uintptr(unsafe.Pointer(result))}, arguments...)...)
	return *result, err
}

// facts returns the name, compute capability (as 90 for 9.0) and memory of device 0.
func (v *driver) facts() (name string, capability int, bytes uint64, err error) {
	text, err := get[[128]byte](v, "cuDeviceGetName", v.deviceGetName, 128, 0)
	for i, c := range text {
		if c == 0 {
			name = string(text[:i])
			break
		}
	}
	major, err1 := get[int32](v, "cuDeviceGetAttribute", v.deviceGetAttribute, attributeMajor, 0)
	minor, err2 := get[int32](v, "cuDeviceGetAttribute", v.deviceGetAttribute, attributeMinor, 0)
	managed, err3 := get[int32](v, "cuDeviceGetAttribute", v.deviceGetAttribute,
		attributeConcurrentManaged, 0)
	total, err4 := get[uint64](v, "cuDeviceTotalMem", v.deviceMemory, 0)
	if err = errors.Join(err, err1, err2, err3, err4); err == nil && managed == 0 {
		err = fmt.Errorf("%w: %s cannot access managed memory concurrently with the host",
			ErrUnavailable, name)
	}
	if capability = int(major)*10 + int(minor); err == nil && capability < oldestCapability {
		err = fmt.Errorf("%w: %s has compute capability %d, kernels are compiled for %d",
			ErrUnavailable, name, capability, oldestCapability)
	}
	return name, capability, total, err
}
