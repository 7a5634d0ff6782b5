package darwin

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego/objc"

	"headroom/metal"
	"headroom/metal/base"
	"headroom/metal/msl"
)

type library struct {
	*base.Library[*pipeline]
	d   *device
	id  objc.ID // MTLLibrary
	log string
}

// Log implements metal.Library.
func (l *library) Log() string { return l.log }

// dataTypes are the values of MTLDataType
// (https://developer.apple.com/documentation/metal/mtldatatype).
var dataTypes = map[string]uintptr{"float": 3, "int": 29, "uint": 33, "bool": 53}

type pipeline struct {
	base.Function
	id    objc.ID // MTLComputePipelineState
	facts metal.PipelineFacts
}

// Facts implements metal.Pipeline.
func (p *pipeline) Facts() metal.PipelineFacts { return p.facts }

// newPipeline makes a compute pipeline state
// (https://developer.apple.com/documentation/metal/mtldevice/makecomputepipelinestate(descriptor:options:reflection:)).
func (l *library) newPipeline(f base.Function) (p *pipeline, err error) {
	inPool(func() { p, err = l.newPipelineInPool(f) })
	return p, err
}

// newPipelineInPool is newPipeline inside an autorelease pool. It specializes the kernel
// (https://developer.apple.com/documentation/metal/mtllibrary/makefunction(name:constantvalues:)).
func (l *library) newPipelineInPool(f base.Function) (*pipeline, error) {
	k, bits := f.Kernel(), f.Constants()
	values := send(class("MTLFunctionConstantValues"), "new")
	defer release(values)
	for i, c := range f.Program().Constants {
		// https://developer.apple.com/documentation/metal/mtlfunctionconstantvalues/setconstantvalue(_:type:index:)
		send(values, "setConstantValue:type:atIndex:", uintptr(unsafe.Pointer(&bits[i])),
			dataTypes[c.Type], uintptr(c.Index))
	}
	var problem objc.ID
	function := send(l.id, "newFunctionWithName:constantValues:error:", uintptr(nsString(k.Name)),
		uintptr(values), uintptr(unsafe.Pointer(&problem)))
	if function == 0 {
		return nil, nsError(problem)
	}
	defer release(function)
	descriptor := send(class("MTLComputePipelineDescriptor"), "new")
	defer release(descriptor)
	send(descriptor, "setLabel:", uintptr(nsString(k.Name)))
	send(descriptor, "setComputeFunction:", uintptr(function))
	var reflection objc.ID
	id := send(l.d.id, "newComputePipelineStateWithDescriptor:options:reflection:error:",
		uintptr(descriptor), optionBindingInfo,
		uintptr(unsafe.Pointer(&reflection)), uintptr(unsafe.Pointer(&problem)))
	if id == 0 {
		return nil, nsError(problem)
	}
	l.d.own(id)
	if err := checkReflection(k, f.Program(), reflection); err != nil {
		return nil, err
	}
	// https://developer.apple.com/documentation/metal/mtlcomputepipelinestate
	return &pipeline{Function: f, id: id, facts: metal.PipelineFacts{
		ThreadExecutionWidth:          int(send(id, "threadExecutionWidth")),
		MaxTotalThreadsPerThreadgroup: int(send(id, "maxTotalThreadsPerThreadgroup")),
		StaticThreadgroupMemoryLength: int(send(id, "staticThreadgroupMemoryLength")),
	}}, nil
}

// checkReflection compares Metal's reflection of the buffer arguments with package msl's: names,
// and the sizes of parameter structs
// (https://developer.apple.com/documentation/metal/mtlbufferbinding).
func checkReflection(k *msl.Kernel, program *msl.Program, reflection objc.ID) error {
	if !responds(reflection, "bindings") {
		return nil
	}
	bindings := send(reflection, "bindings")
	for i := range uintptr(send(bindings, "count")) {
		b := send(bindings, "objectAtIndex:", i)
		if send(b, "type") != bindingTypeBuffer {
			continue
		}
		index, name := int(send(b, "index")), goString(send(b, "name"))
		a := k.Buffer(index)
		if a == nil || a.Name != name {
			return fmt.Errorf("buffer %d is %q to Metal and %v to metal/msl: report this bug",
				index, name, a)
		}
		if size, ok := program.StructBytes(a); ok && a.Reference && responds(b, "bufferDataSize") &&
			int(send(b, "bufferDataSize")) != size {
			return fmt.Errorf("argument %s has %d bytes to Metal and %d to metal/msl: report this "+
				"bug", a, int(send(b, "bufferDataSize")), size)
		}
	}
	return nil
}
